#!/usr/bin/env python3
"""tools/dev/accelerator_errors.py DIRECTORY [--summary | --table=CASE]: how far predictions for more
ranks are off.

DIRECTORY has, of each case of tests/pytorch/accelerator_cases.py, what accelerator_runs.py wrote:
CASE.jsonl.gz, recorded on two hosts; CASE.predicted.jsonl, what was predicted from it before the
larger launches began; CASE.measured.jsonl, what these measured. Prints the sizes of the errors of
those rows that count, and each row with its three conditions: with --table, the rows of one case,
with --summary none.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools/pytorch", "tests/pytorch")]
import prediction_errors
from accelerator_cases import CASES, NONE, Case, Way, all_ways
from gradsync.estimates import Interval, estimate
from gradsync.link import Operation
from gradsync.network import sent_part
from gradsync.prediction import Predictor
from gradsync.question import NamedLink, Question
from gradsync.recording import Recording
from gradsync.schema import MIB, NS, Row, StepMode
from gradsync.sharding import SENT, Resharding, plan_of, reshard, unit_bytes, units_of

# A row counts if all three hold.
MOST_CHANGE = 0.03  # of a step without synchronisation, from that on two hosts
MOST_BUSY = 0.5  # of the machine
FEWEST_HOPS = 10  # that a piece takes
# Of a row that shows how communication and computation overlap: what its bytes take at the link's
# rate, for each second of backward. Two thirds of the rows shall.
LEAST_SENDING, MOST_SENDING = 0.5, 1.5


@dataclass(frozen=True)
class Measured:
    """One launch: its rows' steps in seconds, and the three conditions' facts. `own_s`: by rank, its
    mean step without synchronisation.
    """

    world_size: int
    ranks_per_host: int
    rows: dict[str, list[float]]
    none_s: float
    own_s: list[float]
    busy: float
    hop_s: float


@dataclass(frozen=True)
class Line:
    """One way in one launch. `steps`, and the mean `none_s` of a step without synchronisation: in
    seconds, from the last rank's begin to the last rank's end. `change`, `busy` and `hops`: what
    the three conditions are of. `sending`: what its bytes take at the link's rate, as a part of
    backward.
    """

    case: str
    world_size: int
    way: Way
    steps: Sequence[float]
    none_s: float
    predicted: Interval
    change: float
    busy: float
    hops: float
    sending: float

    @property
    def measured_s(self) -> float:
        return statistics.fmean(self.steps)

    @property
    def counts(self) -> bool:
        is_alike = abs(self.change) <= MOST_CHANGE
        return is_alike and self.busy <= MOST_BUSY and self.hops >= FEWEST_HOPS

    @property
    def error(self) -> float:
        return self.predicted.value / self.measured_s - 1

    @property
    def cost_error(self) -> float | None:
        """Of what a step costs; None if it costs too little to tell."""
        alone_s = self.none_s * self.way.passes
        cost_s = self.measured_s - alone_s
        if cost_s <= MOST_CHANGE * alone_s:
            return None
        return (self.predicted.value - alone_s) / cost_s - 1

    @property
    def is_inside(self) -> bool:
        return self.predicted.low <= self.measured_s <= self.predicted.high

    def text(self) -> str:
        low, high = 1e3 * self.predicted.low, 1e3 * self.predicted.high
        cost = "" if self.cost_error is None else f"{100 * self.cost_error:+.1f} %"
        return (
            f"{self.case:<16} {self.world_size:>3}  {self.way.name:<24} {1e3 * self.measured_s:>7.0f} "
            f"{1e3 * self.predicted.value:>7.0f}  {low:>5.0f} to {high:<5.0f} "
            f"{100 * self.error:>+6.1f} % {cost:>9}  {100 * self.change:>+5.1f} % "
            f"{100 * self.busy:>4.0f} % {self.hops:>6.1f} {self.sending:>8.2f}{'' if self.counts else '  no'}"
        )


TITLE = (
    f"{'case':<16} {'on':>3}  {'way':<24} {'ms':>7} {'predicted':>9} {'interval':>12} "
    f"{'error':>8} {'of cost':>9}  {'none':>6}  {'busy':>5} {'hops':>6}  {'sending':>7}"
)


def question_of(recording: pathlib.Path, world_size: int, ranks_per_host: int) -> Question:
    """Over the recorded link; where ranks share a host's, over one of the recorded rate."""
    arguments = [str(recording), f"--world_size={world_size}"]
    if ranks_per_host > 1:
        rate = Recording(recording).first.link_rate / 1e6
        arguments += [f"--link={rate:g}Mbit,100us", f"--ranks_per_host={ranks_per_host}"]
    return prediction_errors.question(*arguments)


