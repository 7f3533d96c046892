"""Runs a training script within this process, and records the times of the training steps of one of
the models that the script trains."""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.optim import Optimizer

from gradsync import BAD_ARGUMENTS, FAILED, Refused
from gradsync.children import Children
from gradsync.ending import end_rank
from gradsync.events import (
    Listener,
    in_backward,
    listen,
    place,
    stop_listening,
    watch_calls,
)
from gradsync.launch_file import UnusableFile
from gradsync.patches import Patches
from gradsync.recorder import STEPS_IN_BACKWARD, Recorder
from gradsync.torch_private import DDP, is_anything_compiled, is_sharded

PATIENCE = 20  # backward passes before the first step of an optimizer of torch.optim


def say(text: str) -> None:
    """Prints "gradsync: " and the text to stderr; does nothing if the environment variable RANK is
    set and is not 0."""
    if os.environ.get("RANK", "0") == "0":
        print(f"gradsync: {text}", file=sys.stderr, flush=True)


def refuse(text: str, status: int = FAILED) -> NoReturn:
    """Prints one line of error, and ends this process with the exit status `status`, even if the
    script catches all exceptions. Ranks other than 0 first sleep for 10 s."""
    end_rank(text, status)


@dataclass(frozen=True)
class Options:
    """The options of the command `record`, from its command line.

    `goes_on`: whether the script goes on training after enough steps are recorded (--continue).
    `number`: which of several models to record, counted from 1; None for the first that trains.
    `out`: the path of the recording's file. `rounds`: how many rounds to run; a round has at least
    one step of each kind, and the first round is warm-up. `ddp`: whether to record also steps that
    DDP or fully_shard synchronises.
    """

    out: str
    command: list[str]
    rounds: int
    ddp: bool
    goes_on: bool
    number: int | None


