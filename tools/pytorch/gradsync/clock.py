"""Defines clocks that mark moments of a step, on the CPU or in the work of a GPU, and measure the
time between two marks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import torch

from gradsync.host import waited_for_cpu_ns

# Nanoseconds of the host's monotonic clock, or an event of the GPU's current stream.
Mark = int | torch.cuda.Event


@dataclass(frozen=True)
class Span:
    """The time from one mark of a Clock to another."""

    begin: Mark
    end: Mark


class Clock(Protocol):
    """Marks moments in the work of a CPU or GPU, and measures the time between two marks."""

    def mark(self) -> Mark:
        """Returns a mark of now; on a GPU, of when the operations given so far to its current
        stream are done."""

    def ns(self, span: Span) -> int:
        """Returns the time between the two marks of `span`, in nanoseconds. If the marks are of a
        GPU, settle() must have been called after both marks were made, so that the GPU has passed
        them."""

    def settle(self) -> None:
        """Waits until the device has done all work that it was given so far."""

    def cpu_ns(self) -> int:
        """Returns the CPU time of all threads of this process, plus its main thread's waits for a
        CPU, in nanoseconds. The waits count as 0 where the system does not report them, as on
        macOS. Returns 0 if the device is a GPU."""


class HostClock:
    """The clock for models on a CPU, where an operation is done when its call returns."""

    def mark(self) -> Mark:
        return time.monotonic_ns()

    def ns(self, span: Span) -> int:
        assert isinstance(span.begin, int)
        assert isinstance(span.end, int)
        return span.end - span.begin

    def settle(self) -> None:
        pass

    def cpu_ns(self) -> int:
        return time.process_time_ns() + waited_for_cpu_ns()


class CudaClock:
    """The clock for models on a GPU. The marks of this clock are events in the GPU's current
    stream, because a GPU executes operations after their calls have returned."""

    def mark(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def ns(self, span: Span) -> int:
        assert isinstance(span.begin, torch.cuda.Event)
        assert isinstance(span.end, torch.cuda.Event)
        return int(1e6 * span.begin.elapsed_time(span.end))

    def settle(self) -> None:
        torch.cuda.synchronize()

    def cpu_ns(self) -> int:
        return 0


def clock_of(device: torch.device) -> Clock:
    return CudaClock() if device.type == "cuda" else HostClock()
