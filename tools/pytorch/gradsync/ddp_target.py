"""Tells the recorder about a model in DistributedDataParallel (DDP): for example, which settings
DDP has, and, if the recorder cannot record the model, the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import torch.distributed as dist

from gradsync.schema import DEFAULT_BUCKET_BYTES, Row, StepMode
from gradsync.step_machine import Target
from gradsync.target import ModelTarget
from gradsync.torch_private import (
    DDP,
    ddp_facts,
    default_first_bucket_bytes,
    forget_used_parameters,
    has_sizes_by_bucket,
    is_finalised_by_hand,
    is_joining,
    synchronise_buffers,
    synchronises_buffers,
)
from gradsync.turns import Turn

BF16_HOOK = "bf16_compress_hook"
NOT_RECORDED = "gradsync does not record DistributedDataParallel"


def hook_of(ddp: DDP) -> str:
    """Returns the name of the communication hook that the script has registered with DDP; "" if
    there is none."""
    return str(ddp_facts(ddp).get("comm_hook", ""))


def row_of(ddp: DDP, name: str = "as the script has it", **changes: Any) -> Row:
    """Returns DDP's settings, such as the size of its buckets, as a Row of a recording. `changes`:
    values of fields of Row that replace DDP's, such as `passes`, the number of backward passes in a
    step."""
    bucket_bytes = int(ddp.bucket_bytes_cap)
    is_default = getattr(ddp, "bucket_bytes_cap_default", bucket_bytes == DEFAULT_BUCKET_BYTES)
    sizes = str(ddp_facts(ddp).get("rebuilt_bucket_sizes", ""))
    row = Row(
        name=name,
        bucket_bytes=bucket_bytes,
        first_bucket_bytes=default_first_bucket_bytes() if is_default else bucket_bytes,
        bf16=hook_of(ddp) == BF16_HOOK,
        zero1=False,
        passes=1,
        rebuilt_bucket_bytes=tuple(int(size) for size in sizes.split(",") if size.strip()),
    )
    return dataclasses.replace(row, **changes)


class DdpTarget(ModelTarget):
    """A model that the script synchronises by DDP. In each forward, DDP decides whether it
    synchronises gradients in the following backward.
    """

    kind = Target.DDP
    has_own_steps = True

    def __init__(
        self, ddp: DDP, only: Collection[int] | None = None, views: bool | None = None
    ) -> None:
        ignored = set(ddp.parameters_to_ignore)
        named = [(name, p) for name, p in ddp.module.named_parameters() if name not in ignored]
        has_views = bool(ddp.gradient_as_bucket_view) if views is None else views
        super().__init__(ddp, ddp.module, named, only=only, views=has_views)
        self.ddp = ddp

    def refusal(self) -> str:
        ddp = self.ddp
        hook = hook_of(ddp)
        about = ""
        if ddp.mixed_precision:
            about = "(mixed_precision=...): use torch.autocast"
        elif any(isinstance(module, DDP) for module in ddp.module.modules()):
            about = " within another"
        elif dist.get_world_size(ddp.process_group) != self.world.size:
            about = " of a part of the ranks"
        elif hook not in ("", BF16_HOOK):
            about = f" with {hook}: leave it out"
        elif has_sizes_by_bucket(ddp):
            about = " with bucket_cap_mb_list: use bucket_cap_mb"
        return f"{NOT_RECORDED}{about}" if about else super().refusal()

    def refusal_of_step(self) -> str:
        if not is_finalised_by_hand(self.ddp):
            return ""
        return f"{NOT_RECORDED} with require_manual_backward_finalization: leave it out"

    def is_joining(self) -> bool:
        return is_joining(self.ddp)

    def before_step(self, turn: Turn) -> None:
        """Called before a step of the kind `turn`. If turn.mode is UNSYNCHRONISED, makes the
        model's buffers equal on all ranks if DDP would do so in forward."""
        if turn.mode is StepMode.UNSYNCHRONISED and synchronises_buffers(self.ddp):
            synchronise_buffers(self.ddp)

    def after_call(self, turn: Turn) -> None:
        if turn.mode is StepMode.UNSYNCHRONISED:
            self.ddp.require_forward_param_sync = False  # sends no buffers; DDP sets it again

    def owns_reducer(self, reducer: object) -> bool:
        return reducer is self.ddp.reducer

    def before_backward(self, turn: Turn, passes: int, expected: int | None) -> bool | None:
        return None

    def sends_bf16(self) -> bool:
        return hook_of(self.ddp) == BF16_HOOK

    def forget_used(self) -> None:
        if self.ddp.find_unused_parameters:
            forget_used_parameters(self.ddp)

    def rows(self, passes: int) -> tuple[Row, ...]:
        return (row_of(self.ddp, passes=passes),)