def predict(question: Question, way: Way) -> Interval:
    """Returns seconds of one step of a way, of all of its passes."""
    predictor = Predictor(question)
    if way.local_steps:
        return predictor.local_step(way.local_steps)[0]
    if way.hybrid:
        assert isinstance(question.link, NamedLink)
        network = question.link.network
        return predictor.hybrid_step(network, network.ranks_per_host).step_s
    if way.fsdp:
        return predictor.sharded_step(resharding_of(way)).step_s
    return predictor.step(row_of(question, way)).step_s


def resharding_of(way: Way) -> Resharding:
    return Resharding.NONE if way.whole else Resharding.ALL


def row_of(question: Question, way: Way) -> Row:
    """Returns the settings of a way that uses DistributedDataParallel."""
    bucket_bytes = int(way.bucket_mb * MIB)
    return replace(
        question.script_row,
        bucket_bytes=bucket_bytes,
        first_bucket_bytes=bucket_bytes,
        bf16=way.bf16,
        zero1=way.zero1,
        passes=way.passes,
    )


def predictions(recording: pathlib.Path, world_size: int, ranks_per_host: int) -> dict[str, Any]:
    """Returns value, low and high of each way, in seconds."""
    question = question_of(recording, world_size, ranks_per_host)
    found = {}
    for way in all_ways(ranks_per_host):
        if way != NONE:
            step = predict(question, way)
            found[way.name] = [round(s, 6) for s in (step.value, step.low, step.high)]
    return found


def pieces_of(question: Question, way: Way, ranks_per_host: int) -> list[float]:
    """Returns the bytes of a rank's piece in each of a way's collectives; of HSDP, those of all
    ranks of a host, whose rings share its link.
    """
    world_size, recording = question.world_size, question.recording
    if way.fsdp:
        first = recording.first
        sizes = [s for one in SENT for s in unit_bytes(first.parameters, units_of(first), one)]
        parts = world_size // ranks_per_host if way.hybrid else world_size
        return [size / parts for size in sizes if size]
    if way.local_steps:
        return [recording.total_bytes / world_size]
    part = 0.5 if way.bf16 else 1
    return [part * size / world_size for size in recording.bucket_bytes(row_of(question, way))]


