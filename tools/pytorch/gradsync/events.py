"""What a process calls while it trains, told to those in `listeners` that have a method of this name. Nothing is kept in the
script's objects, which it may copy and save.

    on_forward(model)                   a DDP, or the outermost module of a class that watch_calls() watches, is called
    on_call(module, args, kwargs)       the latter alone, with its arguments
    on_prepare(reducer)                 DDP is about to prepare for synchronising; returns whether it may
    on_losses(tensors, ...)             what torch.autograd.backward is called with, before on_backward()
    on_backward(), on_backward_end()    of the outermost one: a checkpoint's is within another
    on_update(optimizer, args, kwargs)  step() begins; returns what to call it with, if not with this
    on_updated(optimizer)               step() has ended
    on_scaled(optimizer)                a GradScaler has stepped it, or skipped that
"""

import functools
import os
import sys
import sysconfig
import traceback

import torch
import torch.distributed as dist
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

DDP = torch.nn.parallel.DistributedDataParallel
LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        os.path.dirname(os.path.realpath(__file__)),
        os.path.join(torch.__file__, "../.."),
        *map(sysconfig.get_path, ("stdlib", "purelib")),
    )
)

listeners = []
_depth = 0  # of nested backward passes


def place(error=None, otherwise=""):
    """Returns the line of the script, or of other code that is not in a library, that runs or that raised this error. If no line
    does, as in a thread of autograd: `otherwise`, or the script."""
    frames = (
        reversed([*traceback.walk_tb(error.__traceback__)])
        if error
        else traceback.walk_stack(sys._getframe(1))
    )
    lines = ((frame.f_code.co_filename, line) for frame, line in frames)
    return next(
        (
            f"{path}:{line}"
            for path, line in lines
            if not path.startswith("<") and not os.path.realpath(path).startswith(LIBRARIES)
        ),
        otherwise or sys.argv[0],
    )


def in_backward():
    return _depth > 0


def _tell(event, *arguments, **options):
    return [
        getattr(one, event)(*arguments, **options)
        for one in list(listeners)
        if one in listeners and hasattr(one, event)
    ]


def watch_calls(kind):
    """Tells of modules of this class until what it returns is called. Compiled code is left as it is."""
    own, call, inside = kind.__dict__.get("__call__"), kind.__call__, []

    def told(module, *args, **kwargs):
        if torch.compiler.is_compiling() or inside:
            return call(module, *args, **kwargs)
        inside.append(module)
        try:
            _tell("on_forward", module)
            _tell("on_call", module, args, kwargs)
            return call(module, *args, **kwargs)
        finally:
            inside.pop()

    kind.__call__ = told
    return lambda: setattr(kind, "__call__", own) if own else delattr(kind, "__call__")


@functools.lru_cache(None)
def listen():
    """Starts to call listeners."""
    # torch.compile around DDP would trace listeners, and compile the model again for each kind of step.
    untraced = torch.compiler.disable(_tell)
    pre_forward, prepare, backward = (
        DDP._pre_forward,
        dist.Reducer.prepare_for_backward,
        torch.autograd.backward,
    )
    scaled = torch.amp.GradScaler.step

    def told_pre_forward(model, *args, **kwargs):
        untraced("on_forward", model)
        return pre_forward(model, *args, **kwargs)

    @torch.compiler.disable
    def told_prepare(reducer, outputs):
        if all(_tell("on_prepare", reducer)):
            prepare(reducer, outputs)

    @functools.wraps(backward)
    def told_backward(*args, **kwargs):
        global _depth
        _depth += 1
        try:
            if _depth == 1:
                _tell("on_losses", *args, **kwargs)
                _tell("on_backward")
            backward(*args, **kwargs)
            if _depth == 1:
                _tell("on_backward_end")
        finally:
            _depth -= 1

    @functools.wraps(scaled)
    def told_scaled(scaler, optimizer, *args, **kwargs):
        result = scaled(scaler, optimizer, *args, **kwargs)
        _tell("on_scaled", optimizer)
        return result

    def told_update(optimizer, args, kwargs):
        for one in list(listeners):  # all listeners that have the method
            args, kwargs = one.on_update(optimizer, args, kwargs) or (args, kwargs)
        return args, kwargs

    DDP._pre_forward, dist.Reducer.prepare_for_backward, torch.autograd.backward = (
        told_pre_forward,
        told_prepare,
        told_backward,
    )
    torch.amp.GradScaler.step = told_scaled
    register_optimizer_step_pre_hook(told_update)
    register_optimizer_step_post_hook(lambda optimizer, *_: _tell("on_updated", optimizer))
