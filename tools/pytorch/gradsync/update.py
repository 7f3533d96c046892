"""A step of an optimizer, or of an engine, that `check` compares."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from gradsync.trained import Updater

# Modules whose optimizers do not average by themselves.
PLAIN_OPTIMIZERS = ("torch.optim.", "deepspeed.")


@dataclasses.dataclass(frozen=True)
class Update:
    """A step of an optimizer or an engine, at `place`: FILE:LINE of the script."""

    updater: Updater
    place: str

    @property
    def name(self) -> str:
        return type(self.updater).__name__

    @property
    def where(self) -> str:
        """Returns the update as findings name it."""
        return f"{self.name} at {self.place}"

    def settings(self) -> dict[str, str]:
        """Returns the settings of all groups of parameters; an engine has its optimizer's."""
        optimizer: Any = self.updater
        if isinstance(optimizer, torch.nn.Module):
            optimizer = optimizer.optimizer
        return {
            f"{key} of group {number}": str(value)
            for number, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if key != "params"
        }

    def may_average(self) -> bool:
        """Returns whether this may be an optimizer that averages gradients by itself."""
        return not type(self.updater).__module__.startswith(PLAIN_OPTIMIZERS)
