"""Defines the public function what_if(), which predicts the steps of a recorded script. Also
defines functions that compute the parts of an Answer, the result of what_if()."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import overload

from gradsync import Refused
from gradsync.answer import (
    BUCKET_CAPS_MB,
    Answer,
    BucketSize,
    MeasuredStep,
    OtherLink,
    ScriptStep,
    Way,
)
from gradsync.curve import Curve, curve_of, named_questions
from gradsync.estimates import estimate
from gradsync.memory import parse_bytes
from gradsync.notes import notes_of
from gradsync.parts import parts_of, variation_of
from gradsync.prediction import Predictor
from gradsync.question import LinkOptions, Question, question_of
from gradsync.recording import Recording
from gradsync.replay import Prediction, Waits
from gradsync.schema import CollectiveKind, HostLoad, Launch, Row, StepMode
from gradsync.sharding import units_of, waits_of
from gradsync.ways import PredictedWay, UnknownWay, Ways, advice, batches

ROUNDING = 1e-9
NO_MEMORY = "--memory is for one number of ranks and one link"
NO_MEASURED = "--measured is for several numbers of ranks, such as --world_size=2,4,8, or links"
OTHER_LINKS = (("a link that takes twice as long", 2), ("a link that takes half as long", 0.5))


Path = str | os.PathLike[str]


@overload
def what_if(
    recording: Path,
    *,
    world_size: int | None = None,
    link: Path | None = None,
    ranks_per_host: int = 1,
    within: str = LinkOptions.within,
    algorithm: str | None = LinkOptions.algorithm,
    processor_percent: float | None = None,
    at: Path | None = None,
    memory: str | float | None = None,
) -> Answer: ...


@overload
def what_if(
    recording: Path,
    *,
    world_size: Sequence[int],
    link: Path | list[str] | tuple[str, ...] | None = None,
    ranks_per_host: int = 1,
    within: str = LinkOptions.within,
    algorithm: str | None = LinkOptions.algorithm,
    processor_percent: float | None = None,
    at: Path | None = None,
    measured: Sequence[Path] = (),
) -> Curve: ...


@overload
def what_if(
    recording: Path,
    *,
    world_size: int | None = None,
    link: list[str] | tuple[str, ...],
    ranks_per_host: int = 1,
    within: str = LinkOptions.within,
    algorithm: str | None = LinkOptions.algorithm,
    processor_percent: float | None = None,
    at: Path | None = None,
    measured: Sequence[Path] = (),
) -> Curve: ...


def what_if(
    recording: Path,
    *,
    world_size: int | Sequence[int] | None = None,
    link: Path | list[str] | tuple[str, ...] | None = None,
    ranks_per_host: int = 1,
    within: str = LinkOptions.within,
    algorithm: str | None = LinkOptions.algorithm,
    processor_percent: float | None = None,
    at: Path | None = None,
    memory: str | float | None = None,
    measured: Sequence[Path] = (),
) -> Answer | Curve:
    """Predicts the steps of a recorded script, as `gradsync what_if` does.

    recording: a file that `gradsync record` wrote.
    world_size: the number of ranks, 2 to 16384; None: as recorded. For a list or tuple of numbers,
        what_if() returns a Curve, which has a predicted step for each number.
    link: the link between hosts: a rate and a latency, such as "25Gbit,5us", or a file: another
        recording, or what nccl-tests, rccl-tests, osu_allreduce or //bench:all_reduce wrote. None:
        the recorded link. For a list or tuple of links, what_if() returns a Curve, which has a
        predicted step over each link.
    ranks_per_host: the number of ranks that share a host's link, if `link` is a rate.
    within: the link between the ranks of one host, as a rate and a latency, if `link` is a rate and
        ranks_per_host is above 1.
    algorithm: the algorithm of collectives, if `link` is a rate: "best", "ring", "tree" or
        "hierarchical"; None: "ring" if gloo was recorded, else "best".
    processor_percent: the CPU time that a collective uses on a rank, as a percentage of the
        collective's duration; None: as measured, or 0 if it was not measured.
    at: a recording of the model on another machine, for which to predict: all computation times are
        multiplied by the time of a step without synchronisation in `at`, divided by that in
        `recording`.
    memory: the memory that each rank has for tensors, in bytes or as "80GB"; the Answer then has
        the largest batches that fit into it. `memory` is not allowed if what_if() returns a Curve.
    measured: files with other recordings of the same model, usually with other numbers of ranks.
        The Curve then also has measured times from these files: those of steps in which
        DistributedDataParallel or fully_shard synchronised gradients with the script's own
        settings. `measured` is allowed only if what_if() returns a Curve.

    what_if() needs no PyTorch. If the question cannot be answered, what_if() raises
    gradsync.Refused, which is a ValueError, with one line that says why.
    """
    are_links = isinstance(link, (list, tuple))
    texts = [*link] if isinstance(link, (list, tuple)) else [link]
    options = [
        LinkOptions(
            link=None if text is None else os.fspath(text),
            ranks_per_host=ranks_per_host,
            within=within,
            algorithm=algorithm,
        )
        for text in texts
    ]
    limit = parse_bytes(memory) if isinstance(memory, str) else memory
    if memory is not None and not (limit and 0 < limit < math.inf):
        raise Refused(f"--memory={memory}: expected bytes such as 80GB")
    if are_links or isinstance(world_size, Sequence):
        sizes = [*world_size] if isinstance(world_size, Sequence) else [world_size]
        if memory is not None:
            raise Refused(NO_MEMORY)
        return curve_of(named_questions(recording, options, sizes, at, processor_percent), measured)
    if measured:
        raise Refused(NO_MEASURED)
    return answer_of(
        question_of(
            recording,
            options[0],
            world_size=world_size,
            at=at,
            processor_percent=processor_percent,
            memory_limit_bytes=limit,
        )
    )


def answer_of(question: Question) -> Answer:
    """Answers a question about one link and one number of ranks. Raises Refused if the recording
    lacks steps that the prediction needs, such as steps whose collectives were timed."""
    recording, launch, row = question.recording, question.launch, question.script_row
    predictor = Predictor(question)
    prediction = predictor.step(row)
    none_s = question.pace * recording.none_s
    script_none_s = none_s * row.passes / launch.passes
    sizes = _sizes(predictor, script_none_s)
    best = _best(sizes)
    base = replace(row.with_bucket_cap(best.bucket_cap_mb), bf16=False, zero1=False)
    ways = Ways(predictor, base).all()
    measured, pairs = _measured(predictor)
    limit = question.memory_limit_bytes
    is_larger = question.world_size > launch.world_size
    return Answer(
        recording=recording.path,
        parameters=len(launch.parameters),
        gradient_bytes=recording.total_bytes,
        recorded_world_size=launch.world_size,
        world_size=question.world_size,
        launches=len(recording.launches),
        optimizer=launch.optimizer,
        device=launch.device,
        backend=launch.backend,
        threads=launch.threads,
        notes=notes_of(question),
        none_s=none_s,
        ranks=recording.ranks,
        slowest_s=prediction.slowest_s if is_larger else None,
        units=len(units_of(launch)),
        schedule=_schedule(launch),
        ddp=_script_step(row, prediction),
        variation=variation_of(prediction, launch),
        load=_load(recording),
        sizes=sizes,
        links=_links(predictor, prediction),
        measured=measured,
        best_bucket_cap_mb=[
            size.bucket_cap_mb for size in sizes if not size.step_s.is_told_from(best.step_s)
        ],
        advice=advice(ways, limit),
        batches=batches(ways, limit) if limit else {},
        memory_limit_bytes=limit,
        ways=_compared(ways, script_none_s),
        pairs=len(pairs),
        pairs_right=sum(pairs),
    )


def _script_step(row: Row, prediction: Prediction) -> ScriptStep:
    return ScriptStep(
        bucket_bytes=row.bucket_bytes,
        first_bucket_bytes=row.first_bucket_bytes,
        is_sharded=row.fsdp,
        step_s=prediction.step_s,
        exposed_s=prediction.exposed_s,
        floor_s=prediction.floor_s,
        parts=parts_of(prediction),
    )


def _load(recording: Recording) -> HostLoad | None:
    """Returns, for each field of HostLoad, the largest value among all launches and hosts; None if
    the load of a launch is unknown.
    """
    if not all(launch.loads for launch in recording.launches):
        return None
    loads = [load for launch in recording.launches for load in launch.loads]
    return HostLoad(
        steal_part=max(load.steal_part for load in loads),
        busy_part=max(load.busy_part for load in loads),
        load_average=max(load.load_average for load in loads),
    )


def _sizes(predictor: Predictor, none_s: float) -> list[BucketSize]:
    """Predicts steps of DistributedDataParallel with each of BUCKET_CAPS_MB, and otherwise the
    script's settings. Leaves out a bucket_cap_mb whose buckets have the same bytes as those of the
    previous bucket_cap_mb. `none_s`: the seconds of a step without synchronisation, with as many
    backward passes as the script's own step."""
    sizes: list[BucketSize] = []
    last: list[int] = []
    for mib in BUCKET_CAPS_MB:
        row = predictor.question.script_row.with_bucket_cap(mib)
        held = predictor.recording.bucket_bytes(row)
        if held != last:
            last = held
            prediction = predictor.step(row)
            sizes.append(
                BucketSize(
                    bucket_cap_mb=mib,
                    buckets=len(held),
                    step_s=prediction.step_s,
                    exposed_s=prediction.exposed_s,
                    cost_s=prediction.step_s.value - none_s,
                )
            )
    return sizes


