"""Computes how long the parts of the traced training steps took, such as backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradsync.schema import Step, StepMode
from gradsync.trace.collectives import Collective
from gradsync.trace.events import Host, Trace
from gradsync.trace.moments import Moments, moments_of
from gradsync.trace.spans import Span, Spans, clipped, hull, length, union, without
from gradsync.trace.steps import Accountant, Window, within

NS = 1e9  # of a second


@dataclass(frozen=True)
class StepEvents:
    """The events of one training step on the host; all lists except `forwards` are sorted by time.
    `collectives` has only those called between the beginning of the step's first autograd node and
    the end of its last."""

    window: Window
    accumulations: list[Host]
    nodes: list[Host]
    into: list[Host]
    out_of: list[Host]
    optimizers: list[Host]
    forwards: list[Host]
    collectives: list[Collective]


class Timing:
    """Computes how long the parts of each step of a trace took, such as backward and the
    optimizer."""

    def __init__(self, trace: Trace, collectives: Sequence[Collective], gradients: int) -> None:
        """`gradients`: the number of gradients in one backward pass."""
        self._accountant = Accountant(trace, collectives)
        self._moments: Moments = moments_of(trace)
        self._gradients = gradients
        self._calls = union(one.span for one in trace.calls)
        self._previous_end: float | None = None

    def steps(self, events: StepEvents) -> list[Step]:
        """Makes two Steps for a recording from one traced step: one without and one with copies of
        gradients into and out of DDP's buckets. Both leave out the time before the update in which
        computation waits for communication; on a CPU, also the calls of c10d."""
        moments = self._moments
        gradients = events.accumulations[-self._gradients :]
        earlier = events.accumulations[: -len(gradients)]
        backward = _first_node(events.nodes, earlier[-1].end if earlier else events.window.host[0])
        first = events.forwards[0].begin if events.forwards else events.window.host[0]
        waits = self._waits(events.window)
        into = moments.spans_of(events.into)
        copied = without(hull(moments.spans_of(events.out_of)), waits)
        begin, update = moments.at(first), moments.at(events.optimizers[0].begin)
        turning, end = moments.at(backward), moments.done(events.nodes[-1].end)
        updated = moments.done(events.optimizers[-1].end)
        ready = [moments.done(one.end) for one in gradients]
        copied_in = _ends_of_copies(ready, gradients, events.into, moments)
        between = 0.0 if self._previous_end is None else max(0.0, begin - self._previous_end)
        self._previous_end = max(update, updated)
        result = []
        for mode, moments_ready, left_out in (
            (StepMode.UNSYNCHRONISED, ready, union([*waits, *into])),
            (StepMode.PROBE, copied_in, waits),
        ):
            copies = length(copied) if mode is StepMode.PROBE else 0.0
            parts = _Parts(
                before=_taken((begin, turning), left_out),
                backward=_taken((turning, end), left_out),
                copies=copies,
                rest=_taken((end, update), union([*left_out, *copied])),
                optimizer=max(0.0, updated - update),
            )
            result.append(
                _step(
                    mode,
                    parts,
                    begin=events.window.begin,
                    between=between,
                    ready=[_taken((turning, moment), left_out) for moment in moments_ready],
                )
            )
        return result

    def _waits(self, window: Window) -> Spans:
        """Returns the time spans in which computation waits for communication; on a CPU, also those
        of all calls of c10d (torch.distributed)."""
        waits = self._accountant.waits(window)
        if self._moments.is_of_gpu:
            return waits
        return union([*waits, *clipped(self._calls, window.span)])


@dataclass(frozen=True)
class _Parts:
    """The seconds of each part of a step; `copies` is the time of copying gradients out of DDP's
    buckets."""

    before: float
    backward: float
    copies: float
    rest: float
    optimizer: float

    @property
    def whole(self) -> float:
        return self.before + self.backward + self.copies + self.rest + self.optimizer


def _step(
    mode: StepMode, parts: _Parts, begin: float, between: float, ready: Sequence[float]
) -> Step:
    return Step(
        mode=mode,
        begin_ns=round(NS * begin),
        step_ns=round(NS * parts.whole),
        between_ns=round(NS * between),
        before_ns=round(NS * parts.before),
        backward_ns=max(1, round(NS * parts.backward)),
        copy_back_ns=round(NS * parts.copies),
        rest_ns=round(NS * parts.rest),
        optimizer_ns=round(NS * parts.optimizer),
        ready_ns=tuple(round(NS * moment) for moment in ready),
    )


def _taken(span: Span, left_out: Spans) -> float:
    return length(without([span], left_out)) if span[0] < span[1] else 0.0


def _first_node(nodes: Sequence[Host], moment: float) -> float:
    """Returns when the first autograd node at or after `moment` begins, or else when the last node
    begins."""
    return next((one.begin for one in nodes if one.begin >= moment), nodes[-1].begin)


def _ends_of_copies(
    ready: Sequence[float], gradients: Sequence[Host], into: Sequence[Host], moments: Moments
) -> list[float]:
    """Returns, for each gradient, when its copy into a DDP bucket ended. For a gradient without a
    copy, returns its element of `ready`, the time at which the gradient was ready."""
    result = []
    for i, own in enumerate(gradients):
        following = gradients[i + 1].begin if i + 1 < len(gradients) else float("inf")
        copies = within(into, (own.begin, following))
        result.append(moments.done(copies[0].end) if copies else ready[i])
    return result
