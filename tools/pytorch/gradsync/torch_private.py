"""PyTorch's names that are private or have no types, in one place and with types.

They were tried with PyTorch 2.3 to 2.15, those of fully_shard with 2.15 alone. A version that lacks
one raises AttributeError here.
"""

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


# Tensors


def tensors_of(tree: object) -> list[torch.Tensor]:
    """Returns all tensors of nested lists, tuples and dictionaries."""
    return [leaf for leaf in _pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_in_parts(tensor: torch.Tensor) -> bool:
    """Returns whether it is a DTensor, of which ranks may have parts."""
    return hasattr(tensor, "to_local")


def part_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this rank's part of a DTensor, or the tensor."""
    return cast("Any", tensor).to_local() if is_in_parts(tensor) else tensor


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the whole of a DTensor, by a collective, or the tensor."""
    return cast("Any", tensor).full_tensor() if is_in_parts(tensor) else tensor


def mesh_place(tensor: torch.Tensor) -> list[int]:
    """Returns where in a DTensor's mesh this rank is: an index in each dimension."""
    return cast("list[int]", cast("Any", tensor).device_mesh.get_coordinate())


def is_computed(tensor: torch.Tensor) -> bool:
    """Returns whether autograd has computed it, from what needs a gradient.

    A view of a parameter is no such tensor; that of a changed one may not be asked for its graph.
    """
    origin = cast("Any", tensor)._base if tensor._is_view() else tensor
    return tensor.requires_grad and not origin.is_leaf


def register_hook(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> RemovableHandle:
    """Calls hook(gradient) when autograd has computed the tensor's gradient."""
    return cast("RemovableHandle", cast("Any", tensor).register_hook(hook))


# torch.compile


def untraced(function: _Function) -> _Function:
    """A function that torch.compile does not look into. Imports the compiler: seconds."""
    disable = cast("Callable[[_Function], _Function]", torch.compiler.disable)
    return disable(function)


def is_anything_compiled() -> bool:
    """Whether this process has compiled a graph: operations of compiled code are not seen."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return False
    counters = dynamo.counters
    return bool(counters["stats"]["unique_graphs"] or counters["frames"]["ok"])


# Parameters


def when_gradient_is_ready(
    parameter: torch.nn.Parameter, hook: Callable[[torch.Tensor], None]
) -> RemovableHandle:
    """Calls hook(parameter) each time when a gradient has been added to that of a parameter."""
    return cast("RemovableHandle", cast("Any", parameter).register_post_accumulate_grad_hook(hook))


def gradient_dtype(parameter: torch.Tensor) -> torch.dtype | None:
    """The dtype that a parameter's gradient has to have; None: any one."""
    return cast("torch.dtype | None", getattr(parameter, "grad_dtype", parameter.dtype))


# Optimizers


def before_every_step(hook: StepHook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) before every step; it may return other arguments."""
    return register_optimizer_step_pre_hook(cast("Any", hook))


def after_every_step(hook: StepHook) -> RemovableHandle:
    """Calls hook(optimizer, args, kwargs) after every step."""
    return register_optimizer_step_post_hook(cast("Any", hook))


def is_last_hook(handle: RemovableHandle) -> bool:
    """Whether a hook is the last one of its kind. False if it is removed."""
    hooks = handle.hooks_dict_ref()
    return hooks is not None and handle.id in hooks and next(reversed(hooks)) == handle.id


# Process groups


@contextlib.contextmanager
def default_group(group: dist.ProcessGroup | None) -> Iterator[None]:
    """Makes this group the default one, which collectives use that name no group."""
    world = dist.distributed_c10d._world
    before = world.default_pg
    world.default_pg = group
    try:
        yield
    finally:
        world.default_pg = before


def default_store() -> Any:
    """Returns the store of the default group, which has the timeout of init_process_group."""
    return dist.distributed_c10d._get_default_store()


def store_within(store: Any, prefix: str) -> Any:
    """Returns a store of keys that are kept in `store`, behind this prefix."""
    return vars(dist)["PrefixStore"](prefix, store)


def meet_in_store(name: str, rank: int, world_size: int, timeout: timedelta) -> None:
    """A barrier of all ranks by the default group's store, without a collective.

    Raises RuntimeError if another rank does not come in time. `name` must be new.
    """
    store = dist.distributed_c10d._get_default_store()
    barrier = cast("Callable[..., None]", dist.distributed_c10d._store_based_barrier)
    barrier(rank, store, name, world_size, timeout)


def functional_collectives() -> Any:
    """The module of collectives that return what they make."""
    return importlib.import_module("torch.distributed._functional_collectives")


# DistributedDataParallel


def has_sizes_by_bucket(ddp: DDP) -> bool:
    """Whether a script has named the size of each bucket (since PyTorch 2.15)."""
    return bool(getattr(ddp, "bucket_bytes_cap_list", ()))


def is_finalised_by_hand(ddp: DDP) -> bool:
    """Whether the script says when a backward has ended (since PyTorch 2.15)."""
    return bool(getattr(ddp, "require_manual_backward_finalization", False))


def synchronises_buffers(ddp: DDP) -> bool:
    """Whether the next forward makes the buffers equal on all ranks."""
    return bool(cast("Any", ddp).will_sync_module_buffers())


def synchronise_buffers(ddp: DDP) -> None:
    """Makes the buffers equal on all ranks now."""
    cast("Any", ddp)._sync_buffers()


def is_joining(ddp: DDP) -> bool:
    """Whether the model is within join()."""
    return bool(ddp._join_config.enable)


def forget_used_parameters(ddp: DDP) -> None:
    """Forgets which parameters were used since the last synchronisation."""
    ddp.reducer._reset_state()


def reduced_parameters(ddp: DDP) -> Sequence[torch.nn.Parameter]:
    """The parameters whose gradients DDP averages, if they require one."""
    return cast("Sequence[torch.nn.Parameter]", ddp._module_parameters)


def ignored_tensors(ddp: DDP) -> list[torch.Tensor]:
    """The parameters and buffers that DDP leaves alone, because the script has named them."""
    module: torch.nn.Module = ddp.module
    named = [*module.named_parameters(), *module.named_buffers()]
    return [tensor for name, tensor in named if name in ddp.parameters_to_ignore]


def default_first_bucket_bytes() -> int:
    """The size of DDP's first bucket, if a script names none."""
    return cast("int", vars(dist)["_DEFAULT_FIRST_BUCKET_BYTES"])


def ddp_facts(ddp: DDP) -> dict[str, Any]:
    """What DDP logs of itself, by the names of c10::DDPLoggingData."""
    return cast("dict[str, Any]", cast("Any", ddp)._get_ddp_logging_data())


# fully_shard


class ShardedParameter(Protocol):
    """A parameter of fully_shard (FSDPParam): a rank's part of it, and the whole."""

    sharded_param: torch.nn.Parameter
    _unsharded_param: torch.nn.Parameter
    mp_policy: Any

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
    """Whether fully_shard was called with this module itself."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(fsdp, "FSDPModule", None)
    return kind is not None and isinstance(module, kind)


def sharded_state(module: torch.nn.Module) -> Any:
    """The FSDPState of a module for which is_sharded()."""
    return cast("Any", module)._get_fsdp_state()


def sharded_groups(module: torch.nn.Module) -> list[ShardedGroup]:
    """The groups of parameters whose collectives this module begins; most have one or none."""
    if not is_sharded(module):
        return []
    state = sharded_state(module)
    groups = getattr(state, "_fsdp_param_groups", None)  # older versions have one group
    if groups is None:
        groups = [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group]


def is_sharded_finalised_by_hand(module: torch.nn.Module) -> bool:
    """Whether the script says when a backward of the module has ended, for which is_sharded()."""
    context = sharded_state(module)._state_ctx
    return bool(getattr(context, "manual_backward_finalization", False))


def make_whole_parameters(module: torch.nn.Module) -> None:
    """Gathers the parameters of a module for which is_sharded(), and frees them again: from then on
    there is a whole_parameter() of each.
    """
    cast("Any", module).unshard()
    cast("Any", module).reshard()


def initialise(module: torch.nn.Module) -> None:
    """Does what the first forward of a module would, for which is_sharded()."""
    sharded_state(module)._lazy_init()


def whole_parameter(parameter: ShardedParameter) -> torch.nn.Parameter | None:
    """What modules compute with. None before the first gather."""
    return getattr(parameter, "_unsharded_param", None)
