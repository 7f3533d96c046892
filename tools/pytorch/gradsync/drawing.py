"""Draws the random numbers from which intervals of predictions are computed.

Every run of gradsync draws the same numbers: Python promises that Random.random() gives the same
sequence for a seed in all releases, and does not promise this of its other functions.
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
    """The random errors of predicted times in one repetition of the bootstrap, as multiples of
    their standard deviations. `link`: one error for the times of all collectives. `replicated`: the
    error of the simulated cost of synchronisation in a step of DistributedDataParallel. `sharded`:
    the error of the simulated cost of synchronisation in a step of FSDP2.
    """

    link: float
    replicated: float
    sharded: float


@cache
def deviations() -> list[Deviations]:
    """Returns the random errors of predicted times, one Deviations for each repetition of the
    bootstrap. All predictions use the returned list, so that errors which two predictions share
    cancel in their difference."""
    random, normal = Random(ERROR_SEED), NormalDist()

    def draw() -> float:
        return normal.inv_cdf(random.random())

    return [Deviations(draw(), draw(), draw()) for _ in range(REPLICATES)]


@cache
def row_deviations(sent: str) -> list[float]:
    """`sent`: a text that lists the kinds and sizes of the collectives in a step. Returns random
    errors of the simulated cost of synchronisation in such a step, one for each repetition of the
    bootstrap. Each error is given as a multiple of its standard deviation. A step of
    DistributedDataParallel also has the error Deviations.replicated, and a step of FSDP2 the error
    Deviations.sharded. The seed of the random numbers is computed from `sent`, so ways to train
    with the same `sent` get the same errors."""
    random, normal = Random(ERROR_SEED + zlib.crc32(sent.encode())), NormalDist()
    return [normal.inv_cdf(random.random()) for _ in range(REPLICATES)]


@cache
def resamples(count: int) -> list[list[int]]:
    """Returns, for each repetition of the bootstrap, `count` positions in a list of `count` values,
    drawn with replacement."""
    random = Random(RESAMPLING_SEED)
    return [[int(count * random.random()) for _ in range(count)] for _ in range(REPLICATES)]
