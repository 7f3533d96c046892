"""Makes a recording from one rank's trace of training with DistributedDataParallel. Like a
recording that `gradsync record` makes of one process, the made recording has the times of a step
that sends nothing, and tells when the gradients of this step are ready.

A Plan has the sizes of gradients in the order in which they are ready, and the number of gradients
in each all-reduce. The sizes come from the shapes of AccumulateGrad's events or, if a shape or
dtype is missing, from the GPU's copies of gradients out of DDP's buckets. The sizes of the
gradients in a bucket must add up to the size of its all-reduce; otherwise the trace is refused.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from gradsync import Refused
from gradsync.launch_checks import AGREEING_FIELDS, check_launch
from gradsync.launch_file import check_usable
from gradsync.recording_file import append_launch
from gradsync.schema import (
    DEFAULT_BUCKET_BYTES,
    DEFAULT_FIRST_BUCKET_BYTES,
    MIB,
    Launch,
    Parameter,
    Row,
)
from gradsync.trace.collectives import dtype_bytes, input_bytes
from gradsync.trace.events import DIVISION, OPTIMIZER, SEARCH, Host, Trace, Work
from gradsync.trace.report import Rank
from gradsync.trace.steps import Window, within
from gradsync.trace.timing import StepEvents, Timing

LEAST_STEPS = 3  # whole ones
DTYPES = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"}
BATCHED = "copy_bucket_to_grad_batched"
MOST_BYTES = 1 << 60  # of a bucket
SHARDING = ("all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Gradient:
    """A gradient's size in bytes, and PyTorch's name of its dtype, such as "float32"."""

    bytes: int
    dtype: str


@dataclass(frozen=True)
class Plan:
    """The sizes, dtypes and order of a step's gradients, and their division into DDP's buckets.
    `gradients`: the gradients of the last backward pass, in the order in which they are ready.
    `buckets`: the number of gradients in each all-reduce. `passes`: the number of backward passes
    in a step. `has_views`: whether gradients are views of buckets.
    """

    gradients: tuple[Gradient, ...]
    buckets: tuple[int, ...]
    passes: int
    has_views: bool

    @property
    def bucket_bytes(self) -> tuple[int, ...]:
        """Returns the size in bytes of each of DDP's buckets."""
        ends = [0, *accumulate(self.buckets)]
        sizes = [gradient.bytes for gradient in self.gradients]
        return tuple(sum(sizes[ends[i] : ends[i + 1]]) for i in range(len(self.buckets)))


def write_recording(rank: Rank, path: str) -> Plan:
    """Converts a rank's trace to a launch (one line of a recording), and adds it to the recording
    in the file `path`. Raises Refused if no recording can be made from the trace, or if the file
    cannot be used."""
    launch, plan = launch_of(rank)
    known = {name: getattr(launch, name) for name in ("parameters", *AGREEING_FIELDS)}
    check_usable(path, **known)
    try:
        append_launch(path, launch)
    except OSError as error:
        raise Refused(f"--out={path} was left as it was: {error.strerror}") from None
    return plan


def launch_of(rank: Rank) -> tuple[Launch, Plan]:
    """Returns a launch (one line of a recording) made from one rank's trace, and the Plan (the
    sizes and buckets of its gradients). Raises Refused if no recording can be made from the trace,
    as with FSDP, a comm hook or fewer than 3 whole steps."""
    trace = rank.trace
    _refuse_what_cannot_be_rebuilt(rank)
    steps = _whole_steps(rank)
    plan = _plan_of(trace, steps[0])
    for events in steps[1:]:
        if _plan_of(trace, events) != plan:
            raise Refused(
                f"{trace.path}: step {events.window.number} has other gradients or buckets than "
                f"step {steps[0].window.number}: expected the same order in each"
            )
    row = row_of(plan)
    if row is None:
        raise Refused(f"{trace.path}: buckets of more than two sizes (bucket_cap_mb_list)")
    timing = Timing(trace, rank.collectives, len(plan.gradients))
    recorded = [step for events in steps for step in timing.steps(events)]
    launch = Launch(
        device=(trace.device_name or "GPU") if trace.has_gpu else "cpu",
        backend="none",
        optimizer=_optimizer_names(steps[0]),
        world_size=1,
        threads=1,
        cores=1,
        passes=plan.passes,
        views=plan.has_views,
        hosts=(trace.host or "unknown",),
        parameters=tuple(_parameter(i, one) for i, one in enumerate(plan.gradients)),
        rows=(row,),
        ranks=(tuple(recorded),),
        command=("torch.profiler",),
    )
    check_launch(launch)
    return launch, plan


