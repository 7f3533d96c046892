"""A model that tests shard by fully_shard, and process groups for it."""

import contextlib

from run_ranks import torch

import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    recomputes = False  # activations of blocks

    def __init__(self):
        super().__init__()
        self.e, self.head = nn.Embedding(200, 32), nn.Linear(32, 200)
        self.h = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 32 + 16 * i), nn.GELU(), nn.Linear(32 + 16 * i, 32))
            for i in range(4)
        )

    def forward(self, x):
        x = self.e(x)
        for h in self.h:
            x = x + (checkpoint(h, x, use_reentrant=False) if self.recomputes else h(x))
        return self.head(x)


def sharded_net(how=None, nested=False):
    torch.manual_seed(0)
    net = Net()
    for i, h in enumerate(net.h):
        if nested and i in (1, 2):
            fully_shard(h[0], reshard_after_forward=how)
        fully_shard(h, reshard_after_forward=how)
    return fully_shard(net)


def step(model, optimizer, x, passes=1):
    for _ in range(passes):
        nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


@contextlib.contextmanager
def ranks(backend, count):
    """This process, as the first of so many."""
    dist.init_process_group(
        backend,
        rank=0,
        world_size=count,
        store=FakeStore() if backend == "fake" else dist.HashStore(),
    )
    try:
        yield torch.randint(200, (16, 64))
    finally:
        dist.destroy_process_group()
