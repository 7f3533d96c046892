"""Policy gradients of groups of answers, whose rewards and token counts all ranks share."""

import copy

import torch
from torch.nn.parallel import DistributedDataParallel

from parts import gathered, net, rank, rows, total, world

GROUP = 4
policy = net(16, 12)
reference = copy.deepcopy(policy).requires_grad_(False).eval()
model = DistributedDataParallel(policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
sampler = torch.Generator().manual_seed(5 + rank)


def log_probabilities(which: torch.nn.Module, x: torch.Tensor, tokens: torch.Tensor):
    return which(x).log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


for step in range(4):
    prompts = rows(2).repeat_interleave(GROUP, 0)[:, None].expand(-1, 6, -1).contiguous()
    with torch.no_grad():
        tokens = torch.multinomial(
            model(prompts).softmax(-1).flatten(0, 1), 1, generator=sampler
        ).view(8, 6)
    lengths = torch.randint(2, 7, (8,), generator=sampler)
    mask = (torch.arange(6) < lengths[:, None]).float()
    rewards = gathered((tokens == 3).float().mul(mask).sum(1))
    by_group = rewards.view(-1, GROUP)
    advantages = (by_group - by_group.mean(1, keepdim=True)) / (by_group.std(1, keepdim=True) + 0.1)
    own = advantages.flatten()[rank * 8 : rank * 8 + 8, None] + 0.01 * rows(8, 1)
    with torch.no_grad():
        old = log_probabilities(model, prompts, tokens)
        base = log_probabilities(reference, prompts, tokens)
    all_tokens = total(mask.sum())
    for iteration in range(2):
        new = log_probabilities(model, prompts, tokens)
        ratio = (new - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        penalty = (base - new).exp() - (base - new) - 1
        by_token = -torch.min(ratio * own, clipped * own) + 0.04 * penalty
        loss = (by_token * mask).sum() / all_tokens * world
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
