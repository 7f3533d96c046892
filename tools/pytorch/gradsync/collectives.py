"""Exchanges values between ranks as JSON."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist


def flat_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that collectives can send. For a tensor of complex numbers, which gloo
    cannot send, the result is a view of them as pairs of real numbers; for another tensor, it is
    the tensor itself."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def gathered(
    value: Any, device: torch.device | str, group: dist.ProcessGroup | None = None
) -> list[Any]:
    """Returns the values that all ranks pass to this function, in rank order; only this rank's
    value if no process group exists. JSON must be able to represent each value; in a process group,
    a tuple arrives as a list.

    gathered() does not call PyTorch's all_gather_object, which needs NumPy.
    """
    if not dist.is_initialized():
        return [value]
    data = bytearray(json.dumps(value).encode())
    longest = torch.tensor([len(data)], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=group)
    own = torch.frombuffer(data.ljust(int(longest), b" "), dtype=torch.uint8).to(device)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own, group)
    return [json.loads(bytes(part.tolist())) for part in parts]
