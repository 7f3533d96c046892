"""Keeps the models, optimizers and parameters of the script that `check` runs, and what is known
about the script's current training step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch
from torch.optim import Optimizer

from gradsync.calls import Calls
from gradsync.loss_watch import Pass
from gradsync.reference import Gradients, exact
from gradsync.torch_private import DDP, ignored_tensors, part_of, reduced_parameters

STEPS = 2  # checked updates of each group of parameters
SMALL_MATRIX = 4096  # elements
MOST_MATRICES = 100
LONGEST = 50  # updates of an optimizer, after which others are not waited for

# What updates parameters: an optimizer, or an engine of DeepSpeed, which is a module with step().
Updater = Optimizer | torch.nn.Module


def parameters_of(owner: Updater) -> list[torch.nn.Parameter]:
    """Returns all parameters of a module, or of an optimizer's groups, in order."""
    if isinstance(owner, torch.nn.Module):
        return list(owner.parameters())
    return [p for group in owner.param_groups for p in group["params"]]


class Turns:
    """Divides parameters into groups. To need less memory, `check` compares the gradients of one
    group after the other with their means over ranks.

    A parameter's group follows from its number, which it gets when `check` first registers a hook
    on the tensor that gets its gradient. Each group is compared in STEPS (2) checked updates. So
    with n groups, `check` checks an optimizer's updates until each of its parameters was in 2 n of
    them. Parameters that have never required a gradient, or that `check` can no longer compare (see
    count()), need no checked updates.
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups
        self._numbers: dict[int, int] = {}  # by id
        self._parameters: list[torch.nn.Parameter] = []  # whose ids must not be given anew
        self._trainable: set[int] = set()  # ids of those that have required gradients
        self._checked: dict[int, int] = {}  # checked updates, by id of the parameter
        self._exempt: set[int] = set()  # ids of parameters that cannot be checked further
        self._taken: dict[int, int] = {}  # all updates, by id of the optimizer

    def __len__(self) -> int:
        return len(self._parameters)

    def add(self, p: torch.nn.Parameter) -> None:
        """If the parameter has no number yet, gives it the next number, and notes that it has
        required a gradient. The number modulo `groups` is the number of the parameter's group."""
        if id(p) not in self._numbers:
            self._numbers[id(p)] = len(self._parameters)
            self._parameters.append(p)
            self._trainable.add(id(p))

    def expect(self, owner: Updater) -> None:
        """Called when an optimizer is made, or when a DeepSpeed engine is first called. Notes which
        parameters of this optimizer or engine, `owner`, require gradients; updates of these
        parameters have to be checked."""
        self._trainable.update(id(p) for p in parameters_of(owner) if p.requires_grad)

    def number_of(self, p: torch.nn.Parameter) -> int | None:
        return self._numbers.get(id(p))

    def has(self, p: torch.nn.Parameter) -> bool:
        """Returns whether `check` compares this parameter's gradient in the next checked update.
        Turns divides parameters into groups: parameters of the first group are compared in their
        first STEPS (2) checked updates, those of the second group in their third and fourth, and so
        on."""
        if id(p) in self._exempt:
            return False
        return (self.number_of(p) or 0) % self.groups == self._checked.get(id(p), 0) // STEPS

    def updates(self) -> int:
        """Returns the largest number of checked updates that a single parameter took part in."""
        return max(self._checked.values(), default=0)

    def count(self, owner: Updater, is_last: bool = False) -> None:
        """Counts a checked update for each parameter of this optimizer: an update whose gradients
        `check` has compared with the mean over ranks. `is_last`: True if `check` cannot compare
        later updates of this optimizer, because its state is divided among ranks."""
        for p in parameters_of(owner):
            self._checked[id(p)] = self._checked.get(id(p), 0) + 1
            if is_last:
                self._exempt.add(id(p))

    def take(self, owner: Updater) -> None:
        """Counts an update of this optimizer for are_too_long(), whether it was checked or not."""
        self._taken[id(owner)] = self._taken.get(id(owner), 0) + 1

    def is_pending(self, owner: Updater) -> bool:
        """Returns whether `check` must still compare gradients in updates of this optimizer."""
        return any(self._is_pending(p) for p in parameters_of(owner))

    def _is_pending(self, p: torch.nn.Parameter) -> bool:
        if id(p) not in self._trainable or id(p) in self._exempt:
            return False
        return self._checked.get(id(p), 0) < STEPS * self.groups

    def unchecked(self, owner: Updater) -> int:
        """Returns how many of this optimizer's parameters were in no checked update, although they
        have required gradients at some time."""
        params = parameters_of(owner)
        return sum(id(p) in self._trainable and id(p) not in self._checked for p in params)

    def are_too_long(self) -> bool:
        """Returns whether one optimizer has stepped so often that `check` ends even if optimizers
        still need checked updates: at least 50 times (LONGEST), and at least twice (STEPS) for each
        group of parameters."""
        return max(self._taken.values(), default=0) >= max(LONGEST, STEPS * self.groups)


