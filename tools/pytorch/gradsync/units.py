"""Runs gathers and reductions of FSDP2's units (torch.distributed.fsdp.fully_shard) one by one, for
`gradsync record`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gradsync.torch_private import (
    ShardedGroup,
    initialise,
    pytorch_version,
    sharded_groups,
)

TRIED = (2, 9)  # the version of PyTorch; never on a GPU


def gather(group: ShardedGroup) -> None:
    """Gathers the whole parameters of a group from all ranks that share them. On a CPU, waits until
    they have arrived; on a GPU, only the current stream waits for them."""
    group.unshard()
    group.wait_for_unshard()


def reduce(group: ShardedGroup) -> None:
    """Runs FSDP2's reduce-scatter (under HSDP, also the all-reduce) of a group's gradients, and
    frees the group's gathered weights. The group's reduce_grads, all_reduce_grads and
    reshard_after_backward must be True. Later work on a GPU's current stream waits for the reduced
    gradients.
    """
    type(group).post_backward(group)  # the class's own, which is not watched
    if group.device.type == "cuda" and group._post_reduce_event:
        torch.cuda.current_stream().wait_event(group._post_reduce_event)
    group.finalize_backward()
    group._training_state = type(group._training_state).IDLE


def can_be_tried(params: Sequence[torch.nn.Parameter]) -> bool:
    """Returns whether `gradsync record` may itself run FSDP2's collectives, to measure them, for
    units of these parameters. Returns False before PyTorch 2.9. Returns False if `params` is empty.
    Also returns False unless all parameters are on a CPU, have the same floating-point dtype, and
    are no scalars."""
    are_of_one_dtype = len({p.dtype for p in params}) == 1
    return (
        pytorch_version() >= TRIED
        and are_of_one_dtype
        and all(p.dim() and p.is_floating_point() and p.device.type == "cpu" for p in params)
    )


def group_like(params: Sequence[torch.nn.Parameter]) -> ShardedGroup:
    """Makes new parameters on the CPU with the shapes and dtypes of `params`, calls fully_shard
    with them so that they are sharded over all ranks, and returns the resulting group of
    parameters."""
    from torch.distributed.fsdp import fully_shard

    # FSDP2 wants contiguous parameters, which those of a model need not be.
    module = torch.nn.ParameterList(
        torch.nn.Parameter(torch.zeros(p.shape, dtype=p.dtype)) for p in params
    )
    # By itself fully_shard takes any GPU that is there.
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(module, mesh=mesh)
    initialise(module)
    (group,) = sharded_groups(module)
    return group
