"""A compiled function that clips and updates, with a learning rate that is a tensor; and an average of the weights."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
rate = torch.tensor(1e-3)
optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))


@torch.compile(backend="eager", fullgraph=False)
def update():
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


for step in range(2000):
    rate.fill_(1e-3 * (1 - step / 2000))
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
    loss.backward()
    update()
    optimizer.zero_grad(set_to_none=True)
    average.update_parameters(model)
