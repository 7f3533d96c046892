"""What the scripts of this folder share: ranks over gloo, small nets, and data of each rank."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
_draw = torch.Generator().manual_seed(100 + rank)


def rows(count: int = 8, width: int = 16) -> torch.Tensor:
    """Draws other numbers on each rank: (count, width)."""
    return torch.randn(count, width, generator=_draw)


def classes(count: int = 8, of: int = 4) -> torch.Tensor:
    """Draws other classes on each rank: (count,)."""
    return torch.randint(of, (count,), generator=_draw)


def net(inputs: int = 16, outputs: int = 4, hidden: int = 16) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def total(number: float) -> float:
    """Returns the sum over ranks."""
    tensor = torch.tensor(float(number))
    dist.all_reduce(tensor)
    return float(tensor)


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensors of all ranks, one below the other, without gradients."""
    parts = [torch.empty_like(tensor) for _ in range(world)]
    dist.all_gather(parts, tensor.detach().contiguous())
    return torch.cat(parts)


def average(parameters: Iterable[nn.Parameter]) -> None:
    for p in parameters:
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= world


@torch.no_grad()
def follow(average_net: nn.Module, live: nn.Module, share: float) -> None:
    """Moves the weights of an averaged copy by this share towards those that train."""
    for slow, p in zip(average_net.parameters(), live.parameters(), strict=True):
        slow.lerp_(p, share)
