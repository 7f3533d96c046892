#!/usr/bin/env python3
"""tools/dev/published.py FILE: steps that others have published of 1 and of more GPUs, and what
gradsync predicts of them, of the step and of its cost: what it takes more than with one GPU.

The lines of FILE are those of published_lines.py.

Today's prediction takes the step of 1 GPU as computation, which varies from step to step and GPU to
GPU as it does there. Gradients are ready evenly over its last two thirds, in
DistributedDataParallel's own buckets, which go around a ring. The tool then tries what may cost the
rest, each fitted to one model on one machine, and tried on others.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "pytorch")]
from gradsync.link import SIZES, Cost, LinkCosts
from gradsync.memory import Need
from gradsync.recording import Recording
from gradsync.processors import Processors
from gradsync.replay import Collective, RankStep, Scenario, predict
from gradsync.sharding import units_of
from published_lines import MIB, BadLine, Line, Memory, Passes, Scaling, read

FIRST_BUCKET_BYTES = MIB  # DistributedDataParallel's own sizes
BUCKET_BYTES = 25 * MIB
FORWARD_PART = 1 / 3  # of a step, before the first gradient
ROUNDS = 12  # the fewest that a prediction draws
MANY = (4, 8)  # GPUs, whose costs nothing of the same machine was fitted to
# The mean of the largest of N numbers of a standard normal distribution.
LARGEST_OF = {2: 0.5642, 4: 1.0294, 8: 1.4236}


@dataclass(frozen=True)
class Row:
    """One published step and its prediction, in seconds."""

    source: str
    what: str
    published_s: float
    predicted_s: float
    published_cost_s: float
    predicted_cost_s: float

    def text(self) -> str:
        step = 100 * (self.predicted_s / self.published_s - 1)
        cost = "      - "
        if self.published_cost_s > 0:
            cost = f"{100 * self.predicted_cost_s / self.published_cost_s - 100:+6.0f} %"
        return (
            f"{self.source:39} {self.what:54} {1e3 * self.published_s:9.2f} "
            f"{1e3 * self.predicted_s:9.2f} {step:+6.1f} % {1e3 * self.published_cost_s:7.2f} "
            f"{1e3 * self.predicted_cost_s:7.2f} {cost}"
        )


@dataclass(frozen=True)
class Candidate:
    """Something that may cost what a ring does not explain: `unit_s(line, gpus)` times a parameter.

    It is None where the line does not have it.
    """

    name: str
    parameter: str
    unit_s: Callable[[Scaling, int], float | None]


def ddp_of_one(line: Scaling, gpus: int) -> float | None:
    """Copies, hooks and launches, which one rank of DistributedDataParallel has, too."""
    return 1e-3 if line.first == "plain" else None


def ddp_tensors(line: Scaling, gpus: int) -> float | None:
    """The same, for each gradient."""
    return 1e-6 * line.tensors if line.first == "plain" and line.tensors else None


def slowest(line: Scaling, gpus: int) -> float | None:
    """The slowest of so many GPUs, if the logarithms of their paces are normally distributed."""
    return 0.01 * line.step_s[1] * LARGEST_OF[gpus] if gpus in LARGEST_OF else None


def tax(line: Scaling, gpus: int) -> float | None:
    """What collectives take from computation that goes on beside them."""
    return line.ring_s(gpus, line.gradient_bytes)


CANDIDATES = (
    Candidate("DDP of one, a step", "ms", ddp_of_one),
    Candidate("DDP of one, a gradient", "us", ddp_tensors),
    Candidate("the slowest of N", "% of a step, standard deviation", slowest),
    Candidate("tax of collectives", "times what they take", tax),
)


@dataclass(frozen=True)
class Trial:
    """One cost, with a candidate's parameter that was fitted to another model. Errors are parts of
    the published cost. `applies`: whether the candidate is anything of this cost."""

    gpus: int
    parameter: float
    is_same_machine: bool
    applies: bool
    today: float
    error: float


def predicted_cost_s(line: Scaling, gpus: int) -> float:
    """Returns today's prediction of what the step takes more than with 1 GPU."""
    step_s = line.step_s[1]
    ends = _bucket_ends(line.gradient_bytes)
    ready_s = [
        step_s * (FORWARD_PART + (1 - FORWARD_PART) * end / line.gradient_bytes) for end in ends
    ]
    sizes = [end - begin for begin, end in zip([0.0, *ends], ends, strict=False)]
    paces = [
        1 + line.step_sd_s / step_s * NormalDist().inv_cdf((index + 0.5) / ROUNDS)
        for index in range(ROUNDS)
    ]
    steps = [
        RankStep(
            0,
            FORWARD_PART * step_s * pace,
            [moment * pace for moment in ready_s],
            step_s * pace,
            0,
        )
        for pace in paces
    ]
    scenario = Scenario(
        ranks=[steps],
        collectives=[Collective(size) for size in sizes],
        world_size=gpus,
        costs=LinkCosts([Cost(size, line.ring_s(gpus, size)) for size in SIZES]),
        processors=Processors(1, 1),
        log_error=0,
    )
    return predict(scenario).step_s.value - step_s


