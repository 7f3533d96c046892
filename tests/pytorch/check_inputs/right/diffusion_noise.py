"""A denoiser with weights by noise level, accumulation, an averaged copy and a logged mean loss."""

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from parts import classes, follow, gathered, net, rows

PASSES = 2
alphas = torch.linspace(0.99, 0.05, 10)
denoiser = net(17, 16)
slow = copy.deepcopy(denoiser).requires_grad_(False)
model = DistributedDataParallel(denoiser)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 5))

for step in range(8):
    for i in range(PASSES):
        images, noise, time = rows(), rows(), classes(of=10)
        alpha = alphas[time, None]
        noisy = alpha.sqrt() * images + (1 - alpha).sqrt() * noise
        last = i == PASSES - 1
        with contextlib.nullcontext() if last else model.no_sync():
            predicted = model(torch.cat([noisy, time[:, None] / 10], 1))
            to_noise_ratio = (alpha / (1 - alpha))[:, 0]
            weights = to_noise_ratio.clamp(max=5) / to_noise_ratio
            by_image = F.mse_loss(predicted.float(), noise.float(), reduction="none").mean(1)
            loss = (by_image * weights).mean()
            shown = gathered(loss.repeat(8)).mean().item() / PASSES
            (loss / PASSES).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    follow(slow, denoiser, 0.01)
