"""Records which modules (torch.nn.Module) a training script calls, and hashes of their inputs. Also
records hashes of the buffers of one module, usually the model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

from gradsync.events import place
from gradsync.reference import digest
from gradsync.torch_private import DDP, ignored_tensors, synchronises_buffers, tensors_of


class Calls:
    """The modules that the script has called in the current training step.

    `inputs`: one digest (hash) for each tensor that the script passed to modules while gradients
    were enabled. `buffers`: by name, the digests of one module's buffers. This module is the first
    that the script called with gradients enabled, or a later one that contains the first. `inputs`
    leaves out calls before this module's first call. Buffers that DDP broadcasts in forward, or
    ignores, are left out.
    """

    def __init__(self) -> None:
        self.inputs: list[str] = []
        self.buffers: dict[str, str] = {}
        self._first: torch.nn.Module | None = None  # that was called with gradients
        self._called: dict[int, tuple[torch.nn.Module, str]] = {}  # and where, by id

    def begin_step(self) -> None:
        """Deletes all recorded calls of modules."""
        self.inputs = []
        self.buffers = {}
        self._first = None
        self._called = {}

    def use(self, module: torch.nn.Module) -> None:
        """Records that the script itself, not another module, calls `module`."""
        if id(module) not in self._called:
            where = f"{type(module).__name__} called at {place()}"
            again = sum(text.startswith(where) for _, text in self._called.values())
            self._called[id(module)] = (module, f"{where} ({again + 1})" if again else where)

    def train(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before the script calls `module` with gradients enabled. Adds a digest (hash) of
        each tensor in `args` and `kwargs` to `inputs`. At the first call in a training step, also
        sets `buffers` to the digests of the module's buffers. If `module` contains the first called
        module, its call counts as the first, and earlier digests are deleted."""
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
        """Returns the parameters of all modules that the script called in the current step, by
        unique names. Leaves out the optimizers' parameters (`trained`), and meta and lazy
        parameters, which have no data. `name_of`: a function that returns a parameter's name, or an
        empty text if it knows none."""
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
