"""As StyleGAN's loop: a third optimizer steps every fourth time, with a sum for a mean."""

import torch.nn.functional as F
from shapes import average, dist, rows, torch, two_layers

generator, critic, mapping = two_layers(outputs=12), two_layers(outputs=1), two_layers(outputs=12)
g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.99))
d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.99))
m = torch.optim.Adam(mapping.parameters(), lr=2e-5)
for step in range(200):
    fake = generator(mapping(rows()))
    d.zero_grad(set_to_none=True)
    (F.softplus(critic(fake.detach())) + F.softplus(-critic(rows()))).mean().backward()
    average(critic.parameters())
    d.step()
    g.zero_grad(set_to_none=True)
    critic.requires_grad_(False)
    F.softplus(-critic(generator(mapping(rows()).detach()))).mean().backward()
    critic.requires_grad_(True)
    average(generator.parameters())
    g.step()
    if step % 4 == 3:
        m.zero_grad(set_to_none=True)
        generator.requires_grad_(False)
        generator(mapping(rows())).square().mean().backward()
        generator.requires_grad_(True)
        for p in mapping.parameters():
            dist.all_reduce(p.grad)
        m.step()
