"""Calls methods of Listeners when the script calls a model, backward() or an optimizer's step().
Functions of PyTorch are replaced while at least one Listener is registered by listen()."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from gradsync.patches import Patches
from gradsync.torch_private import (
    DDP,
    Call,
    Reducer,
    StepHook,
    after_every_step,
    before_every_step,
    is_last_hook,
    untraced,
)

LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        os.path.dirname(os.path.realpath(__file__)),
        os.path.join(torch.__file__, "../.."),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
    )
)


class Listener:
    """Base class of objects with one method for each event of a script, such as the beginning of a
    backward pass. A method that a subclass does not override does nothing."""

    def on_forward(self, model: torch.nn.Module) -> None:
        """Called when a DDP model is called. Also called for each call that watch_calls() reports:
        an outermost call of a module of a class given to watch_calls()."""

    def on_call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Called after on_forward() for each call that watch_calls() reports, before the module
        runs."""

    def on_called(self, module: torch.nn.Module) -> None:
        """Called after on_call(), when the module has returned or has raised an exception."""

    def on_prepare(self, reducer: Any) -> bool:
        """Called in DDP's forward, before DDP prepares `reducer` to average the gradients of the
        next backward pass. If any Listener returns False, DDP does not average gradients in the
        next backward pass."""
        return True

    def on_losses(self, tensors: Any, gradients: Any = None) -> None:
        """Called when the script calls torch.autograd.backward() or Tensor.backward(). Not called
        for a backward pass that runs within another one, such as that of a checkpoint."""

    def on_backward(self) -> None:
        """Called after on_losses(), when a backward pass begins that does not run within another
        one."""

    def on_backward_end(self) -> None:
        """Called when a backward pass has ended without an exception, unless it ran within another
        one."""

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        """Called when an optimizer's step() begins. Returns a pair (args, kwargs) that replaces the
        arguments of step(), or None to keep the arguments. `args[0]` is the optimizer."""
        return None

    def on_updated(self, optimizer: Optimizer) -> None:
        """Called when an optimizer's step() has ended without an exception."""

    def on_scaled(self, optimizer: Optimizer) -> None:
        """Called when GradScaler.step() has returned, even if it skipped the optimizer's step()."""


def script_lines(error: BaseException | None = None) -> list[str]:
    """Returns FILE:LINE of each line of the current call stack that is not in a library, innermost
    first. With `error`, looks at the traceback of `error` instead of the call stack."""
    frames: Iterable[tuple[FrameType, int]]
    if error:
        frames = reversed(list(traceback.walk_tb(error.__traceback__)))
    else:
        frames = traceback.walk_stack(sys._getframe(1))
    return [f"{frame.f_code.co_filename}:{line}" for frame, line in frames if _is_scripts(frame)]


def script_calls() -> str:
    """Returns a text that identifies the current call stack, without frames in libraries."""
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1)) if _is_scripts(frame)]
    return " ".join(
        f"{one.f_code.co_filename}:{one.f_lineno}@{one.f_lasti}" for one in frames[::-1]
    )


@functools.cache
def _is_in_library(path: str) -> bool:
    return path.startswith("<") or os.path.realpath(path).startswith(LIBRARIES)


def _is_scripts(frame: FrameType) -> bool:
    return not _is_in_library(frame.f_code.co_filename)


def place(error: BaseException | None = None, otherwise: str = "") -> str:
    """Returns FILE:LINE of the innermost line of the current call stack, or of the traceback of
    `error`, outside of libraries. If all lines are in libraries, returns `otherwise` or, by
    default, the script's name."""
    lines = script_lines(error)
    return lines[0] if lines else otherwise or sys.argv[0]


def _listening() -> Iterator[Listener]:
    """Yields each registered Listener, unless it is removed before its turn comes."""
    for listener in listeners.copy():
        if listener in listeners:
            yield listener


def _tell_forward(model: torch.nn.Module) -> None:
    for listener in _listening():
        listener.on_forward(model)


