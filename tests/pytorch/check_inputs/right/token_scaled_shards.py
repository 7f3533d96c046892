"""Sums over tokens under fully_shard, whose gradients are divided by all tokens at the end."""

import torch
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard

from parts import classes, net, rank, rows, total, world

PASSES = 2
model = net()
for module in (model[0], model[2], model):
    fully_shard(module)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(4):
    tokens = 0
    running = 0.0
    for i in range(PASSES):
        x, y = rows(24), classes(24)
        y[: 3 * rank + i] = -100
        count = int((y != -100).sum())
        model.set_requires_gradient_sync(i == PASSES - 1)
        loss = F.cross_entropy(model(x), y, ignore_index=-100) * count
        tokens += count
        running += float(loss.detach())
        loss.backward()
    all_tokens = total(tokens)
    shown = total(running) / all_tokens
    for p in model.parameters():
        p.grad.mul_(world / all_tokens)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