def row_of(plan: Plan) -> Row | None:
    """Returns the settings of DistributedDataParallel that lead to the buckets of `plan`: the
    defaults, or one size for all buckets, or one size for the first bucket and another for all
    others. Returns None if no such settings lead to these buckets.
    """
    own = [plan.gradients[end - 1].bytes for end in accumulate(plan.buckets)]
    # A bucket is closed by the gradient with which it reaches its size; the last may stay open.
    bounds = [(size - last + 1, size) for size, last in zip(plan.bucket_bytes, own, strict=True)]
    bounds[-1] = (bounds[-1][0], MOST_BYTES)
    first = cap = _size_within(bounds)
    if _holds(bounds[:1], DEFAULT_FIRST_BUCKET_BYTES) and _holds(bounds[1:], DEFAULT_BUCKET_BYTES):
        first, cap = DEFAULT_FIRST_BUCKET_BYTES, DEFAULT_BUCKET_BYTES
    elif cap is None:
        first, cap = _size_within(bounds[:1]), _size_within(bounds[1:])
    if first is None or cap is None:
        return None
    return Row(
        name="as the script has it",
        bucket_bytes=cap,
        first_bucket_bytes=first,
        bf16=False,
        zero1=False,
        passes=plan.passes,
        rebuilt_bucket_bytes=plan.bucket_bytes,
    )


def _holds(bounds: Sequence[tuple[int, int]], size: int) -> bool:
    return all(least <= size <= most for least, most in bounds)


