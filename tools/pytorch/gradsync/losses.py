"""Finds out by which factor a step's backward passes multiply the mean of the loss, and whether a
mistake in the script explains this factor. Needs no PyTorch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gradsync.findings import Findings, Topic
from gradsync.mistake_names import name_of_factor

ROUNDINGS_OF_A_LOSS = 8  # to its dtype, that may stand between a loss and what backward gets


@dataclasses.dataclass(frozen=True)
class PassLoss:
    """What is known of a loss whose derivative a backward pass computes. Of several losses of one
    pass, Pass.loss() chooses one (loss_watch.py).

    `factor`: the derivative of the tensor on which backward() is called, with respect to the mean
    of the loss. A GradScaler's factor is divided out of `factor`. `tokens`: the number of terms of
    which the loss is a mean or a sum, such as tokens. `mean`: the mean of these terms. `eps`: the
    machine epsilon of the loss's dtype. `calls`: a text that identifies the script's call stack
    when the backward pass began. `is_reduced`: whether the script has reduced the loss by a
    collective before backward. `is_alone`: whether Pass.loss() had no other loss to choose from.
    `is_whole`: whether the value on which backward() is called is `factor` times `mean` up to
    rounding, and so has no other term, such as a penalty.
    """

    factor: float
    tokens: int
    mean: float
    eps: float
    calls: str = ""
    is_reduced: bool = False
    is_alone: bool = True
    is_whole: bool = True


@dataclasses.dataclass(frozen=True)
class LossFactor:
    """The factor by which the backward passes of a step multiply the mean loss; it should be 1.
    `of_means`: the factor by which passes multiply the mean of all passes' mean losses.
    `of_tokens`: the factor by which passes multiply the mean loss over the tokens of all passes.
    `of_means` or `of_tokens` is None if passes have different factors, or if the factor is 0.
    `of_means` and `of_tokens` are both None if any pass's loss is unknown or is a mean of no
    tokens. `rounding`: the relative error that rounding may cause in `of_means` and `of_tokens`.
    `is_repeated`: whether, on each rank, all passes began with the same call stack of the script,
    as in a loop. `is_reduced`: whether the script has reduced the losses of all passes by a
    collective. `is_alone`: whether, in each pass, Pass.loss() had only one loss to choose from.
    `is_whole`: whether, in each pass, the tensor on which backward() is called is a multiple of one
    loss, without any other term.
    """

    of_means: float | None = None
    of_tokens: float | None = None
    rounding: float = 0.0
    is_repeated: bool = False
    is_reduced: bool = False
    is_alone: bool = False
    is_whole: bool = False

    def is_any(self, factor: float) -> bool:
        """Returns whether backward passes multiply the mean loss by `factor`, up to rounding."""
        return any(
            known is not None and abs(known / factor - 1) <= self.rounding
            for known in (self.of_means, self.of_tokens)
        )

    def makes_up_for(self, factor: float | None, passes: int, is_divided_by_all: bool) -> bool:
        """Gradients that are `factor` times the mean over ranks are right if the script has
        multiplied the mean loss by 1 / `factor` before backward(). Returns whether it has done so.

        `passes`: the number of backward passes in the step. `is_divided_by_all`: whether the script
        divides each pass's loss by a number that it has summed over ranks. If backward() is called
        on a sum of the loss and another term, such as a penalty, the script may intend a weight of
        the loss other than 1. For such a sum, returns False unless the script reduces the loss by a
        collective, divides it by a number summed over ranks, or multiplies it by `passes`.
        """
        is_of_passes = self.is_repeated and passes > 1 and self.is_any(passes)
        is_told = self.is_whole or self.is_reduced or is_divided_by_all or is_of_passes
        return is_told and bool(factor) and self.is_any(1 / (factor or 1))

    def shown(self, factor: float | None = None) -> float:
        """Returns the factor that `check` prints for the loss: `of_means` or, if it is None,
        `of_tokens`; 1 if both fields are None. If gradients are `factor` times the mean over ranks,
        returns `of_means` or `of_tokens`, whichever is nearer to 1 / `factor`."""
        known = [one for one in (self.of_means, self.of_tokens) if one is not None]
        if factor:
            known.sort(key=lambda one: abs(one * factor - 1))
        return known[0] if known else 1.0

    def mistake(self, world_size: int, passes: int, is_divided_by_all: bool) -> str:
        """Returns the name of the mistake that explains why backward() multiplies the mean loss by
        a factor other than 1. Returns "" if the factor is 1 or unknown, or if no known mistake
        explains it.

        `passes`: the number of backward passes in the step. `is_divided_by_all`: whether the script
        divides each pass's loss by a number that it has summed over ranks.
        """
        if (self.of_means is None and self.of_tokens is None) or self.is_any(1):
            return ""
        suspects: list[float] = []
        if passes > 1 and self.is_repeated:
            suspects += [passes, passes * world_size]
        for suspect in suspects:
            if self.is_any(suspect):
                return name_of_factor(suspect, self.rounding, world_size, passes)
        if world_size == 1 or not (self.is_reduced or is_divided_by_all):
            return ""
        # The script may divide by passes before the collective, which the factor does not show.
        if self.is_any(1 / world_size) or (self.is_reduced and self.is_any(passes / world_size)):
            return name_of_factor(1 / world_size, self.rounding, world_size, passes=1)
        return ""


def judge_losses(ranks: Sequence[Sequence[PassLoss | None]], findings: Findings) -> LossFactor:
    """Returns the factor by which the backward passes of a step together multiply the mean of the
    loss over all ranks' passes; 1 is right. The factor is computed from the losses of each rank's
    passes.

    If passes have different numbers of tokens, their gradients may be those of the mean of all
    passes' mean losses, but not of the mean loss over all tokens. Then adds a note to `findings`
    about the difference of these two means, unless rounding explains it. `ranks`: for each rank,
    the losses of its passes; None for a pass whose loss is not known.
    """
    known = [loss for rank in ranks for loss in rank if loss is not None and loss.tokens > 0]
    if not known or len(known) < sum(len(rank) for rank in ranks):
        return LossFactor()
    rounding = ROUNDINGS_OF_A_LOSS * max(loss.eps for loss in known)
    tokens = sum(loss.tokens for loss in known)
    of_means = _common(
        (loss.factor * len(rank) for rank in ranks for loss in rank if loss), rounding
    )
    of_tokens = _common(
        (loss.factor / loss.tokens * tokens / len(ranks) for loss in known), rounding
    )
    if of_means and not of_tokens:
        _note_tokens(ranks, known, rounding, findings)
    return LossFactor(
        of_means=of_means,
        of_tokens=of_tokens,
        rounding=rounding,
        is_repeated=all(len({loss.calls for loss in rank if loss}) == 1 for rank in ranks),
        is_reduced=all(loss.is_reduced for loss in known),
        is_alone=all(loss.is_alone for loss in known),
        is_whole=all(loss.is_whole for loss in known),
    )


def _common(factors: Iterable[float], rounding: float) -> float | None:
    """Returns the first of `factors` if each other one differs from it by at most the relative
    error `rounding`. Returns None if one differs by more, or if the first is 0."""
    first, *others = factors
    if not first or any(not abs(other / first - 1) <= rounding for other in others):
        return None
    return first


def _note_tokens(
    ranks: Sequence[Sequence[PassLoss | None]],
    known: Sequence[PassLoss],
    rounding: float,
    findings: Findings,
) -> None:
    owners, tokens = "passes", [loss.tokens for loss in known]
    if len(set(tokens)) == 1:  # ranks have different numbers of passes
        owners, tokens = "ranks", [sum(loss.tokens for loss in rank if loss) for rank in ranks]
    by_pass = [loss.mean / len(rank) / len(ranks) for rank in ranks for loss in rank if loss]
    over_tokens = sum(loss.tokens * loss.mean for loss in known) / sum(tokens)
    if abs(sum(by_pass) - over_tokens) > rounding * abs(over_tokens) > 0:
        findings.note(
            Topic.NORMALISATION,
            f"{owners} have {min(tokens)} to {max(tokens)} tokens, and the loss is "
            f"{sum(by_pass) / over_tokens - 1:+.2%} off the mean over all of them",
        )
