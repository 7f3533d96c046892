"""Defines the kinds of steps that the recorder of `gradsync record` takes, and their order."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from gradsync.schema import MIB, CollectiveKind, StepMode

PIECES = (MIB // 16, MIB, 4 * MIB, 16 * MIB, 64 * MIB)  # bytes


@dataclass(frozen=True)
class Probe:
    """Collectives that the recorder runs after a backward, to measure their times. `kind`: which
    collectives they are, such as all-reduces. `piece_bytes`: for all-reduces, the size in bytes of
    each piece of the gradients but the last; each piece has its own all-reduce. `in_flight`: True
    if one collective is in flight at a time, False if all are issued at once."""

    kind: CollectiveKind
    piece_bytes: int
    in_flight: bool = True


@dataclass(frozen=True)
class Turn:
    """A kind of step; the recorder gives each training step of the script one kind. `mode`: what
    happens to the step's gradients (see StepMode); None for the script's first step, which the
    recorder does not change. `probe`: the collectives that the recorder measures in a step of the
    mode PROBE; None for other modes, and if the script runs in only one process."""

    mode: StepMode | None
    probe: Probe | None = None

    @property
    def is_scripts_own(self) -> bool:
        """Returns whether, in the steps of this Turn, the script and not the recorder synchronises
        gradients, as in the script's first step."""
        return self.mode in (None, StepMode.SCRIPT)

    @property
    def is_probe(self) -> bool:
        return self.mode is StepMode.PROBE


FIRST = Turn(None)


def probes_of(total_bytes: int, with_units: bool = False) -> list[Probe]:
    """Returns the probes (measured collectives) for a model whose gradients have `total_bytes`
    bytes. `with_units`: whether to also probe the collectives of fully_shard."""
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
    """Returns the kinds of the steps of the first round, in their order: a step without
    synchronisation, steps with about half of the probes, another step without synchronisation, and
    steps with the other probes. If `with_own_steps` is True, the last step is one in which the
    script itself synchronises gradients."""
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
    """Determines the kind of each training step, such as a probe, and whether its times are kept.
    There are `rounds` rounds, each with one training step for each Turn in `plan`. The script's
    first step, which the recorder does not change, belongs to no round. The first round is warm-up:
    its times are not kept. The steps of the first round decide how many backward passes later steps
    must have. `taken`: how many steps have ended so far in all rounds together, without steps that
    had to be repeated; -1 until the script's first step has ended.

    `expected`: the number of backward passes that a step must have for its times to be kept; None
    before the script's first step has ended.
    """

    def __init__(self, plan: Sequence[Turn], rounds: int) -> None:
        self.plan = list(plan)
        self.rounds = rounds
        self.taken = -1
        self.expected: int | None = None
        self._counts: collections.Counter[int] = collections.Counter()  # of steps, by passes
        self._others = 0  # steps since the last one that was kept

    def start(self, passes: int) -> None:
        """Called when the script's first step has ended. Sets `expected` to `passes`, the number of
        backward passes in that first step. `expected` keeps this value until the first round has
        ended."""
        self.taken = 0
        self.expected = passes

    def turn(self) -> Turn:
        """Returns the kind of the next step: an element of `plan`. Each round takes the elements of
        `plan` in cyclic order, and begins one element later than the round before it, so rounds do
        not all begin with the same kind."""
        length = len(self.plan)
        return self.plan[(self.taken + self.taken // length) % length]

    def end_step(self, passes: int, is_synchronised: bool) -> Verdict:
        """Called when a step of a round has ended: returns what the recorder does with it (see
        Verdict). If this is REPEAT, the next step has the same kind again; if it is WARM_UP or
        KEEP, the next kind of the round."""
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
        """Returns whether the first round (one step for each Turn in `plan`) has ended, and no step
        of the second round has been kept yet."""
        return self.taken == len(self.plan)

    def are_over(self) -> bool:
        return self.taken == self.rounds * len(self.plan)