def _bucket_ends(gradient_bytes: float) -> list[float]:
    """Returns where buckets end, in bytes of gradients in the order in which they are ready."""
    ends = []
    end = float(FIRST_BUCKET_BYTES)
    while end < gradient_bytes:
        ends.append(end)
        end += BUCKET_BYTES
    return [*ends, gradient_bytes]


def rows_of(lines: Iterable[Line]) -> Iterator[Row]:
    """Yields a row for each step that is predicted."""
    for line in lines:
        if isinstance(line, Passes):
            yield _passes_row(line)
        elif isinstance(line, Scaling):
            yield from (_scaling_row(line, gpus) for gpus in line.wanted)


def _passes_row(line: Passes) -> Row:
    more_s = (line.passes - 1) * line.one_s
    return Row(
        source=line.source,
        what=f"{line.gpu}, {line.model} {line.setting}: each pass",
        published_s=line.each_s,
        predicted_s=line.once_s + more_s,
        published_cost_s=line.each_s - line.once_s,
        predicted_cost_s=more_s,
    )


def _scaling_row(line: Scaling, gpus: int) -> Row:
    cost_s = predicted_cost_s(line, gpus)
    return Row(
        source=line.source,
        what=f"{line.name}: {gpus}",
        published_s=line.step_s[gpus],
        predicted_s=line.step_s[1] + cost_s,
        published_cost_s=line.cost_s(gpus),
        predicted_cost_s=cost_s,
    )


def factors(lines: Iterable[Line], gpus: Sequence[int] = MANY) -> list[float]:
    """Returns by which factors, of 1 or more, costs of so many GPUs are predicted wrong; smallest
    first. A step that is not slower than that of 1 GPU has no cost."""
    ratios = [
        predicted_cost_s(line, one) / line.cost_s(one)
        for line in _scalings(lines)
        for one in set(line.wanted) & set(gpus)
        if line.cost_s(one) > 0
    ]
    return sorted(max(ratio, 1 / ratio) for ratio in ratios)


def fitted(candidate: Candidate, lines: Iterable[Scaling]) -> float | None:
    """Returns the candidate's parameter of these lines, a median: of what DistributedDataParallel
    of one rank takes more, if that is the candidate, or else of what today's prediction lacks."""
    found = []
    for line in lines:
        if candidate.unit_s in (ddp_of_one, ddp_tensors):
            unit = candidate.unit_s(line, 1)
            if unit and line.ddp_of_one_s is not None:
                found.append((line.ddp_of_one_s - line.step_s[1]) / unit)
            continue
        for gpus in line.wanted:
            unit = candidate.unit_s(line, gpus)
            if unit:
                found.append((line.cost_s(gpus) - predicted_cost_s(line, gpus)) / unit)
    return statistics.median(found) if found else None


def trials_of(candidate: Candidate, lines: Iterable[Line]) -> Iterator[Trial]:
    """Yields all costs of other models, with what each model on a machine tells."""
    scalings = list(_scalings(lines))
    for machine, model in dict.fromkeys((line.machine, line.model) for line in scalings):
        own = [line for line in scalings if (line.machine, line.model) == (machine, model)]
        parameter = fitted(candidate, own)
        for other in scalings:
            if parameter is None or other in own:
                continue
            for gpus in other.wanted:
                if other.cost_s(gpus) <= 0:
                    continue
                unit = candidate.unit_s(other, gpus)
                today = predicted_cost_s(other, gpus) / other.cost_s(gpus) - 1
                more = parameter * (unit or 0) / other.cost_s(gpus)
                is_same = other.machine == machine
                yield Trial(gpus, parameter, is_same, unit is not None, today, today + more)


