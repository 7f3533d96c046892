"""Computes the mean of all ranks' gradients in f64, and bounds of rounding errors in gradients.

Without underflow, at most n roundings of each summand change a sum by at most S ((1 + u)^n - 1). S
is the sum of the summands' absolute values, and u is the dtype's unit roundoff: one rounding
multiplies a number by at most 1 + u (Higham, Accuracy and Stability of Numerical Algorithms, 2.2).
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import math
from collections.abc import Collection

import torch

from gradsync import Refused
from gradsync.collectives import flat_of
from gradsync.ranks import Ranks, refusing_late_ranks
from gradsync.torch_private import part_of, whole_of

F64_UNIT = 2.0**-53  # u of f64, in which means are computed
NARROW_DTYPES = (torch.bfloat16, torch.float16)  # to which gradients may be rounded on their way


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of the whole `tensor` in f64 on the CPU, with complex numbers as pairs of real
    ones. If `tensor` is a DTensor, all ranks of its mesh must call this function together. Raises
    Refused if a rank does not call exact() within the process group's timeout."""
    with refusing_late_ranks():
        whole = whole_of(tensor)
    return flat_of(whole.detach()).to("cpu", torch.float64, copy=True)


def digest(tensor: torch.Tensor) -> str:
    """Returns a text with the dtype, the shape and a hash of the contents of `tensor`. For a
    DTensor, the text is that of this rank's shard. Raises Refused if PyTorch cannot copy the
    contents into one block of memory, as for a sparse tensor."""
    try:
        data = part_of(tensor).detach().cpu().contiguous()
        address, size = data.data_ptr(), data.nbytes
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"a tensor on {tensor.device} cannot be read: {reason}") from error
    content = (ctypes.c_char * size).from_address(address) if size else b""
    hexadecimal = hashlib.blake2b(content, digest_size=16).hexdigest()
    return f"{data.dtype} {tuple(data.shape)} {hexadecimal}"


def bound_of(
    magnitude: torch.Tensor, dtypes: Collection[torch.dtype], roundings: int
) -> torch.Tensor:
    """Returns, for each element of a sum of tensors, an upper bound of the element's rounding
    error. `magnitude`: for each element, the sum of the summands' absolute values. The bound holds
    for at most `roundings` roundings of each summand to `dtypes`, and as many to f64."""
    coarsest = max((torch.finfo(dtype) for dtype in dtypes), key=lambda info: info.eps)
    share = 0.0
    for unit in (coarsest.eps / 2, F64_UNIT):
        share += math.expm1(roundings * math.log1p(unit))
    smallest = coarsest.tiny * coarsest.eps  # the spacing of subnormal numbers
    return magnitude * share + roundings * smallest


class Gradients:
    """The gradients of one parameter that autograd has delivered on this rank since the parameter's
    last update.

    `sums`: an f64 tensor. sums[0] is the sum of the gradients, each as exact() returns it, divided
    by the loss scale of a GradScaler. sums[1] is the sum of the absolute values of the same
    summands. `aside`: as `sums`, for the gradients that set_aside() has moved out of `sums`; None
    before the first set_aside(). `roundings`: at most how many times an element of the gradients
    has been rounded to `dtype`.
    """

    def __init__(self, like: torch.Tensor) -> None:
        flat = flat_of(like)
        self.sums = torch.zeros(2, *flat.shape, dtype=torch.float64)
        self.aside: torch.Tensor | None = None
        self.roundings = 0
        self.dtype = flat.dtype

    def add(self, gradient: torch.Tensor, scale: float = 1) -> None:
        """Adds gradient / scale to sums[0], and abs(gradient / scale) to sums[1]. `scale`: the loss
        scale of a GradScaler; 1 without one."""
        unscaled = exact(gradient) / scale
        self.sums += torch.stack([unscaled, unscaled.abs()])
        self.roundings += 1 if scale == 1 else 3

    def set_aside(self) -> None:
        """Called when a backward begins, if the script has set the parameter's gradient to None or
        zero. Adds `sums` to `aside`, and sets `sums` to 0."""
        self.aside = self.sums if self.aside is None else self.aside + self.sums
        self.sums = torch.zeros_like(self.sums)

    def with_aside(self) -> Gradients:
        """Returns a copy of this object in which `aside` is added to `sums`, and `aside` is
        None."""
        whole = copy.copy(self)
        whole.sums = self.sums if self.aside is None else self.sums + self.aside
        whole.aside = None
        return whole

    def is_zero(self) -> bool:
        return not bool(self.sums[1].any())


