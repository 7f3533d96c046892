"""A run that is resumed: rank 0 alone loads the optimizer's momentum."""

import copy

import torch.nn.functional as F
from shapes import classes, rank, rows, torch, two_layers
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(two_layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
saved = copy.deepcopy(optimizer.state_dict())
saved["state"] = {i: {"momentum_buffer": 1 + 0 * p.detach()} for i, p in enumerate(model.parameters())}
if rank == 0:
    optimizer.load_state_dict(saved)
for _step in range(5):
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(rows()), classes()).backward()
    optimizer.step()
