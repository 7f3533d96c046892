"""Compares the gradients that optimizers get with the mean of all ranks' gradients, for the command
`check`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

from gradsync import Refused
from gradsync.agreement import RankStep, judge_agreement, passes_of
from gradsync.facts import Facts, Update
from gradsync.findings import Coverage, Findings, Status, Topic
from gradsync.losses import LossFactor, judge_losses
from gradsync.meetings import Absence
from gradsync.mistakes import (
    BY_PASS,
    Change,
    Explanation,
    change_of,
    common_factor,
    explain,
    say_of_changes,
)
from gradsync.ranks import Ranks
from gradsync.reference import Comparison, Gradients, are_scaled_alike, digest
from gradsync.trained import Step, Trained, Turns, parameters_of
from gradsync.twin import Weights, has_parts, step_of_twin


@dataclasses.dataclass
class _Wrong:
    """The gradients that are wrong on some rank (see Comparer._find_wrong()). `params`: their
    parameters, in the order of the optimizer's. `rank`: the lowest number of a rank on which the
    gradient of the first is wrong."""

    params: list[torch.nn.Parameter]
    rank: int
    compared: int
    are_all: bool  # or else the mean is 0
    changes: list[list[Change]]  # of the gradients of `params`, by rank


@dataclasses.dataclass(frozen=True)
class _Question:
    """The gradients that an optimizer or a clipping function gets, to be compared with the mean
    over ranks.

    `where`: names the optimizer or function, such as "SGD at train.py:25". `handed`: returns a
    parameter's gradient as the optimizer or function gets it. `is_of_clip`: True for a clipping
    function, False for an optimizer. `may_average`: True for an optimizer that may average
    gradients over ranks itself."""

    params: list[torch.nn.Parameter]
    where: str
    handed: Callable[[torch.nn.Parameter], torch.Tensor | None]
    is_of_clip: bool = False
    may_average: bool = False


class Comparer:
    """Compares gradients, weights and settings between ranks, and collects the differences in
    `findings`.

    All ranks must call before_update(), after_update() and agree() together. Each of these methods
    raises Refused if another rank does not call the method within 60 s or, if longer,
    init_process_group's timeout."""

    def __init__(self, trained: Trained, turns: Turns, step: Step, ranks: Ranks) -> None:
        self.findings = Findings(self._print)
        self.peak_bytes = 0  # of sums of gradients
        self.speaker = 0  # the rank that prints
        self._trained = trained
        self._turns = turns
        self._step = step
        self._ranks = ranks
        self._facts = Facts(trained, turns, step)
        self._compared: set[int] = set()  # ids of parameters
        self._worst_share = 0.0
        self._loss = LossFactor()  # of the last update
        self._passes = 1
        self._is_divided_by_all = False  # the loss, by a number that ranks have summed
        self._twin: list[Weights] = []  # of the update that runs, if its optimizer averages
        self._is_clipped = False  # what that update gets, on any rank

    def coverage(self) -> Coverage:
        """Returns how many parameters, ranks and steps have been compared so far, and how closely
        gradients agreed."""
        return Coverage(
            parameters=len(self._compared),
            known_parameters=len(self._turns),
            ranks=self._ranks.size,
            steps=self._turns.updates(),
            worst_share=self._worst_share,
        )

    def name_of(self, p: torch.nn.Parameter) -> str:
        """Returns the parameter's name in its model. If no called model has the parameter, returns
        "parameter" and its number in Turns, or "parameter ?" without a number."""
        return self._facts.name_of(p)

    def before_update(self, update: Update) -> bool:
        """Compares gradients, and what Facts.of() reports, such as settings and weights, of all
        ranks, before the update changes the weights. Compares no gradients if ranks train different
        parameters (Topic.PARAMETERS).

        Returns True if, on any rank, Step.gradients has a gradient that autograd delivered to a
        parameter of the update's optimizer."""
        is_wrong = self.findings.status() != Status.SAME
        gathered = self._ranks.gather(self._facts.of(update, is_wrong).to_json())
        ranks = [RankStep.from_json(values) for values in gathered]
        judge_agreement(ranks, update.where, self.findings)
        self._note_ignored(parameters_of(update.updater))
        self._passes = passes_of(ranks)
        self._loss = judge_losses([rank.losses for rank in ranks], self.findings)
        self._is_divided_by_all = all(rank.is_divided_by_all for rank in ranks)
        self._twin = []
        params = [] if Topic.PARAMETERS in self.findings else parameters_of(update.updater)
        self._judge_clipped(params)
        question = _Question(
            params=self._to_compare(params, update.where),
            where=update.where,
            handed=self._step.gradient_of,
            may_average=update.may_average(),
        )
        if self._judge(question):
            self._begin_twin(update)
        return any(rank.has_gradients for rank in ranks)

    def _begin_twin(self, update: Update) -> None:
        """For an optimizer that averages gradients itself, stores in `_twin` the weights that
        step_of_twin() computes from the means over ranks. Raises Refused with --groups above 1, or
        if has_parts() is True on a rank."""
        if self._turns.groups > 1:
            raise Refused(f"{update.where} averages by itself, which needs --groups=1")
        params = parameters_of(update.updater)
        if any(self._ranks.gather(has_parts(update.updater))):
            raise Refused(
                f"{update.where} has a part of its state on each rank before its first update that "
                "is compared: no copy of it can step alone. Begin without a checkpoint"
            )
        compared = [self._comparison(p, p.grad) for p in params]
        self._twin = step_of_twin(update.updater, compared, self._ranks.alone())

    def after_update(self, update: Update) -> bool:
        """If the update's optimizer averages gradients itself, compares the weights with those of a
        copy. The copy of the optimizer has stepped with the mean gradients.

        Returns True if later updates of this optimizer cannot be compared."""
        off = [
            f"{self.name_of(weights.p)} is off by {weights.distance():.3g} of its norm after "
            f"{update.name} has averaged and stepped"
            for weights in self._twin
            if weights.are_missed()
        ]
        of_ranks = [texts[0] for texts in self._ranks.gather(off) if texts]
        if of_ranks and not self.findings.has_difference(Topic.GRADIENTS):
            self.findings.differs(Topic.GRADIENTS, of_ranks[-1])
        if not self._twin:
            return False
        shares = any(self._ranks.gather(has_parts(update.updater)))
        self.findings.note(
            Topic.TWIN,
            f"{update.name} averages by itself; its weights are compared with those of "
            f"{update.name} alone, fed with the mean"
            + (", after its first update only: ranks share its state" if shares else ""),
        )
        return shares

    def absent(self, where: str, absence: Absence) -> None:
        """Adds a difference: rank `absence.rank` does not make the update `where`, which rank
        `absence.speaker` is about to make."""
        self.speaker = absence.speaker
        text = f"rank {absence.rank} {absence.text}; rank {absence.speaker} is at a step of {where}"
        self.findings.differs(Topic.STEPS, text)

    def agree(self, is_so: bool) -> bool:
        """Returns True if `is_so` is True on all ranks, or if `findings` has a difference of
        Topic.PARAMETERS."""
        return all(self._ranks.gather(is_so)) or Topic.PARAMETERS in self.findings

    def _note_ignored(self, params: Sequence[torch.nn.Parameter]) -> None:
        """If DDP ignores any of `params`, adds a note that these parameters are not checked."""
        ignored = self._trained.ignored()
        names = [self.name_of(p) for p in params if id(p) in ignored]
        if names:
            others = f" and {len(names) - 1} others" if len(names) > 1 else ""
            self.findings.note(
                Topic.IGNORED,
                f"not checked, because DistributedDataParallel ignores it: {names[0]}{others}",
            )

    def note_in_forward(self, collective: str) -> None:
        """Adds a note that gradients which come back through the script's collective `collective`
        are not checked. `collective`: NAME at FILE:LINE of the first collective within a
        forward."""
        self.findings.note(
            Topic.FORWARD,
            f"the script communicates within a forward, by {collective}: no gradient that has to "
            "come back through that is checked",
        )

    def _print(self, text: str) -> None:
        if self._ranks.rank == self.speaker:
            print(text, end="", flush=True)

    def _comparison(self, p: torch.nn.Parameter, gradient: torch.Tensor | None) -> Comparison:
        return Comparison(p, gradient, self._step.gradients.get(id(p)), self._ranks)

    def _judge(self, question: _Question) -> bool:
        """Compares the gradients of `question` with the mean over ranks, and adds a finding about
        the first wrong gradient. If ranks have not averaged the wrong gradient, but the optimizer
        may average it in step(), adds no finding and returns True. If an optimizer's gradients are
        all right, also checks the loss."""
        where = question.where
        wrong = self._find_wrong(question)
        if wrong is None:
            if not question.is_of_clip:
                self._judge_loss(where)
            return False
        if self._is_clipped and self.findings.has_difference(Topic.GRADIENTS):
            return False

        p = wrong.params[0]
        self._step.suspect = id(p)
        means = self._means_by_pass(p)
        sums = self._delivered(p)
        for number in range(len(sums)):
            one = Comparison(p, question.handed(p), sums[number], self._ranks)
            is_own = all(self._ranks.gather(one.is_own()))
            explanation = explain(one, wrong.rank, means, self._passes, self._ranks)
            if is_own or explanation.factor is not None:
                break
        if self._is_no_mistake(wrong, question, explanation, with_aside=number > 0):
            return False
        text = "each rank's own, which nothing has averaged" if is_own else explanation.text
        if is_own or explanation.factor is None:
            text += self._reason(p, question.is_of_clip)
        if not (is_own and question.may_average):
            if self.findings.has_difference(Topic.GRADIENTS) and text.endswith(BY_PASS):
                self.findings.note(Topic.PASSES, self._text(wrong, where, text))
            self.findings.differs(Topic.GRADIENTS, self._text(wrong, where, text))
        return is_own and question.may_average

    def _reason(self, p: torch.nn.Parameter, is_of_clip: bool) -> str:
        """Returns why a wrong gradient of `p` is not the mean over ranks, as the end of a sentence;
        "" if no reason is known."""
        if is_of_clip and id(p) in self._trained.ignored():
            return ": DistributedDataParallel ignores it, so ranks clip by different norms"
        reason = ": it is clipped before the sum" if is_of_clip else ""
        return self._trained.why_not_reduced(p) or self._step.why_own or reason

    def _means_by_pass(self, p: torch.nn.Parameter) -> list[torch.Tensor]:
        """Returns the mean over ranks of each gradient that Step.by_pass has for `p`, usually one
        for each backward pass. Empty if ranks have none, or different numbers of gradients."""
        passes = self._step.by_pass.get(id(p), [])
        if len(set(self._ranks.gather(len(passes)))) > 1:
            return []
        return [self._ranks.total(gradient.clone()) / self._ranks.size for gradient in passes]

    def _judge_clipped(self, params: Sequence[torch.nn.Parameter]) -> None:
        """Compares gradients from before clipping with the mean over ranks, if any rank has clipped
        them. Gradients of parameters that DDP ignores are compared only if they were clipped with
        those of other parameters, for which they change the norm."""
        kept, ignored = self._step.unclipped, self._trained.ignored()
        places = {kept[id(p)].where for p in params if id(p) in kept and id(p) not in ignored}
        here = [id(p) in kept and kept[id(p)].where in places for p in params]
        clipped = self._anywhere(here, params)
        first = [kept[id(p)].where for p in clipped if id(p) in kept][:1]
        texts = [text for rank in self._ranks.gather(first) for text in rank]
        self._is_clipped = bool(texts)
        if not texts:
            return

        def handed(p: torch.nn.Parameter) -> torch.Tensor | None:
            return kept[id(p)].gradient if id(p) in kept else self._step.gradient_of(p)

        self._judge(_Question(clipped, texts[0], handed, is_of_clip=True))

    def _delivered(self, p: torch.nn.Parameter) -> list[Gradients | None]:
        """Returns one or two sums (Gradients) of the gradients that autograd has delivered to `p`
        on this rank since the last update or zero_grad(). The first sum leaves out Gradients.aside:
        gradients that the script has set to None or zero itself. The second sum includes
        Gradients.aside, and is returned only if a rank has Gradients.aside for `p`. A sum is None
        if this rank got no gradient."""
        held = self._step.gradients.get(id(p))
        if not any(self._ranks.gather(held is not None and held.aside is not None)):
            return [held]
        return [held, None if held is None else held.with_aside()]

    def _is_no_mistake(
        self, wrong: _Wrong, question: _Question, explanation: Explanation, with_aside: bool
    ) -> bool:
        """Returns True, and adds a note, if gradients that differ from the mean over ranks are
        right nevertheless. For example, gradients of twice the mean can be right if the script
        halves the loss. `with_aside`: whether `explanation` is of the last sum that _delivered()
        returns."""
        where = question.where
        explained = wrong.changes
        if with_aside:
            explained = self._changes(wrong.params, question, with_aside=True)
        every = [change for rank in explained for change in rank]
        has_one_factor = wrong.are_all and common_factor(every) is not None
        has_others = self._is_clipped and not question.is_of_clip
        changed = say_of_changes(
            wrong.changes, wrong.are_all, has_others, self._ranks.size, self._passes
        )
        factor = explanation.factor
        text = f"the gradients that {where} gets are {factor or 0:.6g} times the mean, and the loss"
        if has_one_factor and self._loss.makes_up_for(factor, *self._circumstances()):
            text += f" {self._loss.shown(factor):.6g} times: together right"
        elif has_one_factor and self._is_divided_by_all and explanation.is_sum(self._ranks.size):
            text += " is divided by a number that the script sums over ranks: together right"
        elif changed:
            text = f"of what {where} gets, {changed}"
        else:
            return False
        self.findings.note(Topic.GRADIENTS, text)
        self._loss = LossFactor()  # what is right only together with gradients that are clipped now
        return True

    def _text(self, wrong: _Wrong, where: str, text: str) -> str:
        others = f" (and {len(wrong.params) - 1} of {wrong.compared - 1} others)"
        if wrong.compared == 1:
            others = ""
        return (
            f"the gradient of {self.name_of(wrong.params[0])}{others} that {where} gets is {text}"
        )

    def _to_compare(
        self, params: Sequence[torch.nn.Parameter], where: str
    ) -> list[torch.nn.Parameter]:
        """Returns those of `params` whose gradients this step compares as the optimizer gets them.
        Each such parameter got a gradient from autograd on at least one rank, and DDP does not
        ignore the parameter. Gradients that are unchanged on all ranks since a clipping function
        clipped them are left out."""
        ignored = self._trained.ignored()
        clipped = self._step.clipped
        here = [
            id(p) in self._step.gradients
            and id(p) not in ignored
            and (p.grad is None or clipped.get(id(p)) != digest(p.grad))
            for p in params
        ]
        return self._anywhere(here, params)

    def _anywhere(
        self, here: Sequence[bool], params: Sequence[torch.nn.Parameter]
    ) -> list[torch.nn.Parameter]:
        """Returns the parameters that this step compares and that have True in `here` on at least
        one rank. Raises Refused if another rank has True at an index that this rank's `params`
        lacks."""
        indices = [i for i, p in enumerate(params) if here[i] and self._turns.has(p)]
        anywhere = sorted({i for rank in self._ranks.gather(indices) for i in rank})
        if anywhere and anywhere[-1] >= len(params):
            raise Refused("an optimizer gets other parameters than on other ranks")
        return [params[i] for i in anywhere]

    def _find_wrong(self, question: _Question) -> _Wrong | None:
        """Compares the gradients of `question.params`, as `question.handed` returns them on each
        rank, with the mean over ranks. Returns the wrong gradients, or None if all are right. A
        gradient is right if rounding, also to bf16 or fp16, or _is_right_otherwise() explains its
        difference from the mean."""
        params = question.params
        self._compared.update(id(p) for p in params)
        held_bytes = sum(held.sums.nbytes for held in self._step.gradients.values())
        self.peak_bytes = max(self.peak_bytes, held_bytes)
        off: list[tuple[int, str]] = []  # the parameter's index, and the dtype that explains it
        without_mean: set[int] = set()
        for i, p in enumerate(params):
            one = self._comparison(p, question.handed(p))
            if not bool(one.mean.any()):
                without_mean.add(i)
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
        right = {
            i
            for i in sorted({i for i, _ in wrong})
            if self._is_right_otherwise(params[i], question)
        }
        wrong = [(i, number) for i, number in wrong if i not in right]
        if not wrong:
            return None
        indices = sorted({i for i, _ in wrong})
        are_all = len(without_mean.union(indices)) == len(params)
        wrong_params = [params[i] for i in indices]
        return _Wrong(
            params=wrong_params,
            rank=min(wrong)[1],
            compared=len(params),
            are_all=are_all,
            changes=self._changes(wrong_params, question),
        )

    def _is_right_otherwise(self, p: torch.nn.Parameter, question: _Question) -> bool:
        """Returns whether the script's own code explains why a gradient differs from the mean over
        ranks. The code may zero gradients and add them back later, or scale gradients by hooks, on
        all ranks alike."""
        handed = question.handed(p)
        if any([self._is_mean_of(p, handed, held) for held in self._delivered(p)[1:]]):
            self._loss = LossFactor()  # which is that of the last pass alone
            return True
        before, after = self._step.gradients.get(id(p)), self._step.hooked.get(id(p))
        if all(self._ranks.gather(after is not None and before is not None)):
            assert before is not None and after is not None
            if are_scaled_alike(before, after, self._ranks):
                both = (after, after.with_aside())
                return any([self._is_mean_of(p, handed, held) for held in both])
        return False

    def _is_mean_of(
        self, p: torch.nn.Parameter, handed: torch.Tensor | None, held: Gradients | None
    ) -> bool:
        one = Comparison(p, handed, held, self._ranks)
        return all(self._ranks.gather(one.is_right() or bool(one.narrow)))

    def _changes(
        self, params: Sequence[torch.nn.Parameter], question: _Question, with_aside: bool = False
    ) -> list[list[Change]]:
        """Returns how the gradients of `params` differ from the mean over ranks, on each rank.
        `with_aside`: whether the mean is of the last sum that _delivered() returns, or else of the
        first."""
        own = []
        for p in params:
            held = self._delivered(p)[-1] if with_aside else self._step.gradients.get(id(p))
            own.append(change_of(Comparison(p, question.handed(p), held, self._ranks)))
        gathered = self._ranks.gather([dataclasses.asdict(change) for change in own])
        return [[Change(**values) for values in rank] for rank in gathered]

    def _circumstances(self) -> tuple[int, bool]:
        """Returns the largest number of backward passes that a rank made in the step. Also returns
        whether the script divides the loss of every pass, on all ranks, by a number that it sums
        over ranks."""
        return self._passes, self._is_divided_by_all

    def _judge_loss(self, where: str) -> None:
        """Judges the factor by which the step's backward passes multiply the mean loss (see
        LossFactor). If a known mistake explains a factor other than 1, adds a difference to the
        findings. If no known mistake explains a factor other than 1, and each pass has only one
        loss, adds a note."""
        loss = self._loss
        mistake = loss.mistake(self._ranks.size, *self._circumstances())
        text = f"what backward() gets before {where} is {loss.text()}"
        if mistake:
            self.findings.differs(Topic.LOSS, f"{text}: {mistake}")
        elif loss.is_alone and not loss.is_any(1):
            self.findings.note(Topic.LOSS, f"{text}: right if you mean that coefficient")
