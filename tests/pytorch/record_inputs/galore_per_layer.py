"""An optimizer for each parameter, which steps as soon as the gradient is there, and frees it (as layerwise GaLore)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
optimizers = {p: torch.optim.AdamW([p], lr=1e-3) for p in model.parameters()}
schedules = {p: torch.optim.lr_scheduler.StepLR(one, 100) for p, one in optimizers.items()}


def update(p):
    optimizers[p].step()
    optimizers[p].zero_grad()
    schedules[p].step()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(update)
for step in range(2000):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
    loss.backward()
