"""Defines classes that hold the clock's marks of a running step. A mark is a moment on a CPU, or an
event of a GPU. When the step has ended, its times are computed from the marks."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradsync.clock import Clock, Mark, Span
from gradsync.schema import CollectiveKind, Collectives, Step, StepMode


@dataclass
class CollectiveMarks:
    """The clock's marks (moments or GPU events) of when a probe's collectives begin and end. The
    method times() computes a schema.Collectives from the marks."""

    kind: CollectiveKind
    in_flight: bool
    bytes: list[int] = field(default_factory=list)
    each: list[Span] = field(default_factory=list)
    into: list[Span] = field(default_factory=list)
    out_of: list[Span] = field(default_factory=list)
    whole: Span | None = None
    cpu_ns: int = 0

    def add(self, begin: Mark, second: Mark, third: Mark, end: Mark) -> None:
        """Adds the three spans between four marks. In a BF16 probe, the spans are a cast, an
        all-reduce and a cast back; in a FULLY_SHARD probe, a unit's gather, a pause and the unit's
        reduction."""
        self.into.append(Span(begin, second))
        self.each.append(Span(second, third))
        self.out_of.append(Span(third, end))

    def times(self, clock: Clock) -> Collectives:
        assert self.whole is not None
        return Collectives(
            kind=self.kind,
            in_flight=int(self.in_flight),
            bytes=tuple(self.bytes),
            ns=_times(clock, self.each),
            wall_ns=clock.ns(self.whole),
            cpu_ns=self.cpu_ns,
            in_ns=_times(clock, self.into),
            out_ns=_times(clock, self.out_of),
        )


@dataclass
class UnitMarks:
    """The clock's marks (moments or GPU events) of each fully_shard unit's gather, forward,
    backward and reduction for one step. The recorder gathers all units before the step, and reduces
    their gradients after the last backward. Each list has one entry per unit, or none: all lists
    are empty without fully_shard, and in SCRIPT steps, in which the script itself synchronises
    gradients."""

    gathers: list[Span] = field(default_factory=list)
    # By unit: from the step's begin to the begin and end of forward, and of backward.
    calls: list[list[Span]] = field(default_factory=list)
    reductions: list[Span] = field(default_factory=list)


@dataclass
class StepMarks:
    """The clock's marks (moments or GPU events) of when the parts of one step begin and end. The
    method times() computes from these marks the times that a recording stores (schema.Step)."""

    mode: StepMode | None  # None: the first step, of which nothing is written
    begin_ns: int  # of the host's clock, whatever the device's is
    begin: Mark
    between: Span | None
    last_backward: Span | None = None  # the one that synchronises; None until it has ended
    ready: list[Mark | None] = field(default_factory=list)
    sent: CollectiveMarks | None = None
    copy_back: Span | None = None
    units: UnitMarks | None = None
    untimed: Span | None = None  # what only serves the recording
    rest: Mark | None = None  # the end of all that follows from the last backward
    update: Span | None = None
    cpu_ns: int = 0  # of the whole step, without what only serves the recording

    def times(self, clock: Clock) -> Step:
        """Returns the times of the step, whose last backward and update must have ended. Must not
        be called for the script's first step."""
        assert self.mode is not None
        assert self.last_backward is not None
        assert self.rest is not None
        assert self.update is not None
        units = self.units or UnitMarks()
        untimed_ns = clock.ns(self.untimed) if self.untimed else 0
        begin = self.last_backward.begin
        return Step(
            mode=self.mode,
            begin_ns=self.begin_ns,
            step_ns=clock.ns(Span(self.begin, self.update.end)) - untimed_ns,
            between_ns=clock.ns(self.between) if self.between else 0,
            before_ns=clock.ns(Span(self.begin, begin)),
            backward_ns=clock.ns(self.last_backward),
            copy_back_ns=clock.ns(self.copy_back) if self.copy_back else 0,
            rest_ns=clock.ns(Span(self.rest, self.update.begin)),
            optimizer_ns=clock.ns(self.update),
            ready_ns=tuple(
                -1 if mark is None else clock.ns(Span(begin, mark)) for mark in self.ready
            ),
            collectives=self.sent.times(clock) if self.sent else None,
            cpu_ns=self.cpu_ns if self.mode is StepMode.UNSYNCHRONISED else 0,
            units_ns=tuple(_times(clock, own) for own in units.calls),
            gather_ns=_times(clock, units.gathers),
            reduce_ns=_times(clock, units.reductions),
        )


def _times(clock: Clock, spans: list[Span]) -> tuple[int, ...]:
    return tuple(clock.ns(span) for span in spans)
