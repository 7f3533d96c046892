"""Detects changes of a model's parameters between backward passes, such as by an optimizer that is
not of torch.optim."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class WeightWatch:
    """Finds out whether weights have changed between two backward passes, by comparing the smallest
    parameter that has a gradient with a copy of its earlier weights."""

    def __init__(self, params: Sequence[torch.nn.Parameter]) -> None:
        self._params = params
        self._kept: torch.Tensor | None = None

    def have_changed(self) -> bool:
        """Returns whether the smallest parameter that has a gradient differs from the copy that the
        last call made; NaN counts as a difference. Returns False if there is no copy, as at the
        first call. Also returns False if no parameter has a gradient, or if the smallest parameter
        with a gradient has another shape than the copy."""
        trained = [p.detach() for p in self._params if p.grad is not None]
        smallest = min(trained, key=torch.numel, default=None)
        kept = self._kept
        self._kept = None if smallest is None else smallest.clone()
        return (
            kept is not None
            and smallest is not None
            and kept.shape == smallest.shape
            and not torch.equal(kept, smallest)
        )

    def forget(self) -> None:
        """Deletes the copy of the weights. The next call of have_changed() returns False, because
        it has no copy to compare with."""
        self._kept = None
