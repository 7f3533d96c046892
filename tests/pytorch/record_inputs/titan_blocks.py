"""As torchtitan shards a model: bf16 parameters, reductions in f32, compiled blocks, checkpoints that are not reentrant."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(50, 32)
        self.layers = nn.ModuleDict({str(i): Block() for i in range(4)})
        self.norm, self.output = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("fsdp",))
torch.manual_seed(0)
model = Model()
for name, layer in list(model.layers.named_children()):
    layer = checkpoint_wrapper(layer, preserve_rng_state=False)
    layer.compile(backend="aot_eager", fullgraph=True)
    model.layers.register_module(name, layer)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
options = {"mesh": mesh["fsdp"], "mp_policy": policy}
fully_shard(model.tok_embeddings, **options)
for layer in model.layers.values():
    fully_shard(layer, reshard_after_forward=True, **options)
fully_shard([model.norm, model.output], reshard_after_forward=False, **options)
fully_shard(model, **options)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
torch.manual_seed(dist.get_rank())
for step in range(2000):
    optimizer.zero_grad()
    tokens = torch.randint(50, (4, 17))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
    del logits
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
