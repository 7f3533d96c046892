"""Remembers which modules a script calls in a step. Also remembers digests (hashes) of the modules'
buffers and of the tensors passed to them. `check` compares the digests between ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

from gradsync.events import place
from gradsync.reference import digest
from gradsync.torch_private import DDP, ignored_tensors, synchronises_buffers, tensors_of


class Calls:
    """Remembers the script's calls of modules in the current step. `inputs`: digests (hashes) of
    the tensors that the script passed to modules while gradients were enabled.

    `buffers`: digests, by name, of the buffers of the module that the script called first with
    gradients enabled. The digests were made before that module was called. `buffers` leaves out the
    buffers that DDP makes equal on all ranks in forward, and those that DDP ignores.
    """

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.buffers: dict[str, str] = {}
        self._first: torch.nn.Module | None = None  # that was called with gradients
        self._called: dict[int, tuple[torch.nn.Module, str]] = {}  # and where, by id

    def begin_step(self) -> None:
        """Forgets all calls of modules so far. Called after an optimizer's step(), and when the
        script wraps a model in DDP or makes an optimizer."""
        self.inputs = []
        self.buffers = {}
        self._first = None
        self._called = {}

    def use(self, module: torch.nn.Module) -> None:
        """Remembers a call of a module by the script itself (not by another module), with gradients
        enabled or without."""
        if id(module) not in self._called:
            where = f"{type(module).__name__} called at {place()}"
            again = sum(text.startswith(where) for _, text in self._called.values())
            self._called[id(module)] = (module, f"{where} ({again + 1})" if again else where)

    def train(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before the script calls `module` with gradients enabled. Adds digests of the
        tensors in `args` and `kwargs` to `inputs`. At the step's first call, also sets `buffers` to
        digests of the module's buffers. If `module` contains the module that the script called
        first in this step, replaces the earlier digests in `inputs` and `buffers`."""
        first = self._first
        if first is not None and first is not module and first in set(module.modules()):
            # Alone it was called to find out sizes, or when something was registered with it.
            self.inputs = []
            self._first = None
        if self._first is None:
            self._first = module
            self.buffers = _digests_of_buffers(module)
        self.inputs += [digest(tensor) for tensor in tensors_of((args, kwargs))]

    def weights(
        self, name_of: Callable[[torch.nn.Parameter], str], trained: Collection[torch.nn.Parameter]
    ) -> dict[str, torch.nn.Parameter]:
        """Returns, by unique names, the parameters of all modules that the script called in this
        step. Leaves out parameters in `trained` and parameters without data (meta and lazy ones).

        `name_of`: a function that returns a parameter's name, which need not be unique, or an empty
        text if it knows no name. `trained`: the parameters of all optimizers.
        """
        taken = {name_of(p) for p in trained}
        known = {id(p) for p in trained}
        result: dict[str, torch.nn.Parameter] = {}
        for module, where in self._called.values():
            for own_name, p in module.named_parameters():
                if id(p) in known or p.is_meta or torch.nn.parameter.is_lazy(p):
                    continue
                name = name_of(p)
                if not name or name in taken:
                    name = f"{own_name} of {where}"
                known.add(id(p))
                taken.add(name)
                result[name] = p
        return result


def _digests_of_buffers(model: torch.nn.Module) -> dict[str, str]:
    left_out: set[int] = set()
    for module in model.modules():
        if isinstance(module, DDP):
            left_out.update(id(tensor) for tensor in ignored_tensors(module))
            if synchronises_buffers(module):
                left_out.update(id(buffer) for buffer in module.buffers())
    return {
        name.removeprefix("module."): digest(buffer)
        for name, buffer in model.named_buffers()
        if id(buffer) not in left_out
    }
