"""Ranks for tests, as processes that are forked from this one: PyTorch is imported once.

Where there is no PyTorch, tests that import this module are skipped.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import sys
import time
import traceback
import unittest
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import NoReturn

if find_spec("torch") is None:
    raise unittest.SkipTest("needs PyTorch")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.filterwarnings("ignore")
import torch
import torch._dynamo  # what scripts take seconds to import
import torch.distributed.optim

torch.set_num_threads(1)  # there is no pool of threads when processes are forked


def print_to(path: pathlib.Path) -> None:
    """Appends what this process prints, and what it starts prints, to a file."""
    for stream in (1, 2):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    # A test runner may have put objects of its own in their place.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # until the process ends
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def child(
    rank: int, ranks: int, port: int, run: Callable[[int], object], printed: pathlib.Path
) -> NoReturn:
    """Runs run(rank) as a rank of its own process group, and ends the process."""
    os.setpgid(0, 0)
    print_to(printed)
    if ranks > 1:
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
    status = 1
    try:
        run(rank)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        print(end.code if isinstance(end.code, str) else "", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def free_port() -> int:
    """Returns a port of this host on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert isinstance(port, int)
    return port


def wait_for(started: list[int], seconds: float) -> int | None:
    """Waits until all processes have ended, or one has failed, and ends them and what they
    started. Returns the first status that is not 0, or None if it took too long."""
    left = list(started)
    deadline = time.monotonic() + seconds
    worst: int | None = 0
    while left and worst == 0:
        for pid in list(left):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                left.remove(pid)
                worst = worst or os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            worst = None
        time.sleep(0.01)
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for pid in left:
        os.waitpid(pid, 0)
    return worst


def launch(
    run: Callable[[int], object], ranks: int, printed: str | os.PathLike[str], seconds: float = 120
) -> tuple[int | None, str]:
    """Runs run(rank) as torchrun does: if one rank fails, all are ended.

    Returns the worst status, or None if it took longer than `seconds`, and what was printed, which
    stays in the file `printed`.
    """
    path = pathlib.Path(printed)
    path.write_text("")
    port = free_port()
    started = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            child(rank, ranks, port, run, path)
        os.setpgid(pid, pid)
        started.append(pid)
    worst = wait_for(started, seconds)
    return worst, path.read_text()
