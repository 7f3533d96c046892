"""What scripts are made of that tests of `check` run. Two ranks over gloo."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Script:
    """A script behind BEGIN.

    `says`: a pattern that the line `differs` has, if the script trains wrong; if it trains right,
    what the one note has, or an empty text if there is none.
    """

    name: str
    text: str
    says: str = ""


def begin(initialises: bool = True, ranks: int = 2) -> str:
    """A net, data that differ between ranks, and an optimizer."""
    initialise = 'dist.init_process_group("gloo")' if initialises and ranks > 1 else "pass"
    who = "dist.get_rank(), dist.get_world_size()" if ranks > 1 else "0, 1"
    return f"""
import contextlib, functools, os, sys, torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

{initialise}
torch.manual_seed(0)
rank, world = {who}
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
draw = torch.Generator().manual_seed(1 + rank)
passes = 1

def batch():
    return torch.randn(8, 16, generator=draw)

def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=.1)

def orthogonal(m):
    m = m / m.norm()
    for _ in range(5):
        a = m @ m.T
        m = 3.4445 * m + (-4.7750 * a + 2.0315 * a @ a) @ m
    return m
"""


BEGIN = begin()
DDP_OF_NET = "model = DDP(net); optimizer = sgd(model)\n"
NO_DDP = "model = net; optimizer = sgd(model)\n"


def average(reduce: str = "dist.all_reduce(p.grad); p.grad /= world") -> str:
    """A function that averages gradients by hand. `reduce`: what it does to each."""
    return f"""
def average():
    for p in model.parameters():
        {reduce}
"""


def loop(
    *,
    loss: str = "model(batch()).square().mean() / passes",
    no_sync_if: str | None = "i < passes - 1",
    after_backward: str = "pass",
    before_step: str = "pass",
    step: str = "optimizer.step()",
    zero_grad: str = "optimizer.zero_grad()",
    steps: str = "int(sys.argv[1])",
) -> str:
    """Steps of several passes. `no_sync_if`: None for a model that is not wrapped in DDP."""
    silent = f"model.no_sync() if {no_sync_if} else " if no_sync_if else ""
    return f"""
for step in range({steps}):
    {zero_grad}
    for i in range(passes):
        with {silent}contextlib.nullcontext():
            loss = {loss}
            loss.backward()
            {after_backward}
    {before_step}
    {step}
"""


def plain_loop(**changes: str) -> str:
    """Steps of a model that is not wrapped in DDP."""
    return loop(no_sync_if=None, **changes)


def averaging_loop(**changes: str) -> str:
    """Steps of a model whose gradients average() averages."""
    return plain_loop(**{"before_step": "average()"} | changes)


def muon(update: str) -> str:
    """Steps with an optimizer that orthogonalises. `update`: what it does to a gradient `g`."""
    return f"""
class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in [p for p in group["params"] if p.grad is not None]:
                g = p.grad.clone()
                {update}
                p -= group["lr"] * g

model = net
optimizer = Muon(net.parameters(), lr=.1)
"""


ORTHOGONALISE = "g = orthogonal(g) if p.dim() > 1 else g"
AVERAGE_THEN_ORTHOGONALISE = f"dist.all_reduce(g); g /= dist.get_world_size(); {ORTHOGONALISE}"


def deepspeed(
    *,
    factor: str = "1",
    reduce: str = "dist.all_reduce(p.full); p.full /= world",
    lr: str = ".1",
) -> str:
    """As DeepSpeed's: the optimizer steps copies of parts, and no parameter has its gradient.

    `factor`: of the second engine's gradients.
    """
    return f"""
import types
sys.modules["deepspeed"] = types.SimpleNamespace(
    utils=types.SimpleNamespace(safe_get_full_grad=lambda p: p.full)
)

class Engine(nn.Module):
    __module__ = "deepspeed.runtime.engine"

    def __init__(self, module, factor=1):
        super().__init__()
        self.module, self.factor, self.passes = module, factor, 0
        params = module.parameters()
        self.parts = [nn.Parameter(p.detach().flatten()[rank::world].clone()) for p in params]
        self.optimizer = torch.optim.SGD(self.parts, lr={lr})

    def forward(self, x):
        return self.module(x)

    def is_gradient_accumulation_boundary(self):
        return self.passes % 2 == 1

    def backward(self, loss):
        (loss / 2).backward()
        for p in self.module.parameters() if self.is_gradient_accumulation_boundary() else ():
            p.full, p.grad = p.grad * self.factor, None
            {reduce}

    def step(self):
        if self.is_gradient_accumulation_boundary():
            for p, part in zip(self.module.parameters(), self.parts):
                part.grad = p.full.flatten()[rank::world]
            self.optimizer.step()
            for p, part in zip(self.module.parameters(), self.parts):
                p.data.zero_()
                p.data.view(-1)[rank::world] = part.detach()
                dist.all_reduce(p.data)
        self.passes += 1

one, other = Engine(net), Engine(nn.Linear(8, 8), {factor})
for step in range(2 * int(sys.argv[1])):
    out = one(batch())
    one.backward(out.square().mean())
    one.step()
    other.backward(other(out.detach()).square().mean())
    other.step()
"""


def sharded(policy: str = "", mesh: str = "None") -> str:
    """The net under fully_shard."""
    return f"""
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
for m in (net[0], net[2], net):
    fully_shard(m, mesh={mesh}, mp_policy=MixedPrecisionPolicy({policy}))
"""


def mesh(shape: tuple[int, int]) -> str:
    """An expression for a hybrid mesh."""
    return f"dist.init_device_mesh('cpu', {shape}, mesh_dim_names=('replicate', 'shard'))"
