"""Draws random numbers for intervals.

Every answer draws the same numbers: Python promises the sequence of Random.random() for a seed on
all releases, and that of none of its other functions. Each purpose has its own sequence of random
numbers.
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
    """The errors of one replicate, in standard deviations. `link`: of the link's times.
    `replicated`: of predictions of DistributedDataParallel. `sharded`: of predictions of FSDP2.
    """

    link: float
    replicated: float
    sharded: float


@cache
def deviations() -> list[Deviations]:
    """Returns the errors of each replicate, which are the same in all predictions."""
    random, normal = Random(ERROR_SEED), NormalDist()

    def draw() -> float:
        return normal.inv_cdf(random.random())

    return [Deviations(draw(), draw(), draw()) for _ in range(REPLICATES)]


@cache
def row_deviations(sent: str) -> list[float]:
    """Returns the error of a row in each replicate, in standard deviations. Rows with the same
    collectives have the same errors.
    """
    random, normal = Random(ERROR_SEED + zlib.crc32(sent.encode())), NormalDist()
    return [normal.inv_cdf(random.random()) for _ in range(REPLICATES)]


@cache
def resamples(count: int) -> list[list[int]]:
    """Returns the draws of a bootstrap from `count` values, as the positions of the drawn
    values."""
    random = Random(RESAMPLING_SEED)
    return [[int(count * random.random()) for _ in range(count)] for _ in range(REPLICATES)]
