"""Defines the class World, with which processes that train together under `gradsync record` wait
for each other."""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist

from gradsync.clock import Clock
from gradsync.torch_private import meet_in_store

WAIT = datetime.timedelta(seconds=30)  # until all ranks have to begin recording


class World:
    """All processes of the default process group, or this process alone if there is no group."""

    _started = 0  # recorders that have met in this process

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self.device = device
        self.size = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if self.size > 1 else 0
        self._clock = clock

    @property
    def are_several(self) -> bool:
        return self.size > 1

    def meet(self) -> None:
        """Waits until all ranks have called this function, and then until this rank's device has
        done all its work."""
        if self.are_several:
            dist.barrier()
        self._clock.settle()

    def have_other(self, number: int) -> bool:
        """Returns whether any two ranks pass different values of `number`. All ranks must call this
        function together."""
        if not self.are_several:
            return False
        extremes = torch.tensor([number, -number], device=self.device)
        dist.all_reduce(extremes, op=dist.ReduceOp.MAX)
        return bool(extremes.sum() != 0)

    def all_begin(self) -> bool:
        """Waits until `gradsync record` has begun to record a model on all ranks. Returns True
        then, or False if a rank has not begun after 30 s (WAIT) to about 40 s."""
        if not self.are_several:
            return True
        World._started += 1
        try:
            meet_in_store(f"gradsync{World._started}", self.rank, self.size, WAIT)
        except RuntimeError:
            return False
        return True