def sent_bytes(question: Question, way: Way, ranks_per_host: int) -> float:
    """Returns the bytes that a host sends in a step if all collectives use rings."""
    first, total = question.launch, question.recording.total_bytes
    gathered = sent_part(Operation.ALL_GATHER, question.world_size)
    reduced = sent_part(Operation.ALL_REDUCE, question.world_size)
    if way.hybrid:
        return total * sent_part(Operation.ALL_REDUCE, question.world_size // ranks_per_host)
    if way.fsdp:  # gloo's reduce-scatter is an all-reduce
        parts = {Operation.ALL_GATHER: gathered, Operation.REDUCE_SCATTER: reduced}
        units = reshard(units_of(first), resharding_of(way))
        sizes = {one: unit_bytes(first.parameters, units, one) for one in SENT}
        plan = plan_of(first, units, question.recording.path)
        return sum(sizes[one.operation][one.unit] * parts[one.operation] for one in plan)
    if way.local_steps:
        return total * reduced / way.local_steps
    return total * (reduced * (0.5 if way.bf16 else 1) + gathered * way.zero1)


def sending_of(question: Question, way: Way, ranks_per_host: int) -> float:
    """Returns what a step's bytes take at the link's rate, as a part of its backward."""
    launch = question.launch
    backward_s = statistics.fmean(
        NS * step.backward_ns
        for steps in launch.ranks
        for step in steps
        if step.mode is StepMode.UNSYNCHRONISED
    )
    sent_s = 8 * sent_bytes(question, way, ranks_per_host) / launch.link_rate
    return sent_s / (way.passes * backward_s)


def measured_in(path: pathlib.Path) -> Iterator[Measured]:
    hops = {}
    for line in map(json.loads, path.read_text().splitlines()):
        place = line["world_size"], line["ranks_per_host"]
        if "hop_s" in line:
            hops[place] = line["hop_s"]
            continue
        none = line["rows"][NONE.name]
        yield Measured(
            world_size=line["world_size"],
            ranks_per_host=line["ranks_per_host"],
            rows={name: row["steps"] for name, row in line["rows"].items() if name != NONE.name},
            none_s=statistics.fmean(none["steps"]),
            own_s=none["own"],
            busy=line["busy"],
            hop_s=hops[place],
        )


def lines_of(directory: pathlib.Path, name: str, is_anew: bool = False) -> Iterator[Line]:
    """Yields the rows of one case, with what was predicted before they were measured, or anew."""
    recording = directory / f"{name}.jsonl.gz"
    written = {}
    for line in map(json.loads, (directory / f"{name}.predicted.jsonl").read_text().splitlines()):
        written[line["world_size"], line["ranks_per_host"]] = line["rows"]
    two = Recording(recording)
    recorded_s = [
        statistics.fmean(
            NS * step.step_ns for step in steps if step.mode is StepMode.UNSYNCHRONISED
        )
        for steps in two.first.ranks
    ]
    equal_s = _equal_s(CASES[name], recorded_s)
    for launch in measured_in(directory / f"{name}.measured.jsonl"):
        question = question_of(recording, launch.world_size, launch.ranks_per_host)
        ways = {way.name: way for way in all_ways(launch.ranks_per_host)}
        place = launch.world_size, launch.ranks_per_host
        rows = predictions(recording, *place) if is_anew else written[place]
        for way_name, steps in launch.rows.items():
            way = ways[way_name]
            if way_name not in rows:
                continue
            part = way.local_steps or 1
            pieces = pieces_of(question, way, launch.ranks_per_host)
            piece_s = 8 * statistics.fmean(pieces) / two.first.link_rate
            shared = launch.ranks_per_host > 1
            yield Line(
                case=f"{name}, {launch.ranks_per_host} each" if shared else name,
                world_size=launch.world_size,
                way=way,
                steps=[step / part for step in steps],
                none_s=launch.none_s,
                predicted=Interval(*rows[way_name]),
                change=_equal_s(CASES[name], launch.own_s) / equal_s - 1,
                busy=launch.busy,
                hops=piece_s / launch.hop_s,
                sending=sending_of(question, way, launch.ranks_per_host),
            )


def _equal_s(case: Case, own_s: Sequence[float]) -> float:
    """Returns the mean of these ranks' steps, if none was slower than the others by the case."""
    return statistics.fmean(own / case.factor_of(rank) for rank, own in enumerate(own_s))


def pairs(lines: Sequence[Line]) -> tuple[int, int]:
    """Returns how many pairs of ways in one launch differ by more than their intervals, in seconds
    of a pass, and of how many of these the faster one is predicted.
    """
    told = right = 0
    for i, one in enumerate(lines):
        for other in lines[:i]:
            if (one.case, one.world_size) != (other.case, other.world_size):
                continue
            fast, slow = sorted((one, other), key=lambda line: line.measured_s / line.way.passes)
            fast_s, slow_s = _of_pass(fast), _of_pass(slow)
            if fast_s and slow_s and fast_s.high < slow_s.low:
                told += 1
                fast_predicted = fast.predicted.value / fast.way.passes
                right += fast_predicted < slow.predicted.value / slow.way.passes
    return told, right


def _of_pass(line: Line) -> Interval | None:
    return estimate([[step / line.way.passes for step in line.steps]]).interval


def summary(lines: Sequence[Line]) -> list[str]:
    """About the rows that count."""
    if not lines:
        return []
    widths = [(one.predicted.high - one.predicted.low) / one.measured_s for one in lines]
    told, right = pairs(lines)
    return [
        *prediction_errors.sizes("Errors of predictions", [one.error for one in lines]),
        *prediction_errors.sizes("Of costs", [one.cost_error for one in lines]),
        "The spread of the logarithms of costs: "
        f"{prediction_errors.spread(one.cost_error for one in lines):.3f}.",
        f"Inside of what is predicted: {sum(one.is_inside for one in lines)} of {len(lines)}; the "
        f"median width of an interval is {100 * statistics.median(widths):.1f} % of the step.",
        f"Of {told} pairs of ways that differ by more than their intervals, the faster one is "
        f"predicted: {right}.",
        f"Of {len(lines)} rows those whose bytes alone take {LEAST_SENDING:g} to {MOST_SENDING:g} "
        f"times as long as backward: {sum(map(overlaps, lines))}.",
        *aims(lines),
    ]


def overlaps(line: Line) -> bool:
    return LEAST_SENDING <= line.sending <= MOST_SENDING


def aims(lines: Sequence[Line]) -> list[str]:
    """Which of the aims hold, that were set before anything was measured."""
    errors = sorted(abs(one.error) for one in lines)
    costs = [abs(error) for one in lines if (error := one.cost_error) is not None]
    widths = [(one.predicted.high - one.predicted.low) / one.measured_s for one in lines]
    outside = 1 - sum(one.is_inside for one in lines) / len(lines)
    told, right = pairs(lines)
    apart = len(lines) - sum(map(overlaps, lines))
    found = (
        ("median error of the step", statistics.median(errors), 0.03),
        ("error of the step, nine in ten", errors[(9 * len(errors) + 9) // 10 - 1], 0.08),
        ("median error of the cost", statistics.median(costs or [0]), 0.1),
        ("steps outside of intervals", outside, 0.1),
        ("median width of an interval", statistics.median(widths), 0.15),
        ("pairs in the wrong order", (told - right) / max(1, told), 0),
        ("rows that hardly overlap", apart / len(lines), 1 / 3),
    )
    return [
        f"Aim: {name} at most {100 * most:.3g} %: {'holds' if value <= most else 'does not hold'}, "
        f"{100 * value:.1f} %."
        for name, value, most in found
    ]


def case_of(path: pathlib.Path) -> str:
    return path.name.removesuffix(".measured.jsonl")


def lines_in(directory: pathlib.Path, is_anew: bool = False) -> list[Line]:
    return [
        line
        for path in sorted(directory.glob("*.measured.jsonl"))
        for line in lines_of(directory, case_of(path), is_anew)
    ]


def is_of(line: Line, case: str) -> bool:
    """Whether a table of this case has the line; "" is the table of all cases."""
    return not case or line.case.split(",")[0] == case


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", default="", choices=["", *CASES], metavar="CASE")
    flags = parser.parse_args(arguments)
    lines = lines_in(flags.directory)
    counted = [line for line in lines if line.counts]
    print(
        f"A row counts if a step without synchronisation is within {100 * MOST_CHANGE:g} % of that "
        f"on two hosts, the machine is at most {100 * MOST_BUSY:g} % busy, and a piece of its ring "
        f"takes at least {FEWEST_HOPS} hops. Rows: {len(lines)}, of which {len(counted)} count."
    )
    print("\n".join(summary(counted)))
    anew = [line for line in lines_in(flags.directory, is_anew=True) if line.counts]
    if anew:
        print("\n".join(["", "The same rows, predicted anew by the present code:", *summary(anew)]))
    if flags.summary:
        return
    rows = [line.text() for line in lines if is_of(line, flags.table)]
    print("\n".join(["", "```", TITLE, *rows, "```"]))


if __name__ == "__main__":
    main(sys.argv[1:])
