"""What a predicted step is made of, and what it loses to communication and to ranks that vary.

Nothing here is measured: all is computed from replays. All times are seconds.
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
    """Parts of a predicted step, which add up to it: means over the rounds that it is the mean of.

    `computation_s`: of the slowest rank; where ranks wait for each other several times in a step,
    of the slowest rank between two such moments. `copies_s`: of gradients into buckets and out of
    them, and casts. `slowed_s`: by how much communication slows down computation beside it.
    `exposed_s`: ranks only wait for gradients or weights. `broadcasts_s`: of
    ZeroRedundancyOptimizer.
    """

    computation_s: float
    copies_s: float
    slowed_s: float
    exposed_s: float
    broadcasts_s: float


@dataclass(frozen=True)
class Variation:
    """Which share of what a step loses is communication, and which is waiting for slower ranks.

    `rank_s`: what an average recorded rank computes in a step. `equal_step_s`: the step if all
    ranks were equally fast: a mean over recorded ranks and rounds, each taken by all ranks.
    `varying_step_s`: the predicted step, whose ranks vary like the recorded ones, and independently
    of each other. `communication_part` and `waiting_part`: of varying_step_s - rank_s, which is
    what the step loses; they add up to 1, and are None if it loses nothing. Copies of gradients
    count as communication. `correlation`: of the times of two recorded ranks of one host in the
    same steps, from -1 to 1. Near 1 they were slow together, as noise of their host makes them.
    None if ranks had hosts of their own, or did not vary.
    """

    rank_s: float
    equal_step_s: float
    varying_step_s: float
    communication_part: float | None
    waiting_part: float | None
    correlation: float | None


def parts_of(prediction: Prediction) -> StepParts:
    """Returns the parts of a step."""
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
    """Returns seconds of the step if all ranks were equally fast, and of its computation alone,
    with copies and broadcasts.
    """
    steps_s, alone_s = [], []
    for replay in prediction.replays:
        rounds = equal_rounds(replay.scenario)
        steps_s.append(trimmed_mean([fmean(step for step, _ in ranks) for ranks in rounds]))
        alone_s.append(trimmed_mean([fmean(alone for _, alone in ranks) for ranks in rounds]))
    return fmean(steps_s), fmean(alone_s)


def variation_of(prediction: Prediction, launch: Launch) -> Variation:
    """Returns what ranks that vary cost a step. `launch`: one of the recorded ones, which all have
    as many hosts.
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
    """Returns the mean over launches and pairs of neighbouring ranks."""
    found = []
    for replay in prediction.replays:
        times = [
            [step.backward_s + step.after_s for step in rank] for rank in replay.scenario.ranks
        ]
        for one, other in pairwise(times):
            with suppress(StatisticsError):  # one of them does not vary, or there is one round
                found.append(correlation(one, other))
    return fmean(found) if found else None
