"""Watches a training script for `check`: the inputs of its models, and the gradients of
autograd."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from gradsync import Refused
from gradsync.agreement import PassLoss
from gradsync.comparing import Comparer, Update
from gradsync.ending import end_rank
from gradsync.events import Listener, listen, place, stop_listening, watch_calls
from gradsync.findings import Cost, Status, report
from gradsync.patches import Patches
from gradsync.ranks import Ranks
from gradsync.reference import digest
from gradsync.torch_private import (
    DDP,
    Call,
    is_in_parts,
    register_hook,
    sharded_groups,
    synchronises_buffers,
    tensors_of,
    whole_parameter,
)
from gradsync.trained import Step, Trained, Turns, Updater, parameters_of

CLIPS = ("clip_grad_norm_", "clip_grads_with_norm_", "clip_grad_value_")  # of torch.nn.utils
LOSSES = ("cross_entropy", "nll_loss", "mse_loss")  # of torch.nn.functional
IGNORED_TOKEN = -100  # PyTorch's default


class OwnWork:
    """Work of `check` within the script. It is not watched, and ends the rank if it fails.

    Refused ends the rank with the status UNKNOWN; any other exception is a fault of `check`.

    `place`: FILE:LINE of the script, for messages while no line of the script runs, as in a thread
    of autograd. `spent_ns`: the time of this work so far.
    """

    def __init__(self) -> None:
        self.is_running = False
        self.spent_ns = 0
        self.place = ""

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        was_running = self.is_running
        began = time.monotonic_ns()
        self.is_running = True
        try:
            with torch.no_grad():
                yield
        except Refused as error:
            end_rank(f"{place(otherwise=self.place)}: cannot be checked: {error}", Status.UNKNOWN)
        except Exception:
            where = place(otherwise=self.place)
            end_rank(f"{where}: check itself has failed:\n{traceback.format_exc()}", Status.FAULT)
        finally:
            self.is_running = was_running
            if not was_running:
                self.spent_ns += time.monotonic_ns() - began


class LossCounter:
    """Collects the losses that functions of LOSSES return until a backward pass begins."""

    def __init__(self) -> None:
        self._counted: list[PassLoss] = []  # whose `given` is NaN until backward begins

    def add(self, loss: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Adds the loss that a function of LOSSES has returned for these arguments."""
        if not loss.requires_grad:
            return
        target = args[1] if len(args) > 1 else kwargs["target"]
        if target.is_floating_point():
            tokens = target.numel()
        else:
            tokens = int((target != kwargs.get("ignore_index", IGNORED_TOKEN)).sum())
        is_mean = kwargs.get("reduction", "mean") == "mean"
        mean = float(loss.detach().double().sum()) / (1 if is_mean else max(tokens, 1))
        self._counted.append(PassLoss(math.nan, tokens, mean, torch.finfo(loss.dtype).eps))

    def take(self, tensors: Any, gradients: Any, scale: float) -> PassLoss | None:
        """Returns the loss with which a backward pass begins; None if it does not begin with one
        known loss.

        Forgets all earlier losses. `scale`: the factor of a GradScaler.
        """
        counted, self._counted = self._counted, []
        roots = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        if gradients is not None or len(roots) != 1 or len(counted) != 1 or roots[0].numel() != 1:
            return None
        return dataclasses.replace(counted[0], given=float(roots[0].detach()) / scale)


