"""Ends a rank of a script that must not go on training."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

SECONDS_TO_BE_ENDED = 10  # torchrun needs less to end the others when one rank has ended


def end_rank(text: str, status: int) -> NoReturn:
    """Prints `gradsync: TEXT` and ends this process with this exit status.

    This function raises no exception, because it may run within a hook of a script that catches all
    exceptions. Rank 0 ends first. The other ranks have the same reason, so they wait until torchrun
    ends them, and print the text only if torchrun does not.
    """
    if os.environ.get("RANK", "0") != "0":
        time.sleep(SECONDS_TO_BE_ENDED)
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