def _best(sizes: list[BucketSize]) -> BucketSize:
    """Returns the bucket size with the shortest predicted step. If the steps of several sizes
    differ only by rounding errors, returns the smallest size."""
    least_s = min(size.step_s.value for size in sizes)
    return next(size for size in sizes if size.step_s.value <= least_s * (1 + ROUNDING))


def _links(predictor: Predictor, prediction: Prediction) -> list[OtherLink]:
    links = []
    for name, pace in OTHER_LINKS:
        step = predictor.step(predictor.question.script_row, pace).step_s
        links.append(
            OtherLink(
                name=name,
                step_s=step,
                change=step.value / prediction.step_s.value - 1,
                is_told=step.is_told_from(prediction.step_s),
            )
        )
    return links


def _compared(ways: list[PredictedWay | UnknownWay], none_s: float) -> list[Way]:
    """Returns each way with its step's difference from the first way's step, and from `none_s`, the
    seconds of a step without synchronisation."""
    first = ways[0]
    assert isinstance(first, PredictedWay)  # DistributedDataParallel
    return [_way(way, first, none_s) for way in ways]


def _way(way: PredictedWay | UnknownWay, first: PredictedWay, none_s: float) -> Way:
    if isinstance(way, UnknownWay):
        return Way(
            way=way.name,
            step_s=None,
            exposed_s=None,
            sent_bytes=None,
            is_same=True,
            why=way.why,
            memory_bytes=None,
            cost_s=None,
            change=None,
            is_told=False,
        )
    return Way(
        way=way.name,
        step_s=way.step_s,
        exposed_s=way.exposed_s,
        sent_bytes=way.sent_bytes,
        is_same=way.is_same,
        why="",
        memory_bytes=way.bytes_of_batch(),
        cost_s=way.step_s.value - none_s,
        change=way.step_s.value / first.step_s.value - 1,
        is_told=way.step_s.is_told_from(first.step_s),
    )


