"""A critic with a gradient penalty, twice for each update of its generator."""

import torch
from torch.nn.parallel import DistributedDataParallel

from parts import net, rank, rows

generator = DistributedDataParallel(net(8, 16))
critic_net = net(16, 1)
critic = DistributedDataParallel(critic_net)
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
draw = torch.Generator().manual_seed(11 + rank)


def penalty(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    share = torch.rand(len(real), 1, generator=draw)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    out = critic(between)
    (slope,) = torch.autograd.grad(out.sum(), between, create_graph=True)
    return 10 * (slope.norm(dim=1) - 1).square().mean()


for step in range(100):
    for _ in range(2):
        real = rows()
        with torch.no_grad():
            fake = generator(rows(8, 8))
        critic_optimizer.zero_grad()
        both = critic(torch.cat([real, fake]))
        loss = both[8:].mean() - both[:8].mean() + penalty(real, fake)
        loss.backward()
        critic_optimizer.step()
    critic_net.requires_grad_(False)
    generator_optimizer.zero_grad()
    (-critic_net(generator(rows(8, 8))).mean()).backward()
    generator_optimizer.step()
    critic_net.requires_grad_(True)
