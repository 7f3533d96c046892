"""Ends this process with an error message on stderr, even if the script catches all exceptions."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

SECONDS_TO_BE_ENDED = 10  # torchrun needs less to end the others when one rank has ended


def end_rank(text: str, status: int, first_rank: int = 0) -> NoReturn:
    """Prints `gradsync: TEXT` to stderr, and ends this process with the exit status `status`. A
    rank other than `first_rank` first sleeps for 10 seconds, in which torchrun usually ends the
    rank."""
    if os.environ.get("RANK", "0") != str(first_rank):
        time.sleep(SECONDS_TO_BE_ENDED)
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
