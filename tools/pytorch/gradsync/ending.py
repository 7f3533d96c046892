"""Ends the process of this rank with an error, because its script must not continue."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

SECONDS_TO_BE_ENDED = 10  # torchrun needs less to end the others when one rank has ended


def end_rank(text: str, status: int, first_rank: int = 0) -> NoReturn:
    """Prints `gradsync: TEXT` and ends this process with this exit status.

    This does not raise an exception, because the script may catch all exceptions of its hooks.
    `first_rank` ends first and prints its reason, and torchrun then ends the others; another rank
    prints its own reason only if that does not happen in time.
    """
    if os.environ.get("RANK", "0") != str(first_rank):
        time.sleep(SECONDS_TO_BE_ENDED)
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
