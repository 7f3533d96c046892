"""HSDP of four ranks: pairs share the weights, and gradients are averaged between the pairs. Two passes of a step; bf16."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

PASSES = 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention, self.mlp = nn.RMSNorm(24), nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + torch.relu(self.mlp(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lm_head = nn.Embedding(30, 24), nn.Linear(24, 30, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
torch.manual_seed(0)
model = Llama()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(2000):
    for number in range(PASSES):
        model.set_requires_gradient_sync(number == PASSES - 1)
        tokens = torch.randint(30, (2, 13))
        logits = model(tokens[:, :-1]).float()
        (nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / PASSES).backward()
    optimizer.step()
    optimizer.zero_grad()
