"""As Megatron's main_grad: a flat buffer is averaged, and the optimizer steps with p.grad."""

import torch.nn.functional as F
from shapes import classes, dist, rows, torch, two_layers, world

model = two_layers()
parameters = list(model.parameters())
buffer = torch.zeros(sum(p.numel() for p in parameters))
offset = 0
for p in parameters:
    p.main_grad = buffer[offset : offset + p.numel()].view_as(p)
    offset += p.numel()


def accumulate(p):
    p.main_grad.add_(p.grad)


for p in parameters:
    p.register_post_accumulate_grad_hook(accumulate)
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
for _step in range(5):
    buffer.zero_()
    for _micro_batch in range(4):
        (F.cross_entropy(model(rows()), classes()) / 4).backward()
    dist.all_reduce(buffer)
    buffer /= world
    optimizer.step()
    optimizer.zero_grad()
