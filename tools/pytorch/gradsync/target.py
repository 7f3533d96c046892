"""Averages the gradients of a recorded model over ranks, in steps in which the script does not
average them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch

from gradsync.clock import Clock, Span
from gradsync.flat_buffer import FlatBuffer
from gradsync.patches import Patches
from gradsync.schema import Memory, Parameter, Row, Unit
from gradsync.step_machine import Target
from gradsync.step_marks import StepMarks
from gradsync.torch_private import gradient_dtype
from gradsync.turns import Turn
from gradsync.units import can_be_tried
from gradsync.world import World

Named = list[tuple[str, torch.nn.Parameter]]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def other_gradient_dtype(name: str) -> str:
    """Returns the error text for the parameter `name`, whose gradient has, or may have, another
    dtype than the parameter."""
    return (
        "gradsync does not record parameters whose gradients have another dtype, such as "
        f"{name} (grad_dtype)"
    )


class ModelTarget:
    """A recorded model. An object of ModelTarget itself is a model neither in DDP nor under
    fully_shard, such as a model that one process trains. The classes for models in DDP and under
    fully_shard are derived from ModelTarget.

    `named`: the recorded parameters, each with its name. `roots`: the modules whose call begins a
    step. `views`: whether a probe (a step that times collectives) replaces gradients by views of a
    flat buffer, as DDP does with gradient_as_bucket_view. `units`: a Unit for each group of
    parameters that fully_shard gathers together; empty without fully_shard. `sharing_ranks`: under
    HSDP, the number of ranks among which each copy of the parameters is divided; else 0.
    """

    kind = Target.PLAIN
    has_own_steps = False  # whether the script's own steps differ from those of other turns
    can_update_unseen = True  # whether what is no optimizer of torch.optim may update the model

    def __init__(
        self,
        model: torch.nn.Module,
        module: torch.nn.Module,
        named: Iterable[tuple[str, torch.nn.Parameter]],
        *,
        only: Collection[int] | None = None,
        roots: Sequence[torch.nn.Module] = (),
        views: bool = False,
    ) -> None:
        """`module`: the module that has the parameters: `model` itself or, in DDP, the module in
        it. `named`: parameters with their names; those that require a gradient and are not empty
        are recorded. `only`: the ids (Python's id()) of the parameters to record among those in
        `named` that require a gradient; None for all of these."""
        self.module = module
        self.roots = list(roots) or [model]
        self.views = views
        self.named: Named = [
            (name, param)
            for name, param in named
            if param.requires_grad and param.numel() and (only is None or id(param) in only)
        ]
        self.params = [param for _, param in self.named]
        self.units: tuple[Unit, ...] = ()
        self.sharing_ranks = 0

    def attach(self, world: World, clock: Clock) -> None:
        """Sets two attributes: `world`, the ranks that train the model, and `clock`, which measures
        the times of steps."""
        self.world = world
        self.clock = clock

    def watch(self, patches: Patches) -> None:
        """Does nothing in ModelTarget. In the derived class ShardedTarget, watch() observes the
        calls of FSDP2's functions until `patches` are undone."""

    def parameters(self) -> tuple[Parameter, ...]:
        """Returns, for each recorded parameter, its name, size and dtype, as a recording stores
        them."""
        return tuple(
            Parameter(name, p.numel(), p.numel() * dtype.itemsize, dtype_name(dtype))
            for (name, p), dtype in zip(self.named, self.dtypes(), strict=True)
        )

    def dtypes(self) -> list[torch.dtype]:
        """Returns, for each parameter, the dtype in which DistributedDataParallel would send its
        gradient without a communication hook.
        """
        return [p.dtype for p in self.params]

    def optimized_ids(self) -> set[int]:
        """Returns Python's id() of each recorded parameter or, under fully_shard, of this rank's
        part of each."""
        return {id(param) for param in self.params}

    def can_try_units(self) -> bool:
        """Returns whether probes can measure FSDP2's collectives although the script does not use
        FSDP2."""
        return can_be_tried(self.params)

    def refusal(self) -> str:
        """Called when the first step begins: returns why this model cannot be recorded, or "" if no
        reason is known."""
        others = [name for name, p in self.named if gradient_dtype(p) != p.dtype]
        if not others:
            return ""
        return other_gradient_dtype(others[0])

    def refusal_of_step(self) -> str:
        """Called when a step begins: returns why this step cannot be recorded, or "" if no reason
        is known."""
        return ""

    def is_joining(self) -> bool:
        """Returns whether the script's last join() of the model in DDP, running or ended, has
        enable=True; False without DDP or join()."""
        return False

    def before_step(self, turn: Turn) -> None:
        """Called before a step of the kind `turn` begins, except before the script's first step, to
        prepare the model. The time that before_step() takes is not counted in the step's time. All
        ranks must call before_step(), but need not call it at the same moment."""

    def after_call(self, turn: Turn) -> None:
        """Called in a step when the script has called the model, before forward runs. For a model
        in DDP, keeps forward in an UNSYNCHRONISED step from sending the model's buffers."""

    def owns_reducer(self, reducer: object) -> bool:
        """Returns whether this reducer of DDP belongs to this model."""
        return False

    def before_backward(self, turn: Turn, passes: int, expected: int | None) -> bool | None:
        """Called when a backward pass begins. Returns whether gradients are synchronised in or
        after this pass, or None for DDP, which has decided this in forward.

        `passes`: the number of earlier backward passes in this step. `expected`: the number of
        backward passes in a whole step; None in the script's first step.
        """
        return passes + 1 == expected

    def after_backward(self) -> None:
        """A backward has ended."""

    def deliver(self, turn: Turn, marks: StepMarks, buffer: FlatBuffer) -> None:
        """Called after the last backward of an UNSYNCHRONISED step or of a probe. In a probe of
        several ranks, called after the probe's collectives. After a probe, copies the gradients
        from `buffer` back into the parameters' gradients, unless these are views of `buffer`; the
        time of these copies is measured. Finally, if there are several ranks, averages gradients
        over all ranks, so that the optimizer gets the mean. The time of this averaging is no part
        of the step's time."""
        if turn.is_probe and not self.views:
            begin = self.clock.mark()
            buffer.copy_back()
            marks.copy_back = Span(begin, self.clock.mark())
        if self.world.are_several:
            begin = self.clock.mark()
            buffer.average(self.sends_bf16())
            marks.untimed = Span(begin, self.clock.mark())

    def keep(self, buffer: FlatBuffer) -> None:
        """Copies the gradients that are in the buffer, because the probe's collectives will
        overwrite them; deliver() uses the copy."""
        buffer.keep()

    def sends_bf16(self) -> bool:
        return False

    def forget_used(self) -> None:
        """Does nothing in this base class. The subclass for DDP makes DDP with
        find_unused_parameters forget which parameters were used in steps that DDP did not
        synchronise."""

    def rows(self, passes: int) -> tuple[Row, ...]:
        """Returns the settings with which the script's DDP or fully_shard synchronises gradients,
        such as DDP's bucket sizes; an empty tuple if the model uses neither. `passes`: the number
        of backward passes in a step."""
        return ()

    def memory(self, own: Memory) -> Memory:
        """Returns the memory that the recording stores: `own`, which was measured on this rank. The
        subclass ShardedTarget instead returns `own` with weight_bytes, state_bytes and
        optimizer_bytes of the whole model."""
        return own

    def close(self) -> None:
        """Restores the model."""
