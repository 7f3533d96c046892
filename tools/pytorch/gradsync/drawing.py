"""What is drawn for intervals.

Every answer draws the same numbers: Python promises the sequence of Random.random() for a seed on
all releases, and that of none of its other functions. What is drawn for one purpose does not depend
on how much is drawn for another.
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
    """How far one replicate is off, in standard deviations. `link`: the pace of the link.
    `replicated` and `sharded`: the model of DistributedDataParallel, and that of FSDP2.
    """

    link: float
    replicated: float
    sharded: float


@cache
def deviations() -> list[Deviations]:
    """Returns those of each replicate, which are the same in all predictions."""
    random, normal = Random(ERROR_SEED), NormalDist()

    def draw() -> float:
        return normal.inv_cdf(random.random())

    return [Deviations(draw(), draw(), draw()) for _ in range(REPLICATES)]


@cache
def row_deviations(sent: str) -> list[float]:
    """Returns, by replicate, how far a row is off by itself, in standard deviations. Rows that send
    the same are off equally.
    """
    random, normal = Random(ERROR_SEED + zlib.crc32(sent.encode())), NormalDist()
    return [normal.inv_cdf(random.random()) for _ in range(REPLICATES)]


@cache
def resamples(count: int) -> list[list[int]]:
    """Returns a bootstrap's draws from `count` values: the positions of those that are taken."""
    random = Random(RESAMPLING_SEED)
    return [[int(count * random.random()) for _ in range(count)] for _ in range(REPLICATES)]
