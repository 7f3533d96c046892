"""Self-distillation as in DINO: a student in DDP, a teacher that follows it, and a centre that the loss averages over ranks."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class DinoLoss(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.register_buffer("center", torch.zeros(1, outputs))

    def forward(self, student, teacher):
        target = ((teacher - self.center) / 0.04).softmax(-1).detach()
        loss = -(target * (student / 0.1).log_softmax(-1)).sum(-1).mean()
        self.update_center(teacher)
        return loss

    @torch.no_grad()
    def update_center(self, teacher):
        center = teacher.sum(0, keepdim=True)
        dist.all_reduce(center)
        self.center.mul_(0.9).add_(center / (len(teacher) * dist.get_world_size()), alpha=0.1)


dist.init_process_group("gloo")
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 16))
teacher = copy.deepcopy(student).requires_grad_(False)
model = DDP(student)
criterion = DinoLoss(16)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
torch.manual_seed(dist.get_rank())
for step in range(3000):
    crops = torch.randn(8, 24)
    loss = criterion(model(crops + 0.1 * torch.randn_like(crops)), teacher(crops))
    optimizer.zero_grad()
    loss.backward()
    if step < 100:
        for p in student[2].parameters():
            p.grad = None
    optimizer.step()
    with torch.no_grad():
        for own, followed in zip(teacher.parameters(), student.parameters()):
            own.mul_(0.99).add_(followed, alpha=0.01)
