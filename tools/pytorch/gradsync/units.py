"""FSDP2's units (torch.distributed.fsdp.fully_shard), and their collectives, issued one by one."""

import sys

import torch
import torch.distributed as dist

TRIED = (2, 15)  # the version of PyTorch; never on a GPU


def is_sharded(module):
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and hasattr(fsdp, "FSDPModule") and isinstance(module, fsdp.FSDPModule)


def groups_of(module):
    """FSDP2's groups of parameters whose collectives this module begins."""
    state = module._get_fsdp_state() if is_sharded(module) else None
    own = getattr(state, "_fsdp_param_groups", None)
    return [g for g in ([getattr(state, "_fsdp_param_group", None)] if own is None else own) if g]


def gather(group):
    group.unshard()
    group.wait_for_unshard()


def reduce(group):
    """Its gradients, and frees what was gathered. What follows on a GPU's current stream waits for them."""
    type(group).post_backward(group)
    if group.device.type == "cuda" and group._post_reduce_event:
        torch.cuda.current_stream().wait_event(group._post_reduce_event)
    group.finalize_backward()
    group._training_state = type(group._training_state).IDLE


def can_be_tried(params):
    """Whether a unit like these can be made, by this version and on this device."""
    return (
        tuple(map(int, torch.__version__.split(".")[:2])) >= TRIED
        and len({p.dtype for p in params}) == 1
        and all(p.dim() and p.is_floating_point() and p.device.type == "cpu" for p in params)
    )


def group_like(params):
    """The group of a unit with parameters of these shapes that no model has."""
    from torch.distributed.fsdp import fully_shard

    module = torch.nn.ParameterList(
        torch.nn.Parameter(torch.zeros(p.shape, dtype=p.dtype)) for p in params
    )  # FSDP2's are contiguous
    mesh = dist.init_device_mesh(
        "cpu", (dist.get_world_size(),)
    )  # by itself it takes any GPU that is there
    fully_shard(module, mesh=mesh)._get_fsdp_state()._lazy_init()
    (group,) = groups_of(module)
    return group
