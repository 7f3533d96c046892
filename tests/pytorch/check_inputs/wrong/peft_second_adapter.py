"""As PEFT's add_adapter() after DDP: the new adapter's gradients stay each rank's own.

Ranks take different numbers of passes, as packed sequences have different lengths.
"""

import contextlib

import torch.nn.functional as F
from shapes import classes, nn, rank, rows, torch, two_layers
from torch.nn.parallel import DistributedDataParallel


class LoraLinear(nn.Module):
    def __init__(self, base: nn.Linear, width: int = 2) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, width, bias=False)
        self.up = nn.Linear(width, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


model = two_layers()
model[0].requires_grad_(False)
ddp = DistributedDataParallel(model)
model[2].requires_grad_(False)
for i in (0, 2):
    model[i] = LoraLinear(model[i])
adapters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(adapters, lr=1e-3)
for _step in range(5):
    passes = 2 + rank
    for i in range(passes):
        with contextlib.nullcontext() if i == passes - 1 else ddp.no_sync():
            (F.cross_entropy(ddp(rows()), classes()) / passes).backward()
    optimizer.step()
    optimizer.zero_grad()
