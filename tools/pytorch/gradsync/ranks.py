"""The processes that train a model together, and what they do at the same time."""

from __future__ import annotations

import datetime
import json
from typing import Any

import torch
import torch.distributed as dist

from gradsync.clock import Clock
from gradsync.torch_private import meet_in_store

WAIT = datetime.timedelta(seconds=30)  # until all ranks have to begin recording


class Ranks:
    """All processes of the default process group, or this one alone if there is none."""

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
        """Returns when all ranks are here, and their devices have nothing left to do."""
        if self.are_several:
            dist.barrier()
        self._clock.settle()

    def have_other(self, number: int) -> bool:
        """Returns whether another rank has another number than this one."""
        if not self.are_several:
            return False
        extremes = torch.tensor([number, -number], device=self.device)
        dist.all_reduce(extremes, op=dist.ReduceOp.MAX)
        return bool(extremes.sum() != 0)

    def all_begin(self) -> bool:
        """Waits until all ranks begin to record a model. Returns whether they do within WAIT."""
        if not self.are_several:
            return True
        Ranks._started += 1
        try:
            meet_in_store(f"gradsync{Ranks._started}", self.rank, self.size, WAIT)
        except RuntimeError:
            return False
        return True


def flat_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view for collectives, of which gloo's know no complex numbers."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def gathered(value: Any, device: torch.device, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Returns the values of all ranks, in their order. A value has to be what JSON can hold.

    PyTorch's own all_gather_object needs NumPy, which gradsync does not need.
    """
    if not dist.is_initialized():
        return [value]
    data = bytearray(json.dumps(value).encode())
    longest = torch.tensor([len(data)], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=group)
    own = torch.frombuffer(data.ljust(int(longest), b" "), dtype=torch.uint8).to(device)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own, group)
    return [json.loads(bytes(part.tolist())) for part in parts]
