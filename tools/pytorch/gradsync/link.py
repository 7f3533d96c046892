"""Costs of collectives between ranks: recorded, measured by other programs, or computed from a link's rate and latency."""

import bisect
import copy
import math
import re
from collections import defaultdict, namedtuple

from gradsync.recording import NS, require, trimmed_mean

KINDS = ("all_reduce", "all_gather")
UNITS = {
    "all_gather": "unit_gather",
    "reduce_scatter": "unit_reduce",
}  # FSDP2's, with its copies, if they were measured
SIZES = [2.0**k for k in range(8, 37)]  # bytes, between which a formula is taken to be linear
# How far a link is from its data sheet, which nobody has measured: a standard deviation of the logarithm.
ASSUMED_ERROR = 0.1

# So many at the same time of one size, of the whole vector. `processor`: what communication uses of one rank's processors
# meanwhile, in CPU-seconds a second.
Cost = namedtuple("Cost", "bytes seconds processor kind in_flight", defaults=(0, "all_reduce", 1))
# A measured link between this number of ranks. `says`: lines for the screen.
MeasuredLink = namedtuple("MeasuredLink", "costs world_size says", defaults=((),))
Wire = namedtuple("Wire", "bytes_per_second latency_s")  # in each direction
# `between`: the wire of each host, which its ranks share; `within`: the wire of each rank within a host.
Network = namedtuple("Network", "world_size ranks_per_host between within algorithm")


class Curve:
    """A quantity measured at some sizes: linear between them; several measurements of one size count as their mean."""

    def __init__(self, points):
        values = defaultdict(list)
        for size, value in points:
            values[size].append(value)
        self.sizes = sorted(values)
        self.values = [sum(values[size]) / len(values[size]) for size in self.sizes]

    def along(self, size):
        """Returns the line through the two nearest points."""
        i = min(max(bisect.bisect(self.sizes, size), 1), len(self.sizes) - 1)
        (a, b), (low, high) = self.sizes[i - 1 : i + 1], self.values[i - 1 : i + 1]
        return low + (high - low) * (size - a) / (b - a)

    def ratio_at(self, size):
        """Constant outside the measured sizes."""
        return (
            self.along(min(max(size, self.sizes[0]), self.sizes[-1]))
            if len(self.sizes) > 1
            else self.values[0]
        )

    def time_at(self, size):
        """Below the smallest size along the line through the first two points, but at most in proportion to bytes; above the
        largest in proportion to bytes."""
        if len(self.sizes) == 1 or size > self.sizes[-1]:
            return self.values[-1] * size / self.sizes[-1]
        return (
            max(self.along(size), self.values[0] * size / self.sizes[0])
            if size < self.sizes[0]
            else self.along(size)
        )


class LinkCosts:
    """Costs of collectives between all ranks. `channels` collectives run concurrently; later collectives wait."""

    def __init__(self, costs, channels=1):
        points = defaultdict(lambda: defaultdict(list))
        for cost in costs:
            require(
                0 < cost.seconds < math.inf and cost.bytes > 0,
                f"a collective of {cost.bytes:g} bytes takes {cost.seconds:g} s, expected more than 0",
            )
            points[cost.kind][cost.in_flight].append(cost)
        require(1 in points["all_reduce"], "no all-reduce")
        self.channels, self.curves = (
            channels,
            {
                kind: {
                    k: (
                        Curve((c.bytes, c.seconds) for c in own),
                        Curve((c.bytes, c.processor) for c in own),
                    )
                    for k, own in by_in_flight.items()
                }
                for kind, by_in_flight in points.items()
            },
        )

    def changed(self, pace=1, processor=None):
        """Returns costs with all times multiplied, and with this use of CPUs for all sizes, unless None."""
        other = copy.copy(self)
        other.curves = {
            kind: {
                k: (
                    Curve(zip(seconds.sizes, (pace * s for s in seconds.values))),
                    used if processor is None else Curve([(1, processor)]),
                )
                for k, (seconds, used) in own.items()
            }
            for kind, own in self.curves.items()
        }
        return other

    def sizes(self):
        """Returns the kinds that were measured."""
        return self.of("all_reduce")[1].sizes

    def of(self, kind, in_flight=1):
        """The most that were measured together, but no more than this: how many, and their curves."""
        curves = self.curves.get(kind) or self.curves["all_reduce"]
        together = max(k for k in curves if k <= in_flight)
        return together, *curves[together]

    def seconds(self, size, kind="all_reduce"):
        """Returns the time of a single collective. A kind without costs takes half an all-reduce of this size."""
        return self.of(kind)[1].time_at(size) / (1 if kind in self.curves else 2)

    def processor(self, size, in_flight, kind="all_reduce"):
        return self.of(kind, in_flight)[2].ratio_at(size)

    def gain(self, size, in_flight):
        """Returns how much faster concurrent collectives are than consecutive ones; below 1 if they slow each other."""
        together, seconds, _ = self.of("all_reduce", in_flight)
        return together * self.seconds(size) / seconds.time_at(size)


