"""Records training steps of a PyTorch model, and predicts how long its steps take with
DistributedDataParallel, FSDP2 and other ways to synchronise gradients.

`python -m gradsync --help` describes the commands. In Python, what_if() returns what the command of
this name prints, and Recorder records your own training loop; only Recorder needs PyTorch. Both
raise Refused if their input cannot be used.
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
    """An input that cannot be used. Its text is one line with the flag or file, the value found,
    and the value expected."""


def __getattr__(name: str) -> Any:
    """Imports what_if() and Recorder when they are first used, since PyTorch takes seconds."""
    if name == "what_if":
        from gradsync.answering import what_if

        return what_if
    if name == "Recorder":
        from gradsync.recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
