"""Lets the ranks of a script exchange values for the command `check`, over a process group that
`check` makes."""

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
    """Within this context, a RuntimeError becomes Refused, because it is assumed to mean that
    another rank has ended, or has not called the same function in time."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"ranks do not meet: {type(error).__name__}: {reason}") from error


class Ranks:
    """Lets the ranks of the argument `group`, or else of the script's default process group,
    exchange values. Without `group`, `size` is 1 until find() or join() has found a default group
    of several ranks.

    All ranks must together call the methods that communicate: join(), gather(), total() and
    alone(). A call that communicates raises Refused if another rank does not make the same call
    within the process group's timeout.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self._alone: dist.ProcessGroup | None = None
        self.size = 1 if group is None else dist.get_world_size(group)
        self.rank = 0 if group is None else dist.get_rank(group)

    def find(self) -> bool:
        """Returns whether a group was passed to the constructor, join() has made one, or a default
        group of several ranks exists. If only a default group of several ranks exists, sets `size`
        and `rank` to the default group's size and this process's rank in it."""
        if self._group is not None or not dist.is_initialized() or dist.get_world_size() == 1:
            return self._group is not None
        self.size = dist.get_world_size()
        self.rank = dist.get_rank()
        return True

    def join(self) -> None:
        """Makes the gloo process group in which the command `check` communicates. Makes none if the
        group exists or was passed to the constructor, or if there is no default group of several
        ranks."""
        if self.find() and self._group is None:
            with refusing_late_ranks():
                timeout = max(PATIENCE, default_store().timeout)
                self._group = cast("Any", dist.new_group(backend="gloo", timeout=timeout))

    def gather(self, value: Any) -> list[Any]:
        """Returns the values that all ranks pass, in rank order; only `value` if `size` is 1 after
        join(). Values of several ranks are sent as JSON, so a tuple arrives as a list."""
        self.join()
        # The default group of one rank may be of NCCL, which cannot send tensors of the CPU.
        if self._group is None:
            return [value]
        with refusing_late_ranks():
            return gathered(value, "cpu", self._group)

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """Overwrites the tensor with the sum of all ranks' tensors, and returns it. Leaves the
        tensor unchanged if no group was passed to the constructor or made by join()."""
        if self._group is not None:
            with refusing_late_ranks():
                dist.all_reduce(tensor, group=self._group)
        return tensor

    def alone(self) -> dist.ProcessGroup:
        """Returns a gloo process group of only this rank, made at the first call of alone()."""
        if self._alone is None:
            with refusing_late_ranks():
                self._alone = cast("Any", dist.new_subgroups(1, backend="gloo")[0])
        return self._alone
