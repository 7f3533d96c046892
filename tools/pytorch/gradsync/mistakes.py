"""Explains how and, if a known mistake is the cause, why an optimizer's gradient differs from the
mean of all ranks' gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from gradsync.mistake_names import name_of_factor
from gradsync.ranks import Ranks
from gradsync.reference import Comparison, digest

MOST_EXCHANGED = 4096  # elements of a gradient that ranks exchange to explain it
SMALLEST_NORM = 1e-300  # so that nothing divides by zero
BY_PASS = ": the sum of each pass's orthogonal factor, as if Muon's products ran per pass"
LIKE_MUON = 0.95  # cosine with a sum of orthogonal factors: Muon's products only approximate them


@dataclasses.dataclass(frozen=True)
class Explanation:
    """`text`: how a gradient differs from the mean of all ranks' gradients, and the mistake that
    causes this difference, if known. `factor`: the gradient divided by the mean; None if the
    gradient is, up to rounding, no multiple of the mean. `tolerance`: the largest relative error of
    `factor` by rounding."""

    text: str
    factor: float | None = None
    tolerance: float = 0.0

    def is_sum(self, world_size: int) -> bool:
        """Returns whether the gradient is the sum over ranks: `factor` equals `world_size` up to
        rounding."""
        return self.factor is not None and abs(self.factor / world_size - 1) <= self.tolerance


@dataclasses.dataclass(frozen=True)
class Change:
    """How a gradient that one rank's optimizer gets differs from the mean of all ranks' gradients.
    `factor`: the gradient divided by the mean; None if the gradient is, up to rounding, no multiple
    of the mean. `tolerance`: the largest relative error of `factor` by rounding. `mask`: a hash of
    the positions of the gradient's elements that are 0; empty if a nonzero element differs from the
    mean by more than rounding. `kept`: the number of the gradient's elements that are not 0.
    `elements`: the number of all elements of the gradient."""

    factor: float | None
    tolerance: float
    mask: str
    kept: int
    elements: int


@dataclasses.dataclass(frozen=True)
class Factor:
    factor: float
    tolerance: float


def change_of(one: Comparison) -> Change:
    """Returns how the optimizer's gradient differs from the mean of all ranks' gradients."""
    norm = float(one.mean.norm().clamp(min=SMALLEST_NORM))
    rounding = float(one.bound.norm())
    factor = float((one.handed * one.mean).sum()) / norm / norm
    most = max(1.0, abs(factor)) * rounding
    is_multiple = bool((one.handed - factor * one.mean).norm() <= most)
    is_zero = one.handed == 0
    is_mask = bool((is_zero | (abs(one.handed - one.mean) <= one.bound)).all())
    return Change(
        factor=factor if is_multiple else None,
        tolerance=rounding / norm,
        mask=digest(is_zero) if is_mask else "",
        kept=int(is_zero.numel() - is_zero.sum()),
        elements=is_zero.numel(),
    )


def say_of_changes(
    changes: Sequence[Sequence[Change]],
    are_all: bool,
    has_others: bool,
    world_size: int,
    passes: int,
) -> str:
    """Returns a text if `changes` look like masking or clipping that is equal on all ranks, else
    "". Masked gradients are 0 at the same positions on all ranks, and equal the mean elsewhere. If
    all gradients in `changes` are 0, returns "" if `are_all` is True and `has_others` is False.
    Clipped gradients are the mean times one factor, above 0 and below 1, that is equal for all
    gradients and ranks. For clipped gradients, returns "" if `are_all` is False, or if
    name_of_factor() names a mistake with this factor. `changes`: for each rank, one Change for each
    gradient that differs from the mean on some rank. `are_all`: whether the mean over ranks of
    every compared gradient without a Change is 0. `has_others`: whether some gradients have no
    Change because they were compared before clipping."""
    first, *others = changes
    if all(change.mask for change in first) and all(
        [change.mask for change in rank] == [change.mask for change in first] for rank in others
    ):
        kept, elements = (sum(getattr(one, key) for one in first) for key in ("kept", "elements"))
        if kept or not are_all or has_others:
            return f"{elements - kept} of {elements} elements are 0 on all ranks, as of a mask"
    factor = common_factor([change for rank in changes for change in rank])
    if not are_all or factor is None or not 0 < factor.factor < 1:
        return ""
    if name_of_factor(factor.factor, factor.tolerance, world_size, passes):
        return ""
    return f"gradients are {factor.factor:.6g} times the mean on all ranks, as clipping leaves them"


def common_factor(changes: Sequence[Change]) -> Factor | None:
    """Returns the factor by which every gradient in `changes` is a multiple of the mean; None if
    there is no such factor up to rounding."""
    factors = [Factor(one.factor, one.tolerance) for one in changes if one.factor is not None]
    if not factors or len(factors) < len(changes):
        return None
    best = min(factors, key=lambda one: one.tolerance)
    scale = max(1.0, abs(best.factor))
    is_one = all(
        abs(one.factor - best.factor) <= scale * (one.tolerance + best.tolerance) for one in factors
    )
    return best if is_one else None


def explain(
    one: Comparison, rank: int, pass_means: Sequence[torch.Tensor], passes: int, ranks: Ranks
) -> Explanation:
    """Explains how the gradient that the optimizer of rank `rank` gets differs from the mean of all
    ranks' gradients. All ranks must call explain(), because it runs all-reduces. `pass_means`: for
    each backward pass, the mean over ranks of the gradient that the pass computed; empty if
    unknown."""
    handed = ranks.total(one.handed * (ranks.rank == rank))
    rounding = float(one.bound.norm())
    norm = one.mean.norm().clamp(min=SMALLEST_NORM)
    factor = float((handed * one.mean).sum() / norm.square())
    if (handed - factor * one.mean).norm() <= max(1, abs(factor)) * rounding:
        tolerance = rounding / float(norm)
        mistake = name_of_factor(factor, tolerance, ranks.size, passes)
        text = f"{factor:.6g} times the mean: {mistake or 'no known mistake'}"
        return Explanation(text, factor, tolerance)

    off = (handed - one.mean).norm()
    text = f"off by {off / norm:.3g} of its norm"
    if not one.mean.any():
        text = "not 0, although the mean is 0"
    if off.isfinite():
        text += _clipped_by_rank(one, handed, ranks) or _muon_by_pass(handed, one.mean, pass_means)
    return Explanation(text)


def _clipped_by_rank(one: Comparison, handed: torch.Tensor, ranks: Ranks) -> str:
    """Returns a text if `handed`, the optimizer's gradient, looks like the mean of gradients that
    each rank clipped before the averaging; else ""."""
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
    """Returns BY_PASS or "". `handed`: the optimizer's gradient. BY_PASS requires that the cosine
    similarity of `handed` and the sum of the polar factors of `pass_means` is above 0.95. BY_PASS
    also requires that this similarity is above that of `handed` and the polar factor of `mean`.
    Returns "" if `pass_means` has fewer than 2 tensors, or `handed` fewer than 2 dimensions."""
    if len(pass_means) <= 1 or handed.dim() <= 1:
        return ""
    of_sum = torch.cosine_similarity(handed.flatten(), _polar_factor(mean).flatten(), 0)
    sum_of_passes = torch.stack([_polar_factor(one) for one in pass_means]).sum(0)
    by_pass = torch.cosine_similarity(handed.flatten(), sum_of_passes.flatten(), 0)
    if by_pass > max(LIKE_MUON, float(of_sum)):
        return BY_PASS
    return ""


def _polar_factor(matrix: torch.Tensor) -> torch.Tensor:
    """Returns the polar factor of `matrix`, flattened to two dimensions: the nearest matrix with
    orthonormal rows or columns."""
    u, _, v = torch.linalg.svd(matrix.flatten(1), full_matrices=False)
    return torch.matmul(u, v)