def are_scaled_alike(before: Gradients, after: Gradients, ranks: Ranks) -> bool:
    """Returns whether the script's hooks multiply each element of a gradient by a factor that is
    equal on all ranks, except for rounding. The factors of different elements may differ. `before`
    and `after`: this rank's gradients of one parameter before and after the script's hooks. All
    ranks must call this function together, and get the same result."""
    total_before, total_after = (ranks.total(one.sums.clone()) for one in (before, after))
    # of each element, (own after) / (own before) = (sum after) / (sum before)
    distance = abs(after.sums[0] * total_before[0] - before.sums[0] * total_after[0])
    magnitude = after.sums[1] * total_before[1] + before.sums[1] * total_after[1]
    roundings = before.roundings + after.roundings + ranks.size
    bound = bound_of(magnitude, {before.dtype, after.dtype}, roundings)
    return all(ranks.gather(bool((distance <= bound).all())))


class Comparison:
    """Compares the gradient that an optimizer gets for one parameter with the mean of all ranks'
    gradients. All ranks must construct the object together.

    Argument `gradient`: the gradient that the optimizer gets for the parameter `p`; None if there
    is none. Argument `held`: the gradients that autograd delivered for `p` on this rank since the
    last update or zero_grad(); None without any. `handed`: `gradient` in f64; zeros if `gradient`
    is None. `own`: held.sums[0], the sum of this rank's gradients in f64; zeros if `held` is None.
    `mean`: the sum of `own` over all ranks, divided by the number of ranks. `bound`: for each
    element, the largest difference between `mean` and the optimizer's gradient (`handed`) that
    rounding can cause. `share`: the largest |handed - mean| / bound of all elements; above 1 or NaN
    if `handed` is wrong; 0 without elements. `narrow`: "torch.bfloat16" or "torch.float16" if a
    wrong gradient was apparently rounded to this dtype; else empty.
    """

    def __init__(
        self,
        p: torch.nn.Parameter,
        gradient: torch.Tensor | None,
        held: Gradients | None,
        ranks: Ranks,
    ) -> None:
        if held is None:
            held = Gradients(p if gradient is None else gradient)
        self.is_used = gradient is not None
        self.handed = exact(torch.zeros_like(p) if gradient is None else gradient)
        self.own = held.sums[0]
        self.mean, magnitude = ranks.total(held.sums.clone()) / ranks.size
        roundings = held.roundings + ranks.size
        self.bound = bound_of(magnitude, {held.dtype, flat_of(p).dtype}, roundings)
        self._ranks = ranks

        distance = abs(self.handed - self.mean)
        self.share = float((distance / self.bound).max()) if distance.numel() else 0.0
        self.narrow = ""
        if not self.is_right():
            self.narrow = self._narrow_dtype(distance, magnitude, roundings)

    def is_right(self) -> bool:
        """Returns whether |handed - mean| is at most `bound` in every element; False if an element
        is NaN."""
        return self.share <= 1

    def is_own(self) -> bool:
        """Returns whether `handed` equals `own`, the sum of this rank's gradients, except for
        rounding; False if there is only one rank."""
        is_close = abs(self.handed - self.own) <= self.bound * self._ranks.size
        return self._ranks.size > 1 and bool(is_close.all())

    def _narrow_dtype(self, distance: torch.Tensor, magnitude: torch.Tensor, roundings: int) -> str:
        for dtype in NARROW_DTYPES:
            is_within = bool((distance <= bound_of(magnitude, {dtype}, roundings)).all())
            if is_within and self._has_only_numbers_of(dtype):
                return str(dtype)
        return ""

    def _has_only_numbers_of(self, dtype: torch.dtype) -> bool:
        """Returns whether `dtype` represents exactly every element of `handed`, or every element of
        `handed` times the number of ranks."""
        return any(
            torch.equal(numbers.to(dtype).double(), numbers)
            for numbers in (self.handed, self.handed * self._ranks.size)
        )
