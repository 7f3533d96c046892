"""Stores the models, optimizers and gradients of the training script that the command `check`
runs."""

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
    """Returns all parameters of a module, or of an optimizer's parameter groups, in order."""
    if isinstance(owner, torch.nn.Module):
        return list(owner.parameters())
    return [p for group in owner.param_groups for p in group["params"]]


class Turns:
    """Decides in which optimizer updates `check` compares a parameter's gradient with the mean over
    ranks.

    Parameters are numbered from 0, and parameter number i is in group i modulo `groups`. To save
    memory, `check` compares one group's gradients in 2 (STEPS) checked updates before it goes on to
    the next group. An update counts as checked if, on at least one rank, Step.gradients has a
    gradient of a parameter of its optimizer.
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
        """Gives `p` the next number, unless it has one, and records that `p` requires a
        gradient."""
        if id(p) not in self._numbers:
            self._numbers[id(p)] = len(self._parameters)
            self._parameters.append(p)
            self._trainable.add(id(p))

    def expect(self, owner: Updater) -> None:
        """Records which parameters of the new optimizer or DeepSpeed engine `owner` require
        gradients."""
        self._trainable.update(id(p) for p in parameters_of(owner) if p.requires_grad)

    def number_of(self, p: torch.nn.Parameter) -> int | None:
        return self._numbers.get(id(p))

    def has(self, p: torch.nn.Parameter) -> bool:
        """Returns whether the gradient of `p` is compared in the next checked update of `p`."""
        if id(p) in self._exempt:
            return False
        return (self.number_of(p) or 0) % self.groups == self._checked.get(id(p), 0) // STEPS

    def updates(self) -> int:
        """Returns the largest number of checked updates that any parameter has had."""
        return max(self._checked.values(), default=0)

    def count(self, owner: Updater, is_last: bool = False) -> None:
        """Adds 1 to the number of checked updates of each parameter of `owner`. `is_last`: True if
        `check` cannot compare later updates of `owner`."""
        for p in parameters_of(owner):
            self._checked[id(p)] = self._checked.get(id(p), 0) + 1
            if is_last:
                self._exempt.add(id(p))

    def take(self, owner: Updater) -> None:
        """Adds 1 to the number of updates of `owner`, checked or not."""
        self._taken[id(owner)] = self._taken.get(id(owner), 0) + 1

    def is_pending(self, owner: Updater) -> bool:
        """Returns whether at least one parameter of `owner` needs more checked updates."""
        return any(self._is_pending(p) for p in parameters_of(owner))

    def _is_pending(self, p: torch.nn.Parameter) -> bool:
        if id(p) not in self._trainable or id(p) in self._exempt:
            return False
        return self._checked.get(id(p), 0) < STEPS * self.groups

    def unchecked(self, owner: Updater) -> int:
        """Returns how many parameters of `owner` have required a gradient, but were in no checked
        update."""
        params = parameters_of(owner)
        return sum(id(p) in self._trainable and id(p) not in self._checked for p in params)

    def longest(self) -> int:
        """Returns after how many updates of an optimizer the others are not waited for: 50, or 2 *
        `groups` if that is more."""
        return max(LONGEST, STEPS * self.groups)

    def are_too_long(self) -> bool:
        """Returns whether any one optimizer or DeepSpeed engine has made at least longest()
        updates, checked or not."""
        return max(self._taken.values(), default=0) >= self.longest()


@dataclasses.dataclass
class Made:
    """An optimizer or a DeepSpeed engine (`updater`), and the FILE:LINE at which the script made or
    first called it (`place`). `is_inner`: True if step() of `updater` runs within step() of another
    optimizer or of a DeepSpeed engine."""

    updater: Updater
    place: str
    is_inner: bool = False


class Trained:
    """The script's optimizers and DeepSpeed engines (`made`), and DDP models (`wrapped`). `models`:
    the modules that the script, not another module, has called with gradients enabled."""

    def __init__(self) -> None:
        self.made: dict[int, Made] = {}  # by id of the updater
        self.models: dict[int, torch.nn.Module] = {}  # the outermost that were called, by id
        self.wrapped: list[DDP] = []
        self._frozen: set[int] = set()  # ids of parameters, when DDP wrapped them

    def wrap(self, model: DDP) -> None:
        """Records a DDP model that the script has just made."""
        self.wrapped.append(model)
        for p in model.parameters():
            if p.requires_grad:
                self._frozen.discard(id(p))
            else:
                self._frozen.add(id(p))

    def add(self, updater: Updater, place: str) -> bool:
        """Records an optimizer or DeepSpeed engine, and the FILE:LINE `place` of the script.
        Returns False, and keeps the first `place`, if `updater` was recorded before."""
        is_new = id(updater) not in self.made
        self.made.setdefault(id(updater), Made(updater, place))
        return is_new

    def be_inner(self, updater: Updater) -> None:
        """Records that the optimizer `updater` is an inner one: its step() runs within step() of
        another optimizer or of a DeepSpeed engine. Does nothing if add() has not recorded
        `updater`."""
        if id(updater) in self.made:
            self.made[id(updater)].is_inner = True

    def updaters(self) -> list[Updater]:
        return [made.updater for made in self.made.values()]

    def outer(self) -> list[Made]:
        """Returns all optimizers and DeepSpeed engines except those whose step() runs within step()
        of another optimizer or engine."""
        return [made for made in self.made.values() if not made.is_inner]

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the name of `p` in the first of `models` that contains `p`, without the leading
        "module." of DDP, and without "_orig_mod." of torch.compile() before or behind it. Returns
        "" if none of `models` contains `p`."""
        for model in self.models.values():
            for name, own in model.named_parameters():
                if own is p:
                    outer = name.removeprefix("_orig_mod.").removeprefix("module.")
                    return outer.removeprefix("_orig_mod.")
        return ""

    def ignored(self) -> set[int]:
        """Returns the id() of each parameter and buffer that DDP is told to ignore."""
        return {id(tensor) for ddp in self.wrapped for tensor in ignored_tensors(ddp)}

    def why_own(self, model: torch.nn.Module) -> str:
        """Returns why DDP may not average the gradients of this call of `model`, such as ": the
        last pass is within no_sync". Returns "" unless `model` is the module in a DDP model, or a
        DDP model is within no_sync now."""
        if any(model is ddp.module for ddp in self.wrapped):
            return ": the model is called past DistributedDataParallel (model.module)"
        if any(not ddp.require_backward_grad_sync for ddp in self.wrapped):
            return ": the last pass is within no_sync"
        return ""

    def why_not_reduced(self, p: torch.nn.Parameter) -> str:
        """Returns why no DDP model averages the gradient of `p`, as the end of a sentence. Returns
        "" if there is no DDP model. Also returns "" if a DDP model was made with `p`, did not
        ignore it, and `p` needed a gradient then."""
        known = {id(own) for ddp in self.wrapped for own in reduced_parameters(ddp)}
        if id(p) in known and id(p) in self._frozen:
            return ": it needed no gradient when the model was wrapped in DistributedDataParallel"
        if not self.wrapped or id(p) in known:
            return ""
        if any(p is own for ddp in self.wrapped for own in ddp.parameters()):
            return ": it was made after the model was wrapped in DistributedDataParallel"
        return ": it is in no model that is wrapped in DistributedDataParallel"


