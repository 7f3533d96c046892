"""A student with a head for labels and a head for its teacher, whose temperature scales a loss."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import classes, net, rows

TEMPERATURE = 2.0


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16))
        self.labels, self.teacher = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(x)
        return self.labels(features), self.teacher(features)


teacher = net().eval().requires_grad_(False)
model = DistributedDataParallel(Student())
decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}], lr=1e-3
)

for step in range(6):
    x, y = rows(), classes()
    by_label, by_teacher = model(x)
    hard = F.cross_entropy(by_label, y, label_smoothing=0.1)
    with torch.no_grad():
        wanted = teacher(x)
    soft = F.kl_div(
        F.log_softmax(by_teacher / TEMPERATURE, 1),
        F.log_softmax(wanted / TEMPERATURE, 1),
        reduction="batchmean",
        log_target=True,
    )
    loss = 0.5 * hard + 0.5 * soft * TEMPERATURE**2
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
