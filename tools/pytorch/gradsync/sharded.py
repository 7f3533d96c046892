"""Records training steps of a model under FSDP2 (torch.distributed.fsdp.fully_shard).

In UNSYNCHRONISED steps and probes, the recorder gathers all parameters before the step, and reduces
gradients after the last backward. The step's recorded time does not include these gathers and
reductions. Each rank needs enough memory for all whole parameters and gradients of the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from gradsync.clock import Mark, Span
from gradsync.flat_buffer import FlatBuffer
from gradsync.patches import Patches
from gradsync.schema import Memory, Parameter, Row, Unit
from gradsync.step_machine import Target
from gradsync.step_marks import StepMarks, UnitMarks
from gradsync.target import ModelTarget, other_gradient_dtype
from gradsync.torch_private import (
    ShardedGroup,
    ShardedParameter,
    free_reduction_buffers,
    gathered_dtype,
    gradient_dtype,
    is_sharded,
    is_sharded_finalised_by_hand,
    keeps_root_whole,
    make_whole_parameters,
    reduced_dtype,
    replicas,
    sharded_groups,
    sharded_state,
    sharing_ranks,
    whole_parameter,
)
from gradsync.turns import Turn
from gradsync.unit_schedule import CALLS, Call
from gradsync.units import gather, reduce

if TYPE_CHECKING:
    from gradsync.recorder import Recorder

NOT_RECORDED = "gradsync does not record fully_shard"
ROW_NAME = "fully_shard as it is"


@dataclasses.dataclass(frozen=True)
class SyncFlags:
    """Values of three fields of FSDP2's class FSDPParamGroup, which have the same names."""

    reduce_grads: bool
    all_reduce_grads: bool
    reshard_after_backward: bool

    @classmethod
    def of(cls, group: ShardedGroup) -> SyncFlags:
        return cls(group.reduce_grads, group.all_reduce_grads, group.reshard_after_backward)

    def apply(self, group: ShardedGroup) -> None:
        group.reduce_grads = self.reduce_grads
        group.all_reduce_grads = self.all_reduce_grads
        group.reshard_after_backward = self.reshard_after_backward


ALL = SyncFlags(True, True, True)
NONE = SyncFlags(False, False, False)


