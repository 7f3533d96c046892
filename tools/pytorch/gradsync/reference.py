"""Computes the mean of all ranks' gradients in f64, and how far rounding may bring a gradient from
this mean.

This module bounds rounding errors as Higham does (Accuracy and Stability of Numerical Algorithms,
4.2): n roundings change a sum by at most n u / (1 - n u) times the sum of the summands' absolute
values, whatever the order of the additions. u is half of the dtype's machine epsilon
(torch.finfo(dtype).eps).
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
from collections.abc import Collection

import torch

from gradsync import Refused
from gradsync.collectives import flat_of
from gradsync.ranks import Ranks, refusing_late_ranks
from gradsync.torch_private import part_of, whole_of

F64_UNIT = 2.0**-53  # u of f64, in which means are computed
NARROW_DTYPES = (torch.bfloat16, torch.float16)  # to which gradients may be rounded on their way


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a tensor in f64 on the CPU. If the tensor is a DTensor, whose parts are on
    several ranks, copies the whole tensor.

    A complex number becomes two real numbers, in an additional last dimension. All ranks that have
    parts of a DTensor must call this function together.
    """
    with refusing_late_ranks():
        whole = whole_of(tensor)
    return flat_of(whole.detach()).to("cpu", torch.float64, copy=True)


def digest(tensor: torch.Tensor) -> str:
    """Returns a text with the dtype, the shape and a hash of the contents of a tensor; for a
    DTensor, of this rank's part.

    Raises Refused if the contents cannot be read as one block of memory, like those of a sparse
    tensor.
    """
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
    """Returns, for each element of a sum of tensors, an upper bound of the error that rounding can
    cause.

    `magnitude`: the sum of the absolute values of the summands. `roundings`: at most how many times
    an element is rounded to the dtype of `dtypes` with the largest machine epsilon. The bound also
    includes `roundings` roundings of each element to f64, the dtype in which the sum is computed.
    """
    coarsest = max((torch.finfo(dtype) for dtype in dtypes), key=lambda info: info.eps)
    share = 0.0
    for unit in (coarsest.eps / 2, F64_UNIT):
        share += roundings * unit / (1 - roundings * unit)
    smallest = coarsest.tiny * coarsest.eps  # the spacing of subnormal numbers
    return magnitude * share + roundings * smallest


class Gradients:
    """The sum of the gradients of one parameter that autograd has delivered on this rank since the
    parameter's last update.

    `sums`: in f64, a tensor of shape (2, *shape) with the sum of these gradients and the sum of
    their absolute values, without gradients that the script has removed or set to zero. `aside`:
    the same two sums over the gradients that the script has removed or set to zero; None if there
    are none. `roundings`: at most how many times autograd and a GradScaler together have rounded an
    element of the gradient to `dtype`, the gradient's dtype.
    """

    def __init__(self, like: torch.Tensor) -> None:
        flat = flat_of(like)
        self.sums = torch.zeros(2, *flat.shape, dtype=torch.float64)
        self.aside: torch.Tensor | None = None
        self.roundings = 0
        self.dtype = flat.dtype

    def add(self, gradient: torch.Tensor, scale: float = 1) -> None:
        """Adds gradient / scale to the first sum in `sums`, and abs(gradient / scale) to the
        second. `scale`: the factor by which a GradScaler has multiplied `gradient`, or 1.

        The GradScaler itself later divides the script's gradient by `scale`, which may round each
        element two more times.
        """
        unscaled = exact(gradient) / scale
        self.sums += torch.stack([unscaled, unscaled.abs()])
        self.roundings += 1 if scale == 1 else 3

    def set_aside(self) -> None:
        """Moves the sums of gradients in `sums` to `aside`. Called when the script removes the
        parameter's gradient or zeroes it. The script may keep a copy to add back later."""
        self.aside = self.sums if self.aside is None else self.aside + self.sums
        self.sums = torch.zeros_like(self.sums)

    def with_aside(self) -> Gradients:
        """Returns a copy in which `aside`, the sums of the gradients that the script has removed or
        set to zero, is added to `sums`."""
        whole = copy.copy(self)
        whole.sums = self.sums if self.aside is None else self.sums + self.aside
        whole.aside = None
        return whole

    def is_zero(self) -> bool:
        return not bool(self.sums[1].any())


def are_scaled_alike(before: Gradients, after: Gradients, ranks: Ranks) -> bool:
    """Returns whether, except for rounding, the script's hooks multiply the same element of a
    parameter's gradient by the same factor on all ranks. If so, averaging the gradients before the
    script's hooks gives the same result as averaging after them.

    `before` and `after`: this rank's gradients of the parameter before and after the script's
    hooks. All ranks must call this function together; it returns the same answer on all of them.
    """
    total_before, total_after = (ranks.total(one.sums.clone()) for one in (before, after))
    # of each element, (own after) / (own before) = (sum after) / (sum before)
    distance = abs(after.sums[0] * total_before[0] - before.sums[0] * total_after[0])
    magnitude = after.sums[1] * total_before[1] + before.sums[1] * total_after[1]
    roundings = before.roundings + after.roundings + ranks.size
    bound = bound_of(magnitude, {before.dtype, after.dtype}, roundings)
    return all(ranks.gather(bool((distance <= bound).all())))


class Comparison:
    """Compares the gradient that an optimizer gets for a parameter with the mean of all ranks'
    gradients.

    All ranks must make an object of this class together, because its constructor sums gradients
    over ranks.

    `gradient`: the gradient with which the optimizer updates the parameter `p`; None if there is
    none. `held`: the sum of the gradients that autograd delivered for `p` on this rank since the
    last update of `p`; None if it delivered none.

    Three attributes are tensors in f64: `handed` is the gradient that the optimizer gets, `own` the
    sum of this rank's gradients, and `mean` the mean of all ranks' sums. `bound`: for each element,
    the largest difference between `handed` and `mean` that rounding explains. `share`: the largest
    ratio, over all elements, of the absolute difference between `handed` and `mean` to `bound`. If
    `share` is above 1 (or NaN), the gradient is wrong. `narrow`: if the gradient is wrong because
    it was apparently rounded to a narrow dtype before the optimizer gets it, the name of this
    dtype, "torch.bfloat16" or "torch.float16"; else empty."""

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
        """Returns whether rounding explains the difference between `handed` and `mean` in all
        elements: whether `share` is at most 1."""
        return self.share <= 1

    def is_own(self) -> bool:
        """Returns whether the optimizer gets this rank's own sum of gradients, except for rounding;
        False if there is only one rank."""
        is_close = abs(self.handed - self.own) <= self.bound * self._ranks.size
        return self._ranks.size > 1 and bool(is_close.all())

    def _narrow_dtype(self, distance: torch.Tensor, magnitude: torch.Tensor, roundings: int) -> str:
        for dtype in NARROW_DTYPES:
            is_within = bool((distance <= bound_of(magnitude, {dtype}, roundings)).all())
            if is_within and self._has_only_numbers_of(dtype):
                return str(dtype)
        return ""

    def _has_only_numbers_of(self, dtype: torch.dtype) -> bool:
        """Returns whether the gradient that the optimizer gets (`handed`) may have been rounded to
        `dtype`: whether `dtype` represents exactly all its elements, or all its elements times the
        number of ranks."""
        return any(
            torch.equal(numbers.to(dtype).double(), numbers)
            for numbers in (self.handed, self.handed * self._ranks.size)
        )
