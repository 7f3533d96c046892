"""Computes the weights that should result from a step of an optimizer that itself averages
gradients over ranks. To compute these weights, a copy of the optimizer steps with the gradients'
means over ranks.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from gradsync import Refused
from gradsync.reference import Comparison, exact
from gradsync.torch_private import default_group
from gradsync.trained import Updater, parameters_of


@dataclasses.dataclass
class Weights:
    """The weights that a parameter should have after the optimizer's step, in f64.

    `rounding`: an estimate of the largest norm that the weights' error has if gradients and weights
    are only rounded.
    """

    p: torch.nn.Parameter
    expected: torch.Tensor
    rounding: torch.Tensor

    def are_missed(self) -> bool:
        """Returns whether the parameter's weights after the optimizer's step differ from `expected`
        by more than rounding explains. Also returns True if the difference or `rounding` is NaN."""
        return not bool((exact(self.p) - self.expected).norm() <= self.rounding)

    def distance(self) -> float:
        """Returns the norm of the error of the parameter's weights, as a fraction of the norm of
        the expected weights. Returns infinity or NaN if all expected weights are 0."""
        return float((exact(self.p) - self.expected).norm() / self.expected.norm())


def has_parts(optimizer: Updater) -> bool:
    """Returns whether a tensor in the optimizer's state covers only a part of its parameter."""
    state: Any = getattr(optimizer, "state", {})
    return any(
        isinstance(value, torch.Tensor) and value.dim() > 0 and _is_part(value, p)
        for p, values in state.items()
        if isinstance(p, torch.Tensor) and isinstance(values, dict)
        for value in values.values()
    )


def _is_part(value: torch.Tensor, p: torch.Tensor) -> bool:
    """Returns whether a tensor of the optimizer's state covers only a part of the parameter. A
    tensor is assumed to be such a part if its shape differs from the parameter's, and if it has
    more than one element.
    """
    return value.numel() > 1 and value.shape != p.shape


def step_of_twin(
    optimizer: Updater, compared: Sequence[Comparison], alone: dist.ProcessGroup | None
) -> list[Weights]:
    """Returns, for each parameter, the weights after a copy of `optimizer` has stepped with the
    gradients' means over ranks.

    `compared`: for each of the optimizer's parameters, in order, the Comparison with its mean
    gradient and the bound of its rounding error. `alone`: a process group that contains only this
    rank; None for no group. `alone` is the default group while copies of the optimizer step, so
    that the copies average nothing over ranks. Three copies of the optimizer call step(). The first
    has the mean gradients. In the gradients of the second, each element is changed by the bound of
    its rounding error, up or down at random. In the gradients of the third, each element is changed
    in the opposite direction. The copies lack attributes that the script has added to the
    optimizer, because PyTorch's Optimizer.__getstate__() returns only defaults, state and
    param_groups.

    Raises Refused if copying the optimizer or a copy's step raises an exception, because a copy may
    run code of the script."""
    params = parameters_of(optimizer)
    exactly, up, down = (
        _step_of_copy(optimizer, compared, alone, direction) for direction in (0, 1, -1)
    )
    result = []
    for p, middle, above, below in zip(params, exactly, up, down, strict=True):
        of_gradients = (above - middle).norm() + (below - middle).norm()
        of_weights = torch.finfo(p.dtype).eps * middle.norm()
        result.append(Weights(p, middle, of_gradients + of_weights))
    return result


def _step_of_copy(
    optimizer: Updater,
    compared: Sequence[Comparison],
    alone: dist.ProcessGroup | None,
    direction: int,
) -> list[torch.Tensor]:
    """Copies the optimizer, calls the copy's step(), and returns the weights that step() computes,
    in f64. The copy's gradients are the means over ranks plus `direction` (0, 1 or -1) times the
    bounds of their rounding errors. A parameter whose gradient is None on this rank and whose mean
    is 0 gets no gradient. Each element of the bounds is multiplied by 1 or -1, drawn at random from
    the same seed in each call of this function."""
    draw = torch.Generator().manual_seed(0)
    try:
        with default_group(alone):
            twin: Any = copy.deepcopy(optimizer)
            params = parameters_of(twin)
            for p, one in zip(params, compared, strict=True):
                if one.is_used or one.mean.any():
                    signs = torch.randint(2, one.mean.shape, generator=draw) * 2.0 - 1
                    gradient = one.mean + direction * signs * one.bound
                    p.grad = gradient.to(p.device, p.dtype)
            twin.step()
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    return [exact(p) for p in params]