def parse_wire(text):
    """Parses "100Gbit,5us"; the default latency is 5 us. Returns None for another text."""
    match = re.fullmatch(r"(\d+\.?\d*)(G|M)bit(?:,(\d+\.?\d*)(u|m)s)?", text)
    if not match:
        return None
    rate = float(match[1]) * (1e9 if match[2] == "G" else 1e6) / 8
    latency = float(match[3] or 5) * (1e-3 if match[4] == "m" else 1e-6)
    return Wire(rate, latency) if 0 < rate < 1e15 and 0 < latency < 1e3 else None


def collective_seconds(network, kind, size):
    """By the plain formulas. A ring passes all ranks, n - 1 times to reduce and to gather each. A tree (of an all-reduce) goes
    up and down once. Hierarchical: a ring within each host, then one ring of hosts for each of its ranks, all over the host's
    wire. The best of them, unless one is asked for."""

    def half_ring(ranks, wire):
        return (ranks - 1) * (wire.latency_s + size / ranks / wire.bytes_per_second)

    ranks, on_host, between, within, _ = network
    on_host = min(on_host, ranks)
    hosts = math.ceil(ranks / on_host)
    halves, slowest = 2 if kind == "all_reduce" else 1, between if hosts > 1 else within
    takes = {
        "ring": halves * half_ring(ranks, slowest),
        "hierarchical": halves * (half_ring(on_host, within) + half_ring(hosts, between)),
    }
    takes["tree"] = (
        takes["ring"]
        if kind != "all_reduce"
        else 2
        * (
            math.log2(hosts) * between.latency_s
            + math.log2(on_host) * within.latency_s
            + size / slowest.bytes_per_second
        )
    )
    return takes.get(network.algorithm) or min(takes.values())


def sent_part(kind, world_size):
    """Returns the bytes that a rank sends per byte of the vector, which is also bus per algorithm bandwidth, as nccl-tests
    define them."""
    return (2 if kind == "all_reduce" else 1) * (world_size - 1) / world_size


def costs_over(network, recorded):
    """Over links that nobody has measured. `recorded`: a byte that a rank sends takes as much of its processors as there; without
    it hosts do not move data."""
    costs, much, processor_s, slowed = [], float(64 << 20), 0, network
    if recorded:
        used = recorded.costs.seconds(much) * recorded.costs.processor(much, 1)
        processor_s = used / (much * sent_part("all_reduce", recorded.world_size))
    if processor_s > 0:
        # Hosts' processors move the data, so it is TCP, which has so many of an Ethernet frame's bytes; and a rank that sums or
        # copies a part does not send it meanwhile.
        rate = 1 / (1514 / 1448 / network.between.bytes_per_second + processor_s)
        slowed = network._replace(between=network.between._replace(bytes_per_second=rate))
    for kind in KINDS:
        for size in SIZES:
            seconds, used_s = (
                collective_seconds(slowed, kind, size),
                processor_s * sent_part(kind, network.world_size) * size,
            )
            costs.append(Cost(size, seconds, min(1, used_s / seconds), kind))
    return LinkCosts(costs)


def with_units(costs, recorded, reduces_by):
    """Adds FSDP2's collectives, if they were recorded: what they take more than collectives without copies they take over any
    link. `reduces_by`: the kind of collective that takes as long as a reduce-scatter."""
    other = copy.copy(costs)
    for kind, sends in zip(UNITS.values(), ("all_gather", reduces_by)):
        if kind in recorded.curves:
            sizes, part = [*SIZES, *recorded.of(kind)[1].sizes], 1 if sends == "all_reduce" else 2
            copies = [
                (size, max(0, recorded.seconds(size, kind) - recorded.seconds(size) / part))
                for size in sizes
            ]
            other.curves = other.curves | {
                kind: {
                    1: (
                        Curve((size, costs.seconds(size, sends) + s) for size, s in copies),
                        Curve((size, costs.processor(size, 1, sends)) for size in sizes),
                    )
                }
            }
    return other


def in_ring_of(link, wanted):
    """Costs in another world, as if collectives went around rings: a hop carries bytes / ranks, and there are as many of them
    as ranks less one."""
    costs, measured, *_ = link
    return (
        costs
        if measured == wanted
        else LinkCosts(
            [
                Cost(
                    size * wanted / measured,
                    costs.seconds(size, kind) * (wanted - 1) / (measured - 1),
                    costs.processor(size, 1, kind),
                    kind,
                )
                for kind in KINDS
                for size in SIZES
            ],
            costs.channels,
        )
    )


