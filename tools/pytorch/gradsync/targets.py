"""Chooses the class that synchronises a recorded model: DdpTarget for a model in DDP, ShardedTarget
under fully_shard, or else ModelTarget."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from gradsync import Refused
from gradsync.ddp_target import DdpTarget
from gradsync.sharded import NOT_RECORDED, ShardedTarget
from gradsync.target import ModelTarget
from gradsync.torch_private import DDP, is_sharded, pytorch_version

OLDEST_WITH_FULLY_SHARD = (2, 7)  # the first PyTorch whose fully_shard was recorded


def target_of(
    model: torch.nn.Module,
    *,
    views: bool | None = None,
    roots: Sequence[torch.nn.Module] = (),
    only: Collection[int] | None = None,
) -> ModelTarget:
    """Returns the object that synchronises this model while it is recorded: a DdpTarget for DDP, a
    ShardedTarget for fully_shard, or a ModelTarget for any other module. `views`, `roots` and
    `only` have the same meaning as in Recorder; all three have no effect under fully_shard, and
    `roots` has none in DDP. Raises Refused if there are no parameters to record, or if they are not
    all on one CPU or one CUDA device. Also raises Refused for fully_shard of a PyTorch before
    2.7."""
    target: ModelTarget
    if isinstance(model, DDP):
        target = DdpTarget(model, only, views)
    elif is_sharded(model):
        if pytorch_version() < OLDEST_WITH_FULLY_SHARD:
            oldest = "{}.{}".format(*OLDEST_WITH_FULLY_SHARD)
            raise Refused(
                f"{NOT_RECORDED} of PyTorch {torch.__version__}: use PyTorch {oldest} or newer"
            )
        target = ShardedTarget(model)
    else:
        named = model.named_parameters()
        target = ModelTarget(model, model, named, only=only, roots=roots, views=bool(views))
    devices = {param.device for param in target.params}
    if len(devices) != 1 or not {device.type for device in devices} <= {"cpu", "cuda"}:
        where = " and ".join(sorted(map(str, devices))) or "none"
        raise Refused(f"gradsync records modules on one CPU or GPU; this one is on {where}")
    return target
