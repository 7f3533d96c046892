"""Ends a fork of a rank's process with an error if the script trains in the fork. Ends a rank with
an error if the script calls torch.multiprocessing's spawn() or start_processes(). Also ends a rank
if DDP averages gradients among only some of the ranks."""

from __future__ import annotations

import multiprocessing.process
import os
from typing import Any

import torch.distributed as dist

from gradsync.events import place
from gradsync.own_work import OwnWork
from gradsync.torch_private import DDP


class Elsewhere:
    """Methods that end a process with an error if the script trains in child processes, or averages
    gradients among some ranks only. `check` compares nothing in child processes.

    `starts_at`: FILE:LINE where the script first started a multiprocessing process that is not a
    daemon; empty if the script has started none.
    """

    def __init__(self, own_work: OwnWork) -> None:
        self.starts_at = ""
        self._own_work = own_work
        self._pid = os.getpid()

    def refuse_spawn(self, *_: Any, **__: Any) -> None:
        """Called instead of torch.multiprocessing's spawn() and start_processes(): ends this rank
        with an error."""
        self._own_work.refuse(
            "the script starts processes, in which nothing is checked: let torchrun start those "
            "that train"
        )

    def on_started(self, process: multiprocessing.process.BaseProcess) -> None:
        """Called when the script has started `process` by multiprocessing. Sets `starts_at` to
        FILE:LINE of the script's line that is running now, unless `starts_at` is set already or
        `process` is a daemon."""
        if not process.daemon:  # unlike those of a DataLoader
            self.starts_at = self.starts_at or place()

    def refuse_child(self) -> None:
        """Called when a backward pass or an update begins. If the running process is a fork of the
        process that `check` watches, ends the fork with an error."""
        if os.getpid() != self._pid:
            rank = int(os.environ.get("RANK", "0"))
            self._own_work.refuse("it trains in a process that the script has started", rank)

    def refuse_part_of_ranks(self, model: DDP) -> None:
        """Ends this rank with an error if DDP averages the model's gradients among only some of the
        ranks."""
        group = model.process_group
        if dist.get_world_size(group) < dist.get_world_size():
            first = dist.get_process_group_ranks(group)[0]
            self._own_work.refuse("DistributedDataParallel of a part of the ranks", first)
