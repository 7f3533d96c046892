"""Means and intervals of replayed rounds. All times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist, quantiles

from gradsync.estimates import TRIMMED, Interval, trimmed_mean

REPLICATES = 1000
# Every answer draws the same numbers: Python promises the sequence of Random.random() for a seed on
# all releases, and that of none of its other functions. What is drawn for one purpose does not
# depend on how much is drawn for the other (replay.DRAWING_SEED).
RESAMPLING_SEED = 2


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


@cache
def resamples(count: int) -> list[tuple[float, list[int]]]:
    """Returns a bootstrap's draws from `count` values. Each is a pace of the link, in standard
    deviations, and the positions of the values that are taken.
    """
    random, normal = Random(RESAMPLING_SEED), NormalDist()
    return [
        (normal.inv_cdf(random.random()), [int(count * random.random()) for _ in range(count)])
        for _ in range(REPLICATES)
    ]


def interval_of(rounds: Sequence[RoundTimes]) -> Interval:
    """A bootstrap over rounds, in which the link is as of another launch in each replicate."""
    low, high = _limits(rounds, RoundTimes.at)
    return Interval(trimmed_mean([one.step_s for one in rounds]), low, high)


def exposed_limits(rounds: Sequence[RoundTimes]) -> tuple[float, float]:
    """Returns the limits between which the mean of what is exposed lies, of 95 %."""
    return _limits(rounds, RoundTimes.exposed_at)


def _limits(
    rounds: Sequence[RoundTimes], at: Callable[[RoundTimes, float], float]
) -> tuple[float, float]:
    """`at`: what a round takes over a link that is slower by so many standard deviations."""
    means = []
    for deviations, positions in resamples(len(rounds)):
        values = [at(one, deviations) for one in rounds]
        means.append(trimmed_mean([values[i] for i in positions]))
    low, *_, high = quantiles(means, n=40, method="inclusive")
    return low, high
