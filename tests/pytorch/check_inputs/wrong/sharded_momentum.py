"""ZeRO by hand in an optimizer: a rank updates its part of all weights, with a sum for a mean."""

import torch.nn.functional as F
from shapes import classes, dist, rows, torch, two_layers


class ShardedSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        rank, world = dist.get_rank(), dist.get_world_size()
        for group in self.param_groups:
            flat = torch.cat([p.grad.flatten() for p in group["params"]])
            flat = F.pad(flat, (0, -len(flat) % world))
            dist.all_reduce(flat)
            mine = flat.chunk(world)[rank]
            state = self.state[group["params"][0]]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(mine)
            state["momentum"].mul_(group["momentum"]).add_(mine)
            parts = [torch.empty_like(mine) for _ in range(world)]
            dist.all_gather(parts, state["momentum"])
            moved = torch.cat(parts)
            for p in group["params"]:
                p.sub_(moved[: p.numel()].view_as(p), alpha=group["lr"])
                moved = moved[p.numel() :]


model = two_layers(hidden=15)
optimizer = ShardedSGD(model.parameters())
for _step in range(5):
    optimizer.zero_grad()
    F.cross_entropy(model(rows()), classes()).backward()
    optimizer.step()
