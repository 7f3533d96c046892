"""Collects what ranks compare before an optimizer's update: settings, and digests of data,
gradients and weights."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import torch

from gradsync.agreement import RankStep
from gradsync.reference import digest
from gradsync.torch_private import is_in_parts, mesh_place
from gradsync.trained import Step, Trained, Turns, Updater, parameters_of

# Modules whose optimizers do not average by themselves.
PLAIN_OPTIMIZERS = ("torch.optim.", "deepspeed.")


@dataclasses.dataclass(frozen=True)
class Update:
    """An update of weights by an optimizer, or by an engine of DeepSpeed. `place`: FILE:LINE of the
    script where the update happens."""

    updater: Updater
    place: str

    @property
    def name(self) -> str:
        return type(self.updater).__name__

    @property
    def where(self) -> str:
        """Returns the text that names this update in findings, such as "SGD at train.py:25"."""
        return f"{self.name} at {self.place}"

    def settings(self) -> dict[str, str]:
        """Returns the settings of the optimizer's parameter groups, by names such as "lr of group
        0"; for an engine of DeepSpeed, the settings of the engine's optimizer."""
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
        """Returns whether the optimizer may be one that itself averages gradients over ranks:
        whether its class comes from neither torch.optim nor DeepSpeed."""
        return not type(self.updater).__module__.startswith(PLAIN_OPTIMIZERS)


class Facts:
    """Collects what this rank reports about a step, such as hashes of weights and inputs. `check`
    compares weights and buffers that have the same name on several ranks. Of a weight that is a
    DTensor, `check` compares only ranks that have the same part."""

    def __init__(self, trained: Trained, turns: Turns, step: Step) -> None:
        self._trained = trained
        self._turns = turns
        self._step = step
        self._random = digest(torch.get_rng_state())

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name in a model that the script has called with gradients
        enabled. If no such model has the parameter, returns "parameter" and its number in Turns. If
        the parameter has no number in Turns either, returns "parameter ?"."""
        number = self._turns.number_of(p)
        return self._trained.name_of(p) or f"parameter {'?' if number is None else number}"

    def of(self, update: Update, is_wrong: bool) -> RankStep:
        """Returns what this rank reports about the current step. Leaves out weights if `check` has
        already found a difference (`is_wrong`), because a wrong gradient, for example, makes
        weights differ too."""
        params = parameters_of(update.updater)
        passes = self._step.passes_of(params)
        return RankStep(
            parameters=self._parameters(update),
            settings=update.settings(),
            weights={} if is_wrong else self._weights(params),
            buffers=self._step.calls.buffers,
            versions={"PyTorch": torch.__version__, "Python": sys.version.split()[0]},
            data=self._step.calls.inputs,
            targets=self._step.targets,
            gradients=self._digest_of_gradients(params),
            losses=[one.loss() for one in passes],
            is_divided_by_all=bool(passes) and all(one.is_divided for one in passes),
            random=self._random,
            has_gradients=any(id(p) in self._step.gradients for p in params),
        )

    def _parameters(self, update: Update) -> dict[str, str]:
        """Returns texts about the update: the name of its optimizer, and the shapes, dtypes and
        names of the parameters that it trains. The names of the parameters are left out if one of
        these parameters is in no model that the script has called with gradients enabled on this
        rank."""
        trained = [p for p in parameters_of(update.updater) if p.requires_grad]
        names = [self._trained.name_of(p) for p in trained]
        known = {"names of what trains": str(names)} if all(names) else {}
        shapes = [f"{list(p.shape)} of {p.dtype}" for p in trained]
        return {"optimizer": update.name, "what trains": str(shapes), **known}

    def _weights(self, params: Sequence[torch.nn.Parameter]) -> dict[str, str]:
        """Returns digests of weights, by name; in a key, the result of _place_of() follows the
        name. The weights are `params` and, of the called modules, those parameters that no
        optimizer has, such as frozen ones. Weights that DDP ignores are left out."""
        trained = [p for updater in self._trained.updaters() for p in parameters_of(updater)]
        others = self._step.calls.weights(self._trained.name_of, trained)
        named = [*((self.name_of(p), p) for p in params), *others.items()]
        ignored = self._trained.ignored()
        return {name + _place_of(p): digest(p) for name, p in named if id(p) not in ignored}

    def _digest_of_gradients(self, params: Sequence[torch.nn.Parameter]) -> str:
        """Returns one digest of all gradients that autograd has delivered to `params` on this rank.
        Returns "" if there are no such gradients, or if all are 0."""
        held = [self._step.gradients.get(id(p)) for p in params]
        if all(one is None or one.is_zero() for one in held):
            return ""
        digests = [digest(one.sums) for one in held if one is not None]
        return hashlib.blake2b(" ".join(digests).encode(), digest_size=16).hexdigest()


def _place_of(p: torch.nn.Parameter) -> str:
    """Returns a text about which part of `p` this rank has if `p` is a DTensor, else "".

    Ranks with the same index in the last dimension of the DTensor's mesh are taken to have the same
    part.
    """
    return str(mesh_place(p)[-1:]) if is_in_parts(p) else ""
