"""Watches a training script for the command `check`: which models it calls, which gradients
autograd delivers, and when optimizers step."""

from __future__ import annotations

import multiprocessing.process
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradsync import Refused
from gradsync.comparing import Comparer
from gradsync.elsewhere import Elsewhere
from gradsync.events import (
    Listener,
    in_backward,
    listen,
    place,
    stop_listening,
    watch_calls,
)
from gradsync.facts import Update
from gradsync.findings import Cost, Status, Topic, line_of, report
from gradsync.loss_watch import LOSSES, LossWatch
from gradsync.meetings import Meetings, Reason
from gradsync.own_work import OwnWork
from gradsync.patches import Patches
from gradsync.ranks import Ranks
from gradsync.reference import digest, exact
from gradsync.script_collectives import ScriptCollectives
from gradsync.torch_private import (
    DDP,
    Call,
    is_in_parts,
    register_hook,
    sharded_groups,
    whole_parameter,
)
from gradsync.trained import Step, Trained, Turns, Unclipped, Updater, parameters_of

# Of torch.nn.utils and its module clip_grad. PyTorch 2.3 has not all of them.
CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grads_with_norm_", "clip_grad_value_")


class Watch(Listener):
    """Compares a training script's gradients with their means over ranks before optimizer updates,
    for the command `check`.

    `groups`: the number of groups into which the parameters are divided, to compare one group at a
    time. `on_end`: a function that finish() calls with the exit status of `check`. `status`: the
    exit status of `check`; None before finish().
    """

    def __init__(self, groups: int, on_end: Callable[[Status], None]) -> None:
        self.status: Status | None = None
        self._on_end = on_end
        self._trained = Trained()
        self._turns = Turns(groups)
        self._step = Step()
        self._ranks = Ranks()
        self._meetings = Meetings()
        self._comparer = Comparer(self._trained, self._turns, self._step, self._ranks)
        self.own_work = OwnWork(self._comparer.findings.status)
        self.elsewhere = Elsewhere(self.own_work)
        self._patches = Patches()
        self._leaves: dict[int, torch.nn.Parameter] = {}  # that have our hook, by id
        self._behind_hooks: dict[int, RemovableHandle] = {}  # our hooks behind the script's
        self._losses = LossWatch(self._step.targets)
        self._collectives = ScriptCollectives(self._on_reduced)
        self._scale = 1.0  # of a GradScaler, for the pass that runs
        self._next_scale = 1.0
        self._update: Update | None = None  # the outermost that runs
        self._is_met = False  # all ranks have come to it
        self._is_checked = False  # and it has gradients
        self._stepped: set[int] = set()  # ids of optimizers, since their GradScaler was last asked

    def start(self) -> None:
        """Until finish(), replaces functions of PyTorch and multiprocessing by functions that tell
        this object of the script's calls."""
        self._after(DDP, "__init__", self._on_wrapped)
        self._after(Optimizer, "__init__", self._on_made)
        self._after(Optimizer, "zero_grad", self._step.drop)
        self._after(torch.nn.Module, "zero_grad", self._step.drop)
        self._after(torch.amp.GradScaler, "scale", self._on_scale)
        self._around(torch.Tensor, "register_hook", self._on_register_hook)
        for name in LOSSES:
            self._around(torch.nn.functional, name, self._on_loss)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in CLIPS:
                if hasattr(owner, name):
                    self._around(owner, name, self._on_clip)
        self._collectives.start(self._around)
        for name in ("spawn", "start_processes"):
            self._around(torch.multiprocessing, name, self.elsewhere.refuse_spawn)
        self._after(multiprocessing.process.BaseProcess, "start", self.elsewhere.on_started)
        watch_calls(torch.nn.Module, self._patches)
        listen(self)

    def has_compared(self) -> bool:
        """Returns whether at least one update was checked, as class Turns defines it."""
        return self._turns.updates() > 0

    def end_script(self, how: str) -> None:
        """Called if the script of this rank has ended without an error, after at least one compared
        update, and finish() was not called. Waits until the scripts of all ranks have ended, or
        another rank has ended the check. Then calls finish(). If another rank trains on or does not
        end within the process group's timeout, ends this rank's process with an error instead.
        `how`: what other ranks print about this rank's end, such as "has ended"."""
        with self.own_work():
            self._meetings.end(how)
            absence = self._meetings.meet_at_end()
        if absence and absence.reason is not Reason.OVER:
            text = f"rank {absence.speaker} has ended, and rank {absence.rank} {absence.text}"
            self.own_work.refuse(text, absence.speaker)
        self.finish()

    def fail_script(self, how: str) -> Status:
        """Tells other ranks `how` the script of this rank has ended. Returns this rank's exit
        status: DIFFERS if `check` has found a difference, else UNKNOWN."""
        with self.own_work():
            self._meetings.end(how)
        return self.own_work.status(Status.UNKNOWN)

    def finish(self) -> None:
        """Stops watching, prints the report of `check` on one rank (the speaker), and calls
        `on_end`. Each other rank also prints the report if the speaker has not printed the report
        within about 60 s."""
        with self.own_work():
            self._stop()
            self._note_unchecked()
            if self._collectives.in_forward:
                self._comparer.note_in_forward(self._collectives.in_forward)
            findings = self._comparer.findings
            self.status = findings.status()
            cost = Cost(self.own_work.spent_ns / 1e9, self._comparer.peak_bytes)
            text = report(findings, self._comparer.coverage(), cost)
            if self._ranks.rank == self._comparer.speaker:
                print(text, end="", flush=True)
                self._meetings.close()
            elif not self._meetings.is_closed():  # none ends before all is printed
                lines = [line_of("differs", text) for text in findings.differences()]
                print(*lines, text, sep="", end="", flush=True)
        self._on_end(self.status)

    def _stop(self) -> None:
        stop_listening(self)
        self._patches.undo()
        self._step.gradients.clear()  # the script may train on, and need the memory

    def _note_unchecked(self) -> None:
        idle = [
            f"{type(made.updater).__name__} at {made.place}, {count} parameters"
            for made in self._trained.outer()
            if (count := self._turns.unchecked(made.updater))
        ]
        if idle:
            self._comparer.findings.note(Topic.UNCHECKED, f"not checked: {'; '.join(idle)}")

    # What the script calls

    def _around(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Replaces owner.name by a function that calls call(own, ...), where `own` is the replaced
        function. In code of `check`, and while torch.compile traces, the new function calls only
        `own`."""

        def around(own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or self.own_work.is_running:
                return own(*args, **kwargs)
            return call(own, *args, **kwargs)

        self._patches.replace(owner, name, around)

    def _after(self, kind: type, name: str, then: Callable[[Any], object]) -> None:
        """Until finish(), calls then(one) whenever the script's call of the method `name` of an
        object `one` of the class `kind` has returned."""

        def call(own: Callable[..., Any], one: Any, *args: Any, **kwargs: Any) -> Any:
            result = own(one, *args, **kwargs)
            with self.own_work():
                then(one)
            return result

        self._around(kind, name, call)

    def _on_wrapped(self, model: DDP) -> None:
        self.elsewhere.refuse_part_of_ranks(model)
        self._trained.wrap(model)
        self._step.calls.begin_step()  # what was called before was no training

    def _on_made(self, optimizer: Optimizer) -> None:
        self._trained.add(optimizer, place())
        self._turns.expect(optimizer)
        self._step.calls.begin_step()  # what was called before was no training

    def _on_scale(self, scaler: torch.amp.GradScaler) -> None:
        self._next_scale = scaler.get_scale()

    def _on_register_hook(self, own: Callable[..., Any], tensor: torch.Tensor, hook: Any) -> Any:
        """Called instead of torch.Tensor.register_hook(), to record a parameter's gradients before
        and after the script's hooks."""
        with self.own_work():
            self._watch_leaf(tensor, tensor)
        handle = own(tensor, hook)
        if id(tensor) in self._leaves:
            with self.own_work():
                self._watch_behind(tensor)
        return handle

    def _watch_behind(self, leaf: Any) -> None:
        """Registers on `leaf` a hook of `check` that runs after the script's hooks and gets the
        gradient that they return."""
        if id(leaf) in self._behind_hooks:
            self._behind_hooks[id(leaf)].remove()

        def on_hooked(gradient: torch.Tensor) -> None:
            self._on_gradient(leaf, gradient, is_hooked=True)

        self._behind_hooks[id(leaf)] = register_hook(leaf, on_hooked)
        self._patches.keep(self._behind_hooks[id(leaf)])

    def _on_loss(self, own: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = own(*args, **kwargs)
        with self.own_work():
            self._losses.add(own, loss, args, kwargs)
        return loss

    def _on_clip(
        self,
        own: Callable[..., Any],
        parameters: torch.Tensor | Iterable[torch.Tensor],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Called instead of a clipping function of torch.nn.utils, to copy the gradients before the
        function clips them."""
        params: list[Any]
        params = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        with self.own_work():
            self._keep_unclipped(params, f"{own.__name__} at {place()}")
        result = own(params, *args, **kwargs)
        with self.own_work():
            for p in params:
                if p.grad is not None:
                    self._step.clipped[id(p)] = digest(p.grad)
        return result

    def _keep_unclipped(self, params: Iterable[torch.nn.Parameter], where: str) -> None:
        """Stores a copy of `p.grad` for each `p` in `params` whose gradients `check` has summed up
        in this step (Step.gradients). Leaves out a `p.grad` that has not changed since the script
        last clipped `p.grad`."""
        for p in params:
            if p.grad is None or id(p) not in self._step.gradients:
                continue
            if self._step.clipped.get(id(p)) != digest(p.grad):
                whole = exact(p.grad).to(p.grad.dtype)
                self._step.unclipped[id(p)] = Unclipped(whole, where)

    def on_call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        has_gradients = torch.is_grad_enabled()
        with self.own_work():
            self._step.calls.use(module)
            if not has_gradients:
                return
            self._meetings.begin_call(place())
            self._step.calls.train(module, args, kwargs)
            self._collectives.begin_forward()
            self._trained.models[id(module)] = module
            if hasattr(module, "is_gradient_accumulation_boundary"):
                self._watch_engine(module)
            self._step.why_own = self._trained.why_own(module)

    def on_called(self, module: torch.nn.Module) -> None:
        self._collectives.end_forward()

    def _watch_engine(self, engine: Any) -> None:
        known = self._trained.updaters()
        if not any(type(engine) is type(other) for other in known):
            self._around(type(engine), "step", self._on_engine)
        if self._trained.add(engine, place()):
            self._turns.expect(engine)

    def on_losses(self, tensors: Any, gradients: Any = None) -> None:
        self.own_work.place = place()
        self.elsewhere.refuse_child()
        self._scale, self._next_scale = self._next_scale, 1.0
        with self.own_work():
            self._meetings.begin_pass(self.own_work.place)
            is_divided = self._collectives.divides(tensors)
            self._step.begin_pass(self._losses.begin_pass(tensors, self._scale, is_divided))
            self._watch_leaves()

    def on_backward_end(self) -> None:
        with self.own_work():
            self._step.end_pass()
            self._losses.end_pass()

    def _on_reduced(self, loss: torch.Tensor) -> None:
        with self.own_work():
            self._losses.add_reduced(loss)

    def _watch_leaves(self) -> None:
        """Registers hooks of `check` on the parameters of the script's optimizers and DeepSpeed
        engines, and on gathered parameters under fully_shard."""
        for updater in self._trained.updaters():
            for p in parameters_of(updater):
                self._watch_leaf(p, p)
        for model in self._trained.models.values():
            for module in model.modules():
                for group in sharded_groups(module):
                    for one in group.fsdp_params:
                        self._watch_leaf(whole_parameter(one), one.sharded_param)

    def _watch_leaf(self, leaf: torch.Tensor | None, p: Any) -> None:
        """Registers a hook of `check` on `leaf`, if `leaf` is a parameter that requires a gradient,
        unless an earlier call has registered one. `p`: the optimizer's parameter; under
        fully_shard, this rank's shard of `leaf`, else `leaf` itself."""
        if not isinstance(leaf, torch.nn.Parameter) or not leaf.requires_grad:
            return
        if id(leaf) in self._leaves:
            return
        self._leaves[id(leaf)] = leaf
        self._turns.add(p)
        self._patches.keep(register_hook(leaf, lambda gradient: self._on_gradient(p, gradient)))

    def _on_gradient(
        self, p: torch.nn.Parameter, gradient: torch.Tensor, is_hooked: bool = False
    ) -> None:
        """Called when autograd has computed a gradient of `p`. In backward(), if `p` is compared
        now (see Turns.has()), adds the gradient to Step.gradients or, if `is_hooked`, to
        Step.hooked. `is_hooked`: True if the script's hooks on `p` have already run."""
        if self.own_work.is_running or not self._turns.has(p):
            return
        if not in_backward():  # autograd.grad() brings no gradient to any optimizer
            return
        with self.own_work():
            if gradient.layout is not torch.strided or is_in_parts(gradient):
                name = self._comparer.name_of(p)
                raise Refused(f"{name} gets a gradient that is sparse or in parts")
            if is_hooked:
                self._step.deliver_hooked(p, gradient, self._scale)
            else:
                self._step.deliver(p, gradient, self._scale)

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        self.elsewhere.refuse_child()
        self._stepped.add(id(optimizer))
        if self._update is not None:  # within another one's step
            self._trained.be_inner(optimizer)
            return None
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

    def on_scaled(self, optimizer: Optimizer) -> None:
        if id(optimizer) not in self._stepped:
            with self.own_work():
                self._meetings.skip(place())
        self._stepped.discard(id(optimizer))

    def _compare(self, update: Update) -> None:
        """Compares the gradients of an update with their means over ranks. Does nothing if this
        update, or enough updates of its optimizer (see Turns), were already compared."""
        if self._is_met or not self._turns.is_pending(update.updater):
            return
        if self._meet(update):
            with self.own_work():
                self._is_met = True
                self._is_checked = self._comparer.before_update(update)

    def _meet(self, update: Update) -> bool:
        """Waits until all ranks are about to make this update. If a rank skips this update, goes on
        without it or has ended the check, ends the check and returns False. If a rank's script has
        ended, or if a rank does not come within the process group's timeout, ends this rank's
        process with an error."""
        with self.own_work():
            self._ranks.find()
            absence = self._meetings.meet()
            if absence is None:
                return True
            if absence.reason in (Reason.SKIPPED, Reason.WENT_ON):
                self._comparer.absent(update.where, absence)
        if absence.reason in (Reason.ENDED, Reason.LATE):
            text = f"rank {absence.rank} {absence.text}, and does not come to {update.where}"
            self.own_work.refuse(text, absence.speaker)
        self.finish()
        return False

    def _on_engine(self, own: Callable[..., Any], engine: Any, *args: Any, **kwargs: Any) -> Any:
        """Called instead of step() of a DeepSpeed engine, to compare the gradients before step()
        updates weights."""
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
        is_over = False
        with self.own_work():
            if self._is_met:
                is_over = self._end_checked(update)
            self._turns.take(optimizer)
            self._step.begin_next()
            self._collectives.begin_step()
            self._step.drop(optimizer)
        if is_over:
            self.finish()
        elif self._turns.are_too_long():
            self._give_up(update)

    def _end_checked(self, update: Update) -> bool:
        """Returns whether the check ends after this update: if no rank needs further updates to
        compare, or if ranks train different parameters."""
        is_last_of_its = self._comparer.after_update(update)
        if self._is_checked:
            self._turns.count(update.updater, is_last_of_its)
        self._is_met = False
        waits = any(self._turns.is_pending(made.updater) for made in self._trained.outer())
        return self._comparer.agree(not waits)

    def _give_up(self, update: Update) -> None:
        """Ends the check because an optimizer has made very many updates (see
        Turns.are_too_long()). If all ranks come here, and `check` has compared no update, ends this
        rank's process with an error."""
        if not self._meet(update):
            return
        if not self.has_compared():
            self.own_work.refuse(
                f"{update.where} has stepped {self._turns.longest()} times, and never with "
                "gradients of backward(): nothing was checked"
            )
        self.finish()


def _full_gradients(engine: Any) -> dict[int, torch.Tensor | None]:
    """Returns the whole gradient of each parameter of `engine` that requires one, by the
    parameter's id(); None where DeepSpeed has none. Raises Refused if DeepSpeed's
    safe_get_full_grad() raises an Exception."""
    full_gradient_of = sys.modules["deepspeed"].utils.safe_get_full_grad
    try:
        return {id(p): full_gradient_of(p) for p in parameters_of(engine) if p.requires_grad}
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"DeepSpeed has no full gradients: {reason}") from error
