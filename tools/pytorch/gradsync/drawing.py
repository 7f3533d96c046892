"""Draws the random numbers from which intervals of predictions are computed.

Every run draws the same numbers: Python promises that Random.random() gives the same sequence for a
seed in all releases, and does not promise this of its other functions. There are different seeds
for drawing recorded steps of ranks, rounds for the bootstrap, and random errors.
"""

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
    """The random errors of predicted times in one repetition of the bootstrap, in standard
    deviations. `link`: the error of the times of collectives. `replicated`: the error of the
    simulation of DistributedDataParallel. `sharded`: the error of the simulation of FSDP2.
    """

    link: float
    replicated: float
    sharded: float


@cache
def deviations() -> list[Deviations]:
    """Returns the random errors of predicted times, one Deviations for each repetition of the
    bootstrap. All predictions use the same errors."""
    random, normal = Random(ERROR_SEED), NormalDist()

    def draw() -> float:
        return normal.inv_cdf(random.random())

    return [Deviations(draw(), draw(), draw()) for _ in range(REPLICATES)]


@cache
def row_deviations(sent: str) -> list[float]:
    """Returns the additional error of one way to train in each repetition of the bootstrap, in
    standard deviations. Ways that send the same collectives get the same errors. `sent`: a text
    with the collectives of a step, such as their sizes."""
    random, normal = Random(ERROR_SEED + zlib.crc32(sent.encode())), NormalDist()
    return [normal.inv_cdf(random.random()) for _ in range(REPLICATES)]


@cache
def resamples(count: int) -> list[list[int]]:
    """Returns, for each repetition of the bootstrap, `count` positions in a list of `count` values,
    drawn with replacement."""
    random = Random(RESAMPLING_SEED)
    return [[int(count * random.random()) for _ in range(count)] for _ in range(REPLICATES)]