def _scalings(lines: Iterable[Line]) -> Iterator[Scaling]:
    return (line for line in lines if isinstance(line, Scaling))


def table(lines: Sequence[Line]) -> list[str]:
    """Returns a line for each figure."""
    head = ("source", "GPU, model: GPUs", "step, ms", "predicted", "error", "cost", "pred.")
    text = "{:39} {:54} {:>9} {:>9} {:>8} {:>7} {:>7}    error".format(*head)
    return [text, *(row.text() for row in rows_of(lines))]


def fits(lines: Sequence[Line]) -> list[str]:
    """Returns lines for each candidate: within a machine, across machines, and of all costs of many
    GPUs on other machines, also where the candidate is nothing of the cost."""
    texts = []
    for candidate in CANDIDATES:
        trials = list(trials_of(candidate, lines))
        tried = [one for one in trials if one.applies]
        places = {
            "another model, same machine": [one for one in tried if one.is_same_machine],
            "other machines": [one for one in tried if not one.is_same_machine],
            "all of 4 and 8 GPUs, others": [
                one for one in trials if not one.is_same_machine and one.gpus in MANY
            ],
        }
        for place, own in places.items():
            text = "nothing to try it on"
            if own:
                today, error = (
                    100 * statistics.median(abs(value) for value in values)
                    for values in ([one.today for one in own], [one.error for one in own])
                )
                least, most = min(one.parameter for one in own), max(one.parameter for one in own)
                text = (
                    f"{len(own):3} costs, median error {today:3.0f} %, with it {error:3.0f} %; "
                    f"{least:.3g} to {most:.3g} {candidate.parameter}"
                )
            texts.append(f"{candidate.name:24} {place:28} {text}")
    return texts


def clocks(lines: Sequence[Line]) -> list[str]:
    """Returns what clocks explain, which were measured in the steps that they explain."""
    texts = []
    for line in _scalings(lines):
        for gpus in set(line.wanted) & set(line.clock_mhz) & set(MANY[-1:]):
            slower = line.clock_mhz[1] / line.clock_mhz[gpus] - 1
            cost = line.cost_s(gpus) / line.step_s[1]
            texts.append(
                f"{line.name}: the slowest of {gpus} has a clock {100 * slower:+.1f} % "
                f"slower than the single one, and the step takes {100 * cost:.1f} % longer"
            )
    return texts


def memory(lines: Sequence[Line]) -> list[str]:
    """Returns a line for each peak of memory, after a heading; nothing if there is none."""
    texts = []
    for line in lines:
        if not isinstance(line, Memory):
            continue
        for way, published in line.peak_bytes.items():
            predicted = predicted_peak_bytes(line, way)
            texts.append(
                f"{line.source:39} {line.gpu + ', ' + line.model + ' ' + line.setting:54} {way:5} "
                f"{published / MIB:9.0f} {predicted / MIB:9.0f} "
                f"{100 * predicted / published - 100:+6.1f} %"
            )
    heading = f"{'source':39} {'GPU, model':54} way   {'peak, MiB':>9} {'predicted':>9}    error"
    return [heading, *texts] if texts else []


def predicted_peak_bytes(line: Memory, way: str) -> float:
    """Returns what a rank's tensors need, as recorded on a CPU: with DistributedDataParallel, or
    with fully_shard by repeated blocks."""
    recording = Recording(line.recording)
    need = Need(recording)
    peak = (
        need.replicated() if way == "ddp" else need.sharded(units_of(recording.first), line.ranks)
    )
    return sum(peak)


def summary(lines: Sequence[Line]) -> str:
    found = factors(lines)
    if not found:
        return f"No line has a cost of {' or '.join(map(str, MANY))} GPUs."
    return (
        f"{len(found)} published costs of {' and '.join(map(str, MANY))} GPUs were predicted "
        f"within a factor of {found[-1]:.0f}, half of them within {statistics.median(found):.0f}."
    )


def main(path: str) -> None:
    lines = read(path)
    parts = [table(lines), [summary(lines)], fits(lines), clocks(lines), memory(lines)]
    print("\n\n".join("\n".join(part) for part in parts if part))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (BadLine, OSError) as error:
        sys.exit(f"published.py: {error}")
