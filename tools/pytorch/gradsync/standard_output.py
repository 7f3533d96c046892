"""Prints the answer of a command of gradsync, such as what_if, to standard output."""

from __future__ import annotations

import os
import sys

from gradsync import FAILED


def print_answer(program: str, answer: str) -> int:
    """Prints the answer of the command `program`, and returns the command's exit status: 0, or
    FAILED if writing to standard output fails."""
    if sys.stdout is None:  # closed, where print() does nothing
        print(f"{program}: cannot write to stdout: it is closed", file=sys.stderr)
        return FAILED
    try:
        print(answer, flush=True)
    except OSError as error:  # a full disk, or a reader who has left
        # Python would try again to write to it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"{program}: cannot write to stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    return 0
