"""Defines a class with the times of a simulated round (one step of each rank), in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.estimates import TRIMMED


@dataclass(frozen=True)
class RoundTimes:
    """The times, in seconds, of a simulated round: a step that all ranks take together.

    `step_s`: the whole step, from the last rank's beginning to the last rank's end. `faster_link_s`
    and `slower_link_s`: the whole step if the times of all collectives are divided (faster) or
    multiplied (slower) by exp(Scenario.log_error). `exposed_s`: the time from the end of the last
    rank's backward until the results of all collectives have arrived; at least 0. If computation
    waits for collectives, as with FSDP2, `exposed_s` is instead by how much the collectives' own
    durations lengthen the round. Waits until slower ranks have issued a collective are not part of
    `exposed_s`. `faster_exposed_s` and `slower_exposed_s`: the values of `exposed_s` with the
    collectives' times of `faster_link_s` and of `slower_link_s`. `slowed_s`: how much longer
    backward takes because communication uses processors at the same time; 0 if computation waits
    for collectives. `alone_s`: the round's time without Scenario.collectives, from the last rank's
    beginning to the last rank's end. `first_s`: the longest time, over ranks, from a rank's
    beginning of the step until its first gradient is ready; 0 under FSDP2."""

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
        """Returns the seconds of the step if the logarithm of collectives' times is larger by
        `deviations` times Scenario.log_error. The result is interpolated linearly between
        `faster_link_s` (-1), `step_s` (0) and `slower_link_s` (1), and extrapolated beyond."""
        return _between(self.faster_link_s, self.step_s, self.slower_link_s, deviations)

    def exposed_at(self, deviations: float) -> float:
        """Returns `exposed_s`, at least 0, if the logarithm of collectives' times is larger by
        `deviations` times Scenario.log_error. The result is interpolated linearly between
        `faster_exposed_s` (-1), `exposed_s` (0) and `slower_exposed_s` (1), and extrapolated
        beyond."""
        values = (self.faster_exposed_s, self.exposed_s, self.slower_exposed_s)
        return max(0, _between(*values, deviations))


def _between(low: float, middle: float, high: float, deviations: float) -> float:
    """Returns the value of a piecewise linear function at `deviations`. The function has the values
    `low` at -1, `middle` at 0 and `high` at 1, and is extrapolated linearly beyond."""
    slope = middle - low if deviations < 0 else high - middle
    return middle + deviations * slope


def kept_rounds(rounds: Sequence[RoundTimes]) -> Sequence[RoundTimes]:
    """Returns the rounds, in the order of `step_s`, without the fifth with the longest `step_s` and
    the fifth with the shortest. A fifth is rounded down to whole rounds. The returned rounds are
    those whose `step_s` trimmed_mean() averages."""
    cut = int(TRIMMED * len(rounds))
    return sorted(rounds, key=lambda one: one.step_s)[cut : len(rounds) - cut]
