"""Defines the times of simulated rounds (one step of each rank), in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.estimates import TRIMMED


@dataclass(frozen=True)
class RoundTimes:
    """The times of the step that all ranks take in a simulated round, in seconds.

    `step_s`: the step over the link as it was given. `faster_link_s` and `slower_link_s`: the step
    if all collectives are faster or slower by one standard deviation. `exposed_s`: the time from
    the end of the last rank's backward until all results have arrived; if computation waits for
    collectives, how much longer these waits make the step. `faster_exposed_s` and
    `slower_exposed_s`: the same over the faster and the slower link. `slowed_s`: how much longer
    backward takes because of concurrent communication. `alone_s`: a step without synchronisation of
    the slowest rank. `first_s`: when the first gradient of the last rank is ready.
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
    """Interpolates between the values at -1 (`low`), 0 and 1 (`high`) standard deviations."""
    slope = middle - low if deviations < 0 else high - middle
    return middle + deviations * slope


def kept_rounds(rounds: Sequence[RoundTimes]) -> Sequence[RoundTimes]:
    """Returns the rounds that trimmed_mean() of their steps uses, that is, without the longest and
    shortest steps. Means of the parts of a step over these rounds add up to the mean of the steps.
    """
    cut = int(TRIMMED * len(rounds))
    return sorted(rounds, key=lambda one: one.step_s)[cut : len(rounds) - cut]
