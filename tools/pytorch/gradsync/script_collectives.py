"""Watches the all-reduces, reduces and all-gathers that a script calls while the command `check`
runs it."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.distributed as dist

from gradsync.events import place
from gradsync.torch_private import functional_collectives, is_computed, tensors_of

GATHERS = ("all_gather", "all_gather_into_tensor")
REDUCTIONS = ("all_reduce", "reduce")
MOST_NUMBERS = 16  # of a tensor whose sums are looked at, such as that of a loss and its tokens
MOST_NODES = 200  # of a graph that are looked at for a division
ROUNDING = 1e-6  # of a quotient in f32, as a part of it
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


class ScriptCollectives:
    """Collects sums over ranks that the script's own collectives compute in a step, such as the
    number of all ranks' tokens. Collectives of tensors that PyTorch calls, such as those of DDP,
    are ignored. `on_reduced`: a function that is called with each loss before the script calls
    torch.distributed.all_reduce() or reduce() for it. A loss is one number that autograd has
    computed from tensors that need a gradient. `in_forward`: NAME at FILE:LINE of the first call of
    all_reduce, reduce, all_gather or all_gather_into_tensor within a forward with gradients
    enabled; empty if none. A call that sends a tensor of several elements, which autograd has
    computed, counts as within a forward wherever the script makes the call."""

    def __init__(self, on_reduced: Callable[[torch.Tensor], None]) -> None:
        self.in_forward = ""
        self._on_reduced = on_reduced
        self._sums: list[float] = []
        self._unread: list[tuple[torch.Tensor, bool]] = []  # which communication may yet change
        self._is_forward = False

    def start(self, around: Callable[[Any, str, Callable[..., Any]], None]) -> None:
        """Calls around(owner, name, call) for each function owner.name that is watched, such as
        torch.distributed.all_reduce. around() must replace owner.name by a function that calls
        call(own, ...) with the replaced function `own`."""
        for name in (*REDUCTIONS, *GATHERS):
            around(dist, name, self._on_call)
        around(dist, "all_gather_object", self._on_objects)
        around(functional_collectives(), "all_reduce", self._on_functional)

    def begin_forward(self) -> None:
        """Called when the script, outside of other modules' calls, calls a module while gradients
        are enabled."""
        self._is_forward = True

    def end_forward(self) -> None:
        self._is_forward = False

    def begin_step(self) -> None:
        """Called when an optimizer's update has ended; forgets the sums over ranks that were
        collected so far."""
        self._sums.clear()
        self._unread.clear()

    def divides(self, roots: Any) -> bool:
        """Returns whether autograd's graph of each tensor in `roots` shows a division by a sum over
        ranks of this step. Only sums whose absolute value is above 1 count. Returns False if
        `roots` has no tensor."""
        sums = {abs(number) for number in self._read() if abs(number) > 1}
        found = [_divisors(root) for root in tensors_of(roots)]
        return bool(sums and found) and all(
            any(abs(divisor / number - 1) <= ROUNDING for divisor in divisors for number in sums)
            for divisors in found
        )

    def _on_call(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if _is_called_by_torch():
            return own(*args, **kwargs)
        given = inspect.signature(own).bind(*args, **kwargs).arguments
        is_gather = own.__name__ in GATHERS
        op = given.get("op", dist.ReduceOp.SUM)
        tensor = given.get("input_tensor", given.get("tensor"))
        self._look_at(own.__name__, tensor)
        result = own(*args, **kwargs)
        if is_gather:
            received = given.get("tensor_list", given.get("output_tensor"))
            self._keep(received, is_gather=True)
        elif op == dist.ReduceOp.SUM:
            self._keep(tensor, is_gather=False)
        if not given.get("async_op"):
            self._read()
        return result

    def _on_functional(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        given = inspect.signature(own).bind(*args, **kwargs).arguments
        if not _is_called_by_torch() and str(given.get("reduceOp")).lower() == "sum":
            self._keep(result, is_gather=False)
        return result

    def _on_objects(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        received = inspect.signature(own).bind(*args, **kwargs).arguments["object_list"]
        if all(isinstance(one, (int, float)) for one in received):
            self._sums.append(float(sum(received)))
        return result

    def _look_at(self, name: str, tensor: object) -> None:
        """Called before the collective `name` sends `tensor`. Calls on_reduced(tensor) if `tensor`
        is a loss and the collective an all-reduce or a reduce. Unless `in_forward` is set already,
        stores `name` and the script's FILE:LINE in it, if a forward runs or if `tensor` has several
        elements that autograd has computed."""
        needs_gradient = isinstance(tensor, torch.Tensor) and is_computed(tensor)
        is_number = isinstance(tensor, torch.Tensor) and tensor.numel() == 1
        if needs_gradient and is_number and name in REDUCTIONS:
            self._on_reduced(cast("torch.Tensor", tensor))
        if (self._is_forward or needs_gradient and not is_number) and not self.in_forward:
            self.in_forward = f"{name} at {place()}"

    def _keep(self, tensors: Any, is_gather: bool) -> None:
        """Keeps the result of a collective for _read(), unless the result is complex, empty or has
        more than 16 numbers. `is_gather`: whether the result was all-gathered, so that _read() adds
        up all its numbers."""
        made = [one.detach() for one in tensors_of(tensors)]
        numbers = sum(one.numel() for one in made)
        if 0 < numbers <= MOST_NUMBERS and not made[0].is_complex():
            self._unread.append((torch.cat([one.flatten() for one in made]), is_gather))

    def _read(self) -> list[float]:
        """Returns the sums over ranks that the script's collectives have computed so far in this
        step, without results that _keep() leaves out."""
        unread, self._unread = self._unread, []
        for numbers, is_gather in unread:
            own = [float(number) for number in numbers.tolist()]
            self._sums += [math.fsum(own)] if is_gather else own
        return self._sums


def _is_called_by_torch() -> bool:
    """Returns whether a function of PyTorch, not the script, has called the collective that
    begins."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(_TORCH)


