"""Ends the process of this rank with a line of error, in a way that its script cannot prevent."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

SECONDS_TO_BE_ENDED = 10  # torchrun needs less to end the others when one rank has ended


def end_rank(text: str, status: int, first_rank: int = 0) -> NoReturn:
    """Prints `gradsync: TEXT` to stderr, and ends this process with the exit status `status`. On
    ranks other than `first_rank`, waits SECONDS_TO_BE_ENDED before it prints and ends.

    This function does not raise an exception, because the script might catch it. When rank
    `first_rank` has ended, torchrun usually ends the other ranks during their wait, so that they do
    not print the text.
    """
    if os.environ.get("RANK", "0") != str(first_rank):
        time.sleep(SECONDS_TO_BE_ENDED)
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
