"""Records the times of one model's training steps, from within the process that trains it.

The recorder gives each training step of the script one of several kinds. In UNSYNCHRONISED steps,
ranks exchange no gradients while time is measured. A PROBE copies gradients as
DistributedDataParallel (DDP) does: in the last backward, each gradient into a flat buffer when it
is ready. If DDP has gradient_as_bucket_view, a view of the buffer then replaces the gradient. After
backward, while nothing is computed, a probe of several ranks sends pieces of the buffer. Then the
recorder, also with one rank, copies the gradients back from the buffer, except under fully_shard.
Gradients that are views of the buffer are not copied back. One kind of probe does not send the
buffer, but runs FSDP2's collectives. These collectives gather and reduce each repeated block of the
model in turn, and all other parameters together. In SCRIPT steps, DDP or fully_shard synchronises
gradients as the script has set it up. The recorder does not change the script's first step, from
which it learns the model's optimizers and how many backward passes a step has. Before the optimizer
updates the weights in an UNSYNCHRONISED step or a PROBE, the recorder averages gradients over ranks
as DDP or fully_shard would, so training continues as without the recorder. The recorded times leave
this averaging out.

step_machine.py decides where a step begins and ends, and in which order of calls a script cannot be
recorded. DDP prepares its reducer in forward if it will synchronise gradients. In UNSYNCHRONISED
steps and probes, the recorder prevents this preparation, so DDP sends no gradients. A round is a
sequence of steps, at least one of each kind. In the first round, the recorder finds the number n of
backward passes that a recorded step must have. The recorder chooses n such that n times the number
of steps with n passes is largest. If a later step does not have n passes, the recorder drops the
step's times, and repeats its kind in the script's next step. If more such steps come in succession
than a round has steps, the recorder raises Refused. If the model is neither in DDP nor under
fully_shard, nothing shows which pass is the last of a step. For such a model, the recorder takes
the nth pass of a step as its last. Until the first round has ended, n is the number of passes in
the script's first step. Steps whose first update a GradScaler skips are not recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch.optim import Optimizer

from gradsync import Refused
from gradsync.clock import Mark, clock_of
from gradsync.events import (
    Listener,
    in_backward,
    listen,
    place,
    stop_listening,
    watch_calls,
)
from gradsync.launch_facts import launch_of
from gradsync.launch_writer import LaunchWriter
from gradsync.model_optimizers import ModelOptimizers
from gradsync.observer import Observer
from gradsync.own_collectives import OwnCollectives
from gradsync.patches import Patches
from gradsync.schema import Row, Step, StepMode
from gradsync.sharding import repeated_blocks
from gradsync.step_machine import Action, Event, Refusal, State, StepMachine, Target
from gradsync.step_recorder import StepRecorder
from gradsync.targets import target_of
from gradsync.torch_private import Call, is_anything_compiled, when_gradient_is_ready
from gradsync.turns import FIRST, Rounds, Turn, Verdict, plan_of, probes_of
from gradsync.weight_watch import WeightWatch
from gradsync.world import World

STEPS_IN_BACKWARD = (
    "an optimizer steps within backward, which gradsync does not record: step after backward"
)


class Recorder(Listener):
    """Records the times of a model's steps, and adds them to a file when enough steps are recorded;
    then `done` is True.

    If a call of the script, such as a forward or step(), shows that the model cannot be recorded,
    the recorder ends the recording and removes its hooks from the model. Then the call raises
    Refused or, if the recorder has an `observer`, calls Observer.refused().
    """

    def __init__(
        self,
        model: torch.nn.Module,
        out: str | os.PathLike[str] = "gradsync.jsonl",
        rounds: int = 16,
        ddp: bool = True,
        views: bool | None = None,
        command: Sequence[str] = (),
        *,
        observer: Observer | None = None,
        roots: Sequence[torch.nn.Module] = (),
        only: Collection[int] | None = None,
    ) -> None:
        """`model`: the module to record, in DDP, under fully_shard or neither, with all parameters
        on one CPU or one CUDA GPU.

        `out`: the file to which the recording is added as a line. `rounds`: the number of rounds
        (sequences of steps of all kinds) to run; the first round is warm-up. `ddp`: whether to
        record also steps in which the script's own DDP or fully_shard synchronises gradients.
        `views`: whether probes (steps whose collectives are timed) leave gradients as views of
        their flat buffer; by default only if the model's DDP has gradient_as_bucket_view.
        `command`: the command line of the script, which the recording stores; by default sys.argv.
        `roots`: modules of `model` whose call begins a step, if `model` itself is not called;
        ignored in DDP. `only`: the ids (Python's id()) of the parameters to record among those that
        require a gradient; by default, all that require one are recorded. If the script has called
        fully_shard with `model` itself, the arguments `views`, `roots` and `only` have no effect.
        """
        self.place = place()
        self.done = False
        self._observer = observer
        try:
            self.target = target_of(model, views=views, roots=roots, only=only)
        except Refused as error:
            raise Refused(f"{self.place}: {error}") from None
        self.params = self.target.params
        device = self.params[0].device
        clock = clock_of(device)
        self._clock = clock
        self.world = World(device, clock)
        self.target.attach(self.world, clock)
        launch = launch_of(self.target, self.world, command)
        self._writer = LaunchWriter(os.path.realpath(out), launch, self.world)
        self._rounds = Rounds(self._plan(with_own_steps=ddp), rounds)
        self.steps: list[Step] = []
        self.extra_rows: list[Row] = []  # of steps that somebody else adds to `steps`
        self.machine = StepMachine(self.target.kind)
        self.step = StepRecorder(self.target, self.world, clock)
        self._optimizers = ModelOptimizers(self.target.optimized_ids())
        self._weights = WeightWatch(self.params)
        self._begins_in_eval_mode = False
        self._has_unseen_updates = False
        self._actions = self._list_actions()
        self._patches = Patches()
        self._collectives = OwnCollectives()
        self._begin_listening()

    def _plan(self, with_own_steps: bool) -> list[Turn]:
        probes = []
        if self.world.are_several:
            total_bytes = sum(parameter.bytes for parameter in self.target.parameters())
            probes = probes_of(total_bytes, with_units=self.target.can_try_units())
        return plan_of(probes, with_own_steps and self.target.has_own_steps)

    @property
    def rounds(self) -> int:
        return self._rounds.rounds

    @property
    def plan(self) -> list[Turn]:
        """The kinds of steps that a round consists of, in the order of the first round. Each later
        round has the same cyclic order, and begins one kind later than the round before."""
        return self._rounds.plan

    @plan.setter
    def plan(self, plan: Sequence[Turn]) -> None:
        self._rounds.plan = list(plan)

    @property
    def taken(self) -> int:
        """The number of steps in all rounds so far, without steps that have to be repeated; -1
        until the script's first step has ended."""
        return self._rounds.taken

    def holds(self, ids: Collection[int]) -> bool:
        """Returns whether `ids` contains Python's id() of a recorded parameter or, under
        fully_shard, of this rank's part of a recorded parameter."""
        return not self._optimizers.ids.isdisjoint(ids)

    def _begin_listening(self) -> None:
        self.target.watch(self._patches)
        if self.world.are_several:
            self._collectives.watch(self._patches)
        for i, param in enumerate(self.params):
            self._patches.keep(when_gradient_is_ready(param, self._ready_hook(i)))
        if self.target.kind is not Target.DDP:
            for kind in {type(root) for root in self.target.roots}:
                watch_calls(kind, self._patches)
        listen(self)

    def close(self) -> None:
        """Ends recording, and removes this recorder's hooks and replaced functions from the model
        and from PyTorch."""
        stop_listening(self)
        self._patches.undo()
        self.step.close()
        self.target.close()

    def _refuse(self, text: str, at: str = "", kind: type[Refused] = Refused) -> NoReturn:
        error = kind(f"{at or place()}: {text}")
        self.close()
        if self._observer:
            self._observer.refused(error)
        raise error

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Returns a context manager. If code in the context raises Refused, the context manager
        calls _refuse(), which ends recording and reports the error with FILE:LINE of the script's
        running line."""
        try:
            yield
        except Refused as error:
            self._refuse(str(error), kind=type(error))

    # Events, in the order in which a step has them.

    def on_forward(self, model: torch.nn.Module) -> None:
        is_root = any(model is root for root in self.target.roots)
        trains = torch.is_grad_enabled() and any(p.requires_grad for p in self.params)
        if not is_root or not trains:
            return
        moment = self._clock.mark()
        if self.target.is_joining():
            self._on(Event.JOINED_FORWARD, moment)
        if self._has_unseen_updates:
            self._on(Event.UNSEEN_UPDATE, moment)
        in_mode = model.training or self._begins_in_eval_mode
        self._on(Event.FORWARD if in_mode else Event.EVAL_FORWARD, moment)
        between = (State.BETWEEN, State.EVALUATED, State.UPDATED)
        if not self.done and self.machine.state not in between:
            self.target.after_call(self.step.turn)

    def on_prepare(self, reducer: Any) -> bool:
        between = (State.BETWEEN, State.EVALUATED, State.SKIPPED)
        if not self.target.owns_reducer(reducer) or self.machine.state in between:
            return True
        self.step.is_prepared = True
        return self.step.turn.is_scripts_own

    def on_backward(self) -> None:
        self.step.begin_backward(self._rounds.expected)

    def _ready_hook(self, i: int) -> Callable[[torch.Tensor], None]:
        """Returns the hook that PyTorch calls each time after autograd has accumulated into the
        gradient of parameter `i`."""

        def on_ready(param: torch.Tensor) -> None:
            is_in_step = self.machine.state in (State.OPEN, State.PARTLY)
            self.step.note_ready(i, is_in_step)

        return on_ready

    def on_backward_end(self) -> None:
        end = self._clock.mark()
        self.target.after_backward()
        self._on(self._event_of_backward(), end)

    def _event_of_backward(self) -> Event:
        if not self.step.arrivals.end_backward():
            return Event.NOTHING_CAME
        if self.step.arrivals.sparse:
            return Event.SPARSE_CAME
        is_updating = self.machine.state in (State.UPDATED, State.SKIPPED)
        may_be_unseen = self.taken < 0 and self.target.can_update_unseen and not is_updating
        if may_be_unseen and self._weights.have_changed():
            return Event.CHANGED if self.step.passes <= 1 else Event.CHANGED_AFTER_PASSES
        return Event.SYNCHRONISED if self.step.is_prepared else Event.ACCUMULATED

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        if not self._optimizers.is_outermost(optimizer) or not self._is_of_model(optimizer):
            return None
        if in_backward():
            self._refuse(STEPS_IN_BACKWARD)
        self._optimizers.stepping = optimizer
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        is_update = self.step.arrivals.since_update and not callable(closure)
        self._on(Event.STEP if is_update else Event.MAY_STEP, self._clock.mark())
        if not callable(closure):
            return None

        def evaluate(*arguments: Any, **options: Any) -> Any:
            loss = closure(*arguments, **options)
            self._on(Event.MAY_STEP, self._clock.mark())
            return loss

        if len(args) > 1:
            return (args[0], evaluate, *args[2:]), kwargs
        return args, kwargs | {"closure": evaluate}

    def on_updated(self, optimizer: Optimizer) -> None:
        if self._optimizers.stepping is not optimizer:
            return
        self._optimizers.stepping = None
        self.step.arrivals.since_update = 0
        self._weights.forget()
        is_last = self.taken >= 0 and self._optimizers.are_done_with_one_more()
        self._on(Event.ALL_STEPPED if is_last else Event.STEPPED, self._clock.mark())

    def on_scaled(self, optimizer: Optimizer) -> None:
        # It has stepped, unless gradients are infinite: then the step is over.
        if self._is_of_model(optimizer):
            self._on(Event.SCALED, self._clock.mark())

    def _is_of_model(self, optimizer: Optimizer) -> bool:
        if not self._optimizers.update(optimizer):
            return False
        if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
            self._refuse(
                "gradsync does not record ZeroRedundancyOptimizer: use the optimizer that it "
                "distributes; what_if predicts both"
            )
        return True

    # Actions.

    def _on(self, event: Event, moment: Mark) -> None:
        outcome = self.machine.on(event)
        if isinstance(outcome, Refusal):
            self._refuse(outcome.text.format(name=self.step.arrivals.sparse))
        with self._collectives.left_out():
            self._actions[outcome](moment)

    def _list_actions(self) -> dict[Action, Callable[[Mark], None]]:
        """Returns, for each action of step_machine.py, the function that performs it. Each function
        gets the moment of the event that causes the action: a time on a CPU, or a torch.cuda.Event
        on a GPU."""
        return {
            Action.NOTHING: lambda moment: None,
            Action.BEGIN: self._begin,
            Action.END_AND_BEGIN: self._end_and_begin,
            Action.COUNT_PASS: self._count_pass,
            Action.SYNCHRONISE: self.step.synchronise,
            Action.NOTE_UNSEEN_UPDATES: self._note_unseen_updates,
            Action.BEGIN_IN_EVAL_MODE: self._begin_in_eval_mode,
            Action.UPDATE: self.step.begin_update,
            Action.UPDATE_UNSEEN: self.step.note_unseen_update,
            Action.NOTE_UPDATED: self._note_updated,
            Action.NOTE_UPDATED_AND_END: self._note_updated_and_end,
            Action.FORGET_UPDATE: lambda moment: self.step.forget_update(),
            Action.ABANDON: lambda moment: self.step.abandon(),
        }

    def _begin(self, called: Mark) -> None:
        refusal = self.target.refusal() if self.taken < 0 else ""
        refusal = refusal or self.target.refusal_of_step()
        if refusal:
            self._refuse(refusal, self.place)
        turn = FIRST
        if self.taken >= 0:
            turn = self._rounds.turn()
            self._prepare(turn)
        if self.taken == 0 and not is_anything_compiled():  # the first turn warms up
            self.step.measure_memory(self._optimizers.known)
        self._optimizers.stepped = 0
        if turn.mode is StepMode.UNSYNCHRONISED:
            self._collectives.start()
        self.step.begin(turn, called)

    def _prepare(self, turn: Turn) -> None:
        self.target.forget_used()
        if self.world.have_other(self.step.passes):
            self._refuse(
                "ranks took different numbers of passes in a step, which gradsync does not record"
            )
        self.target.before_step(turn)
        self.world.meet()

    def _end_and_begin(self, called: Mark) -> None:
        self._end(called)
        if not self.done:
            self._begin(called)

    def _count_pass(self, moment: Mark) -> None:
        self.step.passes += 1

    def _note_unseen_updates(self, end: Mark) -> None:
        self._has_unseen_updates = True
        self.step.end_backward_unseen(end)

    def _begin_in_eval_mode(self, moment: Mark) -> None:
        self._begins_in_eval_mode = True

    def _note_updated(self, moment: Mark) -> None:
        self._optimizers.stepped += 1
        self.step.note_updated(moment)

    def _note_updated_and_end(self, moment: Mark) -> None:
        self._note_updated(moment)
        self._end(moment)

    # Rounds.

    def _end(self, moment: Mark) -> None:
        self.step.end(moment)
        self._collectives.end()
        if self.taken < 0:
            self._start()
            return
        verdict = self._rounds.end_step(self.step.passes, self.step.is_synchronised())
        if verdict is Verdict.REFUSE:
            self._refuse(
                f"steps had {self._rounds.expected} passes, which are recorded, and have "
                f"{self.step.passes} now"
            )
        if verdict is Verdict.REPEAT:
            return
        if verdict is Verdict.KEEP:
            self.steps.append(self._times())
        elif self._rounds.are_warmed_up():
            self._end_warm_up()
        if self._rounds.are_over():
            self._finish()

    def _times(self) -> Step:
        times = self.step.times()
        if self.step.turn.mode is not StepMode.UNSYNCHRONISED:
            return times
        own = self._collectives
        return dataclasses.replace(times, own_collectives=own.count, own_bytes=own.bytes)

    def _start(self) -> None:
        """Called when the script's first step has ended: prepares the recording of the following
        steps."""
        if not self.world.all_begin():
            self._refuse(
                "not all ranks are recorded: start every one by torchrun -m gradsync record"
            )
        blocks = repeated_blocks([name for name, _ in self.target.named])
        self.step.start([block.parameters for block in blocks])
        with self._refusing():
            self._writer.start(self._optimizers.names())
        self._rounds.start(self.step.passes)
        if self._observer:
            self._observer.started(self)

    def _end_warm_up(self) -> None:
        assert self._rounds.expected is not None
        with self._refusing():
            self._writer.set_passes(self._rounds.expected)
        if self._observer:
            self._observer.warmed_up(self)

    def _finish(self) -> None:
        self.done = True
        self.close()
        self.target.forget_used()
        memory = self.step.memory()
        rows = [*self.target.rows(self._writer.launch.passes), *self.extra_rows]
        with self._refusing():
            self._writer.write(self.steps, rows, memory and self.target.memory(memory))
        if self._observer:
            self._observer.finished(self)
