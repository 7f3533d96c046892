"""Defines Observer, the interface by which a Recorder (which times the steps of a training script)
reports its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from gradsync import Refused

if TYPE_CHECKING:
    from gradsync.recorder import Recorder


class Observer(Protocol):
    """The methods that a Recorder calls while it records a training script."""

    def refused(self, error: Refused) -> NoReturn:
        """Called with the reason if the script cannot be recorded, unless the constructor of
        Recorder has already raised Refused. Must raise an exception or end the process."""

    def started(self, recorder: Recorder) -> None:
        """Called when the script's first step has ended; all ranks record from the next step on."""

    def warmed_up(self, recorder: Recorder) -> None:
        """Called when the first round of steps has ended, whose times are not kept."""

    def finished(self, recorder: Recorder) -> None:
        """Called when recording is done. On rank 0, the recording's file has been written before
        this call."""
