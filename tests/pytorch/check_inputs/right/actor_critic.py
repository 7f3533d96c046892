"""Soft actor-critic: twin critics with targets, an actor every second update, a temperature."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import average, follow, net, rank, rows


class Critics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = net(20, 1), net(20, 1)

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        both = torch.cat([state, action], 1)
        return torch.stack([self.first(both), self.second(both)])


actor = DistributedDataParallel(net(16, 4))
critics = DistributedDataParallel(Critics())
targets = copy.deepcopy(critics.module).requires_grad_(False)
log_alpha = nn.Parameter(torch.zeros(()))
critic_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-3)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
noise = torch.Generator().manual_seed(7 + rank)


def act(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean = actor(state)
    action = torch.tanh(mean + 0.1 * torch.randn(mean.shape, generator=noise))
    return action, -(action - mean).square().sum(1, keepdim=True)


for update in range(200):
    state, following, reward = rows(), rows(), rows(8, 1)
    with torch.no_grad():
        action, log_probability = act(following)
        best = targets(following, action).min(0).values - log_alpha.exp() * log_probability
        wanted = reward + 0.99 * best
    critic_optimizer.zero_grad()
    first, second = critics(state, rows(8, 4).tanh())
    critic_loss = F.mse_loss(first, wanted) + F.mse_loss(second, wanted)
    critic_loss.backward()
    critic_optimizer.step()
    if update % 2:
        for p in critics.parameters():
            p.requires_grad_(False)
        action, log_probability = act(state)
        value = critics.module(state, action).min(0).values
        actor_optimizer.zero_grad()
        (log_alpha.exp().detach() * log_probability - value).mean().backward()
        actor_optimizer.step()
        for p in critics.parameters():
            p.requires_grad_(True)
        alpha_optimizer.zero_grad()
        (-log_alpha.exp() * (log_probability.detach() - 4).mean()).backward()
        average([log_alpha])
        alpha_optimizer.step()
        follow(targets, critics.module, 0.005)
