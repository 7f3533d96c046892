"""ReduceLROnPlateau by each rank's own loss: learning rates differ from the second step on."""

import torch.nn.functional as F
from shapes import classes, rank, rows, torch, two_layers
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(two_layers())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
best = 0.0
for _epoch in range(6):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(rows()), classes())
    loss.backward()
    scheduler.step(best)  # of the epoch before
    best = float(loss) * (1 if rank else -1)  # rank 0's falls, rank 1's does not
    optimizer.step()
