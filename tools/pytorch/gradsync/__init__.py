"""Records steps of a PyTorch model, and predicts its steps with DistributedDataParallel: `python -m gradsync --help`.

gradsync.record has a Recorder for other training loops. Only gradsync.record needs PyTorch."""


class Refused(ValueError):
    """An input cannot be used: one line with the flag or file, the value found, and the value expected."""
