"""Keeps the optimizers that update a recorded model. After the script's first training step, the
recorder counts a training step as ended when as many calls of step() have ended as the model has
optimizers."""

from __future__ import annotations

from collections.abc import Set

from torch.optim import Optimizer


class ModelOptimizers:
    """The optimizers that have at least one parameter of the model. `known`: those of these
    optimizers whose step() has been called by the script or skipped by a GradScaler.

    `ids`: Python's id() of each recorded parameter of the model or, under fully_shard, of this
    rank's shard of the parameter. `stepping`: the optimizer of the model whose step() is running,
    if any. `stepped`: how many calls of step() of the model's optimizers have ended in the current
    training step.
    """

    def __init__(self, ids: Set[int]) -> None:
        self.ids = ids
        self.known: list[Optimizer] = []
        self.stepping: Optimizer | None = None
        self.stepped = 0

    def update(self, optimizer: Optimizer) -> bool:
        """Returns whether `optimizer` has at least one parameter of the recorded model. If so, adds
        `optimizer` to the list `known`, unless the list already has it."""
        if any(optimizer is other for other in self.known):
            return True
        held = {id(param) for group in optimizer.param_groups for param in group["params"]}
        if self.ids.isdisjoint(held):
            return False
        self.known.append(optimizer)
        return True

    def is_outermost(self, optimizer: Optimizer) -> bool:
        """Returns whether this optimizer's step() does not run within the step() of another
        optimizer of the model."""
        return self.stepping is None or self.stepping is optimizer

    def are_done_with_one_more(self) -> bool:
        """Returns whether, after one more call of step(), the current training step has at least as
        many calls of step() as there are optimizers in `known`."""
        return self.stepped + 1 >= len(self.known)

    def names(self) -> str:
        names = sorted(type(optimizer).__name__ for optimizer in self.known)
        return " and ".join(names) or "no optimizer of torch.optim"
