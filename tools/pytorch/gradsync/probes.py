"""Computes how long the collectives of recorded probes took, and how much CPU time they used. A
probe is a step whose collectives the recorder has timed.

In a probe, the recorder runs collectives after backward, while nothing is computed. All collectives
of a probe are of the same kind: those of DistributedDataParallel, of its bf16 hook, of
ZeroRedundancyOptimizer, or of FSDP2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gradsync.estimates import trimmed_mean
from gradsync.link import Cost, LinkCosts, MeasuredLink, Operation
from gradsync.schema import NS, CollectiveKind, Collectives, Launch, Step
from gradsync.sharding import SENT, unit_bytes

BF16_BYTES = 2
# Threads of gloo that run collectives (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp). NCCL has
# one stream.
GLOO_CHANNELS = 2


@dataclass(frozen=True)
class Communication:
    """The costs of collectives, measured in one or more recorded launches (starts) of one script.

    `link`: the costs of all-reduces, and of FSDP2's collectives if they were measured. `bf16`: the
    costs of all-reduces in bf16, whose size is 2 bytes for each element. These costs include the
    casts back from bf16, because the thread that runs the collective also casts. `link` is None if
    no all-reduces were measured, and `bf16` is None if none in bf16 were. `bf16_part`: the bytes
    that are sent in bf16 for each byte of gradients. `cast_in_s_per_byte`: the seconds of casts to
    bf16, for each byte of gradients. `cast_out_s_per_byte`: the seconds of casts back from bf16,
    for each byte of gradients. `zero1_s_per_byte`: the seconds of ZeroRedundancyOptimizer's
    broadcasts, for each byte that they send. Fields named `*_s_per_byte` are 0 if not measured.
    """

    link: MeasuredLink | None
    bf16: MeasuredLink | None
    bf16_part: float
    cast_in_s_per_byte: float
    cast_out_s_per_byte: float
    zero1_s_per_byte: float

    @classmethod
    def of(cls, launches: Sequence[Launch]) -> Communication:
        """Returns the costs of collectives, computed from the probes in one or more recorded
        launches of one script. Raises Refused if a collective took no time."""
        first = launches[0]
        samples = _Samples(first)
        for probe in _probes(launches):
            samples.add(probe)
        link, bf16 = None, None
        costs = samples.costs(CollectiveKind.ALL_REDUCE)
        if any(cost.in_flight == 1 for cost in costs):
            costs += _unit_costs(launches, samples.processor_of_large())
            link = MeasuredLink(LinkCosts(costs, samples.channels), first.world_size)
            bf16 = _bf16_link(samples, link)
        cast_in_s, cast_out_s = samples.casts()
        zero1 = samples.costs(CollectiveKind.ZERO1)
        zero1_s = zero1[0].seconds if zero1 else 0
        return cls(link, bf16, samples.bf16_part, cast_in_s, cast_out_s, zero1_s)


@dataclass(frozen=True, order=True)
class _Group:
    """A key for measurements of collectives of one kind and one size. `in_flight`: how many of
    these collectives ran at the same time.

    All of ZeroRedundancyOptimizer's broadcasts belong to one group, whose `bytes` is 1 and whose
    seconds are those per byte, because only the sum of their sizes matters.
    """

    kind: CollectiveKind
    in_flight: int
    bytes: int


@dataclass
class _Sample:
    """What was measured for collectives of one kind and one size (a _Group). Each list has one
    value for each probe, a step whose collectives were timed. `seconds`: the time that n concurrent
    collectives took together, including the casts after them; n is _Group.in_flight. `processor`:
    the CPU-seconds that these collectives used on one rank per second of their duration. `cast_in`
    and `cast_out`: the seconds of casts to bf16, and of casts back, for each byte of uncast
    gradients. Only probes that ran their collectives one after the other have values in `cast_in`
    and `cast_out`."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    cast_in: list[float] = field(default_factory=list)
    cast_out: list[float] = field(default_factory=list)


