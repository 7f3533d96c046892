"""Finds out how many times backward() counts the mean of the loss, and whether this is a mistake.
Needs no PyTorch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gradsync.findings import Findings, Topic
from gradsync.mistake_names import name_of_factor

ROUNDINGS_OF_A_LOSS = 8  # to its dtype, that may stand between a loss and what backward gets


@dataclasses.dataclass(frozen=True)
class PassLoss:
    """The loss of a backward pass as far as it is known; if there are several, the largest.

    `factor`: the exact derivative of what backward() gets by the mean of the loss, without a
    GradScaler's factor. `tokens`: the number of terms in the loss. `mean`: the mean of the loss
    over these terms. `eps`: the machine epsilon of the loss's dtype. `calls`: a text that
    identifies the script's calls that began the pass. `is_reduced`: whether the script has reduced
    the loss by a collective before backward. `is_alone`: whether no other known loss is in the
    pass. `is_whole`: whether backward gets nothing but this loss.
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
    """How many times the backward passes of a step count the mean of the loss: 1 is right.

    `of_means`: this number relative to the mean of all passes' means, and `of_tokens` relative to
    the mean over all tokens; None if passes differ in it, or are unknown. `rounding`: the relative
    error that rounding may cause in both. `is_repeated`: whether the same call in the script made
    all passes of each rank. `is_reduced`: whether all passes begin with a loss that a collective
    has reduced. `is_alone`: whether no pass has another loss. `is_whole`: whether backward gets
    nothing but the losses.
    """

    of_means: float | None = None
    of_tokens: float | None = None
    rounding: float = 0.0
    is_repeated: bool = False
    is_reduced: bool = False
    is_alone: bool = False
    is_whole: bool = False

    def is_any(self, factor: float) -> bool:
        """Returns whether `of_means` or `of_tokens` equals this factor, up to rounding."""
        return any(
            known is not None and abs(known / factor - 1) <= self.rounding
            for known in (self.of_means, self.of_tokens)
        )

    def makes_up_for(self, factor: float | None, passes: int, is_divided_by_all: bool) -> bool:
        """Returns whether gradients that are `factor` times the mean are right, because the loss is
        counted 1 / `factor` times.

        `passes`, `is_divided_by_all`: as for mistake(). If the loss is only a part of what backward
        gets, any other factor is taken for a coefficient.
        """
        is_of_passes = self.is_repeated and passes > 1 and self.is_any(passes)
        is_told = self.is_whole or self.is_reduced or is_divided_by_all or is_of_passes
        return is_told and bool(factor) and self.is_any(1 / (factor or 1))

    def shown(self, factor: float | None = None) -> float:
        """Returns, to print it, `of_means` or `of_tokens`: the one that is nearest to 1 / `factor`,
        or the one that is known."""
        known = [one for one in (self.of_means, self.of_tokens) if one is not None]
        if factor:
            known.sort(key=lambda one: abs(one * factor - 1))
        return known[0] if known else 1.0

    def mistake(self, world_size: int, passes: int, is_divided_by_all: bool) -> str:
        """Returns the name of the mistake that explains this number, or "" if it may be intended.

        `passes`: of a step. `is_divided_by_all`: whether the loss is divided by a number that the
        script has summed over ranks.
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
    """Returns how many times backward counts the mean loss in the step, computed from the losses of
    each rank's passes.

    If passes have different numbers of tokens, adds a note about how far the mean of their means is
    from the mean over all tokens. In `ranks`, None stands for a pass whose loss is not known.
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
    """Returns the factor that all passes share, or None if they differ or are 0."""
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
    tokens = [loss.tokens for loss in known]
    by_pass = [loss.mean / len(rank) / len(ranks) for rank in ranks for loss in rank if loss]
    over_tokens = sum(loss.tokens * loss.mean for loss in known) / sum(tokens)
    if abs(sum(by_pass) - over_tokens) > rounding * abs(over_tokens) > 0:
        findings.note(
            Topic.NORMALISATION,
            f"passes have {min(tokens)} to {max(tokens)} tokens, and the loss is "
            f"{sum(by_pass) / over_tokens - 1:+.2%} off the mean over all of them",
        )
