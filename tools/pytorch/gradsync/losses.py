"""Computes the factor by which the backward passes of a step multiply the mean of the loss over
ranks and passes. For example, the factor is 2 if a step's gradient, averaged over ranks, is twice
the gradient of this mean. Names a known mistake in the script that explains a factor other than
1."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gradsync.findings import Findings, Topic
from gradsync.mistake_names import name_of_factor

ROUNDINGS_OF_A_LOSS = 8  # to its dtype, that may stand between a loss and what backward gets


@dataclasses.dataclass(frozen=True)
class PassLoss:
    """The loss whose derivative one backward pass computes. `factor`: the derivative of the tensor
    given to backward() with respect to the mean of the loss's terms, divided by a GradScaler's
    scale. `tokens`: the number of terms, such as tokens, of which the loss is the mean or the sum.
    `mean`: the mean of these terms. `eps`: the machine epsilon of the loss's dtype. `calls`: a text
    that identifies the script's call stack when the pass began. `is_reduced`: whether the script
    reduced the loss over ranks by a collective before backward(). `is_alone`: False if this loss
    was chosen from several losses of the pass as the one with the largest factor. `is_whole`:
    whether the tensor given to backward(), without a GradScaler's scale, is `factor` times `mean`
    up to rounding."""

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
    """The factor by which the backward passes of a step multiply the mean loss; 1 is right.
    `of_means`: this factor if the mean loss weights all ranks equally, and all passes of a rank
    equally. `of_tokens`: the factor by which the backward passes multiply the mean of the loss over
    the tokens of all passes on all ranks. `of_means` or `of_tokens` is None if that factor differs
    between passes, is 0 or is unknown. `least`, `most`: the smallest and the largest product of a
    pass's PassLoss.factor and its rank's number of passes; 0 if unknown. `rounding`: the largest
    relative error of `of_means` and `of_tokens` by rounding. `is_repeated`: whether, on each rank,
    all passes began with the same call stack of the script, as in a loop. `is_reduced`: whether the
    script reduced the loss of every pass over ranks by a collective. `is_alone`: whether
    PassLoss.is_alone is True for every pass. `is_whole`: whether every pass called backward() on a
    multiple of one loss, without another term such as a penalty. If the loss of a pass is unknown
    or has no tokens, all flags are False, and `of_means` and `of_tokens` are None."""

    of_means: float | None = None
    of_tokens: float | None = None
    least: float = 0.0
    most: float = 0.0
    rounding: float = 0.0
    is_repeated: bool = False
    is_reduced: bool = False
    is_alone: bool = False
    is_whole: bool = False

    def is_any(self, factor: float) -> bool:
        """Returns whether `of_means` or `of_tokens` equals `factor`, up to rounding."""
        return any(
            known is not None and abs(known / factor - 1) <= self.rounding
            for known in (self.of_means, self.of_tokens)
        )

    def text(self) -> str:
        """Returns the end of a sentence, such as "2 times the mean loss", with the factor that
        shown() returns. If `of_means` and `of_tokens` are None, the text has `least` and `most`
        instead."""
        if self.of_means is None and self.of_tokens is None:
            if self.least == self.most:
                return f"{self.least:.6g} times the mean loss"
            return f"{self.least:.6g} to {self.most:.6g} times the mean loss, depending on the pass"
        return f"{self.shown():.6g} times the mean loss"

    def makes_up_for(self, factor: float | None, passes: int, is_divided_by_all: bool) -> bool:
        """Returns whether the script is known to multiply the mean loss by 1 / `factor`, which
        corrects gradients of `factor` times the mean over ranks. Returns False if `factor` is None
        or 0. `is_divided_by_all`: whether the script divides each loss by a number that it has
        summed over ranks."""
        is_of_passes = self.is_repeated and passes > 1 and self.is_any(passes)
        is_told = self.is_whole or self.is_reduced or is_divided_by_all or is_of_passes
        return is_told and bool(factor) and self.is_any(1 / (factor or 1))

    def shown(self, factor: float | None = None) -> float:
        """Returns the factor of the mean loss that the command `check` prints: `of_means` or, if it
        is None, `of_tokens` or 1. If both `of_means` and `of_tokens` are known, and `factor` is
        neither None nor 0, returns the one that is nearer to 1 / `factor`. `factor`: the
        optimizer's gradient divided by the mean of the ranks' gradients; None if unknown."""
        known = [one for one in (self.of_means, self.of_tokens) if one is not None]
        if factor:
            known.sort(key=lambda one: abs(one * factor - 1))
        return known[0] if known else 1.0

    def mistake(self, world_size: int, passes: int, is_divided_by_all: bool) -> str:
        """Returns the name of the script's mistake that makes the factor of the mean loss differ
        from 1. Returns "" if the factor is 1 or unknown, or if no known mistake explains the
        factor."""
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
    """Returns the factor by which the backward passes of all ranks in a step multiply the mean
    loss. `ranks`: for each rank, the losses of its passes; None for a pass whose loss is unknown.
    If only `of_means` is known, notes in `findings` how far the mean loss over ranks and passes is
    off that over tokens. Notes nothing if both means are equal up to rounding, or if the mean over
    tokens is 0."""
    known = [loss for rank in ranks for loss in rank if loss is not None and loss.tokens > 0]
    if not known or len(known) < sum(len(rank) for rank in ranks):
        return LossFactor()
    rounding = ROUNDINGS_OF_A_LOSS * max(loss.eps for loss in known)
    tokens = sum(loss.tokens for loss in known)
    factors = [loss.factor * len(rank) for rank in ranks for loss in rank if loss]
    of_means = _common(factors, rounding)
    of_tokens = _common(
        (loss.factor / loss.tokens * tokens / len(ranks) for loss in known), rounding
    )
    if of_means and not of_tokens:
        _note_tokens(ranks, known, rounding, findings)
    return LossFactor(
        of_means=of_means,
        of_tokens=of_tokens,
        least=min(factors),
        most=max(factors),
        rounding=rounding,
        is_repeated=all(len({loss.calls for loss in rank if loss}) == 1 for rank in ranks),
        is_reduced=all(loss.is_reduced for loss in known),
        is_alone=all(loss.is_alone for loss in known),
        is_whole=all(loss.is_whole for loss in known),
    )


def _common(factors: Iterable[float], rounding: float) -> float | None:
    """Returns the first of `factors` if it is not 0 and all others equal it up to `rounding`; else
    None."""
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
