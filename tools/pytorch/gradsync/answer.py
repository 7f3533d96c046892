"""The classes with the data of an answer of `gradsync what_if`: predicted and measured times.
text.py prints an answer as text, and as_json() converts it to JSON.

Times are seconds. Predicted times have an interval of 95 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.estimates import Estimate, Interval
from gradsync.parts import StepParts, Variation
from gradsync.recording import RankTimes
from gradsync.schema import HostLoad

BUCKET_CAPS_MB = (1, 2, 5, 10, 25, 50, 100)  # sizes of buckets that are compared


@dataclass(frozen=True)
class ScriptStep:
    """The predicted step with the script's own settings.

    `exposed_s`: how long ranks only wait for collectives. `floor_s`: the shortest time that any
    order of these collectives can take. `is_sharded`: whether the script uses fully_shard, so that
    there are no buckets. `parts`: computation, copies and communication, which add up to the step.
    """

    bucket_bytes: int
    first_bucket_bytes: int
    is_sharded: bool
    step_s: Interval
    exposed_s: float
    floor_s: float
    parts: StepParts


@dataclass(frozen=True)
class BucketSize:
    """The predicted step of DistributedDataParallel with this bucket_cap_mb, and the number of its
    buckets.

    `cost_s`: how much longer the step takes than its passes without synchronisation.
    """

    bucket_cap_mb: int
    buckets: int
    step_s: Interval
    exposed_s: float
    cost_s: float


@dataclass(frozen=True)
class OtherLink:
    """The predicted step over a link that is faster or slower than the one in the question.

    `change`: how much longer the step takes than over the question's link, as a fraction.
    `is_told`: whether the two intervals do not overlap, so that the difference is certain.
    """

    name: str
    step_s: Interval
    change: float
    is_told: bool


@dataclass(frozen=True)
class MeasuredStep:
    """Recorded steps in which the script itself synchronised, and their prediction.

    `error`: how much longer the predicted step is, as a fraction of the measured step.
    `cost_error`: the same for the cost alone, which is the step less its passes without
    synchronisation; None if there is no cost. `second_run_error`: how much the second half of the
    launches differs from the first half, as a fraction; None for one launch. `is_as_planned`:
    whether DistributedDataParallel made the predicted buckets; also true if its buckets are
    unknown.
    """

    name: str
    predicted_s: Interval
    measured_s: Estimate
    error: float
    cost_error: float | None
    second_run_error: float | None
    is_as_planned: bool


@dataclass(frozen=True)
class Way:
    """A way to train the model on the number of ranks in the question, such as FSDP2.

    `sent_bytes`: the bytes that a rank sends in a step. `is_same`: whether this way computes the
    same weights as DistributedDataParallel. `memory_bytes`: the peak of a rank's tensors in a step;
    None if the recording holds no memory. `cost_s`: how much longer a step takes than its passes
    without synchronisation. `change` and `is_told`: the difference of its step from the first way's
    step, as in OtherLink. If the step cannot be predicted, `why` has the reason, and the other
    fields are None.
    """

    way: str
    step_s: Interval | None
    exposed_s: float | None
    sent_bytes: float | None
    is_same: bool
    why: str
    memory_bytes: float | None
    cost_s: float | None
    change: float | None
    is_told: bool


@dataclass(frozen=True)
class Answer:
    """All that `what_if` predicts for one recording, one link and one number of ranks.

    `recording`: the path of the recording. The fields up to `ranks` describe the recording: numbers
    of parameters and launches, bytes of all gradients, ranks. `world_size`: the number of ranks
    that the question asks for. `notes`: sentences about what the prediction assumes. `none_s`: the
    time of a step without synchronisation. `ranks`: the measured times of each recorded rank.
    `slowest_s`: a step without synchronisation on the slowest rank, if the question is about more
    ranks than were recorded. `units`: the number of modules that fully_shard gathers one by one.
    `schedule`: a sentence about what is assumed of these units.

    `ddp`: the predicted step with the script's own settings. `variation`: how much of the time that
    a step loses is communication, and how much is waiting for slower ranks. `load`: how busy the
    busiest host was while steps were recorded; None if unknown.

    `sizes`: predicted steps of DistributedDataParallel with other bucket sizes.
    `best_bucket_cap_mb`: the bucket sizes that are not shown to be slower than the fastest.
    `links`: other links. `measured`: recorded steps of the script itself, if the question has the
    recorded ranks and link. `pairs`: the number of pairs of measured rows that differ only in
    bucket size, and by more than their intervals. `pairs_right`: in how many of these pairs the
    prediction names the faster row.

    `ways`: other ways to train. `advice`: a sentence about the fastest way. `batches`: for each
    way, how many times the recorded batch fits into `memory_limit_bytes`, if there is such a limit.
    """

    recording: str
    parameters: int
    gradient_bytes: int
    recorded_world_size: int
    world_size: int
    launches: int
    optimizer: str
    device: str
    backend: str
    threads: int
    notes: Sequence[str]
    none_s: float
    ranks: Sequence[RankTimes]
    slowest_s: float | None
    units: int
    schedule: str
    ddp: ScriptStep
    variation: Variation
    load: HostLoad | None
    sizes: Sequence[BucketSize]
    links: Sequence[OtherLink]
    measured: Sequence[MeasuredStep]
    best_bucket_cap_mb: Sequence[int]
    advice: str
    batches: Mapping[str, float]
    memory_limit_bytes: float | None
    ways: Sequence[Way]
    pairs: int
    pairs_right: int


def as_json(value: Any) -> Any:
    """Returns an answer, or a part of an answer, as dictionaries, lists and numbers for
    json.dumps().

    The keys are the names of the dataclasses' fields. A predicted time is a list [value, low,
    high]. For a measured value without an interval, low and high are null.
    """
    if isinstance(value, Interval):
        return [value.value, value.low, value.high]
    if isinstance(value, Estimate):
        return as_json(value.interval) if value.interval else [value.value, None, None]
    if dataclasses.is_dataclass(value):
        return {
            field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    return value
