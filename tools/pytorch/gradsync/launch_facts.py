"""Describes the model, settings and machine of a launch (a run of the script), as far as they are
known before a step is recorded."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist

from gradsync.host import processor_name, usable_cores
from gradsync.schema import Launch
from gradsync.target import ModelTarget
from gradsync.world import World


def launch_of(target: ModelTarget, world: World, command: Sequence[str]) -> Launch:
    """Returns the description of a launch, still without steps. Hosts, the optimizer and the number
    of backward passes in a step are not known yet: LaunchWriter adds them after the first steps."""
    is_on_gpu = world.device.type == "cuda"
    return Launch(
        time=datetime.datetime.now().isoformat(timespec="seconds"),
        torch=torch.__version__,
        command=tuple(command or sys.argv),
        world_size=world.size,
        backend=dist.get_backend() if world.are_several else "none",
        device=torch.cuda.get_device_name(world.device) if is_on_gpu else "cpu",
        processor=processor_name(),
        threads=torch.get_num_threads(),
        cores=usable_cores(),
        views=target.views,
        link_rate=int(os.environ.get("GRADSYNC_LINK_RATE", "0")),
        parameters=target.parameters(),
        units=target.units,
        sharing_ranks=target.sharing_ranks,
        optimizer="",
        passes=1,
        hosts=(),
        rows=(),
        ranks=(),
    )
