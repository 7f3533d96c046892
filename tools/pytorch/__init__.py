"""What a step of a PyTorch model costs, and what DistributedDataParallel will make of it: `python -m gradsync --help`."""
from gradsync.record_torch import Recorder, record
