"""The optimizers that update a model."""

from __future__ import annotations

from collections.abc import Set

from torch.optim import Optimizer


class ModelOptimizers:
    """Those that have stepped, or would have, and hold one of the model's parameters.

    `ids`: of these parameters. `stepping`: the one within whose step() this is, if any. `stepped`:
    how many have stepped in this step of the model.
    """

    def __init__(self, ids: Set[int]) -> None:
        self.ids = ids
        self.known: list[Optimizer] = []
        self.stepping: Optimizer | None = None
        self.stepped = 0

    def update(self, optimizer: Optimizer) -> bool:
        """Whether an optimizer updates the model, and is known from now on."""
        if any(optimizer is other for other in self.known):
            return True
        held = {id(param) for group in optimizer.param_groups for param in group["params"]}
        if self.ids.isdisjoint(held):
            return False
        self.known.append(optimizer)
        return True

    def is_outermost(self, optimizer: Optimizer) -> bool:
        """Whether this step() is not within that of another optimizer of the model."""
        return self.stepping is None or self.stepping is optimizer

    def are_done_with_one_more(self) -> bool:
        """Whether all have stepped when one more has."""
        return self.stepped + 1 >= len(self.known)

    def names(self) -> str:
        names = sorted(type(optimizer).__name__ for optimizer in self.known)
        return " and ".join(names) or "no optimizer of torch.optim"
