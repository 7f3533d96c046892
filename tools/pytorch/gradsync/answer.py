"""Defines the classes that hold an answer of `gradsync what_if`: predicted and measured times.
text.py turns an answer into text, and as_json() turns it into data for JSON.

Fields whose names end in `_s` are seconds. A value of the type Interval has its 95 % limits in
`low` and `high`.
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
    """The predicted step of the recorded script with the script's own settings, such as the bucket
    size. If the script uses neither DistributedDataParallel nor fully_shard, the settings are
    DistributedDataParallel's defaults.

    `exposed_s`: the seconds of the step in which ranks only wait for collectives, and compute
    nothing. `floor_s`: an estimated lower limit of the step's time, in whatever order its
    collectives run. `is_sharded`: whether the script uses fully_shard (FSDP2), which has no
    buckets. `parts`: the times of the step's parts, such as computation and waiting for
    collectives, which add up to `step_s`.
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
    """The predicted step of DistributedDataParallel with one value of bucket_cap_mb, and the number
    of buckets that DistributedDataParallel then makes.

    `cost_s`: how many seconds longer the step takes than the same backward passes without
    synchronisation.
    """

    bucket_cap_mb: int
    buckets: int
    step_s: Interval
    exposed_s: float
    cost_s: float


@dataclass(frozen=True)
class OtherLink:
    """The predicted step of the script over a link whose collectives take twice as long as over the
    link in the question, or half as long.

    `change`: how much longer the step takes over this link than over the link in the question, as a
    fraction of its time over the link in the question. `is_told`: whether the 95 % interval of the
    difference of the two steps excludes 0.
    """

    name: str
    step_s: Interval
    change: float
    is_told: bool


@dataclass(frozen=True)
class MeasuredStep:
    """The measured time of recorded steps in which the script itself synchronised, and the time
    that is predicted for them.

    `error`: how much longer the predicted step is than the measured step, as a fraction of the
    measured step. `cost_error`: how much the predicted cost exceeds the measured cost, as a
    fraction of the measured cost. The cost of a step is its time minus the time of the same
    backward passes without synchronisation. `cost_error` is None if the measured cost is not above
    0. `second_run_error`: how much longer the measured step is in the second half of the recorded
    launches than in the first half, as a fraction of the step in the first half; None if only one
    launch has measured steps. `is_as_planned`: whether DistributedDataParallel, in the recorded
    run, made buckets of the sizes with which the step is predicted; also True if the recording
    lacks the sizes of the buckets that DistributedDataParallel made.
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

    `sent_bytes`: the bytes that a rank sends in a step; for local SGD, a mean over steps. For
    `no_sync`, all times and `sent_bytes` are those of a step with four times the passes, divided by
    four. `is_same`: whether this way computes the same weights as DistributedDataParallel; also
    True if the step cannot be predicted. `memory_bytes`: the most bytes that a rank's tensors are
    predicted to take in a step; None if the recording has no figures of memory. `cost_s`: how many
    seconds longer the step of this way takes than the script's step without synchronisation.
    `change`: how much longer the step of this way is than the step of the first way in Answer.ways,
    as a fraction of the step of the first way. `is_told`: whether the step of this way can be told
    from the step of the first way: the 95 % interval of their difference excludes 0. If the step
    cannot be predicted, `why` has the reason, and all numbers are None; else `why` is empty.
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
    """The answer of `what_if` about one recording, one link and one number of ranks.

    `recording`: the path of the recording. `parameters`, `launches` and `recorded_world_size`: in
    the recording, the numbers of parameter tensors, of launches (runs of the script) and of ranks.
    `gradient_bytes`: the bytes of all gradients together. `world_size`: the number of ranks for
    which steps are predicted. `notes`: sentences about the question, and about what the prediction
    assumes. `none_s`: the trimmed mean time of a recorded step without synchronisation; if the
    question names a recording `at`, that of such a step in `at`. `ranks`: the measured times of
    each rank in the steps of `recording` without synchronisation. `slowest_s`: the predicted time
    of the step `ddp` on the slowest rank, without collectives, but with `ddp.parts.copies_s`; None
    unless the question is about more ranks than were recorded. `units`: the number of units, which
    are groups of parameters that fully_shard gathers together. Without fully_shard in the script,
    each repeated block of the model is a unit; all other parameters (possibly none) are one more.
    `schedule`: a sentence about what predictions of fully_shard assume.

    `ddp`: the predicted step with the script's own settings: under fully_shard if the script uses
    fully_shard, else under DistributedDataParallel. `variation`: of the time in which a rank does
    not compute in that step, the fractions for communication and for waiting for slower ranks.
    `load`: how busy the hosts were: for each field of HostLoad, the largest value of any host in
    any launch; None if a launch's load is unknown.

    `sizes`: predicted steps of DistributedDataParallel with several bucket sizes; other settings,
    such as bf16_compress_hook, are the script's. `best_bucket_cap_mb`: the bucket sizes in `sizes`
    whose predicted step may be as short as the shortest: the 95 % interval of the difference of the
    two steps contains 0. `links`: the predicted step over a link that is half as fast as the link
    in the question, and over one that is twice as fast. `measured`: measured times of steps in
    which the script itself synchronised, each with the time that is predicted for it. The measured
    steps are those of the recording `at` if the question names one, else those of `recording`.
    Without `at`, `measured` is empty if the question names a link or a number of ranks. `pairs`:
    the number of pairs of steps in `measured` whose predicted order is compared with the measured
    order. In such a pair, both steps are of DistributedDataParallel, use neither bf16_compress_hook
    nor ZeroRedundancyOptimizer, and have as many backward passes as the script's step. `pairs`
    counts only pairs whose predicted times differ, and whose measured times have 95 % intervals
    that do not overlap. `pairs_right`: in how many of these pairs the step with the shorter
    predicted time also has the shorter measured time.

    `ways`: the predictions for several ways to train. The first way is DistributedDataParallel,
    without bf16_compress_hook, with the bucket size that has the shortest predicted step in
    `sizes`. `advice`: a sentence about which of the ways that compute the same weights as
    DistributedDataParallel is the fastest, or that this is undecided. With `memory_limit_bytes`,
    only ways that are known to fit count; `advice` says if none fits or no memory is known.
    `memory_limit_bytes`: a rank's memory for tensors, if the question names it; else None.
    `batches`: empty if `memory_limit_bytes` is None. Else, for each way known to fit into this
    memory, by how much the recorded batch can at most be multiplied. A factor in `batches` may be
    up to 0.1 % too small, and is never above 2**20.
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
    """Returns an answer or a curve, or a part of one, as dictionaries, lists, texts and numbers for
    json.dumps().

    The keys are the names of the dataclasses' fields. An Interval or an Estimate becomes a list
    [value, low, high]. For an Estimate without an interval, low and high are None.
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