def _size_within(bounds: Sequence[tuple[int, int]]) -> int | None:
    """Returns a bucket size in bytes within all of these bounds: the default size (25 MiB), or else
    the smallest whole number of MiB, or else the smallest size. Returns None if no size is within
    all bounds."""
    least = max(least for least, _ in bounds)
    whole = -(-least // MIB) * MIB
    sizes = (DEFAULT_BUCKET_BYTES, whole, least)
    return next((size for size in sizes if _holds(bounds, size)), None)


def _refuse_what_cannot_be_rebuilt(rank: Rank) -> None:
    trace = rank.trace
    copies = [one.name for one in trace.into_buckets if one.name != DIVISION]
    hooks = [name for name in copies if name != SEARCH]
    sharding = [one.kind for one in rank.collectives if one.kind in SHARDING]
    problem = ""
    if trace.sharded:
        problem = f"FSDP ({trace.sharded})"
    elif sharding:
        problem = f"FSDP, or what else communicates by {sharding[0]}"
    elif any(BATCHED in one.name for one in trace.out_of_buckets):
        problem = "batched copies (batched_grad_copy)"
    elif SEARCH in copies:
        problem = "find_unused_parameters"
    elif hooks:
        problem = f"a comm hook ({hooks[0]})"
    elif not trace.accumulations:
        problem = "a step without AccumulateGrad"
    if problem:
        raise Refused(f"{trace.path}: {problem}: no recording can be made of it")


def _whole_steps(rank: Rank) -> list[StepEvents]:
    """Returns the profiler's steps (ProfilerStep#N) in which gradients were accumulated, nodes of
    backward ran and an optimizer stepped. Leaves out the first of these steps if at least 3 others
    remain. Raises Refused if fewer than 3 of the profiler's steps have an AccumulateGrad event, a
    node of backward and an Optimizer.step."""
    trace = rank.trace
    steps = [_step_events(rank, window) for window in rank.windows if window.number is not None]
    whole = [one for one in steps if one.accumulations and one.nodes and one.optimizers]
    if len(whole) < LEAST_STEPS:
        raise Refused(
            f"{trace.path}: {len(whole)} whole steps, with AccumulateGrad and Optimizer.step: "
            f"expected {LEAST_STEPS}, each within a ProfilerStep"
        )
    return whole[1:] if len(whole) > LEAST_STEPS else whole


def _step_events(rank: Rank, window: Window) -> StepEvents:
    trace = rank.trace
    accumulations = within(trace.accumulations, window.host)
    nodes = within(trace.nodes, window.host)
    begin = nodes[0].begin if nodes else window.host[0]
    end = nodes[-1].end if nodes else window.host[0]
    return StepEvents(
        window=window,
        accumulations=accumulations,
        nodes=nodes,
        into=within(trace.into_buckets, window.host),
        out_of=within(trace.out_of_buckets, window.host),
        optimizers=within(trace.optimizers, window.host),
        forwards=within(trace.forwards, window.host),
        collectives=[one for one in rank.collectives if begin <= one.called <= end],
    )


def _plan_of(trace: Trace, events: StepEvents) -> Plan:
    """Returns the Plan of one step: the gradients of its last backward pass, and how many of them
    each all-reduce sends. Raises Refused if backward has no all-reduce, or if sizes of gradients or
    all-reduces are unknown. Also raises Refused if consecutive gradients of the last pass do not
    sum up to the bytes of each all-reduce. Also raises Refused if the number of AccumulateGrad
    events is no multiple of the number of the last pass's gradients."""
    where = f"{trace.path}, step {events.window.number}"
    reductions = [one for one in events.collectives if one.kind == "all_reduce"]
    if not reductions:
        raise Refused(f"{where}: no all_reduce in backward: expected DistributedDataParallel")
    sent = [one.bytes for one in reductions]
    gradients = _gradients(trace, events)
    if not gradients or any(size is None for size in sent):
        raise Refused(f"{where}: sizes of gradients are unknown: profile with record_shapes=True")
    total = sum(size for size in sent if size is not None)
    own = _last_pass(gradients, total)
    passes, left = divmod(len(events.accumulations), max(1, len(own)))
    counts = _counts([one.bytes for one in own], sent)
    if counts is None or left:
        raise Refused(
            f"{where}: {len(gradients)} gradients do not sum up to the {len(sent)} all-reduces of "
            f"{total} bytes: expected DistributedDataParallel without a hook"
        )
    return Plan(tuple(own), counts, passes, has_views=not events.out_of)


def _gradients(trace: Trace, events: StepEvents) -> list[Gradient]:
    """Returns the gradients of all passes of a step in the order in which autograd accumulated
    them, with their sizes in bytes, computed from the shapes in the trace. If a shape or dtype is
    missing, returns a gradient for each copy of known size that a GPU made out of DDP's buckets, in
    the order of the copies' launches. Returns an empty list if a shape or dtype is missing, and the
    all-reduces have several dtypes. Also returns an empty list if a shape or dtype is missing, and
    DDP's copy_bucket_to_grad events and the GPU's copies differ in number."""
    by_shape = [(input_bytes(one.facts), _dtype(one)) for one in events.accumulations]
    if all(size is not None for size, _ in by_shape):
        return [Gradient(size or 0, dtype) for size, dtype in by_shape]
    copies = [
        one.facts.get("bytes")
        for one in trace.device
        if one.work is Work.MEMORY and _is_within_any(one.launched, events.out_of)
    ]
    dtypes = {one.dtype for one in events.collectives if one.kind == "all_reduce"}
    if len(dtypes) != 1 or len(copies) != len(events.out_of):
        return []
    dtype = dtypes.pop()
    return [Gradient(size, _name_of(dtype)) for size in copies if type(size) is int]


def _is_within_any(moment: float, events: Sequence[Host]) -> bool:
    i = bisect.bisect_right(events, moment, key=lambda one: one.begin) - 1
    return i >= 0 and moment <= events[i].end


def _dtype(accumulation: Host) -> str:
    types = accumulation.facts.get("Input type")
    return _name_of(str(types[0])) if isinstance(types, list) and types else ""


def _name_of(dtype: str) -> str:
    name = dtype.lower().removeprefix("c10::")
    return DTYPES.get(name, name)


def _last_pass(gradients: Sequence[Gradient], total: int) -> list[Gradient]:
    """Returns those of a step's gradients that belong to its last backward pass. Takes gradients
    from the end of `gradients` until they have together at least `total` bytes. `total`: the bytes
    of all all-reduces of the step, which are assumed to send only the last pass's gradients."""
    for i in range(len(gradients) - 1, -1, -1):
        total -= gradients[i].bytes
        if total <= 0:
            return list(gradients[i:])
    return list(gradients)


def _counts(sizes: Sequence[int], sent: Sequence[int | None]) -> tuple[int, ...] | None:
    """Divides the sizes into consecutive groups whose sums are the numbers of bytes in `sent`, and
    returns the number of sizes in each group; None if that is impossible."""
    sums = [0, *accumulate(sizes)]
    places = []
    for end in accumulate(size or 0 for size in sent):
        place = bisect.bisect_left(sums, end)
        if place == len(sums) or sums[place] != end:
            return None
        places.append(place)
    if places[-1] != len(sizes):
        return None
    return tuple(end - begin for begin, end in zip([0, *places[:-1]], places, strict=True))


def _parameter(i: int, gradient: Gradient) -> Parameter:
    names = {name: text for text, name in DTYPES.items()}
    element = dtype_bytes(names.get(gradient.dtype, gradient.dtype)) or 1
    return Parameter(f"gradient {i}", gradient.bytes // element, gradient.bytes, gradient.dtype)


def _optimizer_names(events: StepEvents) -> str:
    names = []
    for one in events.optimizers:
        match = OPTIMIZER.fullmatch(one.name)
        names.append(match[1] if match else one.name)
    return " and ".join(dict.fromkeys(names))
