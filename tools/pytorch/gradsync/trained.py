"""The models, optimizers and parameters of a script, and its current step."""

from __future__ import annotations

import dataclasses

import torch
from torch.optim import Optimizer

from gradsync.agreement import PassLoss
from gradsync.reference import Gradients, exact
from gradsync.torch_private import DDP, reduced_parameters

STEPS = 2  # checked updates of each group of parameters
LONGEST = 4  # times as many, after which other optimizers are not waited for

# What updates parameters: an optimizer, or an engine of DeepSpeed, which is a module with step().
Updater = Optimizer | torch.nn.Module


def parameters_of(owner: Updater) -> list[torch.nn.Parameter]:
    """Returns all parameters of a module, or of an optimizer's groups, in order."""
    if isinstance(owner, torch.nn.Module):
        return list(owner.parameters())
    return [p for group in owner.param_groups for p in group["params"]]


class Turns:
    """Divides parameters into groups, which are checked in turn.

    Parameters are numbered in the order in which autograd first computes their gradients.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self._numbers: dict[int, int] = {}  # by id
        self._parameters: list[torch.nn.Parameter] = []  # whose ids must not be given anew
        self._updates: dict[int, int] = {}  # by id of the optimizer

    def __len__(self) -> int:
        return len(self._parameters)

    def add(self, p: torch.nn.Parameter) -> None:
        """Gives the parameter a number, if it has none."""
        if id(p) not in self._numbers:
            self._numbers[id(p)] = len(self._parameters)
            self._parameters.append(p)

    def number_of(self, p: torch.nn.Parameter) -> int | None:
        return self._numbers.get(id(p))

    def has(self, p: torch.nn.Parameter) -> bool:
        """Returns whether the group of this parameter is checked now."""
        return (self.number_of(p) or 0) % self.groups == self.updates() // STEPS

    def updates(self) -> int:
        """Returns the largest number of checked updates of one optimizer."""
        return max(self._updates.values(), default=0)

    def count(self, optimizer: Updater) -> None:
        """Counts an update that was checked."""
        self._updates[id(optimizer)] = self._updates.get(id(optimizer), 0) + 1

    def are_over(self) -> bool:
        """Returns whether all optimizers were checked, or one so often that the others may never
        step.
        """
        needed = STEPS * self.groups
        fewest = min(self._updates.values(), default=0)
        return fewest >= needed or self.updates() >= LONGEST * needed


class Trained:
    """The models that the script has called, and the optimizers that it has made, in order."""

    def __init__(self) -> None:
        self.optimizers: list[Optimizer] = []
        self.engines: list[torch.nn.Module] = []  # of DeepSpeed
        self.models: dict[int, torch.nn.Module] = {}  # the outermost that were called, by id
        self.wrapped: list[DDP] = []

    def updaters(self) -> list[Updater]:
        return [*self.optimizers, *self.engines]

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name in the first model that has it; empty if no model has it."""
        for model in self.models.values():
            for name, own in model.named_parameters():
                if own is p:
                    return name.removeprefix("_orig_mod.").removeprefix("module.")
        return ""

    def why_own(self, model: torch.nn.Module) -> str:
        """Returns why DDP will not average the gradients of this call; empty if it will."""
        if any(model is ddp.module for ddp in self.wrapped):
            return ": the model is called past DistributedDataParallel (model.module)"
        if any(not ddp.require_backward_grad_sync for ddp in self.wrapped):
            return ": the last pass is within no_sync"
        return ""

    def why_not_reduced(self, p: torch.nn.Parameter) -> str:
        """Returns why DDP does not know this parameter; empty if it does."""
        if self.wrapped and not any(p is own for own in reduced_parameters(self.wrapped[-1])):
            return ": it was made after the model was wrapped in DistributedDataParallel"
        return ""


@dataclasses.dataclass
class Step:
    """What this rank knows about the current step. Parameters are identified by their id."""

    inputs: list[str] = dataclasses.field(default_factory=list)  # digests, of all passes
    buffers: dict[str, str] | None = None  # digests before the first pass, None before that
    losses: list[PassLoss | None] = dataclasses.field(default_factory=list)  # of each pass
    gradients: dict[int, Gradients] = dataclasses.field(default_factory=dict)
    clipped: dict[int, str] = dataclasses.field(default_factory=dict)  # digests, of what it left
    why_own: str = ""  # why the last pass's gradients may be each rank's own
    full: dict[int, torch.Tensor | None] = dataclasses.field(default_factory=dict)  # DeepSpeed's
    suspect: int | None = None  # the parameter whose gradient was wrong before
    suspect_by_pass: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def deliver(self, p: torch.nn.Parameter, gradient: torch.Tensor, scale: float) -> None:
        """Adds a gradient from autograd, which a GradScaler has multiplied by `scale`."""
        if id(p) not in self.gradients:
            self.gradients[id(p)] = Gradients(gradient)
        self.gradients[id(p)].add(gradient, scale)
        if id(p) == self.suspect:
            self.suspect_by_pass.append(exact(gradient))

    def gradient_of(self, p: torch.nn.Parameter) -> torch.Tensor | None:
        """Returns the gradient that the optimizer gets for this parameter."""
        return self.full.get(id(p), p.grad)

    def drop(self, owner: Updater) -> bool:
        """Forgets this owner's gradients, because it has used them or thrown them away. Returns
        whether there were any.
        """
        dropped = [self.gradients.pop(id(p), None) for p in parameters_of(owner)]
        if not any(dropped):
            return False
        self.losses = []
        self.suspect_by_pass = []
        self.clipped = {}
        return True

    def begin_next(self) -> None:
        """Begins the next step, because an optimizer has stepped."""
        self.inputs = []
        self.buffers = None
