"""Records steps of a PyTorch model, and predicts its steps with DistributedDataParallel: `python -m gradsync --help`.

gradsync.record has a Recorder for other training loops. Only gradsync.record and gradsync.check need PyTorch."""

# Exit statuses, as in model/base/exit_status.h. Those of `check` are in check.py.
FAILED, BAD_ARGUMENTS, LACKING = 1, 2, 4


class Refused(ValueError):
    """An input cannot be used: one line with the flag or file, the value found, and the value expected."""
