"""What the scripts of this folder share: the group, data that differ between ranks, small models."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(3)
draw = torch.Generator().manual_seed(100 + rank)


def rows(count: int = 8, width: int = 12) -> torch.Tensor:
    return torch.randn(count, width, generator=draw)


def classes(count: int = 8, kinds: int = 5) -> torch.Tensor:
    return torch.randint(kinds, (count,), generator=draw)


def two_layers(inputs: int = 12, hidden: int = 16, outputs: int = 5) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


def average(parameters) -> None:
    for p in parameters:
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= world