class Script(Listener):
    """Runs a script and finds the model to record. If the script wraps models in DDP, the recorded
    model is the first that is updated (of several at once, the first wrapped). With --model=N, the
    recorded model is the Nth that the script wraps in DDP. If the script uses no DDP, the first
    optimizer that steps with gradients (with --model=N, the Nth) tells which module is recorded.
    The recorded module is the first outermost module, called with gradients enabled, that has all
    of this optimizer's parameters with gradients. If no called module has all these parameters, a
    single process records all called modules that have some. In several processes without DDP, the
    script must have called fully_shard with the recorded module; otherwise, the processes end with
    an error."""

    def __init__(self, options: Options, answer: Callable[[str], None]) -> None:
        """`answer`: a function that rank 0 calls when the steps of several processes have been
        added to the recording. Its argument is the name of the recording's file."""
        self._options = options
        self._answer = answer
        self._pid = os.getpid()
        self._patches = Patches()
        self._children = Children()
        self._calls = Patches()  # of Module.__call__, until a model is found
        self._recorders: list[Recorder] = []  # of all models until one is found
        self._is_found = False
        self._has_ended = False
        self._wrapped = 0  # models in DDP
        self._called: dict[int, torch.nn.Module] = {}  # outermost ones, by their ids
        self._optimizers: list[Optimizer] = []  # that have stepped
        self._backwards = 0
        self._began_s = 0.0

    # Running.

    def run(self) -> NoReturn:
        """Runs the script until the recording is written (with --continue, to the script's end),
        and then ends this process. If the script ends before the recording is written, the process
        ends with an error."""
        command = self._options.command
        text = " ".join(command)
        self._patches.replace(DDP, "__init__", self._construct)
        self._patches.replace(torch.multiprocessing, "spawn", self._spawn)
        self._patches.replace(torch.multiprocessing, "start_processes", self._spawn)
        self._children.watch(self._patches)
        watch_calls(torch.nn.Module, self._calls)
        listen(self)
        try:
            _execute(command)
        except BaseException as end:
            is_good = isinstance(end, SystemExit) and end.code in (None, 0)
            if self._has_ended:
                if self._options.goes_on:
                    raise
            elif isinstance(end, KeyboardInterrupt):
                refuse(f"{text} was interrupted; nothing was recorded")
            elif not is_good:
                raise
        if self._has_ended:
            sys.exit(0)
        if not self._recorders:
            refuse(
                f"{text} trained no model, or too few steps to tell which "
                f"(--model={self._options.number or 1}); nothing was recorded"
            )
        recorder = self._recorders[0]
        needed = recorder.rounds * len(recorder.plan) + 1
        refuse(f"{text} took {recorder.taken + 1} steps, which are too few: {needed} are needed")

    def _construct(
        self, construct: Callable[..., None], model: DDP, *args: Any, **kwargs: Any
    ) -> None:
        self._children.refuse_in_child()
        construct(model, *args, **kwargs)
        self._on_wrapped(model)

    def _spawn(self, spawn: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
        refuse(
            f"{place()}: starts processes, in which nothing is recorded: let torchrun start those "
            "that train"
        )

    # Finding the model.

    def _on_wrapped(self, model: DDP) -> None:
        ids = {id(param) for param in model.parameters()}
        again = [recorder for recorder in self._recorders if recorder.holds(ids)]
        for recorder in again:
            recorder.close()
            self._recorders.remove(recorder)
            if recorder.taken >= 0:
                say(f"{place()}: the model of {recorder.place} is wrapped again, and recorded anew")
        if not again:
            self._wrapped += 1
        is_asked_for = self._options.number in (None, self._wrapped)
        if again or (is_asked_for and not self._is_found):
            self._record(model)

    def on_forward(self, model: torch.nn.Module) -> None:
        if not self._recorders and torch.is_grad_enabled():
            self._called.setdefault(id(model), model)

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Called before an optimizer's update. Without DDP, the first optimizer that steps with
        gradients (with --model=N, the Nth) selects the model to record: the one with these
        gradients."""
        trained = {
            id(param)
            for group in optimizer.param_groups
            for param in group["params"]
            if param.grad is not None
        }
        if not trained:
            return
        recorder = next((one for one in self._recorders if one.holds(trained)), None)
        if recorder:
            self._choose(recorder)
        if not any(optimizer is other for other in self._optimizers):
            self._optimizers.append(optimizer)
        if self._optimizers.index(optimizer) + 1 == (self._options.number or 1):
            self._find(trained)

    def on_backward_end(self) -> None:
        """Called when a backward pass has ended. After the 20th pass (PATIENCE), looks for the
        model among the called modules, unless an optimizer of torch.optim has stepped with
        gradients."""
        self._backwards += 1
        if self._backwards == PATIENCE and not self._optimizers:
            self._find(set().union(*map(_ids_with_gradients, self._called.values())))

    def _find(self, trained: set[int]) -> None:
        """Finds the model that has the parameters whose ids are in `trained`, and begins to record
        its steps. Ends the process with an error if no module that the script has called has any of
        these parameters. Does nothing in a child process, if the script has wrapped a model in DDP,
        or if one is already being recorded."""
        if self._recorders or self._wrapped or os.getpid() != self._pid:
            return
        if in_backward():
            refuse(f"{place()}: {STEPS_IN_BACKWARD}")
        roots = self._modules_with(trained)
        if not roots:
            refuse(f"{place()}: {_why_no_module()}")
        if dist.is_initialized() and dist.get_world_size() > 1:
            if not is_sharded(roots[0]):
                refuse(
                    f"{place()}: trains without DistributedDataParallel or fully_shard, which are "
                    "what gradsync records of several processes; start one: python -m gradsync "
                    "record"
                )
            self._record(roots[0])
        else:
            model = roots[0] if len(roots) == 1 else torch.nn.ModuleList(roots)
            only = set().union(*map(_ids_with_gradients, roots))
            self._record(model, roots=roots, only=only)
        self._choose(self._recorders[0])

    def _modules_with(self, trained: set[int]) -> list[torch.nn.Module]:
        """Of the outermost modules that the script has called, returns the first one that has all
        parameters with these ids, as a list of one. If no module has all of them, returns all
        called modules that have some of these parameters."""
        held = [(module, _ids_with_gradients(module)) for module in self._called.values()]
        whole = [module for module, ids in held if trained <= ids]
        return whole[:1] or [module for module, ids in held if trained & ids]

    def _record(self, model: torch.nn.Module, **choice: Any) -> None:
        options = self._options
        try:
            recorder = Recorder(
                model,
                options.out,
                options.rounds,
                options.ddp,
                command=options.command,
                observer=self,
                **choice,
            )
        except Refused as error:
            self.refused(error)
        self._recorders.append(recorder)

    def _choose(self, recorder: Recorder) -> None:
        for other in self._recorders:
            if other is not recorder:
                other.close()
        self._recorders = [recorder]
        if not self._is_found:  # listening takes time
            self._calls.undo()
            stop_listening(self)
            self._is_found = True

    # What the recorder tells.

    def refused(self, error: Refused) -> NoReturn:
        refuse(str(error), BAD_ARGUMENTS if isinstance(error, UnusableFile) else FAILED)

    def started(self, recorder: Recorder) -> None:
        self._choose(recorder)
        if self._wrapped > 1:
            say(
                f"{recorder.place}: this one of {self._wrapped} models in DistributedDataParallel "
                "is recorded (--model); what others communicate counts as computation"
            )
        self._began_s = time.monotonic()
        steps = recorder.rounds * len(recorder.plan)
        say(f"records {steps} steps; the first takes minutes if the model has to be compiled")

    def warmed_up(self, recorder: Recorder) -> None:
        took_s = time.monotonic() - self._began_s
        more = recorder.rounds - 1
        say(f"{recorder.taken} steps of warm-up took {took_s:.0f} s, {more} times as many follow")

    def finished(self, recorder: Recorder) -> None:
        """Called when recording is done. On rank 0, the recording has been written to its file
        before this call. With several processes, rank 0 calls the function `answer`, which prints
        what `gradsync what_if` predicts from this recording; a single process prints a command line
        that asks for a prediction. All ranks wait for rank 0, and end or, with --continue, train
        on."""
        out = self._options.out
        if not recorder.world.are_several:
            say(f"recorded; ask: gradsync what_if {out} --link=25Gbit,5us --world_size=8")
        elif recorder.world.rank == 0:
            self._answer(out)
        if dist.is_initialized():
            dist.barrier()
        sys.stdout.flush()
        self._has_ended = True
        self._patches.undo()
        if not self._options.goes_on:
            # A script that catches SystemExit does not train further.
            self._patches.replace(DDP, "_pre_forward", _end_process)
            self._patches.replace(torch.autograd, "backward", _end_process)
            sys.exit(0)


def _why_no_module() -> str:
    if is_anything_compiled():
        return (
            "torch.compile compiles the function that calls the model, so that the call is not "
            "seen: compile the model instead, as torch.compile(model)"
        )
    return "no module that was called holds what is updated here"


def _ids_with_gradients(module: torch.nn.Module) -> set[int]:
    return {id(param) for param in module.parameters() if param.grad is not None}


def _end_process(own: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
    sys.stdout.flush()
    os._exit(0)


def _execute(command: list[str]) -> None:
    """Runs a script, or a module after -m, with its arguments, as Python does."""
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(os.path.abspath(command[0]), run_name="__main__")
