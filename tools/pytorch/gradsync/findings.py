"""The findings of `check`, and their texts."""

from __future__ import annotations

import dataclasses
import enum


class Status(enum.IntEnum):
    """Exit statuses of `check`. torchrun turns all of them except SAME into 1."""

    SAME = 0
    DIFFERS = 1
    UNKNOWN = 2  # the script cannot be checked
    FAULT = 5  # check itself has failed


class Topic(enum.Enum):
    """What a finding is about. Each topic has at most one finding: the last one."""

    PARAMETERS = "parameters"
    SETTINGS = "settings"
    WEIGHTS = "weights"
    BUFFERS = "buffers"
    VERSIONS = "versions"
    DATA = "data"
    RANDOM = "random"
    NORMALISATION = "normalisation"
    ROUNDING = "rounding"
    LOSS = "loss"
    GRADIENTS = "gradients"
    TWIN = "twin"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A line of the report. A finding with the status SAME is a note: nothing is wrong."""

    status: Status
    text: str


class Findings:
    """All findings, in the order in which their topics first occurred. All ranks have equal
    findings.
    """

    def __init__(self) -> None:
        self._by_topic: dict[Topic, Finding] = {}

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._by_topic

    def note(self, topic: Topic, text: str) -> None:
        """Adds a note: a fact that is not a mistake."""
        self._by_topic[topic] = Finding(Status.SAME, text)

    def differs(self, topic: Topic, text: str) -> None:
        """Adds a finding that something is wrong."""
        self._by_topic[topic] = Finding(Status.DIFFERS, text)

    def differs_first(self, topic: Topic, text: str) -> None:
        """Adds a finding in front of all others, unless this topic already has a finding."""
        if topic not in self._by_topic:
            self._by_topic = {topic: Finding(Status.DIFFERS, text), **self._by_topic}

    def status(self) -> Status:
        """Returns the worst status of all."""
        statuses = [finding.status for finding in self._by_topic.values()]
        return max(statuses, default=Status.SAME)

    def sorted(self) -> list[Finding]:
        """Returns all findings, the worst first."""
        return sorted(self._by_topic.values(), key=lambda finding: -finding.status)


@dataclasses.dataclass
class Coverage:
    """What was checked. The line that reports no difference prints it."""

    parameters: int  # that were compared
    known_parameters: int  # to which autograd delivered gradients
    ranks: int
    steps: int  # of the optimizer that took most
    worst_share: float  # the largest part of a bound that a right gradient was off


@dataclasses.dataclass
class Cost:
    """The time and memory that checking has cost this rank."""

    seconds: float
    peak_bytes: int  # of sums of gradients, in host memory


def report(findings: Findings, coverage: Coverage, cost: Cost) -> str:
    """Returns the last lines of a check's report."""
    lines = [
        ("differs" if finding.status else "note", finding.text) for finding in findings.sorted()
    ]
    if findings.status() == Status.SAME:
        same = (
            f"{coverage.parameters} of {coverage.known_parameters} parameters get the mean of "
            f"{coverage.ranks} ranks' gradients in {coverage.steps} steps, within "
            f"{coverage.worst_share:.2g} of what rounding can bring"
        )
        lines.append(("same", same))
    megabytes = cost.peak_bytes / 1e6
    lines.append(("cost", f"{cost.seconds:.2f} s, {megabytes:.2f} MB of each rank"))
    return "".join(f"gradsync: {kind:8}{text}\n" for kind, text in lines)
