"""Usually ends child processes of a recorded script that begin to train, because the recorder
cannot record their steps."""

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
    """Watches the child processes that the recorded script forks or starts by multiprocessing.
    Ends a forked child when it is about to make a process group or an optimizer. Also ends a child
    that unpickles its process object, as with the start method spawn, if the child has imported
    PyTorch by then. If multiprocessing started the child, the parent prints the child's error and
    ends with exit status 1."""

    def __init__(self) -> None:
        self._parent = os.getpid()
        self._sender: Connection | None = None  # by which children tell; made for the first one

    def watch(self, patches: Patches) -> None:
        """Begins to watch whether children of this process make a process group or an optimizer,
        until `patches` are undone."""
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
        """Ends this process with an error if it was forked from the process that runs the
        script."""
        if os.getpid() != self._parent:
            tell_parent(self._sender)


class _Guard:
    """Calls arm() in a child process when the child unpickles this object."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def __reduce__(self) -> tuple[Callable[[Connection], None], tuple[Connection]]:
        return arm, (self._sender,)


def arm(sender: Connection) -> None:
    """Makes this child process end when it is about to make a process group or an optimizer. Does
    nothing if the process has not imported PyTorch when arm() is called."""
    if "torch" in sys.modules:
        watch_training(Patches(), lambda: tell_parent(sender))


def watch_training(patches: Patches, refuse: Callable[[], None]) -> None:
    """Calls refuse() before this process makes a process group or an optimizer, until `patches` are
    undone."""
    import torch.distributed.distributed_c10d as groups
    from torch.optim import Optimizer

    def told(make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        refuse()
        return make(*args, **kwargs)

    patches.replace(groups, "rendezvous", told)  # which init_process_group() begins with
    patches.replace(groups, "_new_process_group_helper", told)
    patches.replace(Optimizer, "__init__", told)


def tell_parent(sender: Connection | None) -> NoReturn:
    """Sends the text of an error to the parent by `sender`, or prints the text if `sender` is None.
    Ends this child process with exit status 1."""
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
    """Ends this process when a child has sent the text of an error."""
    text = receiver.recv()
    for child in multiprocessing.active_children():
        child.terminate()
    end_rank(text, FAILED)
