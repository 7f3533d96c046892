"""Lets the ranks of a script exchange values for the command `check`, over a process group that
this command makes."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.distributed as dist

from gradsync import Refused
from gradsync.collectives import gathered
from gradsync.torch_private import default_store

PATIENCE = datetime.timedelta(seconds=60)  # at least, with ranks that are late, or gone


@contextlib.contextmanager
def refusing_late_ranks() -> Iterator[None]:
    """Turns a RuntimeError that code in this context raises into Refused, on the assumption that
    another rank has ended, or does not come in time."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"ranks do not meet: {type(error).__name__}: {reason}") from error


class Ranks:
    """The ranks of the script's default process group; a single rank until find() or join() has
    found such a group of several ranks.

    All ranks must call join(), gather(), total() and alone() together, because they communicate.
    These methods raise Refused if another rank does not make the same call in time.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self._alone: dist.ProcessGroup | None = None
        self.size = 1 if group is None else dist.get_world_size(group)
        self.rank = 0 if group is None else dist.get_rank(group)

    def find(self) -> bool:
        """Returns whether the script has initialised a default process group of several ranks. If
        so, sets `size` and `rank` to those of this group."""
        if self._group is not None or not dist.is_initialized() or dist.get_world_size() == 1:
            return self._group is not None
        self.size = dist.get_world_size()
        self.rank = dist.get_rank()
        return True

    def join(self) -> None:
        """Makes the gloo process group in which the command `check` communicates, unless it is
        already made or the script has initialised no default group of several ranks."""
        if self.find() and self._group is None:
            with refusing_late_ranks():
                timeout = max(PATIENCE, default_store().timeout)
                self._group = cast("Any", dist.new_group(backend="gloo", timeout=timeout))

    def gather(self, value: Any) -> list[Any]:
        """Returns the values that all ranks pass, in rank order. Values of several ranks are sent
        as JSON, so a tuple arrives as a list."""
        self.join()
        with refusing_late_ranks():
            return gathered(value, "cpu", self._group)

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """Overwrites the tensor with the sum of all ranks' tensors, and returns it; before join()
        has made a group, leaves the tensor unchanged."""
        if self._group is not None:
            with refusing_late_ranks():
                dist.all_reduce(tensor, group=self._group)
        return tensor

    def alone(self) -> dist.ProcessGroup:
        """Returns a gloo process group with only this rank, which the first call makes."""
        if self._alone is None:
            with refusing_late_ranks():
                self._alone = cast("Any", dist.new_subgroups(1, backend="gloo")[0])
        return self._alone
