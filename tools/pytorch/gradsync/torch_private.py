"""Gives access, with types, to private and untyped names of PyTorch.

The names that this module uses were tried with PyTorch 2.3 to 2.15; its names of attributes and
functions of fully_shard were tried only with 2.7 to 2.15. Where PyTorch lacks a name, importing
this module fails, or functions that use this name raise an exception or return a default."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _pytree
from torch.utils.hooks import RemovableHandle

DDP = torch.nn.parallel.DistributedDataParallel
Reducer: type[Any] = vars(dist)["Reducer"]  # what a DDP synchronises by
Call = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of a call, by position and by name
StepHook = Callable[[Optimizer, tuple[Any, ...], dict[str, Any]], "Call | None"]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def pytorch_version() -> tuple[int, int]:
    """Returns the major and the minor number of PyTorch's version."""
    major, minor, *_ = torch.__version__.split(".")
    return int(major), int(minor)


# Tensors


def tensors_of(tree: object) -> list[torch.Tensor]:
    """Returns all tensors in nested lists, tuples and dictionaries; a tensor alone counts as a list
    of one."""
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_in_parts(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor is a DTensor, whose parts are on the ranks of its mesh."""
    return hasattr(tensor, "to_local")


def part_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this rank's part of a DTensor; returns any other tensor unchanged."""
    return cast("Any", tensor).to_local() if is_in_parts(tensor) else tensor


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the whole of a DTensor; all ranks of the DTensor must call this function together.
    Returns any other tensor unchanged."""
    return cast("Any", tensor).full_tensor() if is_in_parts(tensor) else tensor


def mesh_place(tensor: torch.Tensor) -> list[int]:
    """Returns this rank's place in a DTensor's mesh: an index in each dimension. The rank must
    belong to the mesh."""
    return cast("list[int]", cast("Any", tensor).device_mesh.get_coordinate())


def is_computed(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor was computed, with autograd enabled, from tensors that require a
    gradient.

    Returns False for a view of a leaf, such as a parameter. For a view, looks at the tensor of
    which it is a view, because reading the view's own grad_fn may raise an error if that tensor was
    changed in place.
    """
    origin = cast("Any", tensor)._base if tensor._is_view() else tensor
    return tensor.requires_grad and not origin.is_leaf


def register_hook(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> RemovableHandle:
    """Registers a hook: calls hook(gradient) when autograd has computed the tensor's gradient."""
    return cast("RemovableHandle", cast("Any", tensor).register_hook(hook))


# torch.compile


def untraced(function: _Function) -> _Function:
    """Returns a function that calls `function`, and that torch.compile does not trace. The first
    call of untraced() in a process imports torch._dynamo, unless the script has imported it; the
    import takes seconds."""
    disable = cast("Callable[[_Function], _Function]", torch.compiler.disable)
    return disable(function)


def is_anything_compiled() -> bool:
    """Returns whether torch.compile has compiled a graph in this process. gradsync cannot observe
    the operations within a compiled graph."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return False
    counters = dynamo.counters
    return bool(counters["stats"]["unique_graphs"] or counters["frames"]["ok"])


# Parameters


def when_gradient_is_ready(
    parameter: torch.nn.Parameter, hook: Callable[[torch.Tensor], None]
) -> RemovableHandle:
    """Registers a hook: calls hook(parameter) whenever autograd has added a gradient to
    parameter.grad."""
    return cast("RemovableHandle", cast("Any", parameter).register_post_accumulate_grad_hook(hook))


def gradient_dtype(parameter: torch.Tensor) -> torch.dtype | None:
    """Returns the dtype that a parameter's gradient must have; None if it may have any dtype."""
    return cast("torch.dtype | None", getattr(parameter, "grad_dtype", parameter.dtype))


# Optimizers


def before_every_step(hook: StepHook) -> RemovableHandle:
    """Registers a hook: calls hook(optimizer, args, kwargs) before every step() of any
    torch.optim.Optimizer. The hook returns None, or a pair (args, kwargs) that replaces the
    arguments."""
    return register_optimizer_step_pre_hook(cast("Any", hook))


def after_every_step(hook: StepHook) -> RemovableHandle:
    """Registers a hook: calls hook(optimizer, args, kwargs) after every step() of any
    torch.optim.Optimizer."""
    return register_optimizer_step_post_hook(cast("Any", hook))


def is_last_hook(handle: RemovableHandle) -> bool:
    """Returns whether this hook is the last one in the dictionary of hooks to which PyTorch has
    added it; False if the hook is no longer in it."""
    hooks = handle.hooks_dict_ref()
    return hooks is not None and handle.id in hooks and next(reversed(hooks)) == handle.id


# Process groups

ProcessGroup: type[Any] = dist.ProcessGroup
# What torch.distributed calls of a process group, by its names in older and newer versions.
COLLECTIVES = tuple(
    name
    for name in (
        "broadcast",
        "allreduce",
        "allreduce_coalesced",
        "reduce",
        "allgather",
        "_allgather_base",
        "allgather_coalesced",
        "allgather_into_tensor_coalesced",
        "all_gather_single",
        "all_gather_single_coalesced",
        "gather",
        "gather_single",
        "scatter",
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce_scatter_tensor_coalesced",
        "reduce_scatter_single",
        "reduce_scatter_single_coalesced",
        "alltoall",
        "alltoall_base",
        "all_to_all_single",
        "barrier",
    )
    if hasattr(ProcessGroup, name)
)


@contextlib.contextmanager
def default_group(group: dist.ProcessGroup | None) -> Iterator[None]:
    """Returns a context in which this process group is the default group, which collectives use if
    they get no group. With None, there is no default group in the context."""
    world = dist.distributed_c10d._world
    before = world.default_pg
    world.default_pg = group
    try:
        yield
    finally:
        world.default_pg = before


def default_store() -> Any:
    """Returns the key-value store of the default process group. Its timeout is that of
    init_process_group, unless the script made the store itself."""
    return dist.distributed_c10d._get_default_store()


def store_within(store: Any, prefix: str) -> Any:
    """Returns a store whose keys are kept in `store` with this prefix."""
    return vars(dist)["PrefixStore"](prefix, store)


def meet_in_store(name: str, rank: int, world_size: int, timeout: timedelta) -> None:
    """Waits until all ranks have called this function. Uses the default group's store, and no
    collective.

    Raises RuntimeError if a rank does not call this function within `timeout`; the error may come
    about 10 s late. All ranks must pass the same `name`, and a new `name` each time that they call
    this function.
    """
    store = dist.distributed_c10d._get_default_store()
    barrier = cast("Callable[..., None]", dist.distributed_c10d._store_based_barrier)
    barrier(rank, store, name, world_size, timeout)


def functional_collectives() -> Any:
    """Returns PyTorch's module of functional collectives, which return their results and leave
    their inputs unchanged."""
    return importlib.import_module("torch.distributed._functional_collectives")


# DistributedDataParallel


def has_sizes_by_bucket(ddp: DDP) -> bool:
    """Returns whether the script has set the size of each of DDP's buckets (bucket_cap_mb_list,
    since PyTorch 2.15)."""
    return bool(getattr(ddp, "bucket_bytes_cap_list", ()))


def is_finalised_by_hand(ddp: DDP) -> bool:
    """Returns whether the script itself ends each of DDP's backward passes
    (require_manual_backward_finalization, since PyTorch 2.15)."""
    return bool(getattr(ddp, "require_manual_backward_finalization", False))


def synchronises_buffers(ddp: DDP) -> bool:
    """Returns whether DDP makes the model's buffers equal on all ranks in the next forward."""
    return bool(cast("Any", ddp).will_sync_module_buffers())


def synchronise_buffers(ddp: DDP) -> None:
    """Makes the model's buffers equal on all ranks now, as DDP does in forward."""
    cast("Any", ddp)._sync_buffers()


def is_joining(ddp: DDP) -> bool:
    """Returns whether the script's last join() of the model, running or ended, has enable=True;
    False if there was none."""
    return bool(ddp._join_config.enable)


def forget_used_parameters(ddp: DDP) -> None:
    """Resets DDP's reducer: with find_unused_parameters, the reducer forgets which parameters were
    used since its last synchronisation. The reducer also forgets that it has rebuilt its buckets,
    and that a backward is unfinished."""
    ddp.reducer._reset_state()


def reduced_parameters(ddp: DDP) -> Sequence[torch.nn.Parameter]:
    """Returns the parameters that the model had when it was wrapped in DDP, without those that DDP
    ignores. Among the returned parameters, DDP averages the gradients of those that required
    gradients when the model was wrapped."""
    return cast("Sequence[torch.nn.Parameter]", ddp._module_parameters)


def ignored_tensors(ddp: DDP) -> list[torch.Tensor]:
    """Returns the parameters and buffers whose names are in DDP's parameters_to_ignore."""
    module: torch.nn.Module = ddp.module
    named = [*module.named_parameters(), *module.named_buffers()]
    return [tensor for name, tensor in named if name in ddp.parameters_to_ignore]


def default_first_bucket_bytes() -> int:
    """Returns the default size of DDP's first bucket, in bytes."""
    return cast("int", vars(dist)["_DEFAULT_FIRST_BUCKET_BYTES"])


def ddp_facts(ddp: DDP) -> dict[str, Any]:
    """Returns what DDP logs about itself, such as the sizes of its buckets, by the names of the
    fields of c10::DDPLoggingData."""
    return cast("dict[str, Any]", cast("Any", ddp)._get_ddp_logging_data())


# fully_shard


class ShardedParameter(Protocol):
    """A parameter of fully_shard (FSDPParam): this rank's part, and the whole parameter."""

    sharded_param: torch.nn.Parameter
    _unsharded_param: torch.nn.Parameter
    orig_dtype: torch.dtype
    param_dtype: torch.dtype | None
    reduce_dtype: torch.dtype | None

    @property
    def unsharded_param(self) -> torch.nn.Parameter: ...


class ShardedGroup(Protocol):
    """Parameters that fully_shard gathers and reduces together (FSDPParamGroup)."""

    modules: tuple[torch.nn.Module, ...]
    fsdp_params: list[ShardedParameter]
    device: torch.device
    mesh_info: Any
    post_forward_mesh_info: Any
    offload_policy: Any
    reduce_grads: bool
    all_reduce_grads: bool
    reshard_after_backward: bool
    _training_state: Any
    _post_reduce_event: Any
    _reduce_scatter_process_group: dist.ProcessGroup

    def unshard(self) -> None: ...
    def wait_for_unshard(self) -> None: ...
    def post_backward(self) -> None: ...
    def finalize_backward(self) -> None: ...


def is_sharded(module: torch.nn.Module) -> bool:
    """Returns whether fully_shard was called with this module itself, not only with a module around
    it."""
    # Before PyTorch 2.6 it was elsewhere.
    for place in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"):
        kind = getattr(sys.modules.get(place), "FSDPModule", None)
        if kind is not None and isinstance(module, kind):
            return True
    return False


def sharded_state(module: torch.nn.Module) -> Any:
    """Returns PyTorch's FSDPState of a module with which fully_shard was called."""
    return cast("Any", module)._get_fsdp_state()


def sharded_groups(module: torch.nn.Module) -> list[ShardedGroup]:
    """Returns the groups of parameters that fully_shard gathers and reduces for this module; most
    modules have one or none.
    """
    if not is_sharded(module):
        return []
    state = sharded_state(module)
    groups = getattr(state, "_fsdp_param_groups", None)  # older versions have one group
    if groups is None:
        groups = [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group]


def keeps_root_whole(root: torch.nn.Module) -> bool:
    """Returns whether FSDP2 by default keeps the root module's own parameters gathered after
    forward, although other units free theirs. Always True in PyTorch 2.7; in later versions, False
    if the script has set reshard_after_forward for the root, even to False. The script must have
    called fully_shard with `root`."""
    return bool(getattr(sharded_state(root), "_auto_reshard_after_forward", True))


def is_sharded_finalised_by_hand(module: torch.nn.Module) -> bool:
    """Returns whether the script itself ends each backward of the module
    (set_manual_backward_finalization). The script must have called fully_shard with the module."""
    context = sharded_state(module)._state_ctx
    return bool(getattr(context, "manual_backward_finalization", False))


def make_whole_parameters(module: torch.nn.Module) -> None:
    """Gathers the parameters in the module's own groups (see sharded_groups()), and frees the whole
    parameters again. Afterwards, whole_parameter() returns no None for these parameters. The script
    must have called fully_shard with the module. All ranks that share the parameters must call this
    function together."""
    cast("Any", module).unshard()
    cast("Any", module).reshard()


def free_reduction_buffers(group: ShardedGroup) -> None:
    """Frees the buffers that FSDP2 keeps of the model's last reduce-scatters, as FSDP2 does itself
    at the end of backward."""
    context = cast("Any", group).comm_ctx
    if hasattr(context, "reduce_scatter_states"):
        context.reduce_scatter_states.clear()
    else:  # older versions keep one
        context.reduce_scatter_state = None


def initialise(module: torch.nn.Module) -> None:
    """Makes FSDP2 initialise the sharding of a root module now, instead of at the root's first
    forward. The root is the outermost module with which fully_shard was called."""
    sharded_state(module)._lazy_init()


def gathered_dtype(parameter: ShardedParameter) -> torch.dtype:
    """Returns the dtype in which a parameter is gathered from the ranks that share it, and used in
    computation.

    Must be called after initialise() or the parameter's first gather.
    """
    return parameter.param_dtype or parameter.orig_dtype


def reduced_dtype(parameter: ShardedParameter) -> torch.dtype:
    """Returns the dtype in which a parameter's gradient is reduced. If the mp_policy sets no
    reduce_dtype, PyTorch 2.15 takes the grad_dtype that the script has set for the parameter, or
    else the parameter's own dtype; older versions take gathered_dtype(). reduced_dtype() must be
    called after initialise() or the parameter's first gather."""
    since_2_15 = getattr(parameter, "unsharded_grad_dtype", None)
    if isinstance(since_2_15, torch.dtype):
        return since_2_15
    return parameter.reduce_dtype or gathered_dtype(parameter)


def sharing_ranks(group: ShardedGroup) -> int:
    """Returns the number of ranks that share the parameters of a group: each has one part of them.
    With several replicas (HSDP), sharing_ranks() is smaller than the number of ranks of the
    mesh."""
    return cast("int", getattr(group.mesh_info, "shard_mesh_size", 1))


def replicas(group: ShardedGroup) -> int:
    """Returns how many copies of a group's parameters the ranks of its mesh have together: one, or
    more under HSDP."""
    return cast("int", getattr(group.mesh_info, "replicate_mesh_size", 1))


def whole_parameter(parameter: ShardedParameter) -> torch.nn.Parameter | None:
    """Returns the whole parameter, with which modules compute; None before FSDP2 first gathers it.
    While FSDP2 has freed the whole parameter, the parameter's storage is empty."""
    return getattr(parameter, "_unsharded_param", None)
