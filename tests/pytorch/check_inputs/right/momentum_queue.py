"""Contrast with a queue of all ranks' keys, which a slowly following encoder makes."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import follow, gathered, net, rows


class Contrast(nn.Module):
    def __init__(self, length: int = 64) -> None:
        super().__init__()
        self.query = net(16, 8)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(length, 8), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        everyone = gathered(keys)
        begin = int(self.place)
        self.queue[begin : begin + len(everyone)] = everyone
        self.place[...] = (begin + len(everyone)) % len(self.queue)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        query = F.normalize(self.query(one), dim=1)
        with torch.no_grad():
            follow(self.key, self.query, 0.01)
            keys = F.normalize(self.key(other), dim=1)
        positive = (query * keys).sum(1, keepdim=True)
        negative = query @ self.queue.clone().T
        self.enqueue(keys)
        return torch.cat([positive, negative], 1) / 0.2


model = DistributedDataParallel(Contrast())
optimizer = torch.optim.SGD(model.module.query.parameters(), lr=0.03, momentum=0.9)

for step in range(6):
    x = rows()
    logits = model(x + 0.1 * rows(), x + 0.1 * rows())
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
