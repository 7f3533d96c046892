"""Tells listeners when the script calls certain functions of PyTorch, such as backward() and an
optimizer's step().

To notice calls, this module replaces functions of PyTorch from the first listen() to the last
stop_listening(). watch_calls() replaces the function by which modules of a class are called. Only
functions of Python modules and classes are replaced; no model or optimizer object of the script is
changed.
"""

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
    """An object with a method for each event of a script, such as the beginning of a backward pass.
    Methods that a subclass does not define ignore the event."""

    def on_forward(self, model: torch.nn.Module) -> None:
        """Called when a DDP model, or the outermost module of a class that watch_calls() watches,
        is called."""

    def on_call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Called when the script calls a module of a class that watch_calls() watches. on_call() is
        not called if the module is called while another module of the watched class runs. `args`
        and `kwargs`: the arguments with which the module is called. For the same call, on_forward()
        of all listeners is called before on_call().
        """

    def on_called(self, module: torch.nn.Module) -> None:
        """Called when a module has returned or has raised an exception, if on_call() was called
        before the module ran."""

    def on_prepare(self, reducer: Any) -> bool:
        """Called in DDP's forward, when DDP is about to prepare this reducer to average gradients
        in the next backward pass. If any listener returns False, DDP does not prepare the reducer,
        which then averages nothing in the next backward pass."""
        return True

    def on_losses(self, tensors: Any, gradients: Any = None) -> None:
        """Called when the script begins an outermost backward pass by
        torch.autograd.backward(tensors, gradients), which Tensor.backward() calls too. For the same
        pass, on_backward() is called after on_losses() of all listeners."""

    def on_backward(self) -> None:
        """Called when an outermost backward pass begins. (The pass of a checkpoint is not
        outermost, because it runs within another pass.)"""

    def on_backward_end(self) -> None:
        """Called when an outermost backward pass has ended without an exception."""

    def on_update(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        """Called when an optimizer's step() begins. Returns a pair (args, kwargs) with other
        arguments for step(), or None to leave the arguments `args` and `kwargs` as they are.
        """
        return None

    def on_updated(self, optimizer: Optimizer) -> None:
        """Called when an optimizer's step() has ended without an exception."""

    def on_scaled(self, optimizer: Optimizer) -> None:
        """Called when GradScaler.step() has called step() of this optimizer, or has skipped this
        call because gradients are not finite."""


def script_lines(error: BaseException | None = None) -> list[str]:
    """Returns FILE:LINE of all lines of the current call stack that are not in a library, innermost
    first.

    With `error`, returns these lines for the call stack at which `error` was raised.
    """
    frames: Iterable[tuple[FrameType, int]]
    if error:
        frames = reversed(list(traceback.walk_tb(error.__traceback__)))
    else:
        frames = traceback.walk_stack(sys._getframe(1))
    return [f"{frame.f_code.co_filename}:{line}" for frame, line in frames if _is_scripts(frame)]


def script_calls() -> str:
    """Returns a text that identifies the script's running calls, outermost first; two calls in one
    line have different texts."""
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
    """Returns FILE:LINE of the innermost line of the current call stack that is in the script or in
    other code outside of libraries.

    With `error`, searches the call stack at which `error` was raised instead. If all lines of the
    call stack are in libraries, as in a thread of autograd, returns `otherwise`, or the script's
    name if `otherwise` is empty.
    """
    lines = script_lines(error)
    return lines[0] if lines else otherwise or sys.argv[0]


def _listening() -> Iterator[Listener]:
    """Yields all listeners, except those that stop listening before the caller's loop comes to
    them."""
    for listener in listeners.copy():
        if listener in listeners:
            yield listener


def _tell_forward(model: torch.nn.Module) -> None:
    for listener in _listening():
        listener.on_forward(model)


def watch_calls(kind: type[torch.nn.Module], patches: Patches) -> None:
    """From now on, until `patches` are undone, each Listener that listen() has registered is told
    of calls of modules of the class `kind`. No Listener is told of a call that runs within another
    call of a module of this class. No Listener is told of calls in code that torch.compile has
    compiled."""
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
    """Tells listeners when an outermost backward pass begins, and when it has ended without an
    exception. Listeners are not told of a backward pass that runs within another one, such as that
    of a checkpoint. `depth`: the number of backward passes that are running, each within the
    previous one.
    """

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
    """A hook that PyTorch calls before or after each step() of any optimizer. `register`: the
    function that registers the hook with PyTorch. `tell`: the function that the hook calls to tell
    the listeners.

    To call the hooks before or after step(), PyTorch iterates over a dictionary of them, and during
    the iteration only the last hook can be removed. If remove() is called while this hook runs and
    is not the last one, this hook stays registered, but does nothing from then on.
    """

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
    """Adds a listener. The new listener gets each event after earlier listeners."""
    if not listeners:
        _replace_names()
    listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    """Removes a listener. The listener gets no further events, not even one that is just being sent
    to all listeners.
    """
    if listener not in listeners:
        return
    listeners.remove(listener)
    if not listeners:
        _patches.undo()


def in_backward() -> bool:
    """Returns whether torch.autograd.backward() is running. Ignores a backward() that began while
    no Listener was registered by listen()."""
    return _backward.depth > 0


listeners: list[Listener] = []
_patches = Patches()  # while there are listeners
_backward = _Backward()
