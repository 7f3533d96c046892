"""Divides the time of a predicted step into parts, such as computation, copies, communication and
waiting for slower ranks. All times are in seconds."""

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
    """The parts of a predicted step's time, which add up to the step's time.

    `computation_s`: the step's time without the other four parts. `copies_s`: copying gradients
    into and out of buckets, and those casts and additions of gradients that Prediction.copies_s
    includes. `slowed_s`: how much longer backward takes because of concurrent communication; 0
    under fully_shard. `exposed_s`: waiting for gradients to arrive; under fully_shard, how much
    longer the step takes because of collectives. `broadcasts_s`: ZeroRedundancyOptimizer's
    broadcasts of updated weights."""

    computation_s: float
    copies_s: float
    slowed_s: float
    exposed_s: float
    broadcasts_s: float


@dataclass(frozen=True)
class Variation:
    """How a rank spends the part of a step's time in which the rank does not compute.

    `rank_s`: the seconds for which a rank computes in a step: a mean over ranks, and a trimmed mean
    over steps. `equal_step_s`: the seconds of the step if all ranks were equally fast.
    `varying_step_s`: the predicted seconds of the step, in which some ranks are slower than others.
    Of varying_step_s seconds, a rank computes for rank_s seconds; the others are lost.
    `communication_part`: the fraction of the lost seconds that communication and copying of
    gradients cause. `waiting_part`: the other fraction, in which the rank waits for slower ranks.
    Both fractions are None if no seconds are lost (varying_step_s <= rank_s). `correlation`: how
    computation times of adjacent ranks in the same steps correlate; None if unknown, or if ranks
    are on several hosts."""

    rank_s: float
    equal_step_s: float
    varying_step_s: float
    communication_part: float | None
    waiting_part: float | None
    correlation: float | None


def parts_of(prediction: Prediction) -> StepParts:
    """Divides the time of the predicted step into StepParts."""
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
    """Returns two times in seconds, for a step whose ranks are all equally fast. The first is the
    whole step; the second is computation, copies of gradients and broadcasts of weights."""
    steps_s, alone_s = [], []
    for replay in prediction.replays:
        rounds = equal_rounds(replay.scenario)
        steps_s.append(trimmed_mean([fmean(step for step, _ in ranks) for ranks in rounds]))
        alone_s.append(trimmed_mean([fmean(alone for _, alone in ranks) for ranks in rounds]))
    return fmean(steps_s), fmean(alone_s)


def variation_of(prediction: Prediction, launch: Launch) -> Variation:
    """Returns how much time a step loses to communication and to waiting for slower ranks.
    `launch`: the recorded launch, which names the host of each rank."""
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
    """Returns the correlation of two ranks' computation times in the same steps, as a mean over
    pairs of adjacent ranks. Returns None if in no pair the times of both ranks vary."""
    found = []
    for replay in prediction.replays:
        times = [
            [step.backward_s + step.after_s for step in rank] for rank in replay.scenario.ranks
        ]
        for one, other in pairwise(times):
            with suppress(StatisticsError):  # one of them does not vary, or there is one round
                found.append(correlation(one, other))
    return fmean(found) if found else None
