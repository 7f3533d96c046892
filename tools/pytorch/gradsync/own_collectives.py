"""Counts the collectives that a recorded script itself calls, such as gathers in a loss, statistics
and logging."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from gradsync.patches import Patches
from gradsync.torch_private import COLLECTIVES, ProcessGroup, tensors_of, untraced


class OwnCollectives:
    """Counts the collectives that the Python code of a recorded script and of its libraries calls
    in one step. This class does not count collectives that are called by PyTorch's C++ code, such
    as DistributedDataParallel's, or by code that torch.compile has compiled.

    `count`: the number of collectives. `bytes`: the sum over these collectives of the bytes of
    their input or output, whichever is larger.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._is_on = False
        self._left_out = 0  # how many callers leave out what they do

    def watch(self, patches: Patches) -> None:
        """Makes this object see the collectives of all process groups until patches.undo() is
        called. Only collectives that are called between start() and end() are counted."""
        for name in COLLECTIVES:
            patches.replace(ProcessGroup, name, untraced(self._see))

    def start(self) -> None:
        """Called when a step without synchronisation begins: sets `count` and `bytes` to 0, and
        begins to count collectives."""
        self.count = 0
        self.bytes = 0
        self._is_on = True

    def end(self) -> None:
        self._is_on = False

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Returns a context manager within which collectives are not counted. The recorder enters
        this context manager while its own code runs, because this code may call collectives."""
        self._left_out += 1
        try:
            yield
        finally:
            self._left_out -= 1

    def _see(self, collective: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_on and not self._left_out:
            self.count += 1
            # Inputs and outputs are arguments of their own.
            values = (*args[1:], *kwargs.values())
            self.bytes += max((_bytes_of(value) for value in values), default=0)
        return collective(*args, **kwargs)


def _bytes_of(value: object) -> int:
    return sum(tensor.nbytes for tensor in tensors_of(value))