def _divisors(root: torch.Tensor) -> list[float]:
    """Returns one divisor for each path in autograd's graph from the tensor `root` back to an
    operation. Multiplications and divisions by a single number other than 0 get no divisor of their
    own. The divisor is the absolute number by which the path's multiplications and divisions by
    single numbers divide the operation's result; 1 without any. Looks only at the 200 nearest
    operations, counted once per path. Returns [1] if `root` has no graph."""
    found: list[float] = []
    open_nodes: list[tuple[Any, float]] = [(root.grad_fn, 1.0)]
    for _ in range(MOST_NODES):
        if not open_nodes:
            break
        node, divisor = open_nodes.pop(0)
        factor = _factor_of(node)
        following = [one for one, _ in node.next_functions if one is not None] if node else []
        if factor is None:
            found.append(abs(divisor))
        open_nodes += [(one, divisor / (factor or 1.0)) for one in following]
    return found


def _factor_of(node: Any) -> float | None:
    """Returns the number by which the operation of `node`, a node of autograd's graph, multiplied
    its input; None if unknown or 0. A division of the input by a number x counts as a factor of 1 /
    x, a division of x by the input as x."""
    name = type(node).__name__
    if name not in ("MulBackward0", "DivBackward0"):
        return None
    inputs = [one for one, _ in node.next_functions]
    if sum(one is not None for one in inputs) != 1:
        return None
    is_first = inputs[0] is not None
    try:
        other = node._saved_other if is_first else node._saved_self
    except RuntimeError:  # it was changed since, or the graph is freed
        return None
    if other is None or other.numel() != 1 or other.is_complex():
        return None
    number = float(other)
    if not number:
        return None
    return 1 / number if name == "DivBackward0" and is_first else number
