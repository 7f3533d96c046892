"""What ranks tell each other of a step, and whether it agrees. Needs no PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gradsync.findings import Findings, Topic

LONGEST_VALUE = 31  # characters of a value that a finding repeats: digests are longer
ROUNDINGS_OF_A_LOSS = 8  # to its dtype, that may stand between what backward gets and the mean loss


@dataclasses.dataclass(frozen=True)
class PassLoss:
    """A backward pass that begins with one number, and has computed one loss.

    `given`: the number, without a GradScaler's factor. `tokens`: how many the loss counts.
    `mean`: of the loss, over them. `eps`: of the loss's dtype.
    """

    given: float
    tokens: int
    mean: float
    eps: float


@dataclasses.dataclass(frozen=True)
class LossFactor:
    """How many times the mean of all passes' losses backward gets.

    `rounding`: how far roundings can bring `factor`, as a part of it; 0 if the losses are unknown,
    or backward gets the mean over all tokens, which is right too.
    """

    factor: float = 1.0
    rounding: float = 0.0


@dataclasses.dataclass
class RankStep:
    """What a rank says of a step before its update. Values of dictionaries are texts to compare."""

    parameters: dict[str, str]
    settings: dict[str, str]
    weights: dict[str, str]
    buffers: dict[str, str]
    versions: dict[str, str]
    data: list[str]  # digests of the models' inputs
    losses: list[PassLoss | None]  # None: a pass that is no PassLoss
    random: str  # a digest of the generator's state before the script began
    has_gradients: bool = True  # of the update's parameters, as autograd has delivered them

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RankStep:
        losses = [None if loss is None else PassLoss(**loss) for loss in values["losses"]]
        return cls(**(values | {"losses": losses}))


def judge_agreement(ranks: Sequence[RankStep], where: str, findings: Findings) -> None:
    """Says what differs between ranks, and what should differ and does not.

    `where`: the update, as a finding names it.
    """
    for topic in (Topic.PARAMETERS, Topic.SETTINGS, Topic.WEIGHTS, Topic.BUFFERS, Topic.VERSIONS):
        difference = _first_difference([getattr(rank, topic.value) for rank in ranks])
        if not difference:
            continue
        text = f"{topic.value} of {where}: {difference}"
        if topic is Topic.VERSIONS:
            findings.note(topic, text)
        else:
            findings.differs(topic, text)
    if any(
        rank.data and rank.data == other.data
        for number, rank in enumerate(ranks)
        for other in ranks[:number]
    ):
        findings.differs(Topic.DATA, f"ranks get the same batches in the step of {where}")
    if len(ranks) > 1 and len({rank.random for rank in ranks}) == 1:
        findings.note(
            Topic.RANDOM,
            "random numbers have the same state on all ranks at first: so have masks of dropout",
        )


def _first_difference(ranks: Sequence[dict[str, str]]) -> str:
    """Describes the first key whose values differ between ranks that have it, if there is one."""
    first_with: dict[str, tuple[int, str]] = {}
    for number, values in enumerate(ranks):
        for key, value in values.items():
            first, expected = first_with.setdefault(key, (number, value))
            if value == expected:
                continue
            text = f"{key} differs between ranks {first} and {number}"
            return text + (f": {expected} and {value}" if len(value) <= LONGEST_VALUE else "")
    return ""


def passes_of(ranks: Sequence[RankStep]) -> int:
    """Returns the most passes that a rank took in the step, and at least one."""
    return max(1, *(len(rank.losses) for rank in ranks))


def judge_losses(ranks: Sequence[RankStep], findings: Findings) -> LossFactor:
    """Compares what backward gets with the mean over all tokens of all passes and ranks.

    If passes have different numbers of tokens, it notes how far that is off.
    """
    known = [loss for rank in ranks for loss in rank.losses if loss is not None]
    if not known or len(known) < sum(len(rank.losses) for rank in ranks):
        return LossFactor()
    given = sum(loss.given for loss in known) / len(ranks)
    tokens = [loss.tokens for loss in known]
    sum_of_means = sum(loss.mean for loss in known)
    over_tokens = sum(loss.tokens * loss.mean for loss in known) / (sum(tokens) or 1)
    rounding = ROUNDINGS_OF_A_LOSS * max(loss.eps for loss in known)
    is_off = abs(given - over_tokens) > rounding * abs(over_tokens) > 0
    if not is_off or sum_of_means == 0:
        return LossFactor()
    if len(set(tokens)) > 1:
        findings.note(
            Topic.NORMALISATION,
            f"passes have {min(tokens)} to {max(tokens)} tokens, and the loss is "
            f"{given / over_tokens - 1:+.2%} off the mean over all of them",
        )
    return LossFactor(given * len(known) / sum_of_means, rounding)
