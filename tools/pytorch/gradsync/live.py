"""Measures how many bytes of tensors are alive during a step, without weights, buffers, ready
gradients and the optimizer's state. Most of these bytes usually belong to activations.

The measured step must not synchronise gradients. The bytes of a tensor's storage are counted from
the first operation that makes or reads the storage until the storage is freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gradsync.schema import Memory
from gradsync.torch_private import tensors_of


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Returns the storage of a tensor, or of this rank's part of a DTensor; None if its layout is
    not strided."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    return tensor.untyped_storage() if tensor.layout is torch.strided else None


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Returns the sum of the bytes of these tensors' storages, each counted once. Tensors with
    another layout than torch.strided count 0."""
    storages = [storage_of(tensor) for tensor in tensors]
    return sum({s._cdata: s.nbytes() for s in storages if s is not None}.values())


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """From start() to end(), counts the bytes of tensors that operations of PyTorch make or read,
    except of `apart` and of tensors given to leave_out(). Memory that is freed is no longer
    counted. Tensors on the meta device, or with another layout than torch.strided, are not
    counted."""

    def __init__(self, apart: Iterable[torch.Tensor]) -> None:
        """`apart`: tensors whose bytes are not counted, such as weights."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self._most = 0
        self.is_on = False
        # Storages, by the address of their implementation.
        self._bytes: dict[int, int] = {}
        self._apart: set[int] = set()
        self._watched: list[weakref.finalize[Any, Any]] = []
        for tensor in apart:
            self.leave_out(tensor)

    def __torch_dispatch__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tensors_of((args, kwargs, result)):
            self._see(storage_of(tensor))
        return result

    def _see(self, storage: torch.UntypedStorage | None) -> None:
        if storage is None or storage.device.type == "meta":
            return
        key = storage._cdata
        if key in self._bytes or key in self._apart:
            return
        self._bytes[key] = storage.nbytes()
        self.now += self._bytes[key]
        self._most = max(self._most, self.now)
        self._watch(storage)

    def _watch(self, storage: torch.UntypedStorage) -> None:
        self._watched.append(weakref.finalize(storage, self._forget, storage._cdata))

    def _forget(self, key: int) -> None:
        self.now -= self._bytes.pop(key, 0)
        self._apart.discard(key)

    def leave_out(self, tensor: torch.Tensor) -> None:
        """Excludes the bytes of this tensor's storage from now on, also if they are not counted
        yet."""
        storage = storage_of(tensor)
        if storage is None:
            return
        if storage._cdata not in self._bytes:
            self._watch(storage)
        self._apart.add(storage._cdata)
        self.now -= self._bytes.pop(storage._cdata, 0)

    def take(self) -> int:
        """Returns the largest number of bytes that the counted tensors had at one time since the
        last take() or, in the first take(), since start()."""
        most = self._most
        self._most = self.now
        return most

    def start(self) -> None:
        if not self.is_on:
            self.__enter__()  # type: ignore[no-untyped-call]
            self.is_on = True

    def end(self) -> None:
        if self.is_on:
            self.is_on = False
            self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            for finalizer in self._watched:
                finalizer.detach()


class StepMemory:
    """Measures how many bytes tensors take in the step that begins when this object is made. A
    gradient counts as a temporary tensor until it is ready; ready gradients are not counted.
    """

    def __init__(
        self,
        params: Sequence[torch.nn.Parameter],
        module: torch.nn.Module,
        optimizers: Iterable[torch.optim.Optimizer],
        apart: Iterable[torch.Tensor],
    ) -> None:
        """`params`: the parameters that the step trains. `apart`: the recorder's own tensors, whose
        bytes are not counted.
        """
        self._params = params
        self._optimizers = list(optimizers)
        states = tensors_of([dict(optimizer.state) for optimizer in self._optimizers])
        gradients = [p.grad for p in params if p.grad is not None]
        weights = list(module.parameters())
        buffers = list(module.buffers())
        self._weight_bytes = bytes_of(weights)
        self._buffer_bytes = bytes_of(buffers)
        self._state_bytes = bytes_of(states)
        self._keeps_gradients = bool(gradients)
        self._forward_bytes = 0
        self._order: dict[int, None] = {}
        self._ready_bytes = [0] * len(params)
        self._held_bytes = [0] * len(params)
        self._optimizer_bytes = 0
        self._live = LiveBytes([*weights, *params, *buffers, *states, *gradients, *apart])
        self._live.start()

    def on_backward(self) -> None:
        """Called when a backward pass begins; a step may have several. This method, on_ready() and
        on_update() do nothing after end()."""
        if not self._live.is_on:
            return
        self._forward_bytes = max(self._forward_bytes, self._live.take())
        self._order = {}

    def on_ready(self, i: int) -> None:
        """Called when the gradient of parameter `i` is ready. Nested passes, such as those of
        reentrant checkpoints, may later add to the gradient of a shared parameter; then on_ready()
        is called again."""
        gradient = self._params[i].grad
        if gradient is None or not self._live.is_on:
            return
        self._live.leave_out(gradient)
        self._ready_bytes[i] = max(self._ready_bytes[i], self._live.take())
        self._held_bytes[i] = self._live.now
        self._order.pop(i, None)
        self._order[i] = None  # the last one

    def on_update(self) -> None:
        """Called when the first optimizer's update in a step begins: after backward, and after the
        recorder's own work that follows backward, such as averaging gradients."""
        if not self._live.is_on:
            return
        # Under fully_shard they hold parts of weights and gradients, which are no activations.
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for param in group["params"]:
                    self._live.leave_out(param)
                    if param.grad is not None:
                        self._live.leave_out(param.grad)
        self._live.take()

    def end(self) -> None:
        """Called when the step has ended. This method may be called several times for one step."""
        if self._live.is_on:
            self._live.end()
            self._optimizer_bytes = self._live.take()

    def result(self) -> Memory:
        return Memory(
            weight_bytes=self._weight_bytes,
            buffer_bytes=self._buffer_bytes,
            state_bytes=self._state_bytes,
            keeps_gradients=self._keeps_gradients,
            forward_bytes=self._forward_bytes,
            order=tuple(self._order),
            ready_bytes=tuple(self._ready_bytes),
            held_bytes=tuple(self._held_bytes),
            optimizer_bytes=self._optimizer_bytes,
        )
