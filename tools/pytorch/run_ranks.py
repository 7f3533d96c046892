"""Ranks for tests, as processes that are forked from this one: PyTorch is imported once."""

import os
import pathlib
import signal
import socket
import sys
import time
import traceback
import unittest
import warnings
from importlib.util import find_spec

if find_spec("torch") is None:
    raise unittest.SkipTest("needs PyTorch")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.filterwarnings("ignore")
import torch
import torch._dynamo  # what scripts take seconds to import
import torch.distributed.optim

torch.set_num_threads(1)  # there is no pool of threads when processes are forked


def child(rank, ranks, port, run, printed):
    os.setpgid(0, 0)
    for stream in (1, 2):
        os.dup2(os.open(printed, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stream)
    # A test runner may have put objects of its own in their place.
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, closefd=False)
    if ranks > 1:
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
    status = 1
    try:
        run(rank)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else end.code is not None
        print(end.code if isinstance(end.code, str) else "", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def launch(run, ranks, printed, seconds=120):
    """Runs run(rank) as torchrun does: if one fails, all are ended. The worst status, None if it took too long, and what was
    printed into the file `printed`."""
    printed = pathlib.Path(printed)
    printed.write_text("")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    left, worst, deadline = [], 0, time.monotonic() + seconds
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            child(rank, ranks, port, run, printed)
        os.setpgid(pid, pid)
        left.append(pid)
    started = list(left)
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
        try:
            os.killpg(pid, signal.SIGKILL)  # and what it has started
        except ProcessLookupError:
            pass
    for pid in left:
        os.waitpid(pid, 0)
    return worst, printed.read_text()
