"""Replaces functions and methods, such as PyTorch's, so that gradsync sees the script's calls of
them. Restores the functions later."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol


class Removable(Protocol):
    """The handle that PyTorch returns for a hook: torch.utils.hooks.RemovableHandle."""

    def remove(self) -> None: ...


_ABSENT = object()  # in place of an attribute that the owner itself does not have
_PATCH = "_gradsync_patch"  # the attribute by which a replacement is known


@dataclasses.dataclass
class _Patch:
    """A replaced attribute of an object, and its previous value, which is _ABSENT if the object had
    the attribute only from its class or a base class.
    """

    owner: Any
    name: str
    before: Any
    replacement: Any = None
    is_active: bool = True

    def undo(self) -> None:
        self.is_active = False
        if vars(self.owner).get(self.name, _ABSENT) is not self.replacement:
            return  # somebody has replaced ours, and may call it: it lets calls through
        before = self._living_before()
        if before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, before)

    def _living_before(self) -> Any:
        """Returns the value of the attribute that `undo` must restore. If `before` is a replacement
        by another Patches object that has been undone meanwhile, returns the value from before that
        replacement.
        """
        before = self.before
        while True:
            covered = getattr(before, _PATCH, None)
            if covered is None or covered.is_active or covered.replacement is not before:
                return before
            before = covered.before


class Patches:
    """A set of replaced attributes, such as methods, and of registered hooks of PyTorch. `undo`
    restores the attributes that other code has not replaced meanwhile, last first, and then removes
    the hooks, last first.

    A Patches object is a context manager that calls `undo` at the end of its `with` block. After
    `undo`, a Patches object can be used again.
    """

    def __init__(self) -> None:
        self._patches: list[_Patch] = []
        self._handles: list[Removable] = []

    def replace(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """From now on, a call of owner.name(*args, **kwargs) calls around(own, *args, **kwargs)
        instead, where `own` is the function that owner.name was before.

        `owner` is a class, a module or an object with a __dict__. If `owner` is a class, the first
        of the call's `args` is the object whose method is called. undo() restores owner.name. If
        other code has replaced owner.name meanwhile, undo() leaves the other code's replacement in
        place.
        """
        own = getattr(owner, name)
        patch = _Patch(owner, name, before=vars(owner).get(name, _ABSENT))

        @functools.wraps(own)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if not patch.is_active:
                return own(*args, **kwargs)
            return around(own, *args, **kwargs)

        setattr(replacement, _PATCH, patch)
        patch.replacement = replacement
        setattr(owner, name, replacement)
        self._patches.append(patch)

    def keep(self, handle: Removable) -> None:
        """Remembers the handle of a hook, so that `undo` removes the hook."""
        self._handles.append(handle)

    def undo(self) -> None:
        """Restores all replaced attributes, unless other code has replaced them meanwhile, and
        removes all hooks. Does nothing if there are neither replaced attributes nor hooks."""
        while self._patches:
            self._patches.pop().undo()
        while self._handles:
            self._handles.pop().remove()

    def __enter__(self) -> Patches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()
