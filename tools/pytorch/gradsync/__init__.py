"""Records training steps of a PyTorch model, and predicts how long its steps take with
DistributedDataParallel, FSDP2 and other ways to synchronise gradients.

`python -m gradsync --help` describes the commands. In Python, what_if() returns an object with the
answer that the command `what_if` prints; what_if() needs no PyTorch. Recorder, which needs PyTorch,
records the steps of your own training loop. what_if() and Recorder raise Refused if they cannot use
their input, such as a file or a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsync.answering import what_if
    from gradsync.recorder import Recorder

__version__ = "0.1.0"
__all__ = ["Recorder", "Refused", "__version__", "what_if"]

# Exit statuses, as in model/base/exit_status.h. Those of `check` are in check.py.
FAILED = 1
BAD_ARGUMENTS = 2
LACKING = 4


class Refused(ValueError):
    """Raised if something that the user gives cannot be used, such as a flag, a file, a model or a
    script. The text of the exception is one line that says what is wrong."""


def __getattr__(name: str) -> Any:
    """Imports what_if() or Recorder when it is first used: Recorder imports PyTorch, which takes
    seconds."""
    if name == "what_if":
        from gradsync.answering import what_if

        return what_if
    if name == "Recorder":
        from gradsync.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
