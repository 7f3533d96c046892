"""Watches processes that a recorded script starts by multiprocessing. The recorder cannot record
steps in these processes.

Therefore a child process ends with an error if it begins to train, that is, makes a process group
or an optimizer. Workers of data loaders, and pools that compute data, are not affected. The child
sends the reason to its parent, and the parent prints one line and ends.
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
    """Finds out which processes this process starts."""

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
        """If this process is a fork of the recorded one, ends both, with the reason."""
        if os.getpid() != self._parent:
            tell_parent(self._sender)


class _Guard:
    """An object that is passed to a child process, where unpickling it calls arm()."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def __reduce__(self) -> tuple[Callable[[Connection], None], tuple[Connection]]:
        return arm, (self._sender,)


def arm(sender: Connection) -> None:
    """From now on, ends this process if it trains; a recorded script has started it. Does nothing
    if PyTorch is not imported here yet, because importing it takes seconds.
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
    """Ends this process and, if the parent listens, the parent, with the reason."""
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
    """Waits for a child's message, and then ends this process, the parent. This function runs in a
    thread, because the parent's main thread may wait for children.
    """
    text = receiver.recv()
    for child in multiprocessing.active_children():
        child.terminate()
    end_rank(text, FAILED)
