"""Ends the process of this rank with a line of error, in a way that its script cannot prevent."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

SECONDS_TO_BE_ENDED = 10  # torchrun needs less to end the others when one rank has ended


def end_rank(text: str, status: int, first_rank: int = 0) -> NoReturn:
    """Prints `gradsync: TEXT` to stderr, and ends this process with the exit status `status`.

    This function does not raise an exception, because the script might catch it. Rank `first_rank`
    prints the text and ends at once, and torchrun then ends the other ranks. Each other rank waits
    SECONDS_TO_BE_ENDED first; it prints the text and ends itself only if torchrun has not ended it
    by then.
    """
    if os.environ.get("RANK", "0") != str(first_rank):
        time.sleep(SECONDS_TO_BE_ENDED)
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
