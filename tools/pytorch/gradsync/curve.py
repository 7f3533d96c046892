"""Predicts a step for each pair of a number of ranks and a link: the points of a curve.

Fields whose names end in `_s` are seconds. A value of the type Interval has its 95 % limits in
`low` and `high`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from gradsync import Refused
from gradsync.drawing import deviations, resamples
from gradsync.estimates import Estimate, Interval, estimate, trimmed_mean
from gradsync.notes import assumptions_of
from gradsync.parts import equal_step_of
from gradsync.prediction import Predictor
from gradsync.question import LinkOptions, Question, questions_of
from gradsync.recording import Recording
from gradsync.replay import Prediction
from gradsync.rounds import RoundTimes
from gradsync.schema import StepMode
from gradsync.sharding import units_of


@dataclass(frozen=True)
class CurvePoint:
    """The predicted step of the script on `world_size` ranks over the link `link`.

    `link`: the value of --link; empty for the recorded link. `speed_up`: the samples per second of
    all ranks, divided by those of one rank that does not synchronise: world_size x Curve.none_s /
    step_s. `cost_s`: step_s minus Curve.none_s, the time of a step without synchronisation.
    `exposed_s`: by how many seconds waiting for collectives makes the step longer. `equal_step_s`:
    the seconds of the step if all ranks were equally fast. For `equal_step_s`, recorded steps are
    simulated, each as if all ranks took this step."""

    link: str
    world_size: int
    step_s: Interval
    speed_up: Interval
    cost_s: Interval
    exposed_s: Interval
    equal_step_s: float


@dataclass(frozen=True)
class MeasuredPoint:
    """The trimmed mean time of the script's own synchronised steps on `world_size` ranks, measured
    in another recording.

    `speed_up`: world_size x Curve.none_s / step_s; Curve.none_s does not come from this other
    recording.
    """

    recording: str
    world_size: int
    step_s: Estimate
    speed_up: Estimate


@dataclass(frozen=True)
class Curve:
    """A curve: predicted steps for several numbers of ranks and links, and what these steps have in
    common.

    `notes`: sentences about what the predictions assume, and why they may err. `none_s`: the
    trimmed mean time of a recorded step without synchronisation, with as many backward passes as
    the script's own step. If the questions name a recording `at` of another machine, `none_s` is
    scaled to that machine. `bucket_bytes`: the number of bytes from which on a bucket of DDP is
    full, with the script's own settings. `first_bucket_bytes`: the number of bytes from which on
    DDP's first bucket is full. `is_sharded`: whether the script uses fully_shard (FSDP2), which has
    no buckets. `points`: one predicted step for each pair of a link and a number of ranks, in the
    order of curve_of()'s argument `questions`. `measured`: the measured step of each recording in
    curve_of()'s argument `measured`. Fields not described here, such as `units`, mean the same as
    in Answer."""

    recording: str
    parameters: int
    gradient_bytes: int
    recorded_world_size: int
    launches: int
    optimizer: str
    device: str
    backend: str
    threads: int
    notes: Sequence[str]
    none_s: float
    units: int
    bucket_bytes: int
    first_bucket_bytes: int
    is_sharded: bool
    points: Sequence[CurvePoint]
    measured: Sequence[MeasuredPoint]


@dataclass(frozen=True)
class NamedQuestion:
    """A question about one link and one number of ranks. `link`: the value of --link that names
    this link; empty for the recorded link."""

    link: str
    question: Question


def named_questions(
    recording: str | os.PathLike[str],
    links: Sequence[LinkOptions],
    world_sizes: Sequence[int | None],
    at: str | os.PathLike[str] | None = None,
    processor_percent: float | None = None,
) -> list[NamedQuestion]:
    """Makes a question for each pair of a link and a number of ranks, and reads the files that the
    arguments name. Raises Refused if there is no pair, if a value is invalid, or if a file cannot
    be used. Also raises Refused if a link or a number of ranks is named twice. Also raises Refused
    if the recordings `at` and `recording` differ in the sizes of gradients or the number of
    backward passes."""
    if not links or not world_sizes:
        raise Refused("a curve needs a number of ranks and a link at least")
    names = [options.link or "" for options in links for _ in world_sizes]
    questions = questions_of(recording, links, world_sizes, at, processor_percent)
    return [NamedQuestion(*pair) for pair in zip(names, questions, strict=True)]


def curve_of(
    questions: Sequence[NamedQuestion], measured: Sequence[str | os.PathLike[str]] = ()
) -> Curve:
    """Predicts the points of a curve from questions that differ only in links and numbers of ranks.
    There must be at least one question.

    `measured`: recordings of the same model, whose own measured steps are added to the curve.
    Raises Refused if a step cannot be predicted, for example because the recording has no steps
    whose collectives were timed. Also raises Refused if a file of `measured` cannot be used, or has
    no steps that the script synchronised. Also raises Refused if the gradient sizes, or the
    backward passes per step, of a file of `measured` differ from those of the questions'
    recording."""
    first = questions[0].question
    recording, launch, row = first.recording, first.launch, first.script_row
    none_s = first.pace * recording.none_s * row.passes / launch.passes
    notes = [note for one in questions for note in assumptions_of(one.question)]
    return Curve(
        recording=recording.path,
        parameters=len(launch.parameters),
        gradient_bytes=recording.total_bytes,
        recorded_world_size=launch.world_size,
        launches=len(recording.launches),
        optimizer=launch.optimizer,
        device=launch.device,
        backend=launch.backend,
        threads=launch.threads,
        notes=list(dict.fromkeys(notes)),
        none_s=none_s,
        units=len(units_of(launch)),
        bucket_bytes=row.bucket_bytes,
        first_bucket_bytes=row.first_bucket_bytes,
        is_sharded=row.fsdp,
        points=[_point(one, none_s) for one in questions],
        measured=[_measured_point(recording, Recording(path), none_s) for path in measured],
    )


def _point(asked: NamedQuestion, none_s: float) -> CurvePoint:
    question = asked.question
    prediction = Predictor(question).step(question.script_row)
    step = prediction.step_s
    ranks = question.world_size
    equal_step_s, _ = equal_step_of(prediction)
    return CurvePoint(
        link=asked.link,
        world_size=ranks,
        step_s=step,
        speed_up=_speed_up(ranks, none_s, step),
        cost_s=Interval(step.value - none_s, step.low - none_s, step.high - none_s),
        exposed_s=_exposed(prediction),
        equal_step_s=equal_step_s,
    )


def _speed_up(ranks: int, none_s: float, step: Interval) -> Interval:
    once_s = ranks * none_s
    return Interval(once_s / step.value, once_s / step.high, once_s / step.low)


def _exposed(prediction: Prediction) -> Interval:
    """Returns, as an Interval, the mean seconds by which waiting for collectives makes a predicted
    step longer. The mean leaves out the longest fifth and the shortest fifth of each launch's
    simulated steps. Each launch (run of the recorded script) gives 95 % limits of its own. The
    Interval reaches from the lowest lower limit to the highest upper limit of all launches."""
    limits = [_exposed_limits(replay.rounds) for replay in prediction.replays]
    return Interval(
        prediction.exposed_s,
        min(low for low, _ in limits),
        max(high for _, high in limits),
    )


def _exposed_limits(rounds: Sequence[RoundTimes]) -> tuple[float, float]:
    """Returns the 95 % limits of the trimmed mean of the time by which waiting for collectives
    makes a step longer (RoundTimes.exposed_s). The limits come from a bootstrap over the simulated
    steps `rounds` and random errors of the link."""
    means = []
    for one, positions in zip(deviations(), resamples(len(rounds)), strict=True):
        exposed = [times.exposed_at(one.link) for times in rounds]
        means.append(trimmed_mean([exposed[i] for i in positions]))
    low, *_, high = quantiles(means, n=40, method="inclusive")
    return low, high


def _measured_point(asked: Recording, there: Recording, none_s: float) -> MeasuredPoint:
    launch = there.first
    if there.gradient_bytes != asked.gradient_bytes or launch.passes != asked.first.passes:
        raise Refused(f"--measured={there.path}: a recording of other parameters or passes")
    launches = there.steps(StepMode.SCRIPT, launch.rows[0].name) if launch.rows else []
    if not launches:
        raise Refused(f"--measured={there.path}: it holds no steps that the script synchronised")
    step = estimate(launches)
    ranks = launch.world_size
    interval = step.interval and _speed_up(ranks, none_s, step.interval)
    return MeasuredPoint(
        recording=there.path,
        world_size=ranks,
        step_s=step,
        speed_up=Estimate(ranks * none_s / step.value, interval),
    )
