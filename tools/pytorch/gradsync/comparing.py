"""Compares the gradients that optimizers get with the mean of all ranks' gradients, and reports
findings.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import torch

from gradsync import Refused
from gradsync.agreement import LossFactor, RankStep, judge_agreement, judge_losses, passes_of
from gradsync.findings import Coverage, Findings, Status, Topic
from gradsync.mistakes import explain, name_of_factor
from gradsync.ranks import Ranks
from gradsync.reference import Comparison, digest
from gradsync.torch_private import is_in_parts, mesh_place
from gradsync.trained import Step, Trained, Turns, Updater, parameters_of
from gradsync.twin import Weights, step_of_twin

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
        """Returns the text by which findings name the update."""
        return f"{self.name} at {self.place}"

    def settings(self) -> dict[str, str]:
        """Returns the settings of all groups of parameters. For an engine, these are the settings
        of its optimizer.
        """
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


@dataclasses.dataclass
class _Wrong:
    """The first gradient that differs from the mean. `rank`: the first rank that gets this
    gradient.
    """

    p: torch.nn.Parameter
    rank: int
    count: int  # of wrong gradients
    compared: int


class Comparer:
    """Compares gradients, weights and settings between ranks, and keeps the findings.

    All ranks must call its methods together. The methods raise Refused if a rank does not come, or
    if ranks cannot be compared.
    """

    def __init__(self, trained: Trained, turns: Turns, step: Step, ranks: Ranks) -> None:
        self.findings = Findings()
        self.peak_bytes = 0  # of sums of gradients
        self._trained = trained
        self._turns = turns
        self._step = step
        self._ranks = ranks
        self._random = digest(torch.get_rng_state())
        self._compared: set[int] = set()  # ids of parameters
        self._worst_share = 0.0
        self._loss = LossFactor()  # of the last update
        self._passes = 1
        self._twin: list[Weights] = []  # of the update that runs, if its optimizer averages

    def coverage(self) -> Coverage:
        """Returns what has been compared so far."""
        return Coverage(
            parameters=len(self._compared),
            known_parameters=len(self._turns),
            ranks=self._ranks.size,
            steps=self._turns.updates(),
            worst_share=self._worst_share,
        )

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name in its model, or its number."""
        number = self._turns.number_of(p)
        return self._trained.name_of(p) or f"parameter {'?' if number is None else number}"

    def before_update(self, update: Update) -> None:
        """Compares gradients, weights and settings before the update changes them."""
        gathered = self._ranks.gather(self._facts(update).to_json())
        ranks = [RankStep.from_json(values) for values in gathered]
        judge_agreement(ranks, update.where, self.findings)
        self._passes = passes_of(ranks)
        self._loss = judge_losses(ranks, self.findings)
        self._twin = []
        params = parameters_of(update.updater)
        if self._judge(params, update.where, may_average=update.may_average()):
            if self._turns.groups > 1:
                raise Refused(f"{update.where} averages by itself, which needs --groups=1")
            compared = [self._comparison(p, p.grad) for p in params]
            self._twin = step_of_twin(update.updater, compared, self._ranks.alone())

    def before_clip(self, params: Sequence[torch.nn.Parameter], where: str) -> None:
        """Compares gradients before they are clipped. They must already be the mean."""
        self._judge(params, where, reason=": it is clipped before the sum")

    def after_update(self, update: Update) -> None:
        """Compares the weights after the update, if the optimizer averages gradients itself."""
        off = [
            f"{self.name_of(weights.p)} is off by {weights.distance():.3g} of its norm after "
            f"{update.name} has averaged and stepped"
            for weights in self._twin
            if weights.are_missed()
        ]
        of_ranks = [texts[0] for texts in self._ranks.gather(off) if texts]
        if of_ranks:
            self.findings.differs_first(Topic.GRADIENTS, of_ranks[-1])
        if self._twin:
            self.findings.note(
                Topic.TWIN,
                f"{update.name} averages by itself; its weights are compared with those of "
                f"{update.name} alone, fed with the mean",
            )

    def _facts(self, update: Update) -> RankStep:
        params = parameters_of(update.updater)
        trains = [f"{self.name_of(p)} {list(p.shape)}" for p in params if p.requires_grad]
        is_wrong = self.findings.status() != Status.SAME
        return RankStep(
            parameters={"what trains": str(trains)},
            settings=update.settings(),
            weights={} if is_wrong else {self._part_of(p): digest(p) for p in params},
            buffers=self._step.buffers or {},
            versions={"PyTorch": torch.__version__, "Python": sys.version.split()[0]},
            data=self._step.inputs,
            losses=self._step.losses,
            random=self._random,
        )

    def _part_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name and, for a DTensor, which part of it this rank has.

        Ranks with the same place in the last dimension of the mesh have the same part.
        """
        place = str(mesh_place(p)[-1:]) if is_in_parts(p) else ""
        return f"{self.name_of(p)}{place}"

    def _comparison(self, p: torch.nn.Parameter, gradient: torch.Tensor | None) -> Comparison:
        return Comparison(p, gradient, self._step.gradients.get(id(p)), self._ranks)

    def _judge(
        self,
        params: Sequence[torch.nn.Parameter],
        where: str,
        reason: str = "",
        may_average: bool = False,
    ) -> bool:
        """Finds the first gradient that differs from the mean, and the reason.

        `where`: what gets the gradients. `reason`: why each rank may have its own gradients.
        Returns whether each rank has its own gradients and no finding is reported, because the
        optimizer may average them.
        """
        wrong = self._find_wrong(self._to_compare(params, where))
        if wrong is None:
            self._judge_loss(where)
            return False
        if self._step.clipped and Topic.GRADIENTS in self.findings:
            return False

        one = self._comparison(wrong.p, self._step.gradient_of(wrong.p))
        self._step.suspect = id(wrong.p)
        is_own = all(self._ranks.gather(one.is_own()))
        passes = [
            self._ranks.total(gradient.clone()) / self._ranks.size
            for gradient in self._step.suspect_by_pass
        ]
        explanation = explain(one, wrong.rank, passes, self._passes, self._ranks)
        text = "each rank's own, which nothing has averaged" if is_own else explanation.text
        if is_own or explanation.factor is None:
            text += self._trained.why_not_reduced(wrong.p) or self._step.why_own or reason
        if wrong.count == wrong.compared and self._is_made_up_for(explanation.factor):
            self.findings.note(
                Topic.GRADIENTS,
                f"gradients are {explanation.factor:.6g} times the mean, and the loss "
                f"{self._loss.factor:.6g} times: together right",
            )
        elif not (is_own and may_average):
            self.findings.differs(Topic.GRADIENTS, self._text(wrong, where, text))
        return is_own and may_average

    def _text(self, wrong: _Wrong, where: str, text: str) -> str:
        others = f" (and {wrong.count - 1} of {wrong.compared - 1} others)"
        if wrong.compared == 1:
            others = ""
        return f"the gradient of {self.name_of(wrong.p)}{others} that {where} gets is {text}"

    def _to_compare(
        self, params: Sequence[torch.nn.Parameter], where: str
    ) -> list[torch.nn.Parameter]:
        """Returns the parameters for which autograd has delivered a gradient on any rank.

        Omits gradients that have not changed since clipping, because they were compared before.
        """
        if Topic.PARAMETERS in self.findings:
            params = []
        params = [p for p in params if self._turns.has(p)]
        clipped = self._step.clipped
        here = [
            i
            for i, p in enumerate(params)
            if id(p) in self._step.gradients
            and (p.grad is None or clipped.get(id(p)) != digest(p.grad))
        ]
        anywhere = sorted({i for rank in self._ranks.gather(here) for i in rank})
        if anywhere and anywhere[-1] >= len(params):
            raise Refused(f"{where} gets other parameters than on other ranks")
        return [params[i] for i in anywhere]

    def _find_wrong(self, params: Sequence[torch.nn.Parameter]) -> _Wrong | None:
        """Compares the gradients. Adds a note if they were rounded to a narrower dtype."""
        self._compared.update(id(p) for p in params)
        held_bytes = sum(held.sums.nbytes for held in self._step.gradients.values())
        self.peak_bytes = max(self.peak_bytes, held_bytes)
        off: list[tuple[int, str]] = []  # the parameter's index, and the dtype that explains it
        for i, p in enumerate(params):
            one = self._comparison(p, self._step.gradient_of(p))
            if one.is_right():
                self._worst_share = max(self._worst_share, one.share)
            else:
                off.append((i, one.narrow))

        ranks = self._ranks.gather(off)
        narrow = sorted({dtype for rank in ranks for _, dtype in rank if dtype})
        if narrow:
            text = f"gradients are rounded to {' and '.join(narrow)} on their way"
            self.findings.note(Topic.ROUNDING, text)
        wrong = [(i, number) for number, rank in enumerate(ranks) for i, dtype in rank if not dtype]
        if not wrong:
            return None
        first, rank_number = min(wrong)
        count = len({i for i, _ in wrong})
        return _Wrong(params[first], rank_number, count, compared=len(params))

    def _judge_loss(self, where: str) -> None:
        """Reports a loss that is wrong although the gradients are the mean."""
        loss = self._loss
        mistake = name_of_factor(loss.factor, loss.rounding, self._ranks.size, self._passes)
        if mistake:
            self.findings.differs(
                Topic.LOSS,
                f"what backward() gets before {where} is {loss.factor:.6g} times the mean loss: "
                f"{mistake}",
            )

    def _is_made_up_for(self, factor: float | None) -> bool:
        """Returns whether backward gets the mean loss divided by this factor, which makes up for
        it.
        """
        if not factor or not self._loss.rounding:
            return False
        return abs(self._loss.factor * factor - 1) <= self._loss.rounding