@dataclasses.dataclass(frozen=True)
class Unclipped:
    """A copy of a whole gradient, made on the CPU before the script clipped the gradient. `where`:
    the clipping function and its FILE:LINE, such as "clip_grad_norm_ at train.py:25"."""

    gradient: torch.Tensor
    where: str


@dataclasses.dataclass
class Step:
    """What this rank knows about the current training step; each dictionary's keys are the id() of
    parameters."""

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
        """Called when autograd delivers `gradient`, to add gradient / scale to the sum of `p` in
        `gradients`. `scale`: the loss scale of a GradScaler; 1 without one."""
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
        """Returns whether to store this gradient of a parameter without stored gradients, to
        explain a wrong sum later. The gradient must have 2 or more dimensions and at most
        SMALL_MATRIX elements. Returns False if `suspect` is not None, or if `by_pass` has
        MOST_MATRICES parameters."""
        is_small = gradient.dim() > 1 and gradient.numel() <= SMALL_MATRIX
        return self.suspect is None and is_small and len(self.by_pass) < MOST_MATRICES

    def deliver_hooked(self, p: torch.nn.Parameter, gradient: torch.Tensor, scale: float) -> None:
        """Called after the script's hooks on `p` have run, to add gradient / scale to the sum of
        `p` in `hooked`."""
        if id(p) not in self.hooked:
            self.hooked[id(p)] = Gradients(gradient)
        self.hooked[id(p)].add(gradient, scale)

    def begin_pass(self, one: Pass) -> None:
        """Called when the backward pass `one` begins. If a parameter had a gradient after the
        previous pass, but its `.grad` is None or zero now, moves the parameter's sums to
        Gradients.aside (see Gradients.set_aside())."""
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
        """Deletes the parameters with these ids from all recorded backward passes, and then all
        ended passes without parameters."""
        for each in self.passes:
            each.delivered_to -= ids
        self.passes = [each for each in self.passes if each.delivered_to or each is self.running]

    def end_pass(self) -> None:
        """Called when a backward pass has ended, to store which parameters have a gradient now."""
        self.running = None
        self.had_gradient = {number for number, p in self.parameters.items() if p.grad is not None}

    def passes_of(self, params: Iterable[torch.nn.Parameter]) -> list[Pass]:
        """Returns the backward passes that have delivered gradients to at least one of `params`
        since the parameter's last update or zeroing."""
        ids = {id(p) for p in params}
        return [one for one in self.passes if one.delivered_to & ids]

    def gradient_of(self, p: torch.nn.Parameter) -> torch.Tensor | None:
        """Returns the gradient that the optimizer gets for `p`: `p.grad` or, with DeepSpeed, the
        gradient of the whole parameter."""
        return self.full.get(id(p), p.grad)

    def drop(self, owner: Updater) -> bool:
        """Deletes the stored gradients of all parameters of `owner`, and returns whether there were
        any."""
        ids = {id(p) for p in parameters_of(owner)}
        dropped = [self.gradients.pop(one, None) for one in ids]
        for one in ids:
            for held in (self.hooked, self.clipped, self.unclipped, self.parameters, self.by_pass):
                held.pop(one, None)
        self.had_gradient -= ids
        self._forget_passes(ids)
        return any(dropped)

    def begin_next(self) -> None:
        """Called when a training step ends, to delete the recorded calls of models and the digests
        (hashes) of the losses' targets."""
        self.calls.begin_step()
        self.targets.clear()
