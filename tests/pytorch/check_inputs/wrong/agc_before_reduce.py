"""As timm's adaptive clipping (by the norms of units), but before gradients are averaged."""

import torch.nn.functional as F
from shapes import average, classes, rows, torch, two_layers


def unit_norm(x):
    return x.norm(dim=tuple(range(1, x.dim())), keepdim=True) if x.dim() > 1 else x.norm()


def adaptive_clip(parameters, factor=0.001, eps=1e-3):
    for p in parameters:
        most = unit_norm(p.detach()).clamp(min=eps) * factor
        norm = unit_norm(p.grad)
        p.grad.copy_(torch.where(norm < most, p.grad, p.grad * (most / norm.clamp(min=1e-6))))


model = two_layers()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _step in range(6):
    optimizer.zero_grad()
    F.cross_entropy(model(rows()), classes(), label_smoothing=0.1).backward()
    adaptive_clip(model.parameters())
    average(model.parameters())
    optimizer.step()
    scheduler.step()
