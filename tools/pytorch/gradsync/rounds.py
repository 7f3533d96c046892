"""What replayed rounds take. All times are seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.estimates import TRIMMED


@dataclass(frozen=True)
class RoundTimes:
    """What a round's step takes, in seconds.

    `step_s`: as costs are; `faster_link_s` and `slower_link_s`: with a link that is faster or
    slower by a standard deviation. `exposed_s`: from the end of the last rank's backward until all
    is received, or, if computation waits for collectives, what all of it takes longer; of it there
    are the same three. `slowed_s`: what communication that runs beside backward makes backward take
    longer. `alone_s`: the slowest rank's step, without synchronisation. `first_s`: when the last
    rank has its first gradient.
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
        """Returns the step over a link that is slower by so many standard deviations."""
        return _between(self.faster_link_s, self.step_s, self.slower_link_s, deviations)

    def exposed_at(self, deviations: float) -> float:
        """Returns what is exposed over such a link."""
        values = (self.faster_exposed_s, self.exposed_s, self.slower_exposed_s)
        return max(0, _between(*values, deviations))


def _between(low: float, middle: float, high: float, deviations: float) -> float:
    """Returns the value at so many standard deviations; `low` is at -1 and `high` at 1."""
    slope = middle - low if deviations < 0 else high - middle
    return middle + deviations * slope


def kept_rounds(rounds: Sequence[RoundTimes]) -> Sequence[RoundTimes]:
    """Returns the rounds whose steps trimmed_mean() keeps, so that means of parts add up to the
    mean of the steps.
    """
    cut = int(TRIMMED * len(rounds))
    return sorted(rounds, key=lambda one: one.step_s)[cut : len(rounds) - cut]
