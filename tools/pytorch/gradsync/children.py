"""Watches processes that a script starts by multiprocessing. Nothing is recorded in them.

A child process that trains is refused: one that makes a process group or an optimizer. Workers of
data loaders, and pools that compute data, are not affected. The child tells its parent, and the
parent ends with one line.
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
    """The processes that this process starts."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        self._sender: Connection | None = None  # by which children tell; made for the first one

    def watch(self, patches: Patches) -> None:
        """Watches child processes until `patches` are undone."""
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
        """Ends this process, if it is a fork, and its parent, with the reason."""
        if os.getpid() != self._parent:
            tell_parent(self._sender)


class _Guard:
    """An object that becomes a call of arm() when the child unpickles it."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def __reduce__(self) -> tuple[Callable[[Connection], None], tuple[Connection]]:
        return arm, (self._sender,)


def arm(sender: Connection) -> None:
    """Refuses training in this process, which a recorded script has started. Does nothing in a
    process that has not imported PyTorch yet, because importing it takes seconds.
    """
    if "torch" in sys.modules:
        watch_training(Patches(), lambda: tell_parent(sender))


def watch_training(patches: Patches, refuse: Callable[[], None]) -> None:
    """Calls refuse() before a process group or an optimizer is made."""
    import torch.distributed.distributed_c10d as groups
    from torch.optim import Optimizer

    def told(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        refuse()
        return make(*args, **kwargs)

    patches.replace(groups, "rendezvous", told)  # which init_process_group() begins with
    patches.replace(groups, "_new_process_group_helper", told)
    patches.replace(Optimizer, "__init__", told)


def tell_parent(sender: Connection | None) -> NoReturn:
    """Ends this process, and also its parent, with the reason, if the parent listens."""
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
    """Ends the parent when a child tells it. Runs in a thread of the parent, because its main
    thread may wait for children.
    """
    text = receiver.recv()
    for child in multiprocessing.active_children():
        child.terminate()
    end_rank(text, FAILED)
