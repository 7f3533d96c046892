"""Defines the interface of objects that a Recorder, which times the steps of a training script,
informs about its progress. The command `record` gives an object with this interface to its
Recorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from gradsync import Refused

if TYPE_CHECKING:
    from gradsync.recorder import Recorder


class Observer(Protocol):
    """The methods by which a Recorder tells its progress."""

    def refused(self, error: Refused) -> NoReturn:
        """Called with the reason when the model or its script cannot be recorded. Must raise an
        exception, or end the process."""

    def started(self, recorder: Recorder) -> None:
        """Called after the script's first step, when all ranks begin to record."""

    def warmed_up(self, recorder: Recorder) -> None:
        """Called when the first round of steps has ended. The times of this round, the warm-up, are
        not kept."""

    def finished(self, recorder: Recorder) -> None:
        """Called when recording is done. On rank 0, the recorded steps of all ranks are then in the
        file of the recording."""
