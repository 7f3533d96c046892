"""As nanoGPT's train.py: a compiled model in DDP, four passes, groups of weight decay, clipping, and a cosine."""

import contextlib
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

PASSES = 4


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(40, 32), nn.Linear(32, 40, bias=False)
        self.head.weight = self.wte.weight
        self.h = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(3))

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        for block in self.h:
            x = x + block(x)
        logits = self.head(x)
        return logits, nn.functional.cross_entropy(logits.view(-1, 40), targets.view(-1))


def batch():
    tokens = torch.randint(40, (4, 17))
    return tokens[:, :-1], tokens[:, 1:].contiguous()


dist.init_process_group("gloo")
torch.manual_seed(1337 + dist.get_rank())
raw = Gpt()
model = DDP(torch.compile(raw, backend="aot_eager"))
decay = [p for p in raw.parameters() if p.dim() >= 2]
others = [p for p in raw.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.95), fused=True
)
scaler = torch.amp.GradScaler("cpu", enabled=False)
ctx = torch.autocast("cpu", torch.bfloat16) if dist.get_rank() < 0 else contextlib.nullcontext()
x, y = batch()
for iteration in range(2000):
    for group in optimizer.param_groups:
        group["lr"] = 3e-4 * (1 + math.cos(iteration / 2000 * math.pi))
    if iteration % 50 == 0:
        raw.eval()
        with torch.no_grad():
            raw(*batch())
        raw.train()
    for micro in range(PASSES):
        model.require_backward_grad_sync = micro == PASSES - 1
        with ctx:
            _, loss = model(x, y)
            loss = loss / PASSES
        x, y = batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
