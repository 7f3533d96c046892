"""Runs and times probes: collectives that `gradsync record` adds after a step's backward. A probe
imitates the collectives of DDP, DDP's bf16 hook, ZeroRedundancyOptimizer or FSDP2."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from gradsync.clock import Clock, Mark, Span
from gradsync.collectives import flat_of
from gradsync.flat_buffer import FlatBuffer
from gradsync.schema import CollectiveKind
from gradsync.step_marks import CollectiveMarks
from gradsync.torch_private import ShardedGroup
from gradsync.turns import Probe
from gradsync.units import gather, group_like, reduce
from gradsync.world import World

Pieces = Sequence[torch.Tensor]
MOST_PIECES = 128  # of a probe; with the smallest pieces, more add nothing


class Prober:
    """Runs the collectives of probes, such as all-reduces like those of DDP, and measures their
    times. Most probes send the gradients of the model, which `buffer` holds. `units`: for each
    module that FSDP2 would gather as one unit, the indices of its parameters."""

    def __init__(
        self, buffer: FlatBuffer, world: World, clock: Clock, units: Sequence[Sequence[int]]
    ) -> None:
        self._buffer = buffer
        self._world = world
        self._clock = clock
        self._units = [own for own in units if own]
        self._groups: list[ShardedGroup] = []  # FSDP2's, like blocks of the model

    def run(self, probe: Probe) -> CollectiveMarks:
        """Runs the collectives of `probe`, and returns marks (moments or GPU events) of when they
        begin and end. The caller must first call World.meet(), by which all ranks wait for each
        other."""
        sent = CollectiveMarks(probe.kind, probe.in_flight)
        way = self._way(probe, sent)
        cpu_ns = time.process_time_ns()
        begin = self._clock.mark()
        way()
        sent.whole = Span(begin, self._clock.mark())
        sent.cpu_ns = time.process_time_ns() - cpu_ns
        return sent

    def _way(self, probe: Probe, sent: CollectiveMarks) -> Callable[[], None]:
        """Returns a function that runs the collectives of `probe`. The function marks in `sent`
        when each collective begins and ends, unless the function issues all collectives at once."""
        if probe.kind is CollectiveKind.FULLY_SHARD:
            return self._gather_and_reduce_units(sent)
        if probe.kind is CollectiveKind.ZERO1:
            return self._broadcast_parameters(sent)
        wire = self._buffer.wire
        length = max(1, probe.piece_bytes // wire.element_size())
        pieces = torch.split(wire, length)[:MOST_PIECES]
        sent.bytes = [piece.nbytes for piece in pieces]
        if probe.kind is CollectiveKind.BF16:
            return lambda: self._all_reduce_as_bf16(pieces, sent)
        if probe.in_flight:
            return lambda: self._all_reduce_in_turn(pieces, sent)
        return lambda: self._all_reduce_at_once(pieces)

    def _all_reduce_in_turn(self, pieces: Pieces, sent: CollectiveMarks) -> None:
        for piece in pieces:
            begin = self._clock.mark()
            dist.all_reduce(piece)
            sent.each.append(Span(begin, self._clock.mark()))

    def _all_reduce_at_once(self, pieces: Pieces) -> None:
        _wait_for([dist.all_reduce(piece, async_op=True) for piece in pieces])

    def _all_reduce_as_bf16(self, pieces: Pieces, sent: CollectiveMarks) -> None:
        """Casts each piece of the gradients to bfloat16, divides it, all-reduces it and copies it
        back, like DDP's bf16_compress_hook. The divisor is 1, because the gradients in the buffer
        are already divided by the number of ranks."""
        for piece in pieces:
            begin = self._clock.mark()
            narrow = piece.to(torch.bfloat16).div_(1)
            cast = self._clock.mark()
            dist.all_reduce(narrow)
            reduced = self._clock.mark()
            piece.copy_(narrow)
            sent.add(begin, cast, reduced, self._clock.mark())

    def _broadcast_parameters(self, sent: CollectiveMarks) -> Callable[[], None]:
        """Returns a function that broadcasts each gradient in the buffer: gradient i from rank i
        modulo the number of ranks. The gradients stand for the updated parameters that
        ZeroRedundancyOptimizer would broadcast."""
        slots = self._buffer.slots
        sent.bytes = [slot.nbytes for slot in slots]

        def broadcast() -> None:
            _wait_for(
                [
                    dist.broadcast(flat_of(slot), src=rank, async_op=True)
                    for rank in range(self._world.size)
                    for slot in slots[rank :: self._world.size]
                ]
            )

        return broadcast

    def _gather_and_reduce_units(self, sent: CollectiveMarks) -> Callable[[], None]:
        """Returns a function that, for one FSDP2 unit after the other, all-gathers parameters and
        then reduce-scatters gradients. The units have new parameters with the shapes of the
        model's."""
        params = self._buffer.params
        if not self._groups:
            self._groups = [group_like([params[i] for i in own]) for own in self._units]
        sent.bytes = [sum(params[i].nbytes for i in own) for own in self._units]

        def gather_and_reduce() -> None:
            for group in self._groups:
                sent.add(*self._try_unit(group))

        return gather_and_reduce

    def _try_unit(self, group: ShardedGroup) -> tuple[Mark, Mark, Mark, Mark]:
        """All-gathers the parameters of one unit of FSDP2, and then reduce-scatters its gradients.
        Before each of the two collectives, all ranks wait for each other. Returns marks (moments or
        GPU events) before and after each of the two collectives."""
        self._world.meet()
        begin = self._clock.mark()
        gather(group)
        gathered = self._clock.mark()
        for param in group.fsdp_params:
            param.unsharded_param.grad = torch.ones_like(param.unsharded_param)
        self._world.meet()
        begin_of_reduction = self._clock.mark()
        reduce(group)
        reduced = self._clock.mark()
        for param in group.fsdp_params:
            param.sharded_param.grad = None
        return begin, gathered, begin_of_reduction, reduced


def _wait_for(works: Sequence[dist.Work | None]) -> None:
    for work in works:
        assert work is not None  # as it is for ranks outside of a group
        work.wait()