class Communication:
    """What probes of launches tell of it. `link`: of its all-reduces, a MeasuredLink, or None; `bf16`: the same of those in bf16
    with the casts back, which their thread does; seconds a byte of gradients of casts and of ZeroRedundancyOptimizer's
    broadcasts."""

    def __init__(self, launches):
        first, costs, casts = launches[0], defaultdict(list), {}
        # Threads of gloo that run collectives (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp); NCCL has one stream.
        self.channels = 2 if first["backend"] == "gloo" else 1
        self.bf16_part = (
            2
            * sum(p["numel"] for p in first["parameters"])
            / sum(p["bytes"] for p in first["parameters"])
        )
        self.samples = defaultdict(
            lambda: defaultdict(list)
        )  # by kind, number in flight, bytes of each
        units, totals = (
            [
                sum(first["parameters"][p]["bytes"] for p in unit["parameters"])
                for unit in first["units"]
            ],
            defaultdict(list),
        )
        for steps in (steps for launch in launches for steps in zip(*launch["ranks"])):
            sent = [step["collectives"] for step in steps]
            # The last rank to arrive waited least.
            self.add(min(sent, key=lambda one: one["wall_ns"]))
            # FSDP2's own, of the script or of a probe: one rank's, because who waits in one of them may be last in the next.
            is_tried = sent[0]["kind"] == "fully_shard"
            units = sent[0]["bytes"] if is_tried else units
            by_rank = [
                (one["in_ns"], one["out_ns"])
                if is_tried
                else (step["gather_ns"], step["reduce_ns"])
                for one, step in zip(sent, steps)
            ]
            for kind, times in zip(UNITS.values(), zip(*by_rank)):
                times = [(size, NS * ns) for size, ns in zip(units, min(times, key=sum)) if size]
                totals[kind] += [sum(s for _, s in times)] * bool(times)
                for size, seconds in times:
                    self.samples[kind, 1, size]["seconds"].append(seconds)
        largest = max((key for key in self.samples if key[:2] == ("all_reduce", 1)), default=None)
        all_reduces = self.samples[largest]["processor"] if largest else []
        for (kind, in_flight, size), own in sorted(self.samples.items()):
            # A GPU's processors are not the host's. FSDP2's collectives, which block, take what all-reduces take.
            used = (
                trimmed_mean(own["processor"] or all_reduces or [0])
                if first["device"] == "cpu"
                else 0
            )
            costs[kind].append(
                Cost(
                    size * self.bf16_part if kind == "bf16" else size,
                    trimmed_mean(own["seconds"]),
                    used,
                    kind if kind in UNITS.values() else "all_reduce",
                    in_flight,
                )
            )
            casts[kind] = [
                trimmed_mean(own[name] or [0]) for name in ("in", "out")
            ]  # of the largest
        for kind in UNITS.values():
            # In a step all of them follow each other, and one that waits for a processor is rare and long, but one of so many.
            each = {cost.bytes: cost.seconds for cost in costs[kind]}
            part = (
                trimmed_mean(totals[kind]) / sum(each[size] for size in units if size)
                if each
                else 1
            )
            costs[kind] = [cost._replace(seconds=part * cost.seconds) for cost in costs[kind]]
        self.cast_in, self.cast_out = casts.get("bf16", (0, 0))
        self.zero1 = costs["zero1"][0].seconds if costs["zero1"] else 0
        self.link = self.bf16 = None
        if any(cost.in_flight == 1 for cost in costs["all_reduce"]):
            plain = LinkCosts(
                [cost for kind in ("all_reduce", *UNITS.values()) for cost in costs[kind]],
                self.channels,
            )
            self.link = MeasuredLink(plain, first["world_size"])
            # Several smaller collectives at one time gain as much as others.
            together = [
                cost._replace(
                    in_flight=2,
                    seconds=cost.seconds * 2 / plain.gain(cost.bytes / self.bf16_part, 2),
                )
                for cost in costs["bf16"]
                if self.channels == 2
            ]
            if costs["bf16"]:
                self.bf16 = MeasuredLink(
                    LinkCosts(costs["bf16"] + together, self.channels), first["world_size"]
                )

    def add(self, sent):
        kind, together = sent["kind"], sent["in_flight"] == 0 and sent["kind"] != "zero1"
        if not kind or together and self.channels == 1:
            return  # collectives wait for each other
        size, in_flight = (
            1 if kind == "zero1" else sent["bytes"][0],
            self.channels if together else 1,
        )
        own = self.samples[kind, in_flight, size]
        own["processor"].append(sent["cpu_ns"] / sent["wall_ns"])
        if (
            sent["in_flight"] == 0
        ):  # all have been issued, and as many run at a time as there are channels
            own["seconds"].append(NS * sent["wall_ns"] * in_flight * size / sum(sent["bytes"]))
            return
        pieces = [k for k, other in enumerate(sent["bytes"]) if other == size]
        # The mean of a step, because small collectives that wait for a CPU are rare and long.
        ns, in_ns, out_ns = (
            sum(sent[name][k] for k in pieces) / len(pieces) if sent[name] else 0
            for name in ("ns", "in_ns", "out_ns")
        )
        own["seconds"].append(NS * (ns + out_ns))
        own["in"].append(NS * in_ns / size)
        own["out"].append(NS * out_ns / size)
