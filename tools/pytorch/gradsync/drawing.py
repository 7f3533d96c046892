"""Draws the random numbers for the 95 % intervals of predicted times, the same in every run. Only
Random.random() is used, because other functions of Random may change between releases of Python."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist

REPLICATES = 1000
DRAWING_SEED = 1
RESAMPLING_SEED = 2
ERROR_SEED = 3


@dataclass(frozen=True)
class Deviations:
    """Three random numbers for one repetition of the bootstrap, drawn from the standard normal
    distribution. `link`: the error of the times of all collectives, in standard deviations.
    `replicated`: the error of the simulated cost of synchronisation in steps of
    DistributedDataParallel, in standard deviations. `sharded`: the error of the simulated cost of
    synchronisation in steps of FSDP2, in standard deviations."""

    link: float
    replicated: float
    sharded: float


@cache
def deviations() -> list[Deviations]:
    """Returns one Deviations for each of the 1000 repetitions of the bootstrap."""
    random, normal = Random(ERROR_SEED), NormalDist()

    def draw() -> float:
        return normal.inv_cdf(random.random())

    return [Deviations(draw(), draw(), draw()) for _ in range(REPLICATES)]


@cache
def row_deviations(sent: str) -> list[float]:
    """Returns 1000 numbers from the standard normal distribution: errors of the simulated cost of
    synchronisation in a step. `sent`: a text that lists the sizes and kinds of the step's
    collectives; equal texts give equal numbers."""
    random, normal = Random(ERROR_SEED + zlib.crc32(sent.encode())), NormalDist()
    return [normal.inv_cdf(random.random()) for _ in range(REPLICATES)]


@cache
def resamples(count: int) -> list[list[int]]:
    """Returns 1000 lists of `count` random indices from 0 to `count` - 1, drawn with
    replacement."""
    random = Random(RESAMPLING_SEED)
    return [[int(count * random.random()) for _ in range(count)] for _ in range(REPLICATES)]
