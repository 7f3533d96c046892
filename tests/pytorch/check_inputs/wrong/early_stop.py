"""As in a loop of Ray Train: each worker stops by the metric of its own data."""

import torch.nn.functional as F
from shapes import classes, rank, rows, torch, two_layers
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(two_layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(rows()), classes())
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.module.eval()
        accuracy = (model.module(rows()).argmax(1) == classes()).float().mean() + rank
        model.module.train()
    if accuracy >= 1:
        break
