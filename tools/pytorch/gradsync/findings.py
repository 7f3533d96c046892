"""What `check` has found, and how it says so."""

from __future__ import annotations

import dataclasses
import enum


class Status(enum.IntEnum):
    """Exit statuses of `check`. torchrun makes 1 of all but SAME."""

    SAME = 0
    DIFFERS = 1
    UNKNOWN = 2  # the script cannot be checked
    FAULT = 5  # check itself has failed


class Topic(enum.Enum):
    """What a finding is about. Of each topic there is one finding, the last."""

    PARAMETERS = "parameters"
    SETTINGS = "settings"
    WEIGHTS = "weights"
    BUFFERS = "buffers"
    VERSIONS = "versions"
    DATA = "data"
    RANDOM = "random"
    FORWARD = "forward"
    IGNORED = "ignored"
    NORMALISATION = "normalisation"
    ROUNDING = "rounding"
    LOSS = "loss"
    GRADIENTS = "gradients"
    TWIN = "twin"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A line of the report. With the status SAME it is a note: nothing is wrong."""

    status: Status
    text: str


class Findings:
    """All findings, in the order in which their topics came up. They are equal on all ranks."""

    def __init__(self) -> None:
        self._by_topic: dict[Topic, Finding] = {}

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._by_topic

    def note(self, topic: Topic, text: str) -> None:
        """Says something that is worth knowing and not wrong."""
        self._by_topic[topic] = Finding(Status.SAME, text)

    def differs(self, topic: Topic, text: str) -> None:
        """Says that something is wrong."""
        self._by_topic[topic] = Finding(Status.DIFFERS, text)

    def differs_first(self, topic: Topic, text: str) -> None:
        """Says that something is wrong before all other topics, if nothing is said of this one."""
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
    """What was checked, for the line that says that nothing differs."""

    parameters: int  # that were compared
    known_parameters: int  # to which autograd delivered gradients
    ranks: int
    steps: int  # of the optimizer that took most
    worst_share: float  # the largest part of a bound that a right gradient was off


@dataclasses.dataclass
class Cost:
    """What checking has cost this rank."""

    seconds: float
    peak_bytes: int  # of sums of gradients, in host memory


def report(findings: Findings, coverage: Coverage, cost: Cost) -> str:
    """Returns the lines that a check ends with."""
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
