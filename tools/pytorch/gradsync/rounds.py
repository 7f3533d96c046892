"""The times of replayed rounds, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.estimates import TRIMMED


@dataclass(frozen=True)
class RoundTimes:
    """The times of a round's step, in seconds.

    `step_s`: the step with the given costs. `faster_link_s` and `slower_link_s`: the step with a
    link that is faster or slower by one standard deviation. `exposed_s`: the time from the end of
    the last rank's backward until all results have arrived; if computation waits for collectives,
    how much longer these waits make the step. Exposed time also has values for a faster and a
    slower link. `slowed_s`: how much longer backward takes because of concurrent communication.
    `alone_s`: the step of the slowest rank without synchronisation. `first_s`: when the last rank
    has its first gradient.
    """

    step_s: float
    faster_link_s: float
    slower_link_s: float
    exposed_s: float
    faster_exposed_s: float
    slower_exposed_s: float
    slowed_s: float
    alone_s: float
    first_s: float

    def at(self, deviations: float) -> float:
        """Returns the step over a link that is slower by this number of standard deviations."""
        return _between(self.faster_link_s, self.step_s, self.slower_link_s, deviations)

    def exposed_at(self, deviations: float) -> float:
        """Returns the exposed time over a link that is slower by this number of standard
        deviations.
        """
        values = (self.faster_exposed_s, self.exposed_s, self.slower_exposed_s)
        return max(0, _between(*values, deviations))


def _between(low: float, middle: float, high: float, deviations: float) -> float:
    """Returns the value at this number of standard deviations; `low` is the value at -1, and `high`
    at 1.
    """
    slope = middle - low if deviations < 0 else high - middle
    return middle + deviations * slope


def kept_rounds(rounds: Sequence[RoundTimes]) -> Sequence[RoundTimes]:
    """Returns the rounds whose steps trimmed_mean() uses. The means of parts over these rounds add
    up to the mean of the steps.
    """
    cut = int(TRIMMED * len(rounds))
    return sorted(rounds, key=lambda one: one.step_s)[cut : len(rounds) - cut]
