"""Defines the kinds of training steps that `gradsync record` records, and their order."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gradsync.schema import MIB, CollectiveKind, StepMode

PIECES = (MIB // 16, MIB, 4 * MIB, 16 * MIB, 64 * MIB)  # bytes


@dataclass(frozen=True)
class Probe:
    """Collectives that the recorder runs and times after a backward pass. `kind`: which collectives
    they are, such as all-reduces. `piece_bytes`: in ALL_REDUCE and BF16 probes, the bytes of each
    piece of the gradients, before a cast to bf16; the last piece may be smaller. ZERO1 and
    FULLY_SHARD probes do not use `piece_bytes`. `in_flight`: True if each collective ends before
    the next begins, False if all are issued at once."""

    kind: CollectiveKind
    piece_bytes: int
    in_flight: bool = True


@dataclass(frozen=True)
class Turn:
    """The kind of a training step. `mode`: what happens to the step's gradients (see StepMode);
    None for the script's first step. `probe`: the collectives that the recorder times in the step;
    None if it times none."""

    mode: StepMode | None
    probe: Probe | None = None

    @property
    def is_scripts_own(self) -> bool:
        """Returns True if the script synchronises the step's gradients itself, and False if the
        recorder does."""
        return self.mode in (None, StepMode.SCRIPT)

    @property
    def is_probe(self) -> bool:
        return self.mode is StepMode.PROBE


FIRST = Turn(None)


def probes_of(total_bytes: int, with_units: bool = False) -> list[Probe]:
    """Returns the collectives to time for a model whose gradients have `total_bytes` bytes.
    `with_units`: whether to add the collectives of fully_shard."""
    kinds = CollectiveKind
    sizes = [size for size in PIECES if 2 * size <= total_bytes] + [total_bytes]
    probes = [Probe(kinds.ALL_REDUCE, size) for size in sizes]
    probes += [Probe(kinds.ALL_REDUCE, size, in_flight=False) for size in sizes[1:-1]]
    probes += [Probe(kinds.BF16, min(size, total_bytes)) for size in (MIB, 16 * MIB)]
    probes.append(Probe(kinds.ZERO1, total_bytes, in_flight=False))
    if with_units:
        probes.append(Probe(kinds.FULLY_SHARD, total_bytes))
    return probes


def plan_of(probes: Sequence[Probe], with_own_steps: bool) -> list[Turn]:
    """Returns the kinds (Turns) of a sequence of training steps to record. Steps with timed
    collectives (`probes`) are divided into two halves; one UNSYNCHRONISED step comes before each
    half. If `probes` is empty, one PROBE step without timed collectives takes their place. If
    `with_own_steps` is True, a last step is added, in which the script itself synchronises
    gradients."""
    turns = [Turn(StepMode.PROBE, probe) for probe in probes] or [Turn(StepMode.PROBE)]
    half = len(turns) // 2
    alone = Turn(StepMode.UNSYNCHRONISED)
    plan = [alone, *turns[:half], alone, *turns[half:]]
    if with_own_steps:
        plan.append(Turn(StepMode.SCRIPT))
    return plan


class Verdict(Enum):
    """What the recorder does with a step that has ended: counts it as warm-up, keeps its times,
    repeats it, or ends the recording with an error."""

    WARM_UP = auto()  # it counts, and is not kept
    KEEP = auto()
    REPEAT = auto()  # it has other passes than those that are recorded, or was not synchronised
    REFUSE = auto()  # so had all steps of the last round


class Rounds:
    """Determines the kind of each training step, and whether the step's times are kept. There are
    `rounds` rounds, each with one step for each Turn in `plan`. The times of the first round are
    not kept.

    `taken`: the number of steps in all rounds so far, without steps that have to be repeated; -1
    until the script's first step has ended. `expected`: the number of backward passes of a step
    whose times are kept; None until the script's first step has ended."""

    def __init__(self, plan: Sequence[Turn], rounds: int) -> None:
        self.plan = list(plan)
        self.rounds = rounds
        self.taken = -1
        self.expected: int | None = None
        self._counts: collections.Counter[int] = collections.Counter()  # of steps, by passes
        self._others = 0  # steps since the last one that was kept

    def start(self, passes: int) -> None:
        """Called when the script's first step has ended, with the number of backward passes in that
        step."""
        self.taken = 0
        self.expected = passes

    def turn(self) -> Turn:
        """Returns the kind of the next step: what happens to its gradients, and which collectives
        are timed. Each round of steps goes through `plan` once, in cyclic order, and begins one
        element later than the round before."""
        length = len(self.plan)
        return self.plan[(self.taken + self.taken // length) % length]

    def end_step(self, passes: int, is_synchronised: bool) -> Verdict:
        """Called when a step of a round has ended. Returns whether the recorder counts the step as
        warm-up, keeps its times, repeats it, or ends the recording with an error."""
        if self.taken < len(self.plan):
            self._counts[passes] += 1
            self.taken += 1
            if self.taken == len(self.plan):
                # What most of all passes belong to.
                self.expected = max(self._counts, key=lambda n: n * self._counts[n])
            return Verdict.WARM_UP
        if is_synchronised and passes == self.expected:
            self._others = 0
            self.taken += 1
            return Verdict.KEEP
        self._others += 1
        return Verdict.REPEAT if self._others <= len(self.plan) else Verdict.REFUSE

    def are_warmed_up(self) -> bool:
        """Returns whether the first round of steps has ended, but no step's times have been kept
        yet."""
        return self.taken == len(self.plan)

    def are_over(self) -> bool:
        return self.taken == self.rounds * len(self.plan)
