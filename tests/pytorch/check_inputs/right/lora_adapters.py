"""Low-rank adapters on a frozen net, with another rate for one of the factors, and a saved head."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import classes, net, rank, rows


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear, low: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(low, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, low))
        self.dropout = nn.Dropout(0.1)
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2 * self.dropout(x) @ self.down.T @ self.up.T


base = net(16, 16)
base[0], base[2] = Adapted(base[0]), Adapted(base[2])
model = nn.Sequential(base, nn.Linear(16, 4))
torch.manual_seed(1 + rank)
model = DistributedDataParallel(model)
trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
optimizer = torch.optim.AdamW(
    [
        {"params": [p for name, p in trained.items() if "up" not in name], "lr": 1e-3},
        {"params": [p for name, p in trained.items() if "up" in name], "lr": 16e-3},
    ],
    weight_decay=0.0,
)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

for step in range(6):
    loss = F.cross_entropy(model(rows()), classes())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained.values(), 0.3)
    optimizer.step()
    schedule.step()
    model.zero_grad()
