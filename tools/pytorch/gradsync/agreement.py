"""Compares what ranks have reported about a training step, such as parameters, settings, data and
weights. Needs no PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gradsync.findings import Findings, Topic
from gradsync.losses import PassLoss

LONGEST_VALUE = 31  # characters of a value that a finding repeats: digests are longer


@dataclasses.dataclass
class RankStep:
    """The report of one rank about a training step, made before the optimizer updates the weights.
    Each field that is a dictionary maps names, such as those of weights, to texts, such as digests.
    For each dictionary, `check` reports the first name found that has different texts on two
    ranks."""

    parameters: dict[str, str]
    settings: dict[str, str]
    weights: dict[str, str]
    buffers: dict[str, str]
    versions: dict[str, str]
    data: list[str]  # digests of the models' inputs
    targets: list[str]  # digests of those of known losses
    gradients: str  # a digest of all that autograd has delivered, empty if nothing but 0
    losses: list[PassLoss | None]  # None: a pass whose loss is not known
    is_divided_by_all: bool  # each pass begins with what was divided by a sum over ranks
    random: str  # a digest of the generator's state before the script began
    has_gradients: bool = True  # of the update's parameters, as autograd has delivered them

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RankStep:
        losses = [None if loss is None else PassLoss(**loss) for loss in values["losses"]]
        return cls(**(values | {"losses": losses}))


def judge_agreement(ranks: Sequence[RankStep], where: str, findings: Findings) -> None:
    """Compares the reports of all ranks about one step. Adds a finding to `findings` for each kind
    of data that differs between ranks but should be equal, such as weights. Also adds a finding if
    two ranks have equal batches or equal inputs, or if all of several ranks begin with equal random
    numbers.

    `where`: the text that names the optimizer's update in findings, such as "SGD at train.py:25".
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
    _judge_batches(ranks, where, findings)
    if len(ranks) > 1 and len({rank.random for rank in ranks}) == 1:
        findings.note(
            Topic.RANDOM,
            "random numbers have the same state on all ranks at first: so have masks of dropout",
        )


def _judge_batches(ranks: Sequence[RankStep], where: str, findings: Findings) -> None:
    """Adds a difference to `findings` if two ranks train on the same batches, and so do the same
    work twice. Two ranks are taken to have the same batches if their inputs and targets are known
    and equal. Equal gradients that are not all 0 are also taken as a sign of the same batches,
    unless the inputs of both ranks are known and differ. If no two ranks have the same batches, but
    two have equal inputs, adds a note instead. Equal inputs are right if the targets differ."""
    pairs = [(rank, other) for i, rank in enumerate(ranks) for other in ranks[:i]]
    if any(_have_same_gradients(*pair) or _have_same_targets(*pair) for pair in pairs):
        findings.differs(Topic.DATA, f"ranks get the same batches in the step of {where}")
    elif any(rank.data and rank.data == other.data for rank, other in pairs):
        findings.note(
            Topic.DATA,
            f"ranks get the same inputs in the step of {where}: right if their targets differ",
        )


def _have_same_gradients(rank: RankStep, other: RankStep) -> bool:
    """Returns whether two ranks have equal gradients that are not all 0; False if the inputs of
    both are known and differ."""
    are_other = bool(rank.data and other.data) and rank.data != other.data
    return bool(rank.gradients) and rank.gradients == other.gradients and not are_other


def _have_same_targets(rank: RankStep, other: RankStep) -> bool:
    return bool(rank.data and rank.targets) and (rank.data, rank.targets) == (
        other.data,
        other.targets,
    )


def _first_difference(ranks: Sequence[dict[str, str]]) -> str:
    """Returns a text about the first key found whose values differ between two ranks that have this
    key; empty if there is no such key."""
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
    """Returns the largest number of backward passes that a rank reports for the step; at least
    1."""
    return max(1, *(len(rank.losses) for rank in ranks))
