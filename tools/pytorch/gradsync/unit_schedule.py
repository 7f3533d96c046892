"""Computes when FSDP2 (torch.distributed.fsdp.fully_shard) gathers the parameters of its units, and
reduces their gradients.

This module follows the rules of PyTorch's torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py.
Moments are in seconds of computation after the beginning of a step: the time in which a rank waits
is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gradsync.link import Operation
from gradsync.schema import NS, Step, Unit


class Call(str, Enum):
    """Which method of FSDP2's group of parameters PyTorch calls for a unit, before or after its
    forward or backward. The member ACCUMULATE is a call of post_backward that accumulates gradients
    and does not reduce them."""

    PRE_FORWARD = "pre_forward"
    POST_FORWARD = "post_forward"
    PRE_BACKWARD = "pre_backward"
    POST_BACKWARD = "post_backward"
    ACCUMULATE = "accumulate"


# Those of one pass, in their order; a recording has their times by unit.
CALLS = (Call.PRE_FORWARD, Call.POST_FORWARD, Call.PRE_BACKWARD, Call.POST_BACKWARD)


@dataclass(frozen=True, order=True)
class Event:
    """A call of a method of FSDP2 (see Call). `unit`: the number of the unit for which the method
    is called. `moment_s`: when the method is called, in seconds of computation after the beginning
    of the step."""

    moment_s: float
    call: Call
    unit: int


@dataclass(frozen=True)
class UnitCollective:
    """A gather or a reduction of the unit with the number `unit`. `issued_s`: when the collective
    is issued. `needed_s`: when computation begins to wait for the collective; None if only the end
    of backward waits for it. `issued_s` and `needed_s` are in seconds of computation after the
    beginning of the step."""

    operation: Operation
    unit: int
    issued_s: float
    needed_s: float | None


class _Schedule:
    """Finds out which collectives FSDP2 issues, and when. add() takes the calls of FSDP2's methods
    (Events) one after the other. `planned`: the collectives of the events added so far, in the
    order in which they are issued."""

    def __init__(self, units: Sequence[Unit], overlaps: bool) -> None:
        self.planned: list[UnitCollective] = []
        self._units = units
        self._overlaps = overlaps
        self._whole: set[int] = set()  # units that are gathered, or on their way
        self._backward_ended = True
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._gather_moments: list[float] = []  # of forward
        self._order: list[int] = []  # units by the end of their forward
        self._places: dict[int, list[int]] = {}  # and each one's places in it
        # Collectives that nothing waits for yet, by their places in `planned`.
        self._coming: dict[int, int] = {}  # gathers, by unit
        self._reducing: int | None = None

    def add(self, event: Event) -> None:
        if event.call is Call.PRE_FORWARD:
            self._pre_forward(event)
        elif event.call is Call.POST_FORWARD:
            self._post_forward(event.unit)
        elif event.call is Call.PRE_BACKWARD:
            self._pre_backward(event)
        else:
            self._post_backward(event)
        self._backward_ended = event.call in (Call.POST_BACKWARD, Call.ACCUMULATE)

    def _pre_forward(self, event: Event) -> None:
        """Adds a gather of the event's unit to `planned`, unless the unit is gathered already. On a
        CPU, and for the first gather of a forward, the gather is issued when the forward of the
        unit begins. If the host runs ahead of a GPU, the second gather of a forward is issued when
        the forward of the first gathered unit begins. Gather number n > 2 of a forward is issued
        when the forward of the unit of gather n - 2 begins."""
        if self._backward_ended:
            self._begin_pass()
        moment = event.moment_s
        if event.unit not in self._whole:
            earlier = self._gather_moments[-2:]
            issued = earlier[0] if earlier and self._overlaps else moment
            self._issue(Operation.ALL_GATHER, event.unit, issued, moment)
            self._gather_moments.append(moment)
            self._whole.add(event.unit)

    def _post_forward(self, unit: int) -> None:
        self._places.setdefault(unit, []).append(len(self._order))
        self._order.append(unit)
        if self._units[unit].reshards:
            self._whole.discard(unit)

    def _pre_backward(self, event: Event) -> None:
        """Adds a gather of the unit's parameters to `planned`, unless they are gathered already.
        Also adds a gather of the unit that backward needs next, unless it is gathered already.
        Backward is assumed to need units in the reverse of the order in which their forwards
        ended."""
        unit, moment = event.unit, event.moment_s
        if unit not in self._whole:
            self._issue(Operation.ALL_GATHER, unit, moment, moment)
            self._whole.add(unit)
        if unit in self._coming:
            self._wait_for(self._coming.pop(unit), moment)
        place = self._places[unit].pop() if self._places.get(unit) else 0
        if place > 0:
            ahead = self._order[place - 1]
            if ahead not in self._whole:
                self._coming[ahead] = self._issue(Operation.ALL_GATHER, ahead, moment, None)
                self._whole.add(ahead)

    def _post_backward(self, event: Event) -> None:
        """Removes the event's unit from the gathered units. Unless gradients are only accumulated
        (Call.ACCUMULATE), also adds a reduction of the unit's gradients to the list `planned`.
        Before this reduction, computation waits until the previous unit's reduction has ended."""
        self._whole.discard(event.unit)
        if event.call is Call.ACCUMULATE:
            return
        if self._reducing is not None:
            self._wait_for(self._reducing, event.moment_s)
        self._reducing = self._issue(Operation.REDUCE_SCATTER, event.unit, event.moment_s, None)

    def _issue(self, operation: Operation, unit: int, issued: float, needed: float | None) -> int:
        self.planned.append(UnitCollective(operation, unit, issued, needed))
        return len(self.planned) - 1

    def _wait_for(self, place: int, moment: float) -> None:
        self.planned[place] = replace(self.planned[place], needed_s=moment)


