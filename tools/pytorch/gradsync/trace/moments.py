"""Computes from a trace when work that the host starts is executed: on a CPU immediately, on a GPU
when the GPU reaches it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from gradsync.trace.events import Device, Host, Trace, Work
from gradsync.trace.spans import Spans, union
from gradsync.trace.steps import launched_within


class Moments:
    """Converts moments at which the host starts work to moments at which a CPU or GPU executes it.
    This base class is for a CPU, which executes work as soon as it is started."""

    is_of_gpu = False

    def at(self, moment: float) -> float:
        """Returns the moment at which the device begins work that the host starts at `moment`."""
        return moment

    def done(self, moment: float) -> float:
        """Returns the moment at which the device has done all work that the host started before
        `moment`."""
        return moment

    def spans_of(self, events: Sequence[Host]) -> Spans:
        """Returns the spans of time in which the CPU or GPU executes the work that the host starts
        during `events`. On a CPU these are the spans of the events themselves."""
        return union(one.span for one in events)


class DeviceMoments(Moments):
    """Tells when work is executed in training on a GPU, whose compute stream (the one with most
    kernels that compute) executes it some time after the host has started it.

    A gradient is ready when this stream has executed the last kernel that the host launched on it
    before the end of the gradient's event on the host, in which autograd accumulates it. This event
    ends long before the gradient is ready if the GPU runs behind the host, and slightly after it if
    the GPU waits for the host.
    """

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
    """Returns a DeviceMoments if the trace is of training on a GPU, else a Moments, for a CPU."""
    return DeviceMoments(trace.device) if trace.has_gpu else Moments()
