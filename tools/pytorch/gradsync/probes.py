"""Computes the costs of collectives, such as all-reduces, from a recording, mostly from its probes.
A probe is a training step in which the recorder has timed collectives of one kind."""

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
    """The costs of collectives, measured in one or more recorded launches (runs) of one script.

    `link`: the costs of all-reduces and, if measured, of FSDP2's gathers and reductions; None if no
    all-reduces were measured. `bf16`: the costs of all-reduces of gradients that were cast to bf16,
    including the cast back; None if not measured. `bf16_part`: the gradients' bytes in bf16 divided
    by their bytes in their own dtype. `cast_in_s_per_byte` and `cast_out_s_per_byte`: the seconds
    of the cast to bf16, and of the cast back, per byte of the uncast gradients. `zero1_s_per_byte`:
    the seconds of ZeroRedundancyOptimizer's broadcasts, per broadcast byte. The three fields
    `*_s_per_byte` are 0 if not measured.
    """

    link: MeasuredLink | None
    bf16: MeasuredLink | None
    bf16_part: float
    cast_in_s_per_byte: float
    cast_out_s_per_byte: float
    zero1_s_per_byte: float

    @classmethod
    def of(cls, launches: Sequence[Launch]) -> Communication:
        """Computes what collectives cost from the collectives timed in one or more launches (runs)
        of one script. Raises Refused if all-reduces, bf16 all-reduces, or FSDP2's gathers or
        reductions, of one size have a trimmed mean time of 0."""
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
    """A key for measurements: the collectives' kind, how many ran at a time, and the bytes of the
    first one. `in_flight` and `bytes` are 1 for ZeroRedundancyOptimizer's broadcasts, whose seconds
    are stored per byte."""

    kind: CollectiveKind
    in_flight: int
    bytes: int


@dataclass
class _Sample:
    """The measurements of all probes (steps with timed collectives) with the same _Group: kind,
    size and number at a time.

    `seconds`: for each probe, the mean seconds until _Group.in_flight concurrent collectives were
    done, including any cast back from bf16. For ZERO1, `seconds` are per byte. `processor`: for
    each probe, the CPU time of one rank's process divided by the duration of the probe's
    collectives. `cast_in` and `cast_out`: the seconds of the cast to bf16, and of the cast back,
    per byte of the uncast gradients.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    cast_in: list[float] = field(default_factory=list)
    cast_out: list[float] = field(default_factory=list)


class _Samples:
    """The measurements of one script's timed collectives, by their kind and size."""

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
        """Returns the costs of collectives of this kind, one for each measured size and number at a
        time. For BF16, Cost.bytes is the size after the cast to bf16."""
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
        """Returns the CPU-seconds that one rank used per second of the largest measured all-reduce;
        0 on GPUs."""
        single = [cost for cost in self.costs(CollectiveKind.ALL_REDUCE) if cost.in_flight == 1]
        return single[-1].processor

    def casts(self) -> tuple[float, float]:
        """Returns the seconds of the cast to bf16, and of the cast back, per byte of gradients; 0
        if not measured."""
        groups = [group for group in self._by_group if group.kind == CollectiveKind.BF16]
        if not groups:
            return 0, 0
        sample = self._by_group[max(groups)]
        return trimmed_mean(sample.cast_in), trimmed_mean(sample.cast_out)


def _probes(launches: Sequence[Launch]) -> Iterator[Collectives]:
    """Yields, for each step with timed collectives, the measurements of the rank whose collectives
    took the shortest time. Steps with FSDP2's collectives are left out."""
    for launch in launches:
        for steps in zip(*launch.ranks, strict=True):
            probes = [step.collectives for step in steps if step.collectives]
            if probes and probes[0].kind != CollectiveKind.FULLY_SHARD:
                yield min(probes, key=lambda probe: probe.wall_ns)


def _mean_s(probe: Collectives, times_ns: Sequence[float]) -> float:
    """Returns the mean seconds of all collectives that are as large as the probe's first
    collective; 0 if `times_ns` is empty. A trimmed mean would leave out the rare, long times of
    collectives that wait for a CPU."""
    if not times_ns:
        return 0
    sizes = zip(times_ns, probe.bytes, strict=True)
    times = [ns for ns, size in sizes if size == probe.bytes[0]]
    return NS * sum(times) / len(times)


def _bf16_link(samples: _Samples, link: MeasuredLink) -> MeasuredLink | None:
    """Returns the costs of all-reduces in bf16, including the cast back, by size; None if not
    measured. Running two all-reduces at once is assumed to be as many times faster than one after
    the other with bf16 as without. `link`: the costs without bf16."""
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
    """The size and the duration of each unit's gather, or of each unit's reduction, in one step of
    FSDP2."""

    bytes: Sequence[int]
    seconds: Sequence[float]


def _unit_costs(launches: Sequence[Launch], processor: float) -> list[Cost]:
    """Returns the costs of FSDP2's gathers of parameters and reductions of gradients, by size.
    `processor`: the CPU-seconds that a gather or reduction uses on one rank per second of its
    duration."""
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
    """Returns two lists: the nanoseconds of each unit's gather, and those of each unit's reduction.
    Both lists are empty if the recorder has not timed units in this step."""
    probe = step.collectives
    if probe and probe.kind is CollectiveKind.FULLY_SHARD:
        return probe.in_ns, probe.out_ns
    return step.gather_ns, step.reduce_ns


def _of_one_rank(sizes: Sequence[int], by_rank: Sequence[Sequence[float]]) -> _UnitTimes:
    """Returns the sizes and times of the rank whose collectives took the least time together,
    without units of 0 bytes."""
    times = min(by_rank, key=sum)
    if not times:
        return _UnitTimes([], [])
    pairs = [(size, NS * ns) for size, ns in zip(sizes, times, strict=True) if size]
    return _UnitTimes([size for size, _ in pairs], [seconds for _, seconds in pairs])


def _costs_of_units(kind: Operation, steps: Sequence[_UnitTimes], processor: float) -> list[Cost]:
    """Returns one Cost for each size of the collectives in `steps`. Cost.seconds is the trimmed
    mean of this size's times, scaled so that a step's times add up to the trimmed mean of the
    steps' sums."""
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