def collectives(
    events: Iterable[Event],
    units: Sequence[Unit],
    overlaps: bool,
    empty: Collection[int] = (),
) -> list[UnitCollective]:
    """Returns FSDP2's collectives of a step, in the order in which they are issued.

    `events`: the calls of FSDP2's methods, ordered by time. `overlaps`: whether the host issues
    work before the device has done the work issued earlier, as with a GPU. `empty`: the indices of
    units without parameters, which FSDP2 ignores.
    """
    schedule = _Schedule(units, overlaps)
    for event in events:
        if event.unit not in empty:
            schedule.add(event)
    return schedule.planned


def events_of(
    step: Step, units: Sequence[Unit], passes: int, ready: Sequence[float]
) -> list[Event]:
    """Returns when FSDP2 calls its methods (see Call) for each unit in a step, pass after pass. (A
    pass is a forward and its backward.)

    `ready`: the seconds from the beginning of the last backward until each parameter's gradient is
    ready. Only the last pass of a step is recorded. Earlier passes are assumed to call the same
    methods of FSDP2 as the last pass, but to reduce no gradients.
    """
    if step.units_ns:
        last = _recorded_events(step)
        begin = NS * min(times[0] for times in step.units_ns)
    else:
        last = _assumed_events(step, units, passes, ready)
        begin = last[0].moment_s
    earlier = [
        Event(
            event.moment_s - begin + number * begin / (passes - 1),
            Call.ACCUMULATE if event.call is Call.POST_BACKWARD else event.call,
            event.unit,
        )
        for number in range(passes - 1)
        for event in last
    ]
    return earlier + last


def _recorded_events(step: Step) -> list[Event]:
    """Returns the calls of FSDP2's methods in a step's last forward and backward, at the recorded
    moments, for a script that uses fully_shard itself. Calls at the same moment are in the order of
    CALLS."""
    events = [
        (NS * ns, place, unit)
        for unit, times in enumerate(step.units_ns)
        for place, ns in enumerate(times)
    ]
    return [Event(moment, CALLS[place], unit) for moment, place, unit in sorted(events)]


def _assumed_events(
    step: Step, units: Sequence[Unit], passes: int, ready: Sequence[float]
) -> list[Event]:
    """Returns the calls of FSDP2's methods in the last pass, at assumed moments, for a script that
    does not use fully_shard. The backward of each unit except the root is assumed to end when the
    unit's last gradient is ready. The backward of the next unit is assumed to begin at the same
    moment. The backward of the unit whose gradients are ready first is assumed to begin when
    backward itself begins. A unit's part of the time of forward is assumed to equal its part of the
    time of backward. The forward and backward of the root (unit 0) contain those of all other
    units."""
    before, backward = NS * step.before_ns, NS * step.backward_ns
    forward = max((before + backward) / passes - backward, 0)
    ends = sorted(
        (max(ready[p] for p in unit.parameters), number)
        for number, unit in enumerate(units)
        if number and unit.parameters
    )
    forwards: list[Event] = []
    backwards: list[Event] = []
    begin = 0.0  # of a unit's backward, from the begin of backward
    for end, unit in ends:
        forwards = [
            Event(before - forward * end / backward, Call.PRE_FORWARD, unit),
            Event(before - forward * begin / backward, Call.POST_FORWARD, unit),
            *forwards,
        ]
        backwards += [
            Event(before + begin, Call.PRE_BACKWARD, unit),
            Event(before + end, Call.POST_BACKWARD, unit),
        ]
        begin = end
    return [
        Event(before - forward, Call.PRE_FORWARD, 0),
        *forwards,
        Event(before, Call.POST_FORWARD, 0),
        Event(before, Call.PRE_BACKWARD, 0),
        *backwards,
        Event(before + backward, Call.POST_BACKWARD, 0),
    ]
