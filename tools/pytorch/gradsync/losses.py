"""Decides which multiple of the mean loss backward() gets, and whether this is a mistake. Needs no
PyTorch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gradsync.findings import Findings, Topic
from gradsync.mistake_names import name_of_factor

ROUNDINGS_OF_A_LOSS = 8  # to its dtype, that may stand between a loss and what backward gets


@dataclasses.dataclass(frozen=True)
class PassLoss:
    """The known loss of a backward pass, or the largest one of several.

    `factor`: how many times the mean of the loss backward gets, without a GradScaler's factor: the
    exact derivative. `tokens`: how many the loss counts. `mean`: of the loss, over them. `eps`: of
    the loss's dtype. `calls`: those of the script that began the pass.
    `is_reduced`: it is what the script has given to a collective before backward. `is_alone`: no
    other known loss is in the pass. `is_whole`: backward gets nothing else.
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
    """How many times the mean loss backward gets: 1 is right.

    `of_means`: of the mean of all passes' means, `of_tokens`: of the mean over all tokens; None if
    passes differ in it, or are unknown. `rounding`: how far roundings can bring either, as a part
    of it. `is_repeated`: one call of the script made all passes of each rank. `is_reduced`: all
    passes begin with a loss that a collective has reduced. `is_alone`: no pass has another loss.
    `is_whole`: backward gets nothing but the losses.
    """

    of_means: float | None = None
    of_tokens: float | None = None
    rounding: float = 0.0
    is_repeated: bool = False
    is_reduced: bool = False
    is_alone: bool = False
    is_whole: bool = False

    def is_any(self, factor: float) -> bool:
        """Returns whether one of the two factors is this factor."""
        return any(
            known is not None and abs(known / factor - 1) <= self.rounding
            for known in (self.of_means, self.of_tokens)
        )

    def makes_up_for(self, factor: float | None, passes: int, is_divided_by_all: bool) -> bool:
        """Returns whether gradients of `factor` times the mean are right for this loss.

        `passes`, `is_divided_by_all`: as for mistake(). Of a loss that is only a part of what
        backward gets, any other factor is a coefficient.
        """
        is_of_passes = self.is_repeated and passes > 1 and self.is_any(passes)
        is_told = self.is_whole or self.is_reduced or is_divided_by_all or is_of_passes
        return is_told and bool(factor) and self.is_any(1 / (factor or 1))

    def shown(self, factor: float | None = None) -> float:
        """Returns the one that is 1 / `factor`, or the one that is known."""
        known = [one for one in (self.of_means, self.of_tokens) if one is not None]
        if factor:
            known.sort(key=lambda one: abs(one * factor - 1))
        return known[0] if known else 1.0

    def mistake(self, world_size: int, passes: int, is_divided_by_all: bool) -> str:
        """Returns the mistake that explains the factor, or an empty text if the factor may be
        intended.

        `passes`: of a step. `is_divided_by_all`: by a number that the script has summed over ranks.
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
    """Returns the multiple of the mean loss that backward gets in the step, from the losses of each
    rank's passes.

    If passes have different numbers of tokens, it notes how far their mean is off the mean over
    all tokens. None is a pass whose loss is not known.
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
    """Returns the value of all factors, or None if they differ or are 0."""
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
