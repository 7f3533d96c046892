"""What a step of a PyTorch model costs, and what DistributedDataParallel will make of it: `python -m gradsync --help`.

gradsync.record has a Recorder for one's own loop, and alone needs PyTorch."""


class Refused(ValueError):
    """What cannot be used, in one line that names the flag or file, what was found, and what was expected."""
