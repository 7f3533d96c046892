"""Computes the times of computation, communication and other parts of each step of one rank."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gradsync import Refused
from gradsync.trace.collectives import Collective
from gradsync.trace.events import STEP, Device, Host, Trace, Work
from gradsync.trace.spans import Span, Spans, both, clipped, hull, length, union, without

SOON_S = 50e-6  # a kernel that waits for another stream begins so soon after it, or has not waited


@dataclass(frozen=True)
class Window:
    """A step in one rank's trace. `number`: the number that the profiler gives the step; None for a
    trace without steps. `host`: when the step begins and ends on the host; of a trace without
    steps, the whole trace. `begin` and `end`: when the step begins and ends on the GPU, or on the
    host if there is no GPU. Without steps, the span from `begin` to `end` encloses all events of
    the GPU and all operators of the main thread."""

    number: int | None
    host: Span
    begin: float
    end: float

    @property
    def span(self) -> Span:
        return self.begin, self.end


@dataclass(frozen=True)
class StepTimes:
    """The parts of one step of one rank, in seconds.

    `uncovered_s`: communication without concurrent computation. `lengthens_s`, `between_s`,
    `idle_s` and `rest_s` divide the time without computation. `lengthens_s`: communication for
    which the next computation waits. `between_s`: on a GPU, other time without computation from the
    first launch to the last end of copies out of DDP's buckets. On a CPU, `between_s` is the main
    thread's copies into or out of buckets, and its calls of collectives. `idle_s`: other time
    without computation in which the host has not launched the GPU's next computing kernel; 0 on a
    CPU. `rest_s`: time without computation that is in none of `lengthens_s`, `between_s` and
    `idle_s`."""

    step_s: float
    computation_s: float
    communication_s: float
    uncovered_s: float
    lengthens_s: float
    between_s: float
    idle_s: float
    rest_s: float

    @classmethod
    def mean(cls, steps: Sequence[StepTimes]) -> StepTimes:
        rows = [tuple(vars(step).values()) for step in steps]
        return cls(*(sum(column) / len(rows) for column in zip(*rows, strict=True)))


class DeviceClock:
    """Finds out when a GPU has done all work that was launched before a moment on the host."""

    def __init__(self, device: Sequence[Device]) -> None:
        own = sorted(device, key=lambda one: one.launched)
        self._launched = [one.launched for one in own]
        self._ends = list(accumulate((one.end for one in own), max))

    def done(self, moment: float) -> float:
        """Returns `moment` or, if it is later, the moment at which the GPU has done all work
        launched before `moment`."""
        i = bisect.bisect_left(self._launched, moment)
        return max(moment, self._ends[i - 1]) if i else moment


def windows_of(trace: Trace) -> list[Window]:
    """Returns when each step of a trace's main thread begins and ends. A trace without steps counts
    as one step with all events of the GPU and all operators of the main thread. Raises Refused if
    there is no step, and these events take no time."""
    clock = DeviceClock(trace.device)
    main = trace.main_thread()
    result = []
    for event in trace.steps:
        match = STEP.match(event.name)
        assert match
        if event.thread == main and event.end > event.begin:
            begin, end = clock.done(event.begin), clock.done(event.end)
            result.append(Window(int(match[1]), event.span, begin, end))
    if result:
        return result
    # Profiling goes on before and behind what is trained.
    spans = [*(one.span for one in trace.device), *trace.operators.get(main, [])]
    whole = hull(spans)
    if not whole:
        raise Refused(
            f"{trace.path}: no step, no kernel and no operator of the main thread takes any time"
        )
    return [Window(None, (trace.first_s, trace.last_s), *whole[0])]


def computation_of(trace: Trace) -> Spans:
    """Returns the spans of time in which a rank computes. On a GPU, these are the spans of kernels
    that do not communicate. On a CPU, these are the main thread's operators, without those of c10d
    and of DDP's reducer."""
    if trace.has_gpu:
        return union(one.span for one in trace.device if one.work is Work.COMPUTATION)
    operators = trace.operators.get(trace.main_thread(), [])
    return without(union(operators), _transport_of_cpu(trace))


def _transport_of_cpu(trace: Trace) -> Spans:
    """Returns the spans in which the main thread copies gradients into or out of DDP's buckets,
    runs DDP's search for unused parameters, or calls collectives."""
    main = trace.main_thread()
    own = (trace.calls, trace.records, trace.into_buckets, trace.out_of_buckets)
    return union(one.span for events in own for one in events if one.thread == main)