class _Samples:
    """The measurements of probes in the recorded launches of one script. `launch`: one of these
    launches, from which the backend, the device and the sizes of the parameters are read."""

    def __init__(self, launch: Launch) -> None:
        self.channels = GLOO_CHANNELS if launch.backend == "gloo" else 1
        elements = sum(parameter.numel for parameter in launch.parameters)
        total_bytes = sum(parameter.bytes for parameter in launch.parameters)
        self.bf16_part = BF16_BYTES * elements / total_bytes
        self._moves_data = launch.device == "cpu"  # a GPU's processors are not the host's
        self._by_group: dict[_Group, _Sample] = defaultdict(_Sample)

    def add(self, probe: Collectives) -> None:
        is_zero1 = probe.kind == CollectiveKind.ZERO1
        are_together = probe.in_flight == 0 and not is_zero1
        if are_together and self.channels == 1:
            return  # they wait for each other
        in_flight = self.channels if are_together else 1
        size = 1 if is_zero1 else probe.bytes[0]
        sample = self._by_group[_Group(probe.kind, in_flight, size)]
        sample.processor.append(probe.cpu_ns / probe.wall_ns)
        if probe.in_flight == 0:  # all were issued, and as many run at a time as there are channels
            sample.seconds.append(NS * probe.wall_ns * in_flight * size / sum(probe.bytes))
            return
        cast_in_s, cast_out_s = _mean_s(probe, probe.in_ns), _mean_s(probe, probe.out_ns)
        sample.seconds.append(_mean_s(probe, probe.ns) + cast_out_s)
        sample.cast_in.append(cast_in_s / size)
        sample.cast_out.append(cast_out_s / size)

    def costs(self, kind: CollectiveKind) -> list[Cost]:
        """Returns the costs of collectives of this kind, as a function of the sent bytes. In all
        returned costs, the field Cost.kind is Operation.ALL_REDUCE, whatever the CollectiveKind
        `kind` is."""
        part = self.bf16_part if kind == CollectiveKind.BF16 else 1
        return [
            Cost(
                bytes=part * group.bytes,
                seconds=trimmed_mean(sample.seconds),
                processor=trimmed_mean(sample.processor) if self._moves_data else 0,
                in_flight=group.in_flight,
            )
            for group, sample in sorted(self._by_group.items(), key=lambda item: item[0])
            if group.kind == kind
        ]

    def processor_of_large(self) -> float:
        """Returns the CPU time that the largest measured all-reduce uses on one rank, in
        CPU-seconds per second of its duration."""
        single = [cost for cost in self.costs(CollectiveKind.ALL_REDUCE) if cost.in_flight == 1]
        return single[-1].processor

    def casts(self) -> tuple[float, float]:
        """Returns the seconds that casts to bf16, and casts back, take for each byte of gradients,
        measured by the bf16 probes that sent the largest pieces; 0 without bf16 probes.
        """
        groups = [group for group in self._by_group if group.kind == CollectiveKind.BF16]
        if not groups:
            return 0, 0
        sample = self._by_group[max(groups)]
        return trimmed_mean(sample.cast_in), trimmed_mean(sample.cast_out)


def _probes(launches: Sequence[Launch]) -> Iterator[Collectives]:
    """Yields, for each recorded probe, what was measured on the rank whose collectives took the
    shortest time. This rank is assumed to have come last to the probe, and so to have waited least
    for other ranks.

    Yields nothing for FSDP2's probes (kind FULLY_SHARD): in them, a rank that has waited in one
    collective may arrive last at the next, so the rank with the shortest time need not have waited
    least.
    """
    for launch in launches:
        for steps in zip(*launch.ranks, strict=True):
            probes = [step.collectives for step in steps if step.collectives]
            if probes and probes[0].kind != CollectiveKind.FULLY_SHARD:
                yield min(probes, key=lambda probe: probe.wall_ns)


def _mean_s(probe: Collectives, times_ns: Sequence[float]) -> float:
    """Returns the mean seconds of those collectives of a probe that have the size of the probe's
    first collective; 0 if `times_ns` is empty.

    The result is not a trimmed mean, because trimming would leave out the rare and long times of
    small collectives that wait for a processor.
    """
    if not times_ns:
        return 0
    sizes = zip(times_ns, probe.bytes, strict=True)
    times = [ns for ns, size in sizes if size == probe.bytes[0]]
    return NS * sum(times) / len(times)


