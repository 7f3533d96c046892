"""Images mixed in pairs with soft labels, a clip chosen by name, an averaged copy to validate."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_

from parts import classes, follow, net, rows, total

CLIPS = {"norm": clip_grad_norm_, "value": clip_grad_value_}


class SoftTargets(nn.Module):
    def forward(self, out: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return torch.sum(-wanted * F.log_softmax(out, dim=-1), dim=-1).mean()


def smooth(y: torch.Tensor) -> torch.Tensor:
    return torch.full((len(y), 4), 0.025).scatter_(1, y[:, None], 0.925)


live = nn.Sequential(net(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
slow = copy.deepcopy(live).requires_grad_(False)
model = DistributedDataParallel(live)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_of, clip = SoftTargets(), CLIPS["norm"]

for epoch in range(3):
    model.train()
    for _ in range(2):
        x, y = rows(), smooth(classes())
        share = float(torch.rand(()))
        x, y = x * share + x.flip(0) * (1 - share), y * share + y.flip(0) * (1 - share)
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        clip(model.parameters(), 0.05)
        optimizer.step()
        follow(slow, live, 0.2)
    slow.eval()
    with torch.no_grad():
        right = total((slow(rows(16)).argmax(1) == classes(16)).sum())
