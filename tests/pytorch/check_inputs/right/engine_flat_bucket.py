"""An engine that holds gradients in one flat buffer, averages it and clips it by its own norm."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from parts import classes, net, rows, world


class Engine:
    """Accumulates, divides by the passes, and steps at every `passes`-th call of step()."""

    def __init__(self, module: torch.nn.Module, passes: int) -> None:
        self.module, self.passes, self.done = module, passes, 0
        for p in module.parameters():
            dist.broadcast(p.data, 0)
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        self.flat = torch.zeros(sum(p.numel() for p in module.parameters()))
        begin = 0
        for p in module.parameters():
            p.grad = self.flat[begin : begin + p.numel()].view_as(p)
            begin += p.numel()

    def backward(self, loss: torch.Tensor) -> None:
        (loss / self.passes).backward()
        self.done += 1

    def step(self) -> None:
        if self.done % self.passes:
            return
        dist.all_reduce(self.flat)
        self.flat /= world
        self.flat *= min(1.0, 0.05 / (float(self.flat.norm()) + 1e-6))
        self.optimizer.step()
        self.flat.zero_()


engine = Engine(net(), passes=4)
for micro_step in range(16):
    engine.backward(F.cross_entropy(engine.module(rows()), classes()))
    engine.step()
