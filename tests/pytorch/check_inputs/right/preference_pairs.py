"""Preferences of pairs of answers, against a frozen reference, accumulated over two passes."""

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import classes, gathered, net

PASSES = 2
policy = nn.Sequential(nn.Embedding(12, 16), net(16, 12))
reference = copy.deepcopy(policy).eval().requires_grad_(False)
model = DistributedDataParallel(policy)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)


def score(which: nn.Module, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Returns the log-probability of each sequence: (batch,)."""
    logits = which(tokens[:, :-1])
    by_token = -F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (by_token.view(mask.shape) * mask).sum(1)


for step in range(4):
    for i in range(PASSES):
        chosen, rejected = classes(4 * 9, 12).view(4, 9), classes(4 * 9, 12).view(4, 9)
        tokens = torch.cat([chosen, rejected])
        mask = (torch.arange(8) < 2 + classes(8, 7)[:, None]).float()
        with torch.no_grad():
            base_chosen, base_rejected = score(reference, tokens, mask).chunk(2)
        with contextlib.nullcontext() if i == PASSES - 1 else model.no_sync():
            own_chosen, own_rejected = score(model, tokens, mask).chunk(2)
            margin = (own_chosen - base_chosen) - (own_rejected - base_rejected)
            losses = -F.logsigmoid(0.1 * margin)
            accuracy = gathered((margin > 0).float()).mean()
            (losses.mean() / PASSES).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
