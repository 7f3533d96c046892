"""What a guest in a process could leave behind in PyTorch. For tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.optim import optimizer as hooks

from gradsync.torch_private import functional_collectives

OWNERS = (
    dist,
    dist.Reducer,
    functional_collectives(),
    torch.amp.GradScaler,
    torch.autograd,
    torch.multiprocessing,
    torch.nn.Linear,
    torch.nn.Module,
    torch.nn.Sequential,
    torch.nn.functional,
    torch.nn.parallel.DistributedDataParallel,
    torch.nn.utils,
    torch.nn.utils.clip_grad,
    torch.optim.Optimizer,
    torch.optim.SGD,
    torch.Tensor,
)


def snapshot(
    parameters: Iterable[torch.nn.Parameter] = (), owners: Iterable[Any] = ()
) -> dict[str, Any]:
    """The attributes of what is replaced, and all hooks.

    `owners`: more classes, modules or objects. Two snapshots are equal if nothing was left behind.
    """
    result: dict[str, Any] = {str(owner): dict(vars(owner)) for owner in (*OWNERS, *owners)}
    result["before step()"] = dict(hooks._global_optimizer_pre_hooks)
    result["after step()"] = dict(hooks._global_optimizer_post_hooks)
    result["default group"] = dist.distributed_c10d._world.default_pg
    for number, p in enumerate(parameters):
        result[f"hooks of parameter {number}"] = dict(p._backward_hooks or {})
        result[f"hooks after parameter {number}"] = dict(p._post_accumulate_grad_hooks or {})
    return result


def groups_of(model: torch.nn.Module) -> list[Any]:
    """fully_shard's groups of parameters, whose methods can be replaced."""
    states = [m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state")]
    return [group for state in states for group in state._fsdp_param_groups]
