"""Divides a predicted step into computation, copies and communication, and estimates how much time
the step loses to communication and to slower ranks.

All times are in seconds. The times come from simulations of steps, which take computation from
recorded steps, and communication from the measured or computed times of collectives.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import StatisticsError, correlation, fmean

from gradsync.estimates import trimmed_mean
from gradsync.replay import Prediction, equal_rounds
from gradsync.schema import Launch


@dataclass(frozen=True)
class StepParts:
    """The parts into which the time of a predicted step is divided, such as computation. The parts
    add up to the step's time.

    `computation_s`: the rest of the step's time: the computation of the rank that computes longest.
    If ranks wait for each other several times in a step, computation_s is a sum: for each part of
    the step between two waits, the time of the rank that is slowest in this part. `copies_s`: the
    time of copying gradients into and out of buckets, casting gradients, and adding them to those
    of earlier passes. `slowed_s`: how much longer backward takes because of concurrent
    communication. `exposed_s`: the time in which ranks only wait for gradients or weights to
    arrive. `broadcasts_s`: the time of ZeroRedundancyOptimizer's broadcasts of updated weights.
    """

    computation_s: float
    copies_s: float
    slowed_s: float
    exposed_s: float
    broadcasts_s: float


@dataclass(frozen=True)
class Variation:
    """Of the time in which a rank does not compute in a step: the fraction that is communication,
    and the fraction that is waiting for slower ranks.

    `rank_s`: the mean time for which a rank computes in a step, without copies of gradients and
    broadcasts of weights. `equal_step_s`: the time of a step if all ranks were equally fast: a mean
    over simulated steps, in each of which all ranks take the same recorded step. `varying_step_s`:
    the predicted time of a step of ranks whose computation varies like that of the recorded ranks.
    Ranks that were not recorded are assumed to vary independently of all others. A rank does not
    compute for varying_step_s - rank_s in a step. `communication_part` and `waiting_part`: the
    fractions of this time that are communication and waiting. The two fractions add up to 1; both
    are None if varying_step_s is at most rank_s. `communication_part` includes copies of gradients
    and broadcasts of weights. `correlation`: how the computation times of two recorded ranks of one
    host correlate in the same steps: the mean over pairs of ranks. If this mean is near 1, the
    ranks were slow in the same steps. `correlation` is None if ranks ran on several hosts, if fewer
    than two ranks or two steps were recorded, or if computation times do not vary between steps.
    """

    rank_s: float
    equal_step_s: float
    varying_step_s: float
    communication_part: float | None
    waiting_part: float | None
    correlation: float | None


def parts_of(prediction: Prediction) -> StepParts:
    """Divides the time of a predicted step into its parts."""
    others_s = (
        prediction.copies_s,
        prediction.slowed_s,
        prediction.exposed_s,
        prediction.broadcasts_s,
    )
    return StepParts(
        computation_s=prediction.step_s.value - sum(others_s),
        copies_s=prediction.copies_s,
        slowed_s=prediction.slowed_s,
        exposed_s=prediction.exposed_s,
        broadcasts_s=prediction.broadcasts_s,
    )


def equal_step_of(prediction: Prediction) -> tuple[float, float]:
    """Returns the seconds of the step if all ranks were equally fast, and the seconds of this step
    that computation, copies of gradients and ZeroRedundancyOptimizer's broadcasts take.
    """
    steps_s, alone_s = [], []
    for replay in prediction.replays:
        rounds = equal_rounds(replay.scenario)
        steps_s.append(trimmed_mean([fmean(step for step, _ in ranks) for ranks in rounds]))
        alone_s.append(trimmed_mean([fmean(alone for _, alone in ranks) for ranks in rounds]))
    return fmean(steps_s), fmean(alone_s)


def variation_of(prediction: Prediction, launch: Launch) -> Variation:
    """Returns how much time a step loses to communication, and to waiting for ranks that are
    slower. `launch`: a recorded launch, which names the host of each rank.
    """
    equal_s, alone_s = equal_step_of(prediction)
    step_s = prediction.step_s.value
    rank_s = alone_s - prediction.copies_s - prediction.broadcasts_s
    lost_s = step_s - rank_s
    waiting = None
    if lost_s > 0:
        # Ranks that begin at different moments can make it a bit less than nothing.
        waiting = min(max((step_s - equal_s) / lost_s, 0), 1)
    return Variation(
        rank_s=rank_s,
        equal_step_s=equal_s,
        varying_step_s=step_s,
        communication_part=None if waiting is None else 1 - waiting,
        waiting_part=waiting,
        correlation=_correlation(prediction) if len(set(launch.hosts)) == 1 else None,
    )


def _correlation(prediction: Prediction) -> float | None:
    """Returns how two ranks' computation times in the same steps correlate: the mean over all
    launches and all pairs of ranks with consecutive numbers. Leaves out pairs with a rank whose
    time does not vary; returns None if no pair is left."""
    found = []
    for replay in prediction.replays:
        times = [
            [step.backward_s + step.after_s for step in rank] for rank in replay.scenario.ranks
        ]
        for one, other in pairwise(times):
            with suppress(StatisticsError):  # one of them does not vary, or there is one round
                found.append(correlation(one, other))
    return fmean(found) if found else None
