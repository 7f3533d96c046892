"""Two views of one image, each predicting the other, with a stopped gradient."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import net, rows


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.predictor = net(16, 16, hidden=4)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        first, second = self.encoder(one), self.encoder(other)
        towards_second = F.cosine_similarity(self.predictor(first), second.detach())
        towards_first = F.cosine_similarity(self.predictor(second), first.detach())
        return -0.5 * (towards_second.mean() + towards_first.mean())


model = DistributedDataParallel(Siamese())
optimizer = torch.optim.SGD(
    [
        {"params": model.module.encoder.parameters(), "lr": 0.05},
        {"params": model.module.predictor.parameters(), "lr": 0.1},
    ],
    lr=0.05,
    weight_decay=1e-4,
)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

for step in range(6):
    x = rows(16)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x + 0.2 * rows(16), x + 0.2 * rows(16))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
