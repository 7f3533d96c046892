"""Keeps the optimizers that update a recorded model, and the number of their ended calls of
step()."""

from __future__ import annotations

from collections.abc import Set

from torch.optim import Optimizer


class ModelOptimizers:
    """The optimizers that were passed to update() and hold a parameter of a recorded model
    (`known`).

    `ids`: Python's id() of each recorded parameter or, under fully_shard, of this rank's shard of
    the parameter. `stepping`: the model's optimizer whose step() is running, the outer one of
    nested calls; None if there is none. `stepped`: how many calls of the optimizers' step() have
    ended in the current training step.
    """

    def __init__(self, ids: Set[int]) -> None:
        self.ids = ids
        self.known: list[Optimizer] = []
        self.stepping: Optimizer | None = None
        self.stepped = 0

    def update(self, optimizer: Optimizer) -> bool:
        """Returns whether `optimizer` holds a parameter of the recorded model, and if so, adds
        `optimizer` to `known` once."""
        if any(optimizer is other for other in self.known):
            return True
        held = {id(param) for group in optimizer.param_groups for param in group["params"]}
        if self.ids.isdisjoint(held):
            return False
        self.known.append(optimizer)
        return True

    def is_outermost(self, optimizer: Optimizer) -> bool:
        """Returns whether `stepping` is None or `optimizer`."""
        return self.stepping is None or self.stepping is optimizer

    def are_done_with_one_more(self) -> bool:
        """Returns whether `stepped` plus 1 is at least the number of optimizers in `known`."""
        return self.stepped + 1 >= len(self.known)

    def names(self) -> str:
        names = sorted(type(optimizer).__name__ for optimizer in self.known)
        return " and ".join(names) or "no optimizer of torch.optim"
