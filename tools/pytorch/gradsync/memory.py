"""Computes the peak memory of a rank: the largest number of bytes that all its tensors have at one
time in a training step.

live.py has measured the bytes of tensors in one recorded step, which synchronised no gradients. The
peak is computed from these bytes, and from the bytes of the parameters and of their gradients. The
process needs more memory than the peak, because allocators keep freed memory and libraries have
memory of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradsync.link import Operation
from gradsync.recording import Recording
from gradsync.schema import Unit
from gradsync.sharding import sent_bytes

UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


class Peak(NamedTuple):
    """The most bytes that a rank's tensors take at one time: the sum of `fixed` and `moving`.
    `fixed`: bytes that are held during the whole step, such as those of the weights. `moving`: the
    largest sum, at any time of the step, of all bytes that are not in `fixed`, such as those of
    activations.
    """

    fixed: float
    moving: float


@dataclass(frozen=True)
class Moment:
    """The part of backward that ends when the gradient of `parameter` is ready. This part begins
    when the previous gradient is ready. The part of the first gradient begins with backward.
    `computing`: the peak bytes of activations and temporary tensors in the Moment's part of
    backward. `made`: the bytes of all gradients that are ready before this part begins.
    """

    parameter: int
    computing: float
    made: int


def parse_bytes(text: str) -> float | None:
    """Returns the number of bytes of a text such as "80GB" or "24GiB"; None for another text, and
    for 0 bytes."""
    match = re.fullmatch(rf"(\d+\.?\d*) ?({'|'.join(UNITS)})B", text)
    if not match:
        return None
    size = float(match[1]) * UNITS[match[2]]
    return size if size > 0 else None


class Need:
    """Computes the peak memory of a rank that trains the recorded model: with the whole model on
    each rank, as with DistributedDataParallel, or with FSDP2. Raises ValueError if the first launch
    of the recording has no measured memory."""

    def __init__(self, recording: Recording) -> None:
        launch = recording.first
        if launch.memory is None:
            raise ValueError(f"{recording.path} holds no memory")
        self._recorded = launch.memory
        self._gradient_bytes = recording.gradient_bytes
        parameters = launch.parameters
        self._gathered_bytes = [sent_bytes(p, Operation.ALL_GATHER) for p in parameters]
        self._reduced_bytes = [sent_bytes(p, Operation.REDUCE_SCATTER) for p in parameters]
        self._all_gradients = sum(self._gradient_bytes)
        self._are_views = launch.views  # gradients, of buckets

    def replicated(
        self,
        states: float = 1,
        keeps: bool = False,
        more: float = 0,
        batch: float = 1,
        buckets: bool = True,
    ) -> Peak:
        """Returns the peak memory of a rank that holds the whole model, as with
        DistributedDataParallel.

        `states`: the fraction of the optimizer's state that the rank has. `keeps`: whether all
        gradients exist all the time, as when a step accumulates several passes. If the recording's
        Memory.keeps_gradients is True, `keeps` counts as True. `more`: additional bytes of the rank
        at the peak of backward, such as those of a bucket's copy in bf16. `batch`: the batch size
        as a multiple of the recorded batch size. `buckets`: whether the rank has DDP's buckets,
        which take memory during the whole step. If `buckets` and the recording's Launch.views are
        True, gradients are views of the buckets and take no memory of their own. Otherwise,
        gradients take memory of their own.
        """
        recorded = self._recorded
        own = 0 if buckets and self._are_views else self._all_gradients  # of gradients, no views
        fixed = recorded.weight_bytes + recorded.buffer_bytes + states * recorded.state_bytes
        if buckets:
            fixed += self._all_gradients
        are_held = keeps or recorded.keeps_gradients
        backward = batch * recorded.forward_bytes + (own if are_held else 0)
        for moment in self._moments(batch):
            backward = max(
                backward, moment.computing + (own if are_held else min(moment.made, own))
            )
        update = own + states * recorded.optimizer_bytes
        return Peak(fixed, max(backward + more, update))

    def sharded(
        self, units: Sequence[Unit], ranks: int, batch: float = 1, keeps: bool = False
    ) -> Peak:
        """Returns the peak memory of a rank under FSDP2 with these units, if the parameters are
        divided among `ranks` ranks.

        `batch`: the batch size as a multiple of the recorded batch size. `keeps`: whether a rank
        keeps whole gradients between backward passes, as when a step accumulates passes without
        reducing. The peak includes the buffers that FSDP2 allocates (see PyTorch's
        torch/distributed/fsdp/_fully_shard).
        """
        recorded = self._recorded
        sizes = UnitSizes(
            _by_unit(units, self._gathered_bytes),
            _by_unit(units, self._reduced_bytes),
            _by_unit(units, self._gradient_bytes),
        )
        buffers = UnitBuffers(units, sizes, recorded.order, ranks)
        peak = batch * recorded.forward_bytes + buffers.in_forward()
        for moment in self._moments(batch):
            parameter = moment.parameter
            unit = buffers.unit_of[parameter]
            buffers.gather(unit)
            peak = max(peak, moment.computing + buffers.held(unit))
            # It has the dtype of what is computed with.
            buffers.add_gradient(unit, 0 if keeps else self._gathered_bytes[parameter])
            if buffers.is_last(unit):
                computing = batch * recorded.held_bytes[parameter]
                peak = max(peak, computing + buffers.held_when_reducing(unit))
                buffers.reduce(unit)
        shard = self._all_gradients / ranks
        kept = 0.0
        if keeps:  # passes that do not reduce add to whole gradients, in the dtype of reductions
            kept = sum(self._reduced_bytes)
        elif recorded.keeps_gradients:
            kept = shard
        parts = (recorded.weight_bytes + recorded.state_bytes) / ranks
        update = (0 if kept else shard) + recorded.optimizer_bytes / ranks
        return Peak(parts + recorded.buffer_bytes + kept, max(peak, update))

    def _moments(self, batch: float) -> list[Moment]:
        """Returns a Moment for each gradient, in the order in which gradients are ready in
        backward. `batch`: the batch size as a multiple of the recorded batch size."""
        moments = []
        made = 0
        for parameter in self._recorded.order:
            computing = batch * self._recorded.ready_bytes[parameter]
            moments.append(Moment(parameter, computing, made))
            made += self._gradient_bytes[parameter]
        return moments


@dataclass(frozen=True)
class UnitSizes:
    """The bytes of each FSDP2 unit (parameters that FSDP2 gathers together). `gathered`: for each
    unit, the bytes of its whole parameters in the dtype of gathers. `reduced`: for each unit, the
    bytes of its whole gradients in the dtype of reductions. `summed`: for each unit, the bytes of
    its whole reduced gradients in the dtype of the parameters; each rank keeps a shard.
    """

    gathered: Sequence[int]
    reduced: Sequence[int]
    summed: Sequence[int]


def _by_unit(units: Sequence[Unit], sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[p] for p in unit.parameters) for unit in units]


class UnitBuffers:
    """Computes the bytes of gathered parameters, FSDP2's buffers and gradients on a rank at several
    moments of a step. The rank's shards of the weights are not counted.

    FSDP2 gathers the parameters of a unit into a buffer, and then copies them from this buffer into
    whole parameters. In backward, the unit whose gradients are computed next is gathered in
    advance. When all gradients of a unit are ready, they are copied into a buffer. A reduce-scatter
    reduces the buffers of all ranks, and writes this rank's shard of the result to another buffer.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        sizes: UnitSizes,
        order: Sequence[int],
        ranks: int,
    ) -> None:
        """`order`: the indices of the parameters, in the order in which their gradients are
        ready."""
        self.unit_of = {p: number for number, unit in enumerate(units) for p in unit.parameters}
        self._units = units
        self._ranks = ranks
        self._all_sizes = sizes
        self._sizes = sizes.gathered
        self._left = [sum(number == self.unit_of[p] for p in order) for number in range(len(units))]
        # In the order of backward, by their first gradients; the root is there from its begin.
        turn = dict.fromkeys(self.unit_of[p] for p in order)
        blocks = [number for number in turn if number > 0 and self._sizes[number]]
        self._ahead = dict(zip(blocks, blocks[1:], strict=False))
        self._gathered = {
            number: self._sizes[number]
            for number, unit in enumerate(units)
            if not unit.reshards and self._sizes[number]
        }
        self._gradients: dict[int, int] = {}  # whole ones, which are not reduced yet, by unit
        self._sent = 0  # the buffer of the last reduction
        self._summed = 0  # whose parts are reduced

    def in_forward(self) -> int:
        """Returns the maximum bytes of gathered parameters in forward. The result is the bytes of
        all units that stay gathered until backward, plus twice the bytes of the largest unit that
        does not. A unit exists twice while its parameters are copied out of the buffer into which
        they were gathered."""
        sizes = list(zip(self._units, self._sizes, strict=True))
        stay = sum(size for unit, size in sizes if not unit.reshards)
        largest = max((size for unit, size in sizes if unit.reshards), default=0)
        return stay + 2 * largest

    def gather(self, unit: int) -> None:
        self._gathered.setdefault(unit, self._sizes[unit])

    def held(self, unit: int) -> float:
        """Returns the bytes of gathered parameters, FSDP2's buffers and gradients on a rank while
        backward computes the gradients of this unit."""
        return self._held_but_sent(unit) + self._sent

    def held_when_reducing(self, unit: int) -> float:
        """Returns the bytes of gathered parameters, FSDP2's buffers and gradients on a rank while
        this unit's gradients are copied into a buffer. The unit's gathered weights and the buffer
        of the previous reduction are not counted, because FSDP2 frees both before it copies the
        gradients."""
        buffer = self._all_sizes.reduced[unit]
        return self._held_but_sent(unit) - self._gathered[unit] + buffer

    def _held_but_sent(self, unit: int) -> float:
        following = self._ahead.get(unit)
        coming = 0
        if following is not None and following not in self._gathered:
            coming = self._sizes[following]
        gathered = sum(self._gathered.values()) + coming
        return gathered + self._summed / self._ranks + sum(self._gradients.values())

    def add_gradient(self, unit: int, size: int) -> None:
        self._gradients[unit] = self._gradients.get(unit, 0) + size
        self._left[unit] -= 1

    def is_last(self, unit: int) -> bool:
        """Returns whether backward has computed all gradients of the unit with the index `unit`."""
        return self._left[unit] == 0

    def reduce(self, unit: int) -> None:
        """Counts the unit's gathered weights and whole gradients as freed after its reduction.
        After the reduction, the rank's shard of the unit's reduced gradients is counted as held.
        The buffer of this reduction is counted until the next unit's reduction begins."""
        self._gathered.pop(unit)
        self._gradients.pop(unit)
        self._sent = self._all_sizes.reduced[unit]
        self._summed += self._all_sizes.summed[unit]
