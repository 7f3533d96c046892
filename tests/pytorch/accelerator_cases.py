"""The emulated models and the ways in which accelerator.py trains them."""

from __future__ import annotations

from dataclasses import dataclass, replace

MIB = 1 << 20
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Case:
    """A model, and how its ranks vary.

    Of a layer backward takes `layer_s` seconds, and forward half of it. `embedding_mib`: of a layer
    before all others, whose gradient is ready last; 0: there is none. Jitters are standard
    deviations, as parts: `layer_jitter` of each call of a layer, `step_jitter` of a rank's whole
    step. Ranks are slower by up to `rank_spread`, evenly, and rank 1 by `slow_rank`.
    """

    layers: int = 12
    layers_of_block: int = 6
    layer_mib: float = 0.5
    layer_s: float = 0.12
    optimizer_s: float = 0.1
    embedding_mib: float = 0
    layer_jitter: float = 0.1
    step_jitter: float = 0
    rank_spread: float = 0
    slow_rank: float = 0
    recorded_sharded: bool = False

    @property
    def mib(self) -> float:
        """Of all gradients."""
        return self.layers * self.layer_mib + self.embedding_mib

    @property
    def numel(self) -> int:
        return int(self.mib * MIB) // FLOAT_BYTES

    @property
    def backward_s(self) -> float:
        return self.layer_s * (self.layers + bool(self.embedding_mib))

    def factor_of(self, rank: int) -> float:
        """Returns a factor of what this rank's computation takes."""
        slower = self.slow_rank if rank == 1 else 0
        return 1 + slower + self.rank_spread * (rank % 2)


BASE = Case()
CASES = {
    "base": BASE,
    "base_sharded": replace(BASE, recorded_sharded=True),
    "transformer": replace(BASE, layers=8, layers_of_block=4, embedding_mib=2),
    # As `transformer`, but backward takes as long as that of `base`.
    "slow_transformer": replace(BASE, layers=8, layers_of_block=4, embedding_mib=2, layer_s=0.16),
    "fine": replace(BASE, layers=24, layer_mib=0.25, layer_s=0.06),
    "jitter0": replace(BASE, layer_jitter=0),
    "jitter30": replace(BASE, layer_jitter=0.3),
    "slow_rank": replace(BASE, slow_rank=0.2),
    "by_step": replace(BASE, layer_jitter=0, step_jitter=0.1),
    "by_rank": replace(BASE, layer_jitter=0, rank_spread=0.1),
    "by_both": replace(BASE, layer_jitter=0, step_jitter=0.1, rank_spread=0.1),
}


@dataclass(frozen=True)
class Way:
    """A way to train. `bucket_mb`: of DistributedDataParallel; 0: without it. `passes`: of a step,
    of which the last one synchronises. `whole`: fully_shard does not reshard after forward.
    `hybrid`: fully_shard within each host, and all-reduces between hosts. `local_steps`: of local
    SGD, between averages.
    """

    name: str
    bucket_mb: float = 0
    bf16: bool = False
    passes: int = 1
    zero1: bool = False
    fsdp: bool = False
    whole: bool = False
    hybrid: bool = False
    local_steps: int = 0


NONE = Way("none")


def all_ways(ranks_per_host: int) -> list[Way]:
    """Returns the ways for hosts of so many ranks: HSDP needs two or more."""
    ways = [
        NONE,
        Way("bucket_cap_mb=1", bucket_mb=1),
        Way("bucket_cap_mb=5", bucket_mb=5),
        Way("bucket_cap_mb=25", bucket_mb=25),
        Way("bf16_compress_hook", bucket_mb=3, bf16=True),
        Way("no_sync over 2 passes", bucket_mb=3, passes=2),
        Way("no_sync over 4 passes", bucket_mb=3, passes=4),
        Way("ZeroRedundancyOptimizer", bucket_mb=3, zero1=True),
        Way("fully_shard", fsdp=True),
        Way("fully_shard, no reshard", fsdp=True, whole=True),
        Way("local SGD, H=4", local_steps=4),
    ]
    if ranks_per_host > 1:
        ways.append(Way("HSDP", fsdp=True, hybrid=True))
    return ways
