"""Predicts steps of local SGD: ranks train alone for some steps, and then average their weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from gradsync.drawing import DRAWING_SEED, deviations, resamples
from gradsync.estimates import Interval, trimmed_mean
from gradsync.replay import MOST_RANK_ACTIONS

FEWEST_DRAWS = 2


def local_step(
    ranks: Sequence[Sequence[float]],
    world_size: int,
    steps: int,
    average_s: float,
    log_error: float,
) -> Interval:
    """Returns the predicted seconds per step of local SGD: `average_s` plus a trimmed mean over
    simulated periods. The trimmed mean is of the seconds per step of each period's slowest rank.

    `ranks`: for each recorded rank, the seconds of its steps without synchronisation of gradients,
    equally many on each rank. `steps`: the number of steps between two averagings of the weights.
    `average_s`: the seconds of one averaging, divided by `steps`; the returned time includes them.
    `log_error`: the standard deviation of the error of log(`average_s`)."""
    slowest_s = trimmed_mean(_slowest(ranks, world_size, steps))
    rounds_s = [max(own) for own in zip(*ranks, strict=True)]
    mean_s = trimmed_mean(rounds_s)  # which is as uncertain as the rounds are few
    draws = [
        slowest_s
        + trimmed_mean([rounds_s[i] for i in positions])
        - mean_s
        + average_s * math.exp(log_error * one.link)
        for one, positions in zip(deviations(), resamples(len(rounds_s)), strict=True)
    ]
    return Interval.of(slowest_s + average_s, [draws])


def _slowest(ranks: Sequence[Sequence[float]], world_size: int, steps: int) -> list[float]:
    """Simulates periods of `steps` steps on `world_size` ranks, drawing the times of steps at
    random from the recorded steps `ranks`. Returns, for each period, the mean seconds per step of
    the period's slowest rank."""
    random = Random(DRAWING_SEED)
    affordable = MOST_RANK_ACTIONS // (world_size * steps)
    slowest = []
    for _ in range(min(max(affordable, FEWEST_DRAWS), len(ranks[0]))):
        means = []
        for rank in range(world_size):
            own = ranks[rank if rank < len(ranks) else int(len(ranks) * random.random())]
            drawn = [own[int(len(own) * random.random())] for _ in range(steps)]
            means.append(sum(drawn) / steps)
        slowest.append(max(means))
    return slowest
