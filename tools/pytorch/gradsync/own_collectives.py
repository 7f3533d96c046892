"""Collectives that a script itself begins: gathers within a loss, statistics, logging."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from gradsync.patches import Patches
from gradsync.torch_private import COLLECTIVES, ProcessGroup, tensors_of, untraced


class OwnCollectives:
    """Counts what Python code begins by process groups in one step. What PyTorch begins in C++,
    such as DistributedDataParallel's, and what compiled code begins is not seen.

    `count`: collectives. `bytes`: of the vectors of all of them; of a gather the whole result.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._is_on = False
        self._left_out = 0  # how many callers leave out what they do

    def watch(self, patches: Patches) -> None:
        """Begins to watch process groups, until `patches` are undone."""
        for name in COLLECTIVES:
            patches.replace(ProcessGroup, name, untraced(self._see))

    def start(self) -> None:
        """A step begins."""
        self.count = 0
        self.bytes = 0
        self._is_on = True

    def end(self) -> None:
        self._is_on = False

    @contextlib.contextmanager
    def left_out(self) -> Iterator[None]:
        """Collectives within are not the script's."""
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