class Watch(Listener):
    """Watches a script until enough updates are compared, or finish() is called.

    `groups`: the number of groups of parameters; one group is compared at a time. `on_end`: is
    called at the end, within the script. `status`: None until the end.
    """

    def __init__(self, groups: int, on_end: Callable[[Status], None]) -> None:
        self.status: Status | None = None
        self.own_work = OwnWork()
        self._on_end = on_end
        self._trained = Trained()
        self._turns = Turns(groups)
        self._step = Step()
        self._ranks = Ranks()
        self._comparer = Comparer(self._trained, self._turns, self._step, self._ranks)
        self._patches = Patches()
        self._leaves: dict[int, torch.nn.Parameter] = {}  # that have our hook, by id
        self._losses = LossCounter()
        self._scale = 1.0  # of a GradScaler, for the pass that runs
        self._next_scale = 1.0
        self._update: Update | None = None  # the outermost that runs

    def start(self) -> None:
        """Begins to watch, by replacing functions that the script will call."""
        made = self._trained
        self._after(DDP, "__init__", made.wrapped.append)
        self._after(Optimizer, "__init__", made.optimizers.append)
        self._after(Optimizer, "zero_grad", self._step.drop)
        self._after(torch.nn.Module, "zero_grad", self._step.drop)
        self._after(torch.amp.GradScaler, "scale", self._on_scale)
        self._around(torch.Tensor, "register_hook", self._on_register_hook)
        for name in LOSSES:
            self._around(torch.nn.functional, name, self._on_loss)
        for name in CLIPS:
            if hasattr(torch.nn.utils, name):  # PyTorch 2.3 has no clip_grads_with_norm_
                self._around(torch.nn.utils, name, self._on_clip)
        watch_calls(torch.nn.Module, self._patches)
        listen(self)

    def has_compared(self) -> bool:
        """Returns whether an update was compared."""
        return self._turns.updates() > 0

    def finish(self) -> None:
        """Stops watching, restores the replaced functions, and prints the findings on rank 0."""
        with self.own_work():
            stop_listening(self)
            self._patches.undo()
            self.status = self._comparer.findings.status()
            cost = Cost(self.own_work.spent_ns / 1e9, self._comparer.peak_bytes)
            text = report(self._comparer.findings, self._comparer.coverage(), cost)
            if self._ranks.rank == 0:
                print(text, end="", flush=True)
            self._ranks.gather(0)  # none ends before rank 0 has printed
            self._step.gradients.clear()  # the script may train on, and need the memory
        self._on_end(self.status)

    # What the script calls

    def _around(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Calls call(own, ...) for owner.name(...), except in `check` itself and in compiled
        code."""

        def around(own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self.own_work.is_running:
                return own(*args, **kwargs)
            return call(own, *args, **kwargs)

        self._patches.replace(owner, name, around)

    def _after(self, kind: type, name: str, then: Callable[[Any], object]) -> None:
        """Calls then(object) after each call of this method of an object."""

        def call(own: Callable[..., Any], one: Any, *args: Any, **kwargs: Any) -> Any:
            result = own(one, *args, **kwargs)
            with self.own_work():
                then(one)
            return result

        self._around(kind, name, call)

    def _on_scale(self, scaler: torch.amp.GradScaler) -> None:
        self._next_scale = scaler.get_scale()

    def _on_register_hook(self, own: Callable[..., Any], tensor: torch.Tensor, hook: Any) -> Any:
        """Registers the hook of `check` before the script's hook, which may communicate."""
        with self.own_work():
            self._watch_leaf(tensor, tensor)
        return own(tensor, hook)

    def _on_loss(self, own: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = own(*args, **kwargs)
        with self.own_work():
            self._losses.add(loss, args, kwargs)
        return loss

    def _on_clip(
        self,
        own: Callable[..., Any],
        parameters: torch.Tensor | Iterable[torch.Tensor],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Compares gradients before they are clipped, and remembers the clipped gradients."""
        params: list[Any]
        params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        with self.own_work():
            self._comparer.before_clip(params, f"{own.__name__} at {place()}")
        result = own(params, *args, **kwargs)
        with self.own_work():
            for p in params:
                if p.grad is not None:
                    self._step.clipped[id(p)] = digest(p.grad)
        return result

    def on_call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not torch.is_grad_enabled():
            return
        with self.own_work():
            self._trained.models[id(module)] = module
            if hasattr(module, "is_gradient_accumulation_boundary"):
                self._watch_engine(module)
            self._step.why_own = self._trained.why_own(module)
            self._step.inputs += [digest(tensor) for tensor in tensors_of((args, kwargs))]
            if self._step.buffers is None:
                self._step.buffers = _digests_of_buffers(module)

    def _watch_engine(self, engine: Any) -> None:
        known = self._trained.engines
        if not any(type(engine) is type(other) for other in known):
            self._around(type(engine), "step", self._on_engine)
        if not any(engine is other for other in known):
            known.append(engine)

    def on_losses(self, tensors: Any, gradients: Any = None) -> None:
        self.own_work.place = place()
        self._scale, self._next_scale = self._next_scale, 1.0
        with self.own_work():
            self._step.losses.append(self._losses.take(tensors, gradients, self._scale))
            self._watch_leaves()

    def _watch_leaves(self) -> None:
        """Registers hooks on all tensors that may get gradients in the pass that begins."""
        for updater in self._trained.updaters():
            for p in parameters_of(updater):
                self._watch_leaf(p, p)
        for model in self._trained.models.values():
            for module in model.modules():
                for group in sharded_groups(module):
                    for one in group.fsdp_params:
                        self._watch_leaf(whole_parameter(one), one.sharded_param)

    def _watch_leaf(self, leaf: torch.Tensor | None, p: Any) -> None:
        """Registers a hook on `leaf`. Optimizers have the parameter `p` instead of `leaf`."""
        if not isinstance(leaf, torch.nn.Parameter) or not leaf.requires_grad:
            return
        if id(leaf) in self._leaves:
            return
        self._leaves[id(leaf)] = leaf
        self._turns.add(p)
        self._patches.keep(register_hook(leaf, lambda gradient: self._on_gradient(p, gradient)))

    def _on_gradient(self, p: torch.nn.Parameter, gradient: torch.Tensor) -> None:
        if self.own_work.is_running or not self._turns.has(p):
            return
        with self.own_work():
            if gradient.layout is not torch.strided or is_in_parts(gradient):
                name = self._comparer.name_of(p)
                raise Refused(f"{name} gets a gradient that is sparse or in parts")
            self._step.deliver(p, gradient, self._scale)

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        if self._update is not None:
            return None  # within another one's step
        self._update = Update(optimizer, place())
        self.own_work.place = self._update.place
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if not callable(closure):
            self._compare(self._update)
            return None

        def watched_closure() -> Any:
            loss = closure()
            self._compare(Update(optimizer, self.own_work.place))
            return loss

        return args[:1], kwargs | {"closure": watched_closure}

    def _compare(self, update: Update) -> None:
        with self.own_work():
            self._comparer.before_update(update)

    def _on_engine(self, own: Callable[..., Any], engine: Any, *args: Any, **kwargs: Any) -> Any:
        """Compares an engine's gradients before it steps, because they are unknown afterwards.

        DeepSpeed's optimizers step flat copies of parts of the parameters.
        """
        if engine.is_gradient_accumulation_boundary():
            with self.own_work():
                self._step.full = _full_gradients(engine)
            self.on_update(engine, (), {})
        result = own(engine, *args, **kwargs)
        self.on_updated(engine)
        return result

    def on_updated(self, optimizer: Updater) -> None:
        if self._update is None or self._update.updater is not optimizer:
            return
        update, self._update = self._update, None
        with self.own_work():
            self._comparer.after_update(update)
            self._step.begin_next()
            is_checked = self._step.drop(optimizer)
            if is_checked:
                self._turns.count(optimizer)
        if is_checked and self._turns.are_over():
            self.finish()


def _digests_of_buffers(model: torch.nn.Module) -> dict[str, str]:
    """Returns digests of buffers by name. Omits buffers that DDP will make equal on all ranks."""
    synchronised: set[int] = set()
    for module in model.modules():
        if isinstance(module, DDP) and synchronises_buffers(module):
            synchronised.update(id(buffer) for buffer in module.buffers())
    return {
        name.removeprefix("module."): digest(buffer)
        for name, buffer in model.named_buffers()
        if id(buffer) not in synchronised
    }


def _full_gradients(engine: Any) -> dict[int, torch.Tensor | None]:
    """Returns the gradients that DeepSpeed's optimizer will get, by the ids of the engine's
    parameters.
    """
    full_gradient_of = sys.modules["deepspeed"].utils.safe_get_full_grad
    try:
        return {id(p): full_gradient_of(p) for p in parameters_of(engine) if p.requires_grad}
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"DeepSpeed has no full gradients: {reason}") from error
