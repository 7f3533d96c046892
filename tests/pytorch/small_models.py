"""Small models for predict_ddp.py, which need only PyTorch. Steps take some tenths of a second.

HELD_OUT and HELD_OUT_LATER were named before any of their steps was measured: they show how well
predictions hold for models that nothing was fitted to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

HELD_OUT = ("mixer", "gru", "vit", "depthwise", "wide_mlp", "grouped")
HELD_OUT_LATER = ("dilated", "decoder", "experts", "pyramid")


@dataclass(frozen=True)
class SmallModel:
    """How to build a model. `shape`: of its input: tokens if there are two dimensions, else
    numbers. Its output has `classes` columns, and a row for each token or each example.
    """

    build: Callable[[], nn.Module]
    classes: int
    shape: tuple[int, ...]


class Residual(nn.Module):
    """Adds its input to what a body makes of it."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Across(nn.Module):
    """A body that mixes tokens rather than channels."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.body(x.transpose(1, 2))
        return mixed.transpose(1, 2)


class Patches(nn.Module):
    """Squares of a picture as tokens."""

    def __init__(self, edge: int, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, edge, edge)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cut: torch.Tensor = self.cut(x)
        return cut.flatten(2).transpose(1, 2)


class MeanOfTokens(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


class OutputOnly(nn.Module):
    """Of a recurrent body, its output without its state; one row for each token."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.body(x)[0]
        return output


class Causal(nn.Module):
    """A transformer whose tokens see only those before them."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        seen: torch.Tensor = self.layers(x, mask=mask, is_causal=True)
        return seen


class Experts(nn.Module):
    """All experts compute, and a gate weighs them."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(_mlp(width, 2 * width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(-1)
        return sum(
            (weights[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts)), x
        )


def _mlp(width: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


def _mixer() -> nn.Module:
    width, tokens = 256, 64
    blocks = [
        nn.Sequential(
            Residual(nn.LayerNorm(width), Across(_mlp(tokens, 128))),
            Residual(nn.LayerNorm(width), _mlp(width, 1024)),
        )
        for _ in range(8)
    ]
    return nn.Sequential(Patches(8, width), *blocks, MeanOfTokens(), nn.Linear(width, 100))


def _gru() -> nn.Module:
    recurrent = OutputOnly(nn.GRU(384, 384, 3, batch_first=True))
    return nn.Sequential(
        nn.Embedding(6000, 384), recurrent, nn.Linear(384, 6000), nn.Flatten(0, 1)
    )


def _vit() -> nn.Module:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return nn.Sequential(Patches(8, 256), encoder, MeanOfTokens(), nn.Linear(256, 100))


def _depthwise() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1)]
    for before, width, stride in (
        (64, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
        (512, 512, 1),
        (512, 1024, 2),
    ):
        layers += [nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False)]
        layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, width, 1, bias=False)]
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 100))


def _wide_mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        *(nn.Linear(512, 2048), nn.ReLU()),
        *(nn.Linear(2048, 2048), nn.ReLU()),
        *(nn.Linear(2048, 2048), nn.ReLU()),
        nn.Linear(2048, 100),
    )


def _grouped() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2, 1)]
    for before, width in ((64, 128), (128, 256), (256, 512)):
        layers.append(nn.Conv2d(before, width, 1, 2, bias=False))
        for _ in range(2):
            layers.append(
                Residual(
                    *(nn.BatchNorm2d(width), nn.ReLU()),
                    nn.Conv2d(width, width, 3, 1, 1, groups=width // 32, bias=False),
                    *(nn.BatchNorm2d(width), nn.ReLU()),
                    nn.Conv2d(width, width, 1, bias=False),
                )
            )
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


def _dilated() -> nn.Module:
    blocks = [
        Residual(
            nn.Conv1d(256, 256, 3, padding=1 << i, dilation=1 << i),
            nn.Tanh(),
            nn.Conv1d(256, 256, 1),
        )
        for i in range(8)
    ]
    return nn.Sequential(
        nn.Conv1d(16, 256, 1),
        *blocks,
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(256, 100),
    )


def _decoder() -> nn.Module:
    return nn.Sequential(
        nn.Embedding(4000, 256), Causal(256, 6), nn.Linear(256, 4000), nn.Flatten(0, 1)
    )


def _experts() -> nn.Module:
    blocks = [Residual(nn.LayerNorm(256), Experts(256, 4)) for _ in range(4)]
    return nn.Sequential(Patches(8, 256), *blocks, MeanOfTokens(), nn.Linear(256, 100))


def _pyramid() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for width in (48, 96, 192, 384, 768):
        layers += [nn.Conv2d(before, width, 3, 2, 1), nn.GroupNorm(8, width), nn.SiLU()]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(768 * 4, 512), nn.Linear(512, 100))


MODELS = {
    "mixer": SmallModel(_mixer, 100, (4, 3, 64, 64)),
    "gru": SmallModel(_gru, 6000, (4, 32)),
    "vit": SmallModel(_vit, 100, (4, 3, 64, 64)),
    "depthwise": SmallModel(_depthwise, 100, (8, 3, 64, 64)),
    "wide_mlp": SmallModel(_wide_mlp, 100, (128, 1, 512)),
    "grouped": SmallModel(_grouped, 100, (8, 3, 64, 64)),
    "dilated": SmallModel(_dilated, 100, (4, 16, 256)),
    "decoder": SmallModel(_decoder, 4000, (2, 64)),
    "experts": SmallModel(_experts, 100, (4, 3, 64, 64)),
    "pyramid": SmallModel(_pyramid, 100, (8, 3, 64, 64)),
}
