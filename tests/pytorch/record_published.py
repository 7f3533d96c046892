#!/usr/bin/env python3
"""Records GPTs of the sizes whose peaks of memory others have published, one process on a CPU.

    DIR/bin/python tests/pytorch/record_published.py OUT

writes OUT/gpt_23m.jsonl.gz and OUT/gpt_168m.jsonl.gz, in a few minutes. The sizes are those of canghaiX/MiniTrainBench: blocks
are computed again in backward, the output shares its weights with the embedding, AdamW, autocast to bf16.
docs/published_steps.jsonl has the peaks, and tools/dev/published.py what the recordings predict."""

from __future__ import annotations

import pathlib
import sys
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/pytorch"))
import torch
from gradsync.recorder import Recorder
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Size:
    """Of a model and its batch: `batch` rows of `length` tokens."""

    vocabulary: int
    width: int
    heads: int
    layers: int
    length: int
    batch: int


SIZES = {
    "gpt_23m": Size(8192, 512, 8, 6, 256, 2),
    "gpt_168m": Size(16384, 1024, 16, 12, 512, 1),
}
ROUNDS = 2


class Block(nn.Module):
    """Attention, then an MLP of four times the width, each after a LayerNorm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm_1 = nn.LayerNorm(size.width)
        self.in_projection = nn.Linear(size.width, 3 * size.width)
        self.out_projection = nn.Linear(size.width, size.width)
        self.norm_2 = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) in and out."""
        batch, length, width = x.shape
        parts = self.in_projection(self.norm_1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out_projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    """Blocks that are computed again in backward."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.output = nn.Linear(size.width, size.vocabulary, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) in, (batch, length, vocabulary) out."""
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.output(self.norm(x))


def record(name: str, size: Size, out: pathlib.Path) -> None:
    torch.manual_seed(1)
    model = Gpt(size)
    # As on a GPU, where all weights are updated together, with a buffer as large as they are.
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    recorder = Recorder(model, out / f"{name}.jsonl.gz", rounds=ROUNDS, views=False)
    tokens = torch.randint(size.vocabulary, (size.batch, size.length))
    while not recorder.done:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(tokens)
            rows = logits[:, :-1].reshape(-1, size.vocabulary)
            loss = functional.cross_entropy(rows, tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    numel = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {numel} parameters, {len(list(model.parameters()))} tensors", flush=True)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for one, its_size in SIZES.items():
        record(one, its_size, folder)
