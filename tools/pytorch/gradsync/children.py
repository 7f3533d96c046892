"""This module ends child processes that a recorded script starts by multiprocessing or os.fork(),
if they begin to train. The recorder cannot record steps in child processes.

A process begins to train when it makes a process group or an optimizer. A process that
multiprocessing starts without forking is not noticed, and so not ended, if it imports PyTorch only
in its target function. A child of multiprocessing that begins to train sends one line of error to
its parent, and ends. The parent prints this line of error, and ends too. A fork made by os.fork()
that begins to train ends, too. The fork sends its line of error to its parent only if the script
had started a process by multiprocessing before. Otherwise the fork itself prints the line of error,
and its parent runs on.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from gradsync import FAILED
from gradsync.ending import end_rank
from gradsync.patches import Patches

_GUARD = "_gradsync_guard"  # the attribute of a process object that arms the child


class Children:
    """Ends children of the process that runs the recorded script, their parent. A child that begins
    to train is ended if it is a fork or has imported PyTorch before its target function runs. If
    multiprocessing started the ended child, the parent prints the child's error, and ends too."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        self._sender: Connection | None = None  # by which children tell; made for the first one

    def watch(self, patches: Patches) -> None:
        """From now on, until `patches` are undone, a process that multiprocessing starts without
        forking calls arm(). If the started process has already imported PyTorch, arm() makes it end
        when it makes a process group or an optimizer. A fork of the script's process that is about
        to make a process group or an optimizer calls refuse_in_child(), which ends the fork."""
        patches.replace(BaseProcess, "start", self._start)
        watch_training(patches, self.refuse_in_child)

    def _start(self, start: Callable[..., None], process: BaseProcess) -> None:
        if self._sender is None:
            receiver, self._sender = multiprocessing.Pipe(duplex=False)
            threading.Thread(target=_end_when_told, args=(receiver,), daemon=True).start()
        # A child that is no fork unpickles the object, and so arms itself.
        setattr(process, _GUARD, _Guard(self._sender))
        try:
            start(process)
        finally:
            delattr(process, _GUARD)

    def refuse_in_child(self) -> None:
        """Called before this process makes a process group or an optimizer. If the recorded script
        has made this process by forking, ends this process with an error."""
        if os.getpid() != self._parent:
            tell_parent(self._sender)


class _Guard:
    """An object that is passed to a child process. When the child unpickles it, arm() is called in
    the child, so that the child ends if it begins to train."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def __reduce__(self) -> tuple[Callable[[Connection], None], tuple[Connection]]:
        return arm, (self._sender,)


def arm(sender: Connection) -> None:
    """Called in a process that a recorded script has started. If the process has already imported
    PyTorch, arm() makes it end when it later makes a process group or an optimizer. If the process
    has not imported PyTorch yet, arm() does nothing, and the process can train unnoticed."""
    if "torch" in sys.modules:
        watch_training(Patches(), lambda: tell_parent(sender))


def watch_training(patches: Patches, refuse: Callable[[], None]) -> None:
    """From now on, until `patches` are undone, calls refuse() before a process group or an
    optimizer is made in this process."""
    import torch.distributed.distributed_c10d as groups
    from torch.optim import Optimizer

    def told(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        refuse()
        return make(*args, **kwargs)

    patches.replace(groups, "rendezvous", told)  # which init_process_group() begins with
    patches.replace(groups, "_new_process_group_helper", told)
    patches.replace(Optimizer, "__init__", told)


def tell_parent(sender: Connection | None) -> NoReturn:
    """Ends this process, a child of the process that runs the script, because the child begins to
    train. With a `sender`, first sends one line of text, the error, to the parent, which prints it
    and ends too. Without a `sender`, this process prints the error."""
    from gradsync.events import place

    text = (
        f"{place()}: trains in a process that the script started: let torchrun start those that "
        "train"
    )
    if sender is None:  # os.fork()
        end_rank(text, FAILED)
    sender.send(text)
    os._exit(FAILED)


def _end_when_told(receiver: Connection) -> None:
    """Waits for a child's message, and then ends the other children and this process, their parent.
    This function runs in a thread, because the parent's main thread may wait for children."""
    text = receiver.recv()
    for child in multiprocessing.active_children():
        child.terminate()
    end_rank(text, FAILED)
