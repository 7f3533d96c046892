"""Runs the command line `python -m gradsync COMMAND`. Once gradsync is installed, `gradsync
COMMAND` does the same."""

from __future__ import annotations

import sys
from typing import NoReturn

from gradsync import (
    BAD_ARGUMENTS,
    LACKING,
    __version__,
    check_flags,
    record_flags,
    what_if_command,
)

USAGE = """\
python -m gradsync record [--out=FILE] [--continue] [--rounds=N] train.py ARGS...
torchrun --nproc_per_node=2 -m gradsync record [--no-ddp] ... train.py ARGS...
    runs a script, unchanged, until enough of its steps are recorded: a script for one process, or one that uses
    DistributedDataParallel or fully_shard, for which it prints the answer. Each launch adds a line to FILE (gradsync.jsonl);
    launch it three times. `record --help` lists what it cannot record.
gradsync what_if FILE [--help]
    predicts steps over other links and with other numbers of ranks.
gradsync trace rank0.json.gz rank1.json.gz ... [--help]
    shows what in traces of torch.profiler lengthens a step, and for which rank the others wait.
python -m gradsync check train.py ARGS, or by torchrun as above
    compares the gradients that optimizers get with the mean of all ranks' gradients. Exit status: 0 the same, 1 a difference,
    2 check cannot compare, 5 check itself has failed. `check --help` lists what it cannot check.
gradsync --version
    prints the version.
"""  # noqa: E501
COMMANDS = ("record", "what_if", "trace", "check")
OLDEST_PYTORCH = (2, 3)  # the first with torch.amp.GradScaler and torch.compiler.is_compiling
NEEDS = "it needs PyTorch {}.{} or newer".format(*OLDEST_PYTORCH)


def end(text: str, status: int) -> NoReturn:
    """Prints `text` to stderr, and ends the process with the exit status `status`."""
    print(text, file=sys.stderr)
    sys.exit(status)


def refuse_old_pytorch(command: str, status: int) -> None:
    """Ends the process with one line of error and the exit status `status` if PyTorch is older than
    OLDEST_PYTORCH. Raises ModuleNotFoundError if PyTorch is missing."""
    import torch

    major, minor, *_ = torch.__version__.split(".")
    if (int(major), int(minor)) < OLDEST_PYTORCH:
        end(f"{command}: PyTorch {torch.__version__} is too old: {NEEDS}", status)


def print_answer(recording: str) -> None:
    """Prints what `gradsync what_if RECORDING` prints; `recording` is the path of the file."""
    what_if_command.main([recording])


def run_with_pytorch(command: str, arguments: list[str]) -> NoReturn:
    """Runs the command `record` or `check` with these arguments, and ends the process."""
    parser = check_flags.parser() if command == "check" else record_flags.parser()
    parser.parse_args(arguments)  # prints help, and refuses wrong flags, also without PyTorch
    # 2 of `check` says that it cannot check.
    status = BAD_ARGUMENTS if command == "check" else LACKING
    try:
        refuse_old_pytorch(command, status)
        from gradsync import check, record  # seconds, of which `what_if` needs none
    except ModuleNotFoundError as error:
        end(f"{command}: no module {error.name}: {NEEDS}", status)
    if command == "check":
        check.main(arguments)
    record.main(arguments, finished=print_answer)


def main() -> NoReturn:
    """Runs the command that sys.argv names, and ends the process."""
    command, *arguments = sys.argv[1:] or [""]
    if command in ("-h", "--help"):
        print(USAGE)
        sys.exit(0)
    if command == "--version":
        print(f"gradsync {__version__}")
        sys.exit(0)
    if command == "":
        end(USAGE, BAD_ARGUMENTS)
    if command not in COMMANDS:
        expected = "record, what_if, trace or check (--help)"
        end(f"gradsync: no command {command}: expected {expected}", BAD_ARGUMENTS)
    if command == "what_if":
        sys.exit(what_if_command.main(arguments))
    if command == "trace":
        from gradsync.trace import command as trace_command

        sys.exit(trace_command.main(arguments))
    run_with_pytorch(command, arguments)


if __name__ == "__main__":
    main()