def watch_calls(kind: type[torch.nn.Module], patches: Patches) -> None:
    """Reports calls of modules of the class `kind` to all registered Listeners, until `patches` are
    undone. Calls within a call of such a module are left out, and calls in code that
    torch.compile has compiled."""
    inside = False

    def told_call(
        call: Callable[..., Any], module: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        nonlocal inside
        if torch.compiler.is_compiling() or inside:
            return call(module, *args, **kwargs)
        inside = True
        try:
            _tell_forward(module)
            for listener in _listening():
                listener.on_call(module, args, kwargs)
            return call(module, *args, **kwargs)
        finally:
            inside = False
            for listener in _listening():
                listener.on_called(module)

    patches.replace(kind, "__call__", told_call)


class _Backward:
    """Tells Listeners when a backward pass begins, and when it ends without an exception. Backward
    passes within another one, such as that of a checkpoint, are not reported."""

    def __init__(self) -> None:
        self.depth = 0

    def told(self, backward: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        is_outermost = self.depth == 0
        self.depth += 1
        try:
            if is_outermost:
                self._tell_begin(*args, **kwargs)
            backward(*args, **kwargs)
        finally:
            self.depth -= 1
        if is_outermost:
            for listener in _listening():
                listener.on_backward_end()

    def _tell_begin(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        for listener in _listening():
            listener.on_losses(tensors, grad_tensors)
        for listener in _listening():
            listener.on_backward()


class _StepHook:
    """A hook that PyTorch calls before or after each step() of any optimizer. After remove(), the
    hook may stay registered, but it does nothing."""

    def __init__(self, register: Callable[[StepHook], RemovableHandle], tell: StepHook) -> None:
        self._tell = tell
        self._is_called = False
        self._is_over = False
        # A compiled optimizer.step would trace listeners otherwise.
        self._handle = register(untraced(self._call))

    def _call(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        if self._is_over:
            self._remove_last()
            return None
        self._is_called = True
        try:
            return self._tell(optimizer, args, kwargs)
        except BaseException:  # which ends PyTorch's iteration
            if self._is_over:
                self._handle.remove()
            raise
        finally:
            self._is_called = False

    def remove(self) -> None:
        self._is_over = True
        if self._is_called:
            self._remove_last()
        else:
            self._handle.remove()

    def _remove_last(self) -> None:
        if is_last_hook(self._handle):
            self._handle.remove()


def _tell_update(
    optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call | None:
    for listener in _listening():
        args, kwargs = listener.on_update(optimizer, args, kwargs) or (args, kwargs)
    return args, kwargs


def _tell_updated(optimizer: Optimizer, *_: Any) -> None:
    for listener in _listening():
        listener.on_updated(optimizer)


def _tell_scaled(
    step: Callable[..., Any], scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any
) -> Any:
    result = step(scaler, optimizer, *args, **kwargs)
    for listener in _listening():
        listener.on_scaled(optimizer)
    return result


def _replace_names() -> None:
    # torch.compile around DDP would trace listeners, and compile the model again for each kind of
    # step.
    untraced_tell_forward = untraced(_tell_forward)

    def told_pre_forward(
        pre_forward: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any
    ) -> Any:
        untraced_tell_forward(model)
        return pre_forward(model, *args, **kwargs)

    @untraced
    def told_prepare(prepare: Callable[..., None], reducer: Any, outputs: Any) -> None:
        if all([listener.on_prepare(reducer) for listener in _listening()]):
            prepare(reducer, outputs)

    _patches.replace(DDP, "_pre_forward", told_pre_forward)
    _patches.replace(Reducer, "prepare_for_backward", told_prepare)
    # A compiled function that calls backward() would go on to compile what listeners do.
    _patches.replace(torch.autograd, "backward", untraced(_backward.told))
    _patches.replace(torch.amp.GradScaler, "step", untraced(_tell_scaled))
    _patches.keep(_StepHook(before_every_step, _tell_update))
    _patches.keep(_StepHook(after_every_step, _tell_updated))


def listen(listener: Listener) -> None:
    """Registers a Listener, which gets each event after the Listeners that were registered
    earlier."""
    if not listeners:
        _replace_names()
    listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    """Removes a Listener, which gets no further events. Does nothing if the Listener is not
    registered."""
    if listener not in listeners:
        return
    listeners.remove(listener)
    if not listeners:
        _patches.undo()


def in_backward() -> bool:
    """Returns whether a torch.autograd.backward() is running that began while any Listener was
    registered."""
    return _backward.depth > 0


listeners: list[Listener] = []
_patches = Patches()  # while there are listeners
_backward = _Backward()
