"""What `gradsync what_if` tells, as data: text.py makes a screen of it, and as_json() JSON.

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
    """A step with the script's own settings.

    `exposed_s`: for how long ranks wait for collectives. `floor_s`: no order of these collectives
    takes less. `is_sharded`: by fully_shard, where the sizes of buckets mean nothing. `parts` add
    up to the step.
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
    """A step of DistributedDataParallel with this bucket_cap_mb, and how many buckets that makes.

    `cost_s`: what the step takes more than its passes take without synchronisation.
    """

    bucket_cap_mb: int
    buckets: int
    step_s: Interval
    exposed_s: float
    cost_s: float


@dataclass(frozen=True)
class OtherLink:
    """A step over another link.

    `change`: how much longer it takes, as a part of the step over the asked link. `is_told`:
    whether their intervals do not overlap.
    """

    name: str
    step_s: Interval
    change: float
    is_told: bool


@dataclass(frozen=True)
class MeasuredStep:
    """Steps that the script synchronised, and what is predicted of them.

    `error`: how much longer the prediction is, as a part of what was measured; `cost_error`: the
    same of what a step takes more than its passes, None if it takes nothing more.
    `second_run_error`: how far the second half of the launches is from the first half, None of one
    launch. `is_as_planned`: whether DistributedDataParallel made the predicted buckets, or did not
    tell.
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
    """A way to train the model on the asked ranks.

    `sent_bytes`: by a rank in a step. `is_same`: whether it trains as DistributedDataParallel does.
    `memory_bytes`: of a rank, for tensors, at the peak of a step; None if the recording holds no
    memory. `cost_s`: what a step takes more than its passes take without synchronisation. `change`
    and `is_told`: as of OtherLink, from the first way. Where nothing can be told, `why` says why,
    and the others are None.
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
    """The answer to one question.

    `recording`: its path; what it holds follows: numbers of parameters and launches, bytes of all
    gradients, ranks. `world_size`: of the asked ranks. `notes`: sentences on what is assumed.
    `none_s`: a step without synchronisation. `ranks`: times of each recorded rank. `slowest_s`: a
    step without synchronisation on the slowest of the asked ranks, if they are more than were
    recorded. `units`: how many fully_shard has, and `schedule`, what is assumed of them.

    `ddp`: the script's own step. `variation`: which share of its loss is communication, and which
    is waiting for slower ranks. `load`: of the host of recorded ranks that was busiest, None if it
    is unknown.

    `sizes`: DistributedDataParallel with other sizes of buckets, of which those of
    `best_bucket_cap_mb` cannot be told from the fastest. `links`: other links. `measured`: own
    steps of the script where the answer holds. `pairs` of them differ in sizes of buckets alone,
    and by more than their intervals; of `pairs_right` the faster one is predicted.

    `ways`: other ways to train, and `advice`: a sentence on the fastest. With `memory_limit_bytes`
    `batches` has how many times the recorded batch fits, by way.
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
    """Returns an answer, or a part of it, as json.dumps() takes it.

    Names are those of the dataclasses. An interval is [value, low, high]; of a measured value
    without an interval low and high are null.
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