@dataclasses.dataclass
class Made:
    """An optimizer of the script or an engine of DeepSpeed, and the FILE:LINE at which the script
    made the optimizer or first called the engine.

    `is_inner`: whether its step() is called within the step() of another optimizer.
    """

    updater: Updater
    place: str
    is_inner: bool = False


class Trained:
    """The models that the script has called with gradients enabled, the optimizers that it has made
    (and DeepSpeed's engines), and the models that it has wrapped in DDP. The models, the optimizers
    and the models in DDP are each in the order in which the script called, made or wrapped them."""

    def __init__(self) -> None:
        self.made: dict[int, Made] = {}  # by id of the updater
        self.models: dict[int, torch.nn.Module] = {}  # the outermost that were called, by id
        self.wrapped: list[DDP] = []

    def add(self, updater: Updater, place: str) -> bool:
        """Remembers an optimizer or an engine of the script, and its `place`: the FILE:LINE at
        which the script made the optimizer or first called the engine. Returns False if the
        optimizer or engine was already remembered."""
        is_new = id(updater) not in self.made
        self.made.setdefault(id(updater), Made(updater, place))
        return is_new

    def be_inner(self, updater: Updater) -> None:
        """Remembers that the optimizer `updater` steps within the step of another optimizer.
        `check` then checks only the steps of that outer optimizer.
        """
        if id(updater) in self.made:
            self.made[id(updater)].is_inner = True

    def updaters(self) -> list[Updater]:
        return [made.updater for made in self.made.values()]

    def outer(self) -> list[Made]:
        """Returns all optimizers and engines except those that step within another optimizer."""
        return [made for made in self.made.values() if not made.is_inner]

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name in the first of the called models that has it, without the
        prefix of torch.compile or DDP; empty if none has it."""
        for model in self.models.values():
            for name, own in model.named_parameters():
                if own is p:
                    return name.removeprefix("_orig_mod.").removeprefix("module.")
        return ""

    def ignored(self) -> set[int]:
        """Returns the ids of the parameters and buffers that the script tells DDP to ignore."""
        return {id(tensor) for ddp in self.wrapped for tensor in ignored_tensors(ddp)}

    def why_own(self, model: torch.nn.Module) -> str:
        """Returns why DDP will not average the gradients of this call of the model, for example
        because the call is within no_sync(). The result is the end of a sentence; empty if no
        reason is known."""
        if any(model is ddp.module for ddp in self.wrapped):
            return ": the model is called past DistributedDataParallel (model.module)"
        if any(not ddp.require_backward_grad_sync for ddp in self.wrapped):
            return ": the last pass is within no_sync"
        return ""

    def why_not_reduced(self, p: torch.nn.Parameter) -> str:
        """Returns why no model in DDP averages this parameter's gradient, as the end of a sentence;
        empty if a model in DDP averages it, or if the script does not use DDP."""
        known = {id(own) for ddp in self.wrapped for own in reduced_parameters(ddp)}
        if not self.wrapped or id(p) in known:
            return ""
        if any(p is own for ddp in self.wrapped for own in ddp.parameters()):
            return ": it was made after the model was wrapped in DistributedDataParallel"
        return ": it is in no model that is wrapped in DistributedDataParallel"


@dataclasses.dataclass(frozen=True)
class Unclipped:
    """A copy on the CPU of a whole gradient, made before the script clipped it; `where`: the
    clipping function and its place, such as "clip_grad_norm_ at train.py:25"."""

    gradient: torch.Tensor
    where: str


@dataclasses.dataclass
class Step:
    """What this rank knows about the current training step. The keys of its dictionaries, and the
    elements of its sets, are the id() of parameters."""

    calls: Calls = dataclasses.field(default_factory=Calls)
    targets: list[str] = dataclasses.field(default_factory=list)  # digests, of known losses
    passes: list[Pass] = dataclasses.field(default_factory=list)  # that have delivered
    running: Pass | None = None
    parameters: dict[int, torch.nn.Parameter] = dataclasses.field(default_factory=dict)
    gradients: dict[int, Gradients] = dataclasses.field(default_factory=dict)
    hooked: dict[int, Gradients] = dataclasses.field(default_factory=dict)  # behind its hooks
    had_gradient: set[int] = dataclasses.field(default_factory=set)  # after the last pass
    clipped: dict[int, str] = dataclasses.field(default_factory=dict)  # digests, of what it left
    why_own: str = ""  # why the last pass's gradients may be each rank's own
    full: dict[int, torch.Tensor | None] = dataclasses.field(default_factory=dict)  # DeepSpeed's
    unclipped: dict[int, Unclipped] = dataclasses.field(default_factory=dict)
    suspect: int | None = None  # the parameter whose gradient was wrong before
    # In f64, each pass's gradient of parameters that it may explain.
    by_pass: dict[int, list[torch.Tensor]] = dataclasses.field(default_factory=dict)

    def deliver(self, p: torch.nn.Parameter, gradient: torch.Tensor, scale: float) -> None:
        """Called when autograd delivers `gradient`, a gradient of `p` that is `scale` times too
        large because of a GradScaler (1 without one). Divides the gradient by `scale`, and adds it
        to the sum of `p` in `gradients`."""
        if id(p) not in self.gradients:
            self.gradients[id(p)] = Gradients(gradient)
        self.gradients[id(p)].add(gradient, scale)
        self.parameters[id(p)] = p
        if self.running is not None:
            self.running.delivered_to.add(id(p))
        if id(p) in self.by_pass:
            self.by_pass[id(p)].append(exact(gradient))
        elif id(p) == self.suspect or self._may_explain(gradient):
            self.by_pass[id(p)] = [exact(gradient)]

    def _may_explain(self, gradient: torch.Tensor) -> bool:
        """Returns whether to store the gradient of a parameter in each pass, to explain a wrong sum
        later; `gradient` is the first. Returns True for the first 100 parameters with two or more
        dimensions and at most 4096 elements, but False once `check` has found a wrong gradient."""
        is_small = gradient.dim() > 1 and gradient.numel() <= SMALL_MATRIX
        return self.suspect is None and is_small and len(self.by_pass) < MOST_MATRICES

    def deliver_hooked(self, p: torch.nn.Parameter, gradient: torch.Tensor, scale: float) -> None:
        """Called with a gradient of `p` after the script's hooks have run. Divides the gradient by
        `scale`, a GradScaler's factor, and adds it to the parameter's sum in `hooked`."""
        if id(p) not in self.hooked:
            self.hooked[id(p)] = Gradients(gradient)
        self.hooked[id(p)].add(gradient, scale)

    def begin_pass(self, one: Pass) -> None:
        """Called when the backward pass `one` begins. Finds the parameters whose gradient the
        script has removed or zeroed since the previous backward pass. Moves the sums of their
        gradients from Gradients.sums to Gradients.aside, because the script may add the removed
        gradients back later."""
        self.passes.append(one)
        self.running = one
        for number in self.had_gradient & self.gradients.keys():
            gradient = self.parameters[number].grad
            if gradient is None or not bool(part_of(gradient).any()):
                self._set_aside(number)

    def _set_aside(self, number: int) -> None:
        for held in (self.gradients, self.hooked):
            if number in held:
                held[number].set_aside()
        self._forget_passes({number})

    def _forget_passes(self, ids: set[int]) -> None:
        """Forgets in which backward passes the parameters with the ids `ids` got gradients."""
        for each in self.passes:
            each.delivered_to -= ids
        self.passes = [each for each in self.passes if each.delivered_to or each is self.running]

    def end_pass(self) -> None:
        """Called when a backward pass has ended: stores, for begin_pass(), which parameters have a
        gradient (`grad`) now."""
        self.running = None
        self.had_gradient = {number for number, p in self.parameters.items() if p.grad is not None}

    def passes_of(self, params: Iterable[torch.nn.Parameter]) -> list[Pass]:
        """Returns the backward passes that have delivered gradients to any of these parameters. A
        parameter's passes are forgotten when an optimizer has used its gradient, or the script has
        removed or zeroed it."""
        ids = {id(p) for p in params}
        return [one for one in self.passes if one.delivered_to & ids]

    def gradient_of(self, p: torch.nn.Parameter) -> torch.Tensor | None:
        """Returns the gradient that the optimizer gets for this parameter: `p.grad` or, if an
        engine of DeepSpeed updates the parameter, the gradient of the whole parameter."""
        return self.full.get(id(p), p.grad)

    def drop(self, owner: Updater) -> bool:
        """Forgets the gradients of this optimizer or module, because the optimizer has updated
        weights with them, or because they were set to zero. Returns whether there were gradients to
        forget."""
        ids = {id(p) for p in parameters_of(owner)}
        dropped = [self.gradients.pop(one, None) for one in ids]
        for one in ids:
            for held in (self.hooked, self.clipped, self.unclipped, self.parameters, self.by_pass):
                held.pop(one, None)
        self.had_gradient -= ids
        self._forget_passes(ids)
        return any(dropped)

    def begin_next(self) -> None:
        """Called when a training step ends. Forgets which models the script has called in this
        step, and the digests of its losses' targets (such as labels)."""
        self.calls.begin_step()
        self.targets.clear()
