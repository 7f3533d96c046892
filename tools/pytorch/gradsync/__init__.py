"""Records steps of a PyTorch model, and predicts its steps with DistributedDataParallel.

`python -m gradsync --help` describes the commands. gradsync.record has a Recorder for other
training loops. Only gradsync.record and gradsync.check need PyTorch.
"""

__version__ = "0.1.0"

# Exit statuses, as in model/base/exit_status.h. Those of `check` are in check.py.
FAILED = 1
BAD_ARGUMENTS = 2
LACKING = 4


class Refused(ValueError):
    """An input cannot be used: one line with the flag or file, the value found, and the value
    expected."""
