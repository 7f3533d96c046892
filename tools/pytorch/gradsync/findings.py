"""Keeps what `check` has found, and makes the lines that `check` prints."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable


class Status(enum.IntEnum):
    """Exit statuses of `check`. If a rank ends with another status than SAME (no difference found),
    torchrun itself ends with 1."""

    SAME = 0
    DIFFERS = 1
    UNKNOWN = 2  # the script cannot be checked
    FAULT = 5  # check itself has failed


class Topic(enum.Enum):
    """What a finding is about, such as gradients or batches. `check` reports at most one finding
    for each topic: the first difference or, without a difference, the last note."""

    STEPS = "steps"
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
    PASSES = "passes"
    TWIN = "twin"
    UNCHECKED = "unchecked"


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that `check` has found and reports in a line. If its `status` is SAME, it is a
    note, which does not change the exit status; else it is a difference."""

    status: Status
    text: str


def line_of(kind: str, text: str) -> str:
    """Returns a line of the report: `gradsync:`, the word `kind`, and the text."""
    return f"gradsync: {kind:8}{text}\n"


def _print_nowhere(text: str) -> None:
    """Prints nothing; the default of the `print_now` of Findings."""


class Findings:
    """What `check` has found on this rank: at most one difference or note for each Topic.

    `print_now`: a function that is called with the line of each difference as soon as it is found,
    because the script may fail later.
    """

    def __init__(self, print_now: Callable[[str], None] = _print_nowhere) -> None:
        self._by_topic: dict[Topic, Finding] = {}
        self._print_now = print_now

    def __contains__(self, topic: Topic) -> bool:
        return topic in self._by_topic

    def note(self, topic: Topic, text: str) -> None:
        """Stores `text` as the note of `topic`, unless a difference is stored for it."""
        if not self.has_difference(topic):
            self._by_topic[topic] = Finding(Status.SAME, text)

    def differs(self, topic: Topic, text: str) -> None:
        """Stores `text` as the difference of `topic`, and calls print_now() with a line that has
        this text. Does nothing if a difference is stored for `topic` already."""
        if not self.has_difference(topic):
            self._by_topic[topic] = Finding(Status.DIFFERS, text)
            self._print_now(line_of("differs", text))

    def has_difference(self, topic: Topic) -> bool:
        """Returns whether a difference was found for this topic."""
        return topic in self._by_topic and self._by_topic[topic].status == Status.DIFFERS

    def status(self) -> Status:
        """Returns DIFFERS if any finding is a difference, else SAME."""
        statuses = [finding.status for finding in self._by_topic.values()]
        return max(statuses, default=Status.SAME)

    def notes(self) -> list[str]:
        """Returns a text for each topic (such as Topic.LOSS) that has a note and no difference: the
        topic's last note. Topics are in the order in which they first got a note."""
        return [one.text for one in self._by_topic.values() if one.status == Status.SAME]

    def differences(self) -> list[str]:
        """Returns the texts of all differences, in the order in which their topics (such as
        Topic.LOSS) first got a note or a difference."""
        return [one.text for one in self._by_topic.values() if one.status == Status.DIFFERS]


@dataclasses.dataclass
class Coverage:
    """How many parameters, ranks and steps were checked, and how closely gradients agreed. `check`
    prints these numbers in the line `same` if it has found no difference."""

    parameters: int  # that were compared
    known_parameters: int  # to which autograd delivered gradients
    ranks: int
    steps: int  # of the optimizer that took most
    worst_share: float  # the largest part of a bound that a right gradient was off


@dataclasses.dataclass
class Cost:
    """The time that `check` has cost this rank, and the most memory that its sums of gradients
    took."""

    seconds: float
    peak_bytes: int  # of sums of gradients, in host memory


def report(findings: Findings, coverage: Coverage, cost: Cost) -> str:
    """Returns the lines that `check` prints when it ends. Differences are not among these lines:
    each was printed when it was found."""
    lines = [line_of("note", text) for text in findings.notes()]
    if findings.status() == Status.SAME:
        same = (
            f"{coverage.parameters} of {coverage.known_parameters} parameters get the mean of "
            f"{coverage.ranks} ranks' gradients in {coverage.steps} steps, within "
            f"{coverage.worst_share:.2g} of what rounding can bring"
        )
        lines.append(line_of("same", same))
    megabytes = cost.peak_bytes / 1e6
    lines.append(line_of("cost", f"{cost.seconds:.2f} s, {megabytes:.2f} MB of each rank"))
    return "".join(lines)
