"""As diffusers' scripts: the U-Net is wrapped in DDP, and the text encoder beside it is not.

The script finds by itself, after its first step, that the encoders have drifted apart, and fails.
"""

import itertools

from shapes import dist, rows, torch, two_layers, world
from torch.nn.parallel import DistributedDataParallel

text_encoder = two_layers(outputs=6)
unet = DistributedDataParallel(two_layers(inputs=19, outputs=12))
parameters = list(itertools.chain(unet.parameters(), text_encoder.parameters()))
optimizer = torch.optim.AdamW(parameters, lr=1e-3)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
for _step in range(5):
    latents, noise, prompt = rows(), rows(), rows()
    times = torch.randint(100, (8,))
    scale = alphas[times][:, None]
    noisy = scale.sqrt() * latents + (1 - scale).sqrt() * noise
    hidden = torch.cat([noisy, text_encoder(prompt), times[:, None] / 100], 1)
    (unet(hidden) - noise).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    norm = sum(p.detach().square().sum() for p in text_encoder.parameters())
    norms = [torch.empty_like(norm) for _ in range(world)]
    dist.all_gather(norms, norm)
    if not torch.equal(norms[0], norms[1]):
        raise RuntimeError("text encoders have drifted apart")
