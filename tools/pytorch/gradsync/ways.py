"""Predicts several ways to train a model, such as DDP and FSDP2: step time, sent bytes and
memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gradsync.estimates import Interval
from gradsync.link import Operation
from gradsync.memory import Need, Peak
from gradsync.network import sent_part
from gradsync.prediction import Predictor
from gradsync.question import NamedLink, RecordedLink
from gradsync.replay import Prediction, Waits
from gradsync.schema import MIB, Row, Unit
from gradsync.sharding import Resharding, plan_of, reshard, unit_bytes, units_of, waits_of

LOCAL_STEPS = (8, 64)  # steps of local SGD between two averages of the weights
LARGEST_BATCH = 1 << 20  # of the recorded one

MemoryOfBatch = Callable[[float], Peak]  # of a rank, with this multiple of the recorded batch


@dataclass(frozen=True)
class PredictedWay:
    """The predictions for one way to train, such as FSDP2.

    `step_s`: the seconds of a training step. `exposed_s`: by how many seconds waiting for
    collectives makes a step longer. `sent_bytes`: the bytes that a rank sends in a step. If a step
    has k times the backward passes of plain DDP's, `step_s`, `exposed_s` and `sent_bytes` are
    divided by k. `memory`: a function from a multiple of the recorded batch size to a rank's peak
    memory; None if not recorded. `is_same`: whether the trained weights are the same as with DDP.
    """

    name: str
    step_s: Interval
    exposed_s: float
    sent_bytes: float
    memory: MemoryOfBatch | None
    is_same: bool = True

    def bytes_of_batch(self, batch: float = 1) -> float | None:
        """Returns the peak bytes of a rank's tensors with `batch` times the recorded batch size;
        None if unknown."""
        if not self.memory:
            return None
        peak = self.memory(batch)
        return peak.fixed + peak.moving

    def fits(self, limit_bytes: float | None, batch: float = 1) -> bool:
        """Returns whether a rank needs at most `limit_bytes` of memory with `batch` times the
        recorded batch size. Returns True if `limit_bytes` is None, else False if the memory is
        unknown."""
        if limit_bytes is None:
            return True
        needed = self.bytes_of_batch(batch)
        return needed is not None and needed <= limit_bytes


@dataclass(frozen=True)
class UnknownWay:
    """A way to train that cannot be predicted, and the reason (`why`) as a text for the user."""

    name: str
    why: str


class Ways:
    """Predicts all ways to train for one question of the command `what_if`. `base`: the settings of
    plain DDP, the first way, such as the bucket size."""

    def __init__(self, predictor: Predictor, base: Row) -> None:
        self._predictor = predictor
        self._question = predictor.question
        self._recording = predictor.recording
        self._launch = self._question.launch
        self._world_size = self._question.world_size
        self._base = base
        self._units = units_of(self._launch)
        self._need = Need(self._recording) if self._launch.memory else None
        # Gradients that passes accumulate are there all the time.
        self._keeps = self._launch.passes > 1

    def all(self) -> list[PredictedWay | UnknownWay]:
        """Returns all ways to train, DistributedDataParallel first."""
        return [
            self._replicated(f"DDP, bucket_cap_mb={self._base.bucket_bytes / MIB:g}", self._base),
            self._zero1(),
            self._sharded("fully_shard", Resharding.ALL),
            self._sharded("fully_shard, no reshard", Resharding.NONE),
            self._hybrid(),
            self._bf16(),
            self._replicated(
                "no_sync: 4 times the passes",
                replace(self._base, passes=4 * self._base.passes),
                is_same=False,
            ),
            *(self._local(steps) for steps in LOCAL_STEPS),
        ]

    def _replicated(
        self,
        name: str,
        row: Row,
        is_same: bool = True,
        state_part: float = 1,
        more_bytes: float = 0,
    ) -> PredictedWay:
        """Predicts training with DDP with the settings `row`. If `row.passes` is k times
        `base.passes`, the step's predicted times and sent bytes are divided by k. `state_part`: the
        fraction of the optimizer's state that each rank holds. `more_bytes`: the bytes that a rank
        needs in backward beyond those of plain DDP."""
        part = self._base.passes / row.passes  # of a step, for as many passes as the base has
        prediction = self._predictor.step(row)
        keeps = self._keeps or row.passes > 1
        return PredictedWay(
            name,
            prediction.step_s.scaled(part),
            part * prediction.exposed_s,
            part * self._replicated_bytes(row),
            self._memory(
                lambda need, batch: need.replicated(
                    states=state_part, keeps=keeps, more=more_bytes, batch=batch
                )
            ),
            is_same,
        )

    def _memory(self, peak: Callable[[Need, float], Peak]) -> MemoryOfBatch | None:
        """Returns the function `peak` with the recorded memory (Need) as its first argument; None
        if no memory was recorded."""
        need = self._need
        return (lambda batch: peak(need, batch)) if need else None

    def _replicated_bytes(self, row: Row) -> float:
        """Returns the bytes that a rank sends in a step of DDP with the settings `row`, including
        any broadcasts of ZeroRedundancyOptimizer."""
        total = self._recording.total_bytes
        sent = total * sent_part(Operation.ALL_REDUCE, self._world_size)
        if row.bf16:
            sent *= self._predictor.communication(0).bf16_part
        if row.zero1:
            sent += total * sent_part(Operation.ALL_GATHER, self._world_size)
        return sent

    def _zero1(self) -> PredictedWay | UnknownWay:
        name = "ZeroRedundancyOptimizer"
        if not self._is_told(self._predictor.communication(0).zero1_s_per_byte):
            return _unmeasured(name)
        row = replace(self._base, zero1=True)
        return self._replicated(name, row, state_part=self._predictor.zero1_part())

    def _bf16(self) -> PredictedWay | UnknownWay:
        name = "bf16_compress_hook"
        communication = self._predictor.communication(0)
        if not self._is_told(communication.bf16):
            return _unmeasured(name)
        bucket = max(self._recording.bucket_bytes(self._base))
        row = replace(self._base, bf16=True)
        more_bytes = communication.bf16_part * bucket
        return self._replicated(name, row, is_same=False, more_bytes=more_bytes)

    def _is_told(self, measured: object) -> bool:
        """Returns whether the time of the collectives of one way to train is known. The time is
        unknown only over the recorded link, and only if their measurement `measured` is None or
        0."""
        return bool(measured) or not isinstance(self._question.link, RecordedLink)

    def _sharded(self, name: str, resharding: Resharding) -> PredictedWay:
        units = reshard(self._units, resharding)
        # Over gloo a reduce-scatter is an all-reduce of the whole.
        is_gloo = waits_of(self._launch) is Waits.ALL_RANKS
        reduction = Operation.ALL_REDUCE if is_gloo else Operation.ALL_GATHER
        parts = {
            Operation.ALL_GATHER: sent_part(Operation.ALL_GATHER, self._world_size),
            Operation.REDUCE_SCATTER: sent_part(reduction, self._world_size),
        }
        prediction = self._predictor.sharded_step(resharding)
        return self._of_units(name, prediction, units, parts, self._world_size)

    def _hybrid(self) -> PredictedWay | UnknownWay:
        name = "HSDP"
        own = self._launch.sharing_ranks
        if own and own < self._world_size:
            return self._hybrid_of(own, self._predictor.own_hybrid_step())
        link = self._question.link
        if self._world_size < 4:
            return UnknownWay(name, "needs four ranks, two on each of two hosts")
        if not isinstance(link, NamedLink):
            why = "name a rate as --link, and hosts of more ranks (--ranks_per_host)"
            return UnknownWay(name, why)
        on_host = link.network.ranks_per_host
        if on_host == 1:
            return UnknownWay(name, "needs --ranks_per_host of 2 or more")
        if on_host >= self._world_size or self._world_size % on_host:
            why = f"that divides {self._world_size} ranks into two or more hosts"
            return UnknownWay(name, f"needs --ranks_per_host {why}")
        return self._hybrid_of(on_host, self._predictor.hybrid_step(link.network, on_host))

    def _hybrid_of(self, sharing: int, prediction: Prediction) -> PredictedWay:
        """Returns the PredictedWay of HSDP, in which each group of `sharing` ranks holds all
        parameters, one shard per rank."""
        gather_part = sent_part(Operation.ALL_GATHER, sharing)
        parts = {
            Operation.ALL_GATHER: gather_part,
            Operation.REDUCE_SCATTER: gather_part
            + sent_part(Operation.ALL_REDUCE, self._world_size // sharing) / sharing,
        }
        return self._of_units(
            f"HSDP, {sharing} ranks share", prediction, self._units, parts, sharing
        )

    def _of_units(
        self,
        name: str,
        prediction: Prediction,
        units: Sequence[Unit],
        parts: Mapping[Operation, float],
        sharing_ranks: int,
    ) -> PredictedWay:
        """Returns the PredictedWay of training with fully_shard (FSDP2 or HSDP) with these `units`.
        `parts`: for gathers and for reductions, the bytes that a rank sends for each byte of a
        unit."""
        sizes = {kind: unit_bytes(self._launch.parameters, units, kind) for kind in parts}
        plan = plan_of(self._launch, units, f"{self._recording.path}, line 1")
        return PredictedWay(
            name,
            prediction.step_s,
            prediction.exposed_s,
            sum(sizes[one.operation][one.unit] * parts[one.operation] for one in plan),
            self._memory(
                lambda need, batch: need.sharded(units, sharing_ranks, batch, self._keeps)
            ),
        )

    def _local(self, steps: int) -> PredictedWay:
        """Predicts local SGD, which averages the weights of all ranks after each `steps` steps."""
        total = self._recording.total_bytes
        step_s, average_s = self._predictor.local_step(steps)
        return PredictedWay(
            f"local SGD, H={steps}",
            step_s,
            average_s,
            total * sent_part(Operation.ALL_REDUCE, self._world_size) / steps,
            self._memory(
                lambda need, batch: need.replicated(buckets=False, keeps=self._keeps, batch=batch)
            ),
            is_same=False,
        )


def _unmeasured(name: str) -> UnknownWay:
    return UnknownWay(name, "this recording has no probe of it: name a link")


def advice(ways: Sequence[PredictedWay | UnknownWay], limit_bytes: float | None) -> str:
    """Returns a sentence that names the fastest way to train, or several if undecided, or says why
    none is named. Leaves out ways that cannot be predicted, and ways whose weights differ from
    DDP's. Also leaves out ways that may need more than `limit_bytes` (None: no limit) of memory on
    a rank."""
    same = [way for way in ways if isinstance(way, PredictedWay) and way.is_same]
    needs = {way.name: needed for way in same if (needed := way.bytes_of_batch()) is not None}
    if limit_bytes is not None and not needs:
        return "What fits is unknown: this recording holds no memory."
    fitting = [way for way in same if way.fits(limit_bytes)]
    if not fitting:
        return f"No way fits: {min(needs, key=needs.__getitem__)} needs the least."
    where = "" if limit_bytes is None else " that fits"
    best = min(fitting, key=lambda way: way.step_s.value)
    others = [
        way.name for way in fitting if way is not best and not way.step_s.is_told_from(best.step_s)
    ]
    if others:
        names = ", or ".join([best.name, *others])
        return f"The fastest way{where} is undecided: {names}."
    return f"The fastest way{where} is {best.name}."


def batches(ways: Sequence[PredictedWay | UnknownWay], limit_bytes: float) -> dict[str, float]:
    """Returns, by the ways' names, the largest multiple of the recorded batch size that fits into a
    rank's memory. A multiple is at most 2**20, and may be up to 0.1 % too small. Leaves out ways
    that cannot be predicted, whose memory is unknown, or that do not fit with the recorded batch
    size."""
    found = {}
    for way in ways:
        if isinstance(way, PredictedWay) and way.fits(limit_bytes):
            low, high = 1.0, float(LARGEST_BATCH)
            while high - low > 0.001 * low:
                middle = math.sqrt(low * high)
                if way.fits(limit_bytes, middle):
                    low = middle
                else:
                    high = middle
            found[way.name] = low
    return found
