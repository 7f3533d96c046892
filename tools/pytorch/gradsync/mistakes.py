"""Which mistake made a gradient that is not the mean of all ranks'."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from gradsync.ranks import Ranks
from gradsync.reference import Comparison

MOST_EXCHANGED = 4096  # elements of a gradient that ranks exchange to explain it
SMALLEST_NORM = 1e-300  # so that nothing divides by zero
BY_PASS = ": the sum of each pass's orthogonal factor, as if Muon's products ran per pass"
LIKE_MUON = 0.95  # cosine with a sum of orthogonal factors: Muon's products only approximate them


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a gradient is, and how many times the mean: None if it is no multiple."""

    text: str
    factor: float | None = None


def name_of_factor(factor: float, tolerance: float, world_size: int, passes: int) -> str:
    """Returns which mistake multiplies gradients or a loss by this factor, or an empty text.

    `tolerance`: how far the factor may be off, as a part of it. `passes`: of a step.
    """
    both = world_size * passes
    ranks = f"the number of ranks, {world_size}"
    if passes == world_size:
        ranks += f", or of passes, {passes}"
    known = (
        (world_size, f"summed and not averaged: {ranks}"),
        (1 / world_size, f"averaged twice: {ranks}"),
        (both, f"ranks times passes, {both}"),
        (passes, f"not divided by the number of passes, {passes}"),
        (1 / passes, f"divided by the number of passes, {passes}"),
        (1 / both, f"divided by ranks times passes, {both}"),
    )
    for mistake, name in known:
        if mistake != 1 and abs(factor / mistake - 1) <= tolerance:
            return name
    return ""


def explain(
    one: Comparison, rank: int, pass_means: Sequence[torch.Tensor], passes: int, ranks: Ranks
) -> Explanation:
    """Says what rank `rank` is handed instead of the mean. All ranks have to call it together.

    `pass_means`: the mean over ranks of each pass's gradient, as far as it is known.
    """
    handed = ranks.total(one.handed * (ranks.rank == rank))
    rounding = float(one.bound.norm())
    norm = one.mean.norm().clamp(min=SMALLEST_NORM)
    factor = float((handed * one.mean).sum() / norm.square())
    if (handed - factor * one.mean).norm() <= max(1, abs(factor)) * rounding:
        mistake = name_of_factor(factor, rounding / float(norm), ranks.size, passes)
        return Explanation(f"{factor:.6g} times the mean: {mistake or 'no known mistake'}", factor)

    off = (handed - one.mean).norm()
    text = f"off by {off / norm:.3g} of its norm"
    if off.isfinite():
        text += _clipped_by_rank(one, handed, ranks) or _muon_by_pass(handed, one.mean, pass_means)
    return Explanation(text)


def _clipped_by_rank(one: Comparison, handed: torch.Tensor, ranks: Ranks) -> str:
    """Says so if `handed` is the mean of gradients that each rank has scaled down by itself."""
    part = handed.flatten()[:MOST_EXCHANGED, None]
    own = one.own.flatten()[: len(part)]
    by_rank = torch.stack([own * (rank == ranks.rank) for rank in range(ranks.size)])
    by_rank = ranks.total(by_rank).T / ranks.size  # (elements, ranks)
    scales = torch.linalg.lstsq(by_rank, part).solution
    rounding = one.bound.norm()
    most = 1 + rounding / one.mean.norm().clamp(min=SMALLEST_NORM)
    is_determined = len(part) > ranks.size
    is_scaling = 0 < scales.min() <= scales.max() < most
    if is_determined and is_scaling and (by_rank @ scales - part).norm() <= rounding:
        return (
            f": ranks' are scaled before the sum, by {scales.min():.3g} to {scales.max():.3g}, "
            "as if each rank clipped its own"
        )
    return ""


def _muon_by_pass(
    handed: torch.Tensor, mean: torch.Tensor, pass_means: Sequence[torch.Tensor]
) -> str:
    """Says so if `handed` is like the sum of passes' polar factors, which Muon approximates."""
    if len(pass_means) <= 1 or handed.dim() <= 1:
        return ""
    of_sum = torch.cosine_similarity(handed.flatten(), _polar_factor(mean).flatten(), 0)
    sum_of_passes = torch.stack([_polar_factor(one) for one in pass_means]).sum(0)
    by_pass = torch.cosine_similarity(handed.flatten(), sum_of_passes.flatten(), 0)
    if by_pass > max(LIKE_MUON, float(of_sum)):
        return BY_PASS
    return ""


def _polar_factor(matrix: torch.Tensor) -> torch.Tensor:
    """Returns the nearest orthogonal matrix. Further dimensions belong to the columns."""
    u, _, v = torch.linalg.svd(matrix.flatten(1), full_matrices=False)
    return torch.matmul(u, v)
