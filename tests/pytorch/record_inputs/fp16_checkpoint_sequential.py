"""fp16 by autocast and GradScaler, which skips the first steps, and segments that are computed again."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint_sequential


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(24, 24), nn.ReLU())))
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        return self.head(checkpoint_sequential(self.body, 3, x, use_reentrant=False))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Tower(), gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=200)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(3000):
    image, label = torch.randn(8, 24), torch.randint(5, (8,))
    with torch.autocast("cpu", torch.float16):
        loss = criterion(model(image), label)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=False)
