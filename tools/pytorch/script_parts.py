"""Parts of scripts for tests of record. BEGIN comes before all of them."""

BEGIN = """
import contextlib, copy, os, pickle, sys, torch, types, torch.distributed as dist, torch.nn.functional as F
import torch.multiprocessing as mp
from torch import nn
from torch.autograd import backward
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo"); torch.manual_seed(dist.get_rank())
x = torch.randn(8, 16)
class Mine:
    def __init__(self, model): self.params = list(model.parameters())
    def step(self):
        for p in self.params: p.data.sub_(p.grad, alpha=1e-3)
def sgd(model): return torch.optim.SGD(model.parameters(), lr=1e-3)
"""

MODEL = "model = DDP(nn.Linear(16, 16)); optimizer = sgd(model)\n"

LOOP = """
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

PASSES = """
for step in range(int(sys.argv[1])):
    passes = PASSES
    for i in range(passes):
        with contextlib.nullcontext() if i == passes - 1 else model.no_sync(): model(x).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
"""

CLOSURE = """
def closure():
    optimizer.zero_grad(); loss = model(x).square().mean(); loss.backward(); return loss
for step in range(int(sys.argv[1])): optimizer.step(CLOSURE)
"""

GAN = """
D = DDP(nn.Linear(16, 1)); G = DDP(nn.Linear(16, 16)); d, g = sgd(D), sgd(G)
for step in range(int(sys.argv[1])):
    fake = G(x)
    d.zero_grad(); D_STEP; d.step()
    D.requires_grad_(FROZEN); g.zero_grad(); D(fake).mean().backward(); g.step(); D.requires_grad_(True)
"""

LAYERS = """
class Net(nn.Module):
    def __init__(self): super().__init__(); self.l = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    def forward(self, x):
        x = self.l[0](x)
        for l in self.l[1:]: x = LAYER
        return x
"""

# One block, which nested backward passes give a gradient three times.
SHARED = """
class Net(nn.Linear):
    def __init__(self): super().__init__(16, 16)
    def forward(self, x):
        x = x.requires_grad_(True)
        for i in range(3): x = torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=True)
        return x
"""

SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, {}); self.base = torch.optim.SGD(self.param_groups, lr=.1)
    @torch.no_grad()
    def move(self, by):
        for p in self.param_groups[0]["params"]: p.add_(p.grad, alpha=by)
        self.zero_grad()
    def step(self, closure=None):
        if closure is not None: self.move(.1); torch.enable_grad()(closure)()
        self.base.step()
model = DDP(nn.Linear(16, 16)); optimizer = SAM(model.parameters())
def closure(): model(x).square().mean().backward()
for step in range(int(sys.argv[1])): STEP
"""

LINEAR = [("weight", 256), ("bias", 16)]

NET = "model = nn.Linear(16, 16); optimizer = sgd(model)\n"

OTHERS = """
class Two(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(16, 16); self.b = nn.Linear(16, 16).double(); self.c = nn.Linear(16, 16).bfloat16()
    def forward(self, x): return self.c(self.b(self.a(x).double()).bfloat16()).float()
def two(model): return torch.optim.SGD([model.module.weight], lr=1e-3), torch.optim.Adam([model.module.bias])
"""

SCALED = LOOP.replace(
    "model(x).square().mean()", "scaler.scale(model(x).square().sum() * 99)"
).replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")


# The same without any distributed code, in one process.
PLAIN_PASSES = PASSES.replace(
    "with contextlib.nullcontext() if i == passes - 1 else model.no_sync(): ", ""
)

PLAIN_GAN = (
    GAN.replace("DDP", "")
    .replace("D_STEP", "D(x).mean().backward(); D(fake.detach()).mean().backward()")
    .replace("FROZEN", "True")
)