class ShardedTarget(ModelTarget):
    """A model to which the script has applied fully_shard. `params` and `named` hold whole
    (gathered) parameters; optimizers hold this rank's shards."""

    kind = Target.SHARDED
    has_own_steps = True
    can_update_unseen = False  # what modules compute with is freed here

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.groups: list[ShardedGroup] = []  # by unit, the root's first
        for module in filter(is_sharded, model.modules()):
            self.groups += [g for g in sharded_groups(module) if g not in self.groups]
            make_whole_parameters(module)
        self.shards = {id(p.sharded_param): p for g in self.groups for p in g.fsdp_params}
        named = []
        self._owners: dict[int, ShardedParameter] = {}  # by the ids of whole parameters
        for name, shard in model.named_parameters():
            if id(shard) in self.shards:
                whole = whole_parameter(self.shards[id(shard)])
                assert whole is not None
                named.append((name, whole))
                self._owners[id(whole)] = self.shards[id(shard)]
        super().__init__(model, model, named)
        self.units = self._units()
        if replicas(self.groups[0]) > 1:
            self.sharing_ranks = sharing_ranks(self.groups[0])
        self._script_flags: list[SyncFlags] = []  # by group, while others are set
        self._holds_back = False  # whether a backward runs whose reductions wait for deliver()
        self._meshes: list[Any] = []  # by group, while all are kept whole after forward
        self._gathers: list[Span] = []
        self._forget_calls()

    def _units(self) -> tuple[Unit, ...]:
        number = {id(param): i for i, param in enumerate(self.params)}
        names = {id(module): name for name, module in self.model.named_modules()}
        units = [
            Unit(
                name=names.get(id(group.modules[0]), ""),
                parameters=tuple(
                    number[id(whole_parameter(p))]
                    for p in group.fsdp_params
                    if id(whole_parameter(p)) in number
                ),
                reshards=group.post_forward_mesh_info is not None,
            )
            for group in self.groups
        ]
        # The root may hold no parameter itself, if each is in another unit.
        if sharded_groups(self.model) and keeps_root_whole(self.model):
            units[0] = dataclasses.replace(units[0], reshards=False)  # FSDP2 keeps the root whole
        return tuple(units)

    def watch(self, patches: Patches) -> None:
        for unit, group in enumerate(self.groups):
            for call in CALLS:
                patches.replace(group, call.value, self._marking(unit, call))

    def _marking(self, unit: int, call: Call) -> Callable[..., Any]:
        """Returns a function to replace the method `call` of FSDP2's parameter group number `unit`.
        In each pass, the function stores when it is first called, as a mark of the clock. The
        function calls the replaced method, except post_backward in a pass after which deliver()
        reduces the gradients."""

        def watched(own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if call == CALLS[0]:  # of another pass
                self._calls[unit] = {}
            # The end of backward calls post_backward again.
            if call not in self._calls[unit]:
                self._calls[unit][call] = self.clock.mark()
            if call is Call.POST_BACKWARD and self._holds_back:
                return None
            return own(*args, **kwargs)

        return watched

    def _forget_calls(self) -> None:
        self._calls: list[dict[Call, Mark]] = [{} for _ in self.groups]

    def parameters(self) -> tuple[Parameter, ...]:
        """Returns each recorded parameter's name, dtype, number of elements and numbers of bytes,
        as a recording stores them."""
        return tuple(
            dataclasses.replace(
                parameter,
                gathered_bytes=_other_bytes(parameter, gathered_dtype(owner)),
                reduced_bytes=_other_bytes(parameter, reduced_dtype(owner)),
            )
            for parameter, owner in zip(super().parameters(), self._owners_in_order(), strict=True)
        )

    def dtypes(self) -> list[torch.dtype]:
        return [owner.orig_dtype for owner in self._owners_in_order()]

    def _owners_in_order(self) -> list[ShardedParameter]:
        return [self._owners[id(param)] for param in self.params]

    def optimized_ids(self) -> set[int]:
        return {id(p.sharded_param) for p in self.shards.values() if p.sharded_param.requires_grad}

    def can_try_units(self) -> bool:
        return False  # those of the script are timed

    def refusal(self) -> str:
        states = [sharded_state(m) for m in self.model.modules() if is_sharded(m)]
        shapes = {(replicas(group), sharing_ranks(group)) for group in self.groups}
        others = [
            name
            for (name, _), owner in zip(self.named, self._owners_in_order(), strict=True)
            if gradient_dtype(owner.sharded_param) != owner.sharded_param.dtype
        ]
        about = ""
        if any(type(g.offload_policy).__name__ == "CPUOffloadPolicy" for g in self.groups):
            about = "with an offload_policy: leave it out"
        elif len(shapes) > 1:
            about = "over meshes of several shapes: give all modules one mesh"
        elif any(count * sharing != self.world.size for count, sharing in shapes):
            about = "over a part of the ranks: use a mesh of all of them"
        elif any(s._states_to_forward_prefetch or s._states_to_backward_prefetch for s in states):
            about = "with explicit prefetching: leave it out"
        elif others:
            return other_gradient_dtype(others[0])
        return f"{NOT_RECORDED} {about}" if about else ""

    def refusal_of_step(self) -> str:
        if not is_sharded_finalised_by_hand(self.model):
            return ""
        return f"{NOT_RECORDED} with set_manual_backward_finalization: leave it out"

    def before_step(self, turn: Turn) -> None:
        """Before a step in which the recorder synchronises gradients, gathers the parameters of all
        units for forward and backward."""
        self._forget_calls()
        if turn.is_scripts_own:
            return
        self.world.meet()
        self._gathers = []
        for group in self.groups:
            begin = self.clock.mark()
            gather(group)
            self._gathers.append(Span(begin, self.clock.mark()))
        self._meshes = [group.post_forward_mesh_info for group in self.groups]
        for group in self.groups:
            group.post_forward_mesh_info = None

    def before_backward(self, turn: Turn, passes: int, expected: int | None) -> bool | None:
        """Returns whether reduce_grads is set in all of FSDP2's parameter groups. Unless the script
        itself synchronises gradients in this step, the backward pass reduces no gradients;
        deliver() reduces them later."""
        self._script_flags = [SyncFlags.of(group) for group in self.groups]
        synchronises = all(flags.reduce_grads for flags in self._script_flags)
        if not turn.is_scripts_own:
            self._holds_back = synchronises
            if not synchronises:
                self._set([NONE] * len(self.groups))
        return synchronises

    def after_backward(self) -> None:
        self._holds_back = False
        self._set(self._script_flags)

    def _set(self, flags: Sequence[SyncFlags]) -> None:
        for group, own in zip(self.groups, flags, strict=True):
            own.apply(group)

    def keep(self, buffer: FlatBuffer) -> None:
        """Does nothing, because a probe's collectives do not overwrite gradients under
        fully_shard."""

    def deliver(self, turn: Turn, marks: StepMarks, buffer: FlatBuffer) -> None:
        """Reduces the gradients of all units over ranks, from the last unit to the first. Stores in
        `marks` when each unit's gather, forward, backward and reduction began and ended."""
        begin = self.clock.mark()
        marks.units = UnitMarks(self._gathers, self._spans_of_calls(marks), self._reduce())
        marks.untimed = Span(begin, self.clock.mark())

    def _spans_of_calls(self, marks: StepMarks) -> list[list[Span]]:
        assert marks.last_backward is not None
        backward = marks.last_backward
        # A unit whose input needs no gradient, such as the root, ends with backward.
        defaults = dict(
            zip(CALLS, (marks.begin, backward.begin, backward.begin, backward.end), strict=True)
        )
        return [
            [Span(marks.begin, own.get(call, default)) for call, default in defaults.items()]
            for own in self._calls
        ]

    def _reduce(self) -> list[Span]:
        self.world.meet()
        self._set([ALL] * len(self.groups))
        spans = []
        for group in reversed(self.groups):
            begin = self.clock.mark()
            reduce(group)
            spans.append(Span(begin, self.clock.mark()))
        free_reduction_buffers(self.groups[0])
        self._keep_whole_no_longer()
        self._set(self._script_flags)
        return spans[::-1]

    def _keep_whole_no_longer(self) -> None:
        for group, mesh in zip(self.groups, self._meshes, strict=False):  # none between steps
            group.post_forward_mesh_info = mesh
        self._meshes = []

    def rows(self, passes: int) -> tuple[Row, ...]:
        return (Row.by_default(ROW_NAME, passes, fsdp=True),)

    def memory(self, own: Memory) -> Memory:
        """Returns the memory of the whole model, computed from the memory `own` of this rank, which
        holds only shards. `state_bytes` and `optimizer_bytes` are multiplied by the number of ranks
        that share the parameters."""
        ranks = self.sharing_ranks or self.world.size
        return dataclasses.replace(
            own,
            weight_bytes=sum(
                whole.numel() * shard.orig_dtype.itemsize
                for shard in self.shards.values()
                if (whole := whole_parameter(shard)) is not None
            ),
            state_bytes=own.state_bytes * ranks,
            optimizer_bytes=own.optimizer_bytes * ranks,
        )

    def close(self) -> None:
        self._holds_back = False
        self._keep_whole_no_longer()


def _other_bytes(parameter: Parameter, dtype: torch.dtype) -> int:
    """Returns the unsharded parameter's bytes in `dtype`, or 0 if they equal `parameter.bytes`."""
    size = parameter.numel * dtype.itemsize
    return 0 if size == parameter.bytes else size


def recorder_of(model: torch.nn.Module, *args: Any, **options: Any) -> Recorder:
    """Returns a Recorder for a model under DDP, under fully_shard or without either."""
    from gradsync.recorder import Recorder  # which imports this module

    return Recorder(model, *args, **options)