class Accountant:
    """Computes, from the trace of one rank, the times of each step's parts (StepTimes)."""

    def __init__(self, trace: Trace, collectives: Sequence[Collective]) -> None:
        self._trace = trace
        self._computation = computation_of(trace)
        self._communication = union(one.span for one in collectives)
        self._ends = sorted(one.end for one in collectives)
        self._transport = _transport_of_cpu(trace)
        self._synchronisations = union(trace.synchronisations)
        kernels = [one for one in trace.device if one.work is Work.COMPUTATION]
        self._kernels = sorted(kernels, key=lambda one: one.begin)
        self._begins = [one.begin for one in self._kernels]
        copies = union(one.span for one in trace.out_of_buckets)
        self._device_copies = launched_within(trace.device, copies)  # by their launches

    def times(self, window: Window) -> StepTimes:
        computation = clipped(self._computation, window.span)
        communication = clipped(self._communication, window.span)
        gaps = without([window.span], computation)
        lengthens, between, idle = self._shares(window, gaps)
        taken = length(lengthens) + length(between) + length(idle)
        return StepTimes(
            step_s=window.end - window.begin,
            computation_s=length(computation),
            communication_s=length(communication),
            uncovered_s=length(without(communication, computation)),
            lengthens_s=length(lengthens),
            between_s=length(between),
            idle_s=length(idle),
            rest_s=max(0.0, length(gaps) - taken),
        )

    def waits(self, window: Window) -> Spans:
        """Returns the spans of a step in which computation waits for communication."""
        computation = clipped(self._computation, window.span)
        return self._shares(window, without([window.span], computation))[0]

    def _shares(self, window: Window, gaps: Spans) -> tuple[Spans, Spans, Spans]:
        """Returns three parts of `gaps`, the spans of a step in which nothing is computed. The
        parts are waiting for communication, copying of gradients out of DDP's buckets, and idleness
        of the GPU. On a CPU, the second part also has copies into buckets and calls of collectives,
        and the third part is empty."""
        if self._trace.has_gpu:
            return self._gaps_of_gpu(window, gaps)
        return self._gaps_of_cpu(window, gaps)

    def _gaps_of_gpu(self, window: Window, gaps: Spans) -> tuple[Spans, Spans, Spans]:
        """Returns three parts of `gaps`: waiting for communication, copying of gradients out of
        DDP's buckets, and idleness of the GPU."""
        last_gradient = self._last_gradient(window)
        held: Spans = []
        unlaunched: Spans = []
        for begin, end in gaps:
            launched = self._next_launch(end, window)
            if launched is None or launched >= last_gradient:
                held.append((begin, end))  # it needs the gradients
            else:
                waited = self._until_a_collective_ended(max(begin, launched), end)
                held += [span for span in waited if span[1] >= end - SOON_S]
            unlaunched.append((begin, end if launched is None else min(end, launched)))
        # The host itself may wait for the GPU, which only communicates.
        held = union([*held, *both(clipped(self._synchronisations, window.span), gaps)])
        lengthens = both(both(clipped(self._communication, window.span), gaps), held)
        left = without(gaps, lengthens)
        between = both(left, self._launching_of_copies(window))
        idle = without(both(left, union(unlaunched)), between)
        return lengthens, between, idle

    def _next_launch(self, moment: float, window: Window) -> float | None:
        """Returns when the host launched the first computing kernel that begins at or after
        `moment`. Returns None if there is no such kernel, or if `moment` is the step's end."""
        i = bisect.bisect_left(self._begins, moment)
        if moment >= window.end or i == len(self._begins):
            return None
        return self._kernels[i].launched

    def _last_gradient(self, window: Window) -> float:
        """Returns when the last of the step's gradient computations and copies into buckets ends on
        the host. If the step has neither, returns when its first optimizer begins or, without an
        optimizer, when the step ends on the host."""
        ends = [
            one.end
            for events in (self._trace.nodes, self._trace.accumulations, self._trace.into_buckets)
            for one in within(events, window.host)
        ]
        if ends:
            return max(ends)
        optimizers = within(self._trace.optimizers, window.host)
        return optimizers[0].begin if optimizers else window.host[1]

    def _launching_of_copies(self, window: Window) -> Spans:
        on_host = [one.span for one in within(self._trace.out_of_buckets, window.host)]
        first, last = (
            bisect.bisect_left(self._device_copies, moment, key=lambda one: one.launched)
            for moment in window.host
        )
        return hull([*on_host, *(one.span for one in self._device_copies[first:last])])

    def _gaps_of_cpu(self, window: Window, gaps: Spans) -> tuple[Spans, Spans, Spans]:
        """Returns three parts of `gaps`: waiting for communication, copying of gradients or calling
        of collectives, and an empty list."""
        between = both(clipped(self._transport, window.span), gaps)
        waited = [span for gap in gaps for span in self._until_a_collective_ended(*gap)]
        communication = clipped(self._communication, window.span)
        lengthens = without(both(communication, waited), between)
        return lengthens, between, []

    def _until_a_collective_ended(self, begin: float, end: float) -> Spans:
        """Returns the span from `begin` to the end of the last collective that ended by `end`;
        empty if none ended in between."""
        i = bisect.bisect_right(self._ends, end) - 1
        return [(begin, self._ends[i])] if i >= 0 and self._ends[i] > begin else []


def within(events: Sequence[Host], span: Span) -> list[Host]:
    """Returns those of the events that begin within the span, its end excluded. The events must be
    ordered by their beginnings."""
    first = bisect.bisect_left(events, span[0], key=lambda one: one.begin)
    last = bisect.bisect_left(events, span[1], key=lambda one: one.begin)
    return list(events[first:last])


def launched_within(device: Sequence[Device], spans: Spans) -> list[Device]:
    """Returns those events of `device` that the host is known to have launched within one of
    `spans`."""
    begins = [begin for begin, _ in spans]
    result = []
    for one in device:
        i = bisect.bisect_right(begins, one.launched) - 1
        if i >= 0 and one.launch_known and one.launched <= spans[i][1]:
            result.append(one)
    return result
