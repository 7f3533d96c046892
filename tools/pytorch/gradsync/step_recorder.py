"""Measures how long forward, backward and the other parts of a model's training steps take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import torch

from gradsync.arrivals import Arrivals
from gradsync.clock import Clock, Mark, Span
from gradsync.events import in_backward
from gradsync.flat_buffer import FlatBuffer
from gradsync.live import StepMemory
from gradsync.prober import Prober
from gradsync.schema import Memory, Step
from gradsync.step_marks import StepMarks
from gradsync.target import ModelTarget
from gradsync.turns import FIRST, Turn
from gradsync.world import World


class StepRecorder:
    """Measures how long the parts of a model's current training step take. The Recorder calls the
    methods of this class when parts of the step begin and end. Each beginning and end is stored as
    a mark of the clock: a time on a CPU, or a torch.cuda.Event on a GPU.

    `turn`: the kind of the current step, such as a probe (a step whose collectives are timed).
    `passes`: the number of backward passes so far in the step that have computed gradients, without
    that of end_backward_unseen(). `is_prepared`: whether gradients are synchronised in or after the
    current backward pass. `arrivals`: when gradients became ready in the current or last backward
    pass. `buffer`: the flat buffer into which probes copy gradients; None before start(), and after
    close(). With several ranks, all probes except FULLY_SHARD probes send from `buffer`.
    """

    def __init__(self, target: ModelTarget, world: World, clock: Clock) -> None:
        self.turn = FIRST
        self.passes = 0
        self.is_prepared = False
        self.arrivals = Arrivals(len(target.params))
        self.buffer: FlatBuffer | None = None
        self._target = target
        self._world = world
        self._clock = clock
        self._prober: Prober | None = None
        self._memory: StepMemory | None = None  # of one step
        self._is_put = [False] * len(target.params)  # which gradients are in the buffer
        self._marks: StepMarks | None = None
        self._update_begin: Mark = 0
        self._updated: Mark | None = None  # the end of the last update, if that was the model's
        self._cpu_ns = 0  # the process's CPU time at the step's begin, and what does not count

    def start(self, units: Sequence[Sequence[int]]) -> None:
        """Called when the script's first step has ended: makes the flat buffer into which gradients
        are copied in probes (steps whose collectives are timed). `units`: the numbers of the
        parameters that FSDP2 would gather together if the blocks of the model were its units: a
        list for each block, and one, possibly empty, for the other parameters."""
        dtypes = self._target.dtypes()
        self.buffer = FlatBuffer(self._target.params, self._world.size, dtypes)
        self._prober = Prober(self.buffer, self._world, self._clock, units)

    def close(self) -> None:
        """Copies gradients that are views of the probes' buffer to memory of their own, and frees
        the buffer."""
        self._end_memory()
        if self.buffer:
            self.buffer.release()
        self.buffer = None
        self._prober = None

    def begin(self, turn: Turn, called: Mark) -> None:
        """Called when a step begins; before this, ModelTarget.before_step() is called, except in
        the script's first step. `called`: the clock's mark (a moment or a GPU event) of when the
        model's forward was called."""
        self.turn = turn
        self.passes = 0
        self.is_prepared = False
        between = None if self._updated is None else Span(self._updated, called)
        self._cpu_ns = self._clock.cpu_ns()
        begin_ns = time.monotonic_ns()
        self._marks = StepMarks(turn.mode, begin_ns, self._clock.mark(), between)

    def measure_memory(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        """Begins to measure how many bytes tensors need in the step that begins now."""
        assert self.buffer is not None
        self._end_memory()
        own = [self.buffer.flat]
        self._memory = StepMemory(self._target.params, self._target.module, optimizers, own)

    def _end_memory(self) -> None:
        if self._memory:
            self._memory.end()

    def memory(self) -> Memory | None:
        return self._memory.result() if self._memory else None

    def begin_backward(self, expected: int | None) -> None:
        """Called when a backward pass begins. `expected`: the number of backward passes in a whole
        step; None if unknown."""
        if self._memory:
            self._memory.on_backward()
        decides = self._target.before_backward(self.turn, self.passes, expected)
        if decides is not None:
            self.is_prepared = decides
        self._is_put = [False] * len(self._target.params)
        self.arrivals.begin_backward(self._clock.mark())

    def note_ready(self, i: int, is_in_step: bool) -> None:
        """Called whenever autograd has added to the gradient of parameter `i`. `is_in_step`:
        whether a step runs whose gradients are not yet synchronised; the gradient of parameter `i`
        belongs to this step."""
        gradient = self._target.params[i].grad
        assert gradient is not None
        is_last = self.arrivals.count(i)
        if gradient.layout is not torch.strided:
            self.arrivals.sparse = self._target.named[i][0]
        if not in_backward():
            return
        if self._memory:
            self._memory.on_ready(i)
        if is_in_step and not self.arrivals.sparse:
            if is_last and self.turn.is_probe and self.is_prepared:
                self._put_into_buffer(i)
            self.arrivals.ready[i] = self._clock.mark()

    def _put_into_buffer(self, i: int) -> None:
        assert self.buffer is not None
        self.buffer.put(i)
        self._is_put[i] = True
        if self._target.views:
            self._target.params[i].grad = self.buffer.slots[i]

    def synchronise(self, end: Mark) -> None:
        """Called when the last backward pass of a step has ended. If the step is a probe of several
        ranks, runs its collectives now, and measures their times. Finally, averages gradients over
        ranks for the optimizer, unless the script's DDP or fully_shard averages them in this
        step."""
        self.passes += 1
        marks = self._step_marks()
        marks.last_backward = Span(self.arrivals.begin, end)
        marks.ready = self.arrivals.ready
        if not self.turn.is_scripts_own:
            assert self.buffer is not None
            if self.turn.probe:
                assert self._prober is not None
                self.buffer.fill(self._is_put)
                self._target.keep(self.buffer)
                self._world.meet()
                marks.sent = self._prober.run(self.turn.probe)
            cpu_ns = self._clock.cpu_ns()
            self._target.deliver(self.turn, marks, self.buffer)
            self._cpu_ns += self._clock.cpu_ns() - cpu_ns
        marks.rest = self._clock.mark()

    def _step_marks(self) -> StepMarks:
        assert self._marks is not None
        return self._marks

    def end_backward_unseen(self, end: Mark) -> None:
        """Called in the script's first step, and in no later one, when a backward pass has ended.
        The weights have changed since the previous pass without a step() of an optimizer of
        torch.optim. The update after this pass is assumed to begin at `end`, the mark of the pass's
        end."""
        self._step_marks().rest = end

    def begin_update(self, moment: Mark) -> None:
        self._update_begin = moment
        self._updated = None
        if self._memory:
            self._memory.on_update()

    def note_unseen_update(self, moment: Mark) -> None:
        """Called at the first forward after code other than an optimizer of torch.optim has updated
        the model. The update is assumed to begin at the end of synchronise() or, if
        end_backward_unseen() was called in this step, at the `end` passed to it. The update is
        assumed to end at `moment`."""
        rest = self._step_marks().rest
        assert rest is not None
        self._update_begin = rest
        self.note_updated(moment)

    def note_updated(self, moment: Mark) -> None:
        """Called when an update of the model ends; a step may have several updates. `moment`: the
        clock's mark (a moment or a GPU event) of the update's end."""
        self._updated = moment
        self._step_marks().cpu_ns = self._clock.cpu_ns() - self._cpu_ns

    def forget_update(self) -> None:
        """Called when a backward between two steps has computed no gradient of the recorded model,
        for example a backward of another model. After this call, the field `between_ns` of the
        recorded model's next Step is 0 (unknown)."""
        self._updated = None

    def abandon(self) -> None:
        """Called if the step is not recorded, because a GradScaler has skipped the optimizer's
        step()."""
        self._end_memory()
        self._updated = None
        self.arrivals.since_update = 0

    def end(self, moment: Mark) -> None:
        """Called when the step has ended. `moment`: the clock's mark (a moment or a GPU event) of
        its end. If the last update has no end yet, `moment` is noted as its end."""
        if self._updated is None:
            self.note_updated(moment)
        self.arrivals.since_update = 0
        self._end_memory()

    def is_synchronised(self) -> bool:
        """Returns whether synchronise() was called in this step, because its last backward pass has
        ended."""
        return self._step_marks().last_backward is not None

    def times(self) -> Step:
        """Returns the times of the step. The step must have ended, must not be the script's first,
        and is_synchronised() must return True."""
        assert self._updated is not None
        self._clock.settle()
        marks = self._step_marks()
        marks.update = Span(self._update_begin, self._updated)
        return marks.times(self._clock)
