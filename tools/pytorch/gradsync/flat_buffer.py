"""Keeps all gradients of a model in one contiguous buffer, to send them as DDP sends its
buckets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.distributed as dist


class FlatBuffer:
    """A tensor of bytes that holds each gradient divided by the number of ranks, so that the sum of
    all ranks' buffers is the mean.

    `slots`: for each parameter a view of its gradient in the buffer, with the parameter's shape.
    `parts`: for each dtype a flat view of the gradients of this dtype; complex numbers are pairs of
    real numbers. `wire`: a flat view of the whole buffer, with the dtype of the largest of `parts`.
    The recorder sends slices of `wire` to measure the times of collectives.
    """

    def __init__(
        self,
        params: Sequence[torch.nn.Parameter],
        ranks: int,
        dtypes: Sequence[torch.dtype] = (),
    ) -> None:
        """`ranks`: the number of ranks, by which gradients are divided. `dtypes`: for each
        parameter, the dtype of its gradient in the buffer; by default the parameter's own dtype."""
        self.params = params
        self.share = 1 / ranks
        dtypes = dtypes or [param.dtype for param in params]
        sizes = [p.numel() * dtype.itemsize for p, dtype in zip(params, dtypes, strict=True)]
        # The largest elements come first, so that gradients of one dtype are adjacent and aligned.
        order = sorted(
            range(len(params)),
            key=lambda i: (-dtypes[i].itemsize, str(dtypes[i])),
        )
        widest = dtypes[order[0]].itemsize
        total = -(-sum(sizes) // widest) * widest
        self.flat = torch.zeros(total, dtype=torch.uint8, device=params[0].device)
        self.parts: list[torch.Tensor] = []
        slots: dict[int, torch.Tensor] = {}
        offset = 0
        for dtype, same in itertools.groupby(order, key=dtypes.__getitem__):
            begin = offset
            for i in same:
                end = offset + sizes[i]
                slots[i] = self.flat[offset:end].view(dtype).view(params[i].shape)
                offset = end
            number = dtype.to_real() if dtype.is_complex else dtype
            self.parts.append(self.flat[begin:offset].view(number))
        self.slots = [slots[i] for i in range(len(params))]
        self.wire = self.flat.view(max(self.parts, key=lambda part: part.nbytes).dtype)
        self._kept: torch.Tensor | None = None

    def put(self, i: int) -> None:
        """Copies the gradient of parameter `i` to its place in the buffer, divided by the number of
        ranks. The parameter must have a gradient."""
        gradient = self.params[i].grad
        assert gradient is not None
        torch.mul(gradient, self.share, out=self.slots[i])

    def fill(self, is_there: Sequence[bool]) -> None:
        """For each parameter without a gradient, writes zeros to the buffer. Copies all other
        gradients, divided by the number of ranks, to the buffer, except those that put() has
        already copied. `is_there`: for each parameter, whether put() has already copied its
        gradient.
        """
        for i, param in enumerate(self.params):
            if param.grad is None:
                self.slots[i].zero_()
            elif not is_there[i]:
                self.put(i)

    def keep(self) -> None:
        """Keeps a copy of the buffer's contents; the next average() averages this copy instead of
        the current gradients."""
        self._kept = self.flat.clone()

    def copy_back(self) -> None:
        """Copies the contents of the buffer to the gradients, for parameters that have a
        gradient."""
        for param, slot in zip(self.params, self.slots, strict=True):
            if param.grad is not None:
                param.grad.copy_(slot)

    def average(self, as_bf16: bool) -> None:
        """Averages the gradients over ranks, and writes the means to the parameters' gradients.
        `as_bf16`: whether the all-reduces send bf16, as with bf16_compress_hook. Averages the copy
        that keep() has made or, without one, the current gradients. For a parameter with a gradient
        on only some ranks, the other ranks add 0 to the mean, and get the mean. A parameter without
        a gradient on any rank gets none. All ranks must call average() together."""
        used = torch.tensor(
            [p.grad is not None for p in self.params], dtype=torch.uint8, device=self.flat.device
        )
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        if self._kept is None:
            self.fill([False] * len(self.params))
        else:
            self.flat.copy_(self._kept)
            self._kept = None  # freeing it takes milliseconds, which belong here
        for part in self.parts:
            sent = part.to(torch.bfloat16) if as_bf16 else part
            dist.all_reduce(sent)
            part.copy_(sent)
        for param, slot, is_used in zip(self.params, self.slots, used.tolist(), strict=True):
            if is_used and param.grad is None:
                param.grad = slot.clone()
            elif is_used and param.grad is not None:
                param.grad.copy_(slot)

    def release(self) -> None:
        """Copies gradients that are views of this buffer to memory of their own, so that the buffer
        can be freed."""
        own = self.flat.untyped_storage().data_ptr()
        for param in self.params:
            gradient = param.grad
            if gradient is not None and gradient.untyped_storage().data_ptr() == own:
                param.grad = gradient.clone()
