"""Experts that a router chooses, with losses that balance their load over all ranks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import classes, rows, world

EXPERTS = 4


class Routed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(EXPERTS))
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.router(x)
        shares = logits.softmax(-1)
        share, chosen = shares.max(-1)
        load = torch.bincount(chosen, minlength=EXPERTS).float()
        dist.all_reduce(load)
        load = load / (len(x) * world)
        balance = EXPERTS * (load * shares.mean(0)).sum()
        size = logits.logsumexp(-1).square().mean()
        out = torch.zeros_like(x)
        for number in chosen.unique().tolist():
            rows_of = chosen == number
            out[rows_of] = share[rows_of, None] * self.experts[number](x[rows_of])
        return self.head(x + out), 0.01 * balance + 0.001 * size


model = DistributedDataParallel(Routed(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(6):
    y = classes(12)
    y[:3] = -100
    out, auxiliary = model(rows(12))
    loss = F.cross_entropy(out, y) + auxiliary
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