def _schedule(launch: Launch) -> str:
    """Returns a sentence about what the predictions of fully_shard assume: which parameters are
    gathered together, and when collectives run."""
    units = "the script's units" if launch.units else "repeated blocks as units"
    are_tried = any(
        step.collectives and step.collectives.kind is CollectiveKind.FULLY_SHARD
        for step in launch.ranks[0]
    )
    if not launch.units and not are_tried:
        units += ", without copies"
    if waits_of(launch) is Waits.ALL_RANKS:
        timing = "over gloo all wait for each collective, so its step is a sum"
    else:
        timing = "its schedule on a GPU is not validated on one"
    return f"fully_shard: {units}; {timing}."


def measured_steps(question: Question) -> list[MeasuredStep]:
    """Returns the value of Answer.measured: the steps in which the script itself synchronised, each
    with its measured and its predicted time."""
    measured, _ = _measured(Predictor(question))
    return measured


def _measured(predictor: Predictor) -> tuple[list[MeasuredStep], list[bool]]:
    """Returns the rows of Answer.measured: measured steps with their predictions. Also returns, for
    each pair of rows that Answer.pairs counts, whether the shorter measured step also has the
    shorter prediction."""
    question = predictor.question
    if not question.at and not question.is_as_recorded:
        return [], []
    there = question.at or question.recording
    measured = []
    sizes = []
    for row in there.first.rows:
        if there.steps(StepMode.SCRIPT, row.name):
            one = _measured_step(predictor, there, row)
            measured.append(one)
            is_plain = not (row.bf16 or row.zero1 or row.fsdp)
            if is_plain and row.passes == question.script_row.passes:
                sizes.append(one)
    pairs = [
        fast.predicted_s.value < slow.predicted_s.value
        for fast in sizes
        for slow in sizes
        if _is_faster(fast, slow) and fast.predicted_s.value != slow.predicted_s.value
    ]
    return measured, pairs


def _is_faster(fast: MeasuredStep, slow: MeasuredStep) -> bool:
    fast_s, slow_s = fast.measured_s.interval, slow.measured_s.interval
    return bool(fast_s and slow_s and fast_s.high < slow_s.low)


def _measured_step(predictor: Predictor, there: Recording, row: Row) -> MeasuredStep:
    none_s = there.none_s * row.passes / predictor.question.launch.passes
    measured = estimate(there.steps(StepMode.SCRIPT, row.name))
    predicted = predictor.step(row).step_s
    cost_error = None
    if measured.value > none_s:
        cost_error = (predicted.value - none_s) / (measured.value - none_s) - 1
    planned = sorted(predictor.recording.bucket_bytes(row))
    return MeasuredStep(
        name=row.name,
        predicted_s=predicted,
        measured_s=measured,
        error=predicted.value / measured.value - 1,
        cost_error=cost_error,
        second_run_error=there.second_run_error(row.name),
        is_as_planned=sorted(row.rebuilt_bucket_bytes) in ([], planned),
    )
