"""Computes from a rank's trace when a CPU or GPU executes the work that the host starts."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from gradsync.trace.events import Device, Host, Trace, Work
from gradsync.trace.spans import Spans, union
from gradsync.trace.steps import launched_within


class Moments:
    """Converts times at which the host starts work to times at which the device executes the work.
    This base class is for a CPU, which executes work as soon as it is started. All times are in
    seconds."""

    is_of_gpu = False

    def at(self, moment: float) -> float:
        """Returns the time at which the device can first begin the work that the host starts at the
        time `moment`, if starting work takes no time."""
        return moment

    def done(self, moment: float) -> float:
        """Returns `moment` for a CPU. For a GPU, returns when the last work that the host launched
        before `moment` ends; `moment` if there is no such work."""
        return moment

    def spans_of(self, events: Sequence[Host]) -> Spans:
        """Returns the spans of time in which the device executes the work that the host starts
        during `events`."""
        return union(one.span for one in events)


class DeviceMoments(Moments):
    """Converts times at which the host starts work to times at which a GPU executes the work. Looks
    only at computation, copies and fills in the CUDA stream with the most computing kernels."""

    is_of_gpu = True

    def __init__(self, device: Sequence[Device]) -> None:
        computing = [one for one in device if one.work is not Work.COMMUNICATION]
        counts: dict[object, int] = {}
        for one in computing:
            counts[one.stream] = counts.get(one.stream, 0) + (one.work is Work.COMPUTATION)
        stream = max(counts, key=counts.__getitem__) if counts else None
        self._own = sorted(
            (one for one in computing if one.stream == stream), key=lambda one: one.launched
        )
        self._launched = [one.launched for one in self._own]

    def at(self, moment: float) -> float:
        return max(moment, self.done(moment))

    def done(self, moment: float) -> float:
        i = bisect.bisect_left(self._launched, moment)
        return self._own[i - 1].end if i else moment

    def spans_of(self, events: Sequence[Host]) -> Spans:
        spans = union(one.span for one in events)
        return union(one.span for one in launched_within(self._own, spans))


def moments_of(trace: Trace) -> Moments:
    """Returns a DeviceMoments if the trace has an event of a GPU, else a Moments for a CPU."""
    return DeviceMoments(trace.device) if trace.has_gpu else Moments()