def _bf16_link(samples: _Samples, link: MeasuredLink) -> MeasuredLink | None:
    """Returns what all-reduces in bf16 cost, by their size; None if no probe measured an all-reduce
    in bf16. Running several at the same time is assumed to speed up all-reduces in bf16 by the same
    factor as all-reduces of uncast gradients."""
    costs = samples.costs(CollectiveKind.BF16)
    if not costs:
        return None
    together = []
    if samples.channels > 1:
        together = [
            replace(
                cost,
                in_flight=samples.channels,
                seconds=cost.seconds
                * samples.channels
                / link.costs.gain(cost.bytes / samples.bf16_part, samples.channels),
            )
            for cost in costs
        ]
    return MeasuredLink(LinkCosts(costs + together, samples.channels), link.world_size)


@dataclass(frozen=True)
class _UnitTimes:
    """The bytes and times of either FSDP2's gathers or its reductions in one step. `bytes` and
    `seconds` have one value for each unit that has parameters."""

    bytes: Sequence[int]
    seconds: Sequence[float]


def _unit_costs(launches: Sequence[Launch], processor: float) -> list[Cost]:
    """Returns the costs of FSDP2's gathers of parameters and reductions of gradients, from the
    recorded steps that have the times of these gathers and reductions: from probes of FSDP2 and, if
    the script uses fully_shard, from its own units.

    `processor`: the CPU-seconds that large all-reduces used on one rank per second of their
    duration. FSDP2's gathers and reductions are assumed to use as many."""
    gathers, reductions = [], []
    for launch in launches:
        units = [unit_bytes(launch.parameters, launch.units, kind) for kind in SENT]
        for steps in zip(*launch.ranks, strict=True):
            probe = steps[0].collectives
            is_probe = probe is not None and probe.kind is CollectiveKind.FULLY_SHARD
            gathered, reduced = [probe.bytes] * 2 if probe and is_probe else units
            gather_ns, reduce_ns = zip(*map(_times_ns, steps), strict=True)
            gathers.append(_of_one_rank(gathered, gather_ns))
            reductions.append(_of_one_rank(reduced, reduce_ns))
    return [
        *_costs_of_units(Operation.UNIT_GATHER, gathers, processor),
        *_costs_of_units(Operation.UNIT_REDUCE, reductions, processor),
    ]


def _times_ns(step: Step) -> tuple[Sequence[float], Sequence[float]]:
    """Returns the durations in nanoseconds of FSDP2's gathers, and those of its reductions, in one
    step of a rank. Each list has one duration for every unit, or is empty if the recorder measured
    no unit's times in the step."""
    probe = step.collectives
    if probe and probe.kind is CollectiveKind.FULLY_SHARD:
        return probe.in_ns, probe.out_ns
    return step.gather_ns, step.reduce_ns


def _of_one_rank(sizes: Sequence[int], by_rank: Sequence[Sequence[float]]) -> _UnitTimes:
    """Returns the times of the rank whose collectives took least time together, because that rank
    waited least for other ranks; empty if there are no times. `by_rank`: each rank's times in
    nanoseconds."""
    times = min(by_rank, key=sum)
    if not times:
        return _UnitTimes([], [])
    pairs = [(size, NS * ns) for size, ns in zip(sizes, times, strict=True) if size]
    return _UnitTimes([size for size, _ in pairs], [seconds for _, seconds in pairs])


def _costs_of_units(kind: Operation, steps: Sequence[_UnitTimes], processor: float) -> list[Cost]:
    """For each size of FSDP2's collectives of one kind, returns how long a collective of this size
    takes. The thread that runs a collective rarely waits for a CPU, but if it waits, it waits long.
    A step has many collectives, so the sum of their times often contains such a wait. So the
    trimmed mean of each size's times is multiplied by one factor for all sizes. With this factor,
    the times of a step's collectives add up to the trimmed mean of the steps' sums.
    """
    steps = [step for step in steps if step.bytes]
    if not steps:
        return []
    by_size: dict[int, list[float]] = defaultdict(list)
    for step in steps:
        for size, seconds in zip(step.bytes, step.seconds, strict=True):
            by_size[size].append(seconds)
    typical = {size: trimmed_mean(own) for size, own in by_size.items()}
    together = sum(typical[size] for size in steps[-1].bytes)
    part = trimmed_mean([sum(step.seconds) for step in steps]) / together
    return [
        Cost(size, part * seconds, processor, kind) for size, seconds in sorted(typical.items())
    ]
