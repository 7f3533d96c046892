"""Computes the time and CPU use of collectives over a link, or between a number of ranks, that was
not measured.

Each host has one link (a Wire) to other hosts, which the ranks of the host share. Each rank has a
link of its own to the other ranks of its host."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum

from gradsync.link import KINDS, SIZES, Cost, Curve, Curves, LinkCosts, MeasuredLink, Operation

# How far a link is from its data sheet, which nobody has measured: a standard deviation of the
# logarithm of a collective's time.
ASSUMED_ERROR = 0.1
DEFAULT_LATENCY_US = 5
ETHERNET_BYTES_PER_TCP_BYTE = 1514 / 1448  # a frame, and what of it TCP carries
LARGE = float(64 << 20)  # bytes, of which latency is a small part


class Algorithm(str, Enum):
    """The algorithm by which ranks run an all-reduce or an all-gather.

    RING passes data from rank to rank. TREE sends data up to one rank and down again; all-gathers
    use a ring. HIERARCHICAL uses a ring within each host, and rings between hosts that each have
    one rank of every host. BEST is the fastest of RING, TREE and HIERARCHICAL for the collective's
    number of bytes."""

    BEST = "best"
    RING = "ring"
    TREE = "tree"
    HIERARCHICAL = "hierarchical"


def algorithm_of(backend: str) -> Algorithm:
    """Returns RING for gloo, whose all-reduces use a ring by default (gloo's allreduce.cc). Returns
    BEST for other backends, such as NCCL, which are assumed to choose the fastest algorithm. Also
    returns BEST for "none", the backend in a recording of one process."""
    return Algorithm.RING if backend == "gloo" else Algorithm.BEST


@dataclass(frozen=True)
class Wire:
    """A link between hosts, or between ranks of one host, with its rate and latency in one
    direction."""

    bytes_per_second: float
    latency_s: float


@dataclass(frozen=True)
class Network:
    """The ranks that communicate, and the links between them. `between`: each host's link to other
    hosts, which the host's ranks share. `within`: the link of each rank to other ranks of its host.
    """

    world_size: int
    ranks_per_host: int
    between: Wire
    within: Wire
    algorithm: str = Algorithm.BEST


def parse_wire(text: str) -> Wire | None:
    """Returns the link that a text such as "100Gbit,5us" describes. Returns None for another form,
    or unless 0 < rate < 1e15 bytes/s and 0 < latency < 1000 s. A text without a latency gets
    DEFAULT_LATENCY_US, 5 microseconds."""
    match = re.fullmatch(r"(\d+\.?\d*)(G|M)bit(?:,(\d+\.?\d*)(u|m)s)?", text)
    if not match:
        return None
    rate = float(match[1]) * (1e9 if match[2] == "G" else 1e6) / 8
    latency = float(match[3] or DEFAULT_LATENCY_US) * (1e-3 if match[4] == "m" else 1e-6)
    return Wire(rate, latency) if 0 < rate < 1e15 and 0 < latency < 1e3 else None


def collective_seconds(network: Network, kind: Operation, size: float) -> float:
    """Returns the seconds that a collective on a vector of `size` bytes takes with the network's
    algorithm.

    Source of the formula for rings: Thakur, Rabenseifner and Gropp, Optimization of Collective
    Communication Operations in MPICH, 2005."""
    times = {
        Algorithm.RING: _ring_seconds(network, kind, size),
        Algorithm.HIERARCHICAL: _hierarchical_seconds(network, kind, size),
    }
    if kind == Operation.ALL_REDUCE:
        times[Algorithm.TREE] = _tree_seconds(network, size)
    else:
        times[Algorithm.TREE] = times[Algorithm.RING]
    if network.algorithm == Algorithm.BEST:
        return min(times.values())
    return times[Algorithm(network.algorithm)]


def sent_part(kind: Operation, world_size: int) -> float:
    """Returns the bytes that a rank sends in a ring, for each byte of the vector that a collective
    reduces or gathers. For an all-reduce, the number is 2 (n - 1) / n with n ranks, as in the
    documentation of nccl-tests."""
    return _halves(kind) * (world_size - 1) / world_size


def costs_over(network: Network, recorded: MeasuredLink | None) -> LinkCosts:
    """Returns the time and CPU use of all-reduces and all-gathers over `network`, computed by
    formulas. `recorded`: measured costs, whose CPU time per sent byte is used and lowers the rate
    between hosts; None for no CPU use."""
    processor_s = _processor_s(recorded)
    network = _as_used(network, processor_s)
    costs = []
    for kind in KINDS:
        for size in SIZES:
            seconds = collective_seconds(network, kind, size)
            used_s = processor_s * sent_part(kind, network.world_size) * size
            costs.append(Cost(size, seconds, min(1, used_s / seconds), kind))
    return LinkCosts(costs)


def _processor_s(recorded: MeasuredLink | None) -> float:
    """Returns the CPU seconds that a rank used per sent byte in a recorded all-reduce of 64 MiB
    (LARGE); 0 if `recorded` is None."""
    if not recorded:
        return 0
    used_s = recorded.costs.seconds(LARGE) * recorded.costs.processor(LARGE, 1)
    return used_s / (LARGE * sent_part(Operation.ALL_REDUCE, recorded.world_size))


def _as_used(network: Network, processor_s: float) -> Network:
    if processor_s > 0:
        return replace(network, between=_tcp(network.between, processor_s))
    return network


def in_ring_of(link: MeasuredLink, wanted: int) -> LinkCosts:
    """Returns the costs of collectives between `wanted` ranks, computed from costs measured between
    link.world_size ranks. All ranks are assumed to form one ring."""
    costs = link.costs
    measured = link.world_size
    if measured == wanted:
        return costs
    hops = (wanted - 1) / (measured - 1)
    return LinkCosts(
        [
            Cost(
                size * wanted / measured,
                costs.seconds(size, kind) * hops,
                costs.processor(size, 1, kind),
                kind,
            )
            for kind in KINDS
            for size in SIZES
        ],
        costs.channels,
    )


def with_units(costs: LinkCosts, recorded: LinkCosts, is_gloo: bool) -> LinkCosts:
    """Returns a copy of `costs` to which costs of FSDP2's collectives are added if `recorded` has
    them. `recorded`: the costs that were measured in a recording. The time by which FSDP2's
    collectives in `recorded` take longer than plain ones, because of copies, is added to times of
    plain ones in `costs`. `is_gloo`: whether the backend is gloo, over which a reduce-scatter takes
    as long as an all-reduce."""
    reduces_by = Operation.ALL_REDUCE if is_gloo else Operation.ALL_GATHER
    more = {}
    for kind, plain in (
        (Operation.UNIT_GATHER, Operation.ALL_GATHER),
        (Operation.UNIT_REDUCE, reduces_by),
    ):
        if recorded.has(kind):
            part = _halves(plain) / 2  # of an all-reduce's time
            sizes = [*SIZES, *recorded.sizes(kind)]
            copies_s = [
                max(0, recorded.seconds(size, kind) - recorded.seconds(size) * part)
                for size in sizes
            ]
            more[kind] = [
                Curves(
                    1,
                    Curve(
                        (size, costs.seconds(size, plain) + copy_s)
                        for size, copy_s in zip(sizes, copies_s, strict=True)
                    ),
                    Curve((size, costs.processor(size, 1, plain)) for size in sizes),
                )
            ]
    return costs.with_curves(more)


def hybrid_costs(network: Network, sharing: int, recorded: MeasuredLink | None = None) -> LinkCosts:
    """Returns the costs of the all-gathers and reduce-scatters of HSDP, which shards parameters
    within groups of `sharing` ranks. Collectives are assumed to use rings and no CPU time, whatever
    network.algorithm is. `sharing` must divide network.world_size. `recorded`: measured costs,
    whose CPU time per sent byte lowers the rate between hosts; None to keep the rate.

    With several groups, the cost of a reduce-scatter includes HSDP's all-reduce of each shard over
    the groups."""
    network = _as_used(network, _processor_s(recorded))
    within = replace(network, world_size=sharing, algorithm=Algorithm.RING)
    wire = network.between if network.world_size > network.ranks_per_host else network.within
    between = Network(network.world_size // sharing, 1, wire, network.within, Algorithm.RING)
    part = min(sharing, network.ranks_per_host) / sharing
    costs = []
    for size in SIZES:
        gather_s = collective_seconds(within, Operation.ALL_GATHER, size)
        reduce_s = gather_s + collective_seconds(between, Operation.ALL_REDUCE, part * size)
        costs += [
            Cost(size, gather_s, 0, Operation.ALL_GATHER),
            Cost(size, reduce_s, 0, Operation.REDUCE_SCATTER),
            Cost(size, gather_s, 0, Operation.ALL_REDUCE),
        ]
    return LinkCosts(costs)


def _halves(kind: Operation) -> int:
    """Returns 2 for an all-reduce (a reduce-scatter and an all-gather), and 1 for any other
    collective."""
    return 2 if kind == Operation.ALL_REDUCE else 1


def _half_ring_seconds(ranks: int, wire: Wire, size: float) -> float:
    """Returns the seconds of a reduce-scatter or an all-gather in a ring. Each rank sends (ranks -
    1) parts, one after the other. `size`: the bytes of the whole vector, of which a part has
    `size` / `ranks` bytes."""
    return (ranks - 1) * (wire.latency_s + size / ranks / wire.bytes_per_second)


def _slowest(network: Network) -> Wire:
    return network.between if _hosts(network) > 1 else network.within


def _ranks_on_host(network: Network) -> int:
    return min(network.ranks_per_host, network.world_size)


def _hosts(network: Network) -> int:
    return math.ceil(network.world_size / _ranks_on_host(network))


def _ring_seconds(network: Network, kind: Operation, size: float) -> float:
    return _halves(kind) * _half_ring_seconds(network.world_size, _slowest(network), size)


def _hierarchical_seconds(network: Network, kind: Operation, size: float) -> float:
    """Returns the seconds that a collective takes in a ring within each host plus the seconds in
    rings between hosts."""
    within_s = _half_ring_seconds(_ranks_on_host(network), network.within, size)
    between_s = _half_ring_seconds(_hosts(network), network.between, size)
    return _halves(kind) * (within_s + between_s)


def _tree_seconds(network: Network, size: float) -> float:
    """Returns the seconds of an all-reduce whose data go up and down a tree of ranks once, in a
    pipeline. The time is the latency of all levels plus the time to send `size` bytes over one
    link, times two."""
    latency_s = (
        math.log2(_hosts(network)) * network.between.latency_s
        + math.log2(_ranks_on_host(network)) * network.within.latency_s
    )
    return 2 * (latency_s + size / _slowest(network).bytes_per_second)


def _tcp(wire: Wire, processor_s: float) -> Wire:
    """Returns a copy of `wire` with the lower rate of TCP. Packet headers and `processor_s`, the
    CPU seconds per byte, lower the rate."""
    seconds = ETHERNET_BYTES_PER_TCP_BYTE / wire.bytes_per_second + processor_s
    return replace(wire, bytes_per_second=1 / seconds)
