"""Computes how long collectives between ranks take, and how much CPU time they use, from their
bytes.

Costs are measured by probes (probes.py) or by other programs (link_file.py), or computed from a
link's rate and latency (network.py).
"""

from __future__ import annotations

import bisect
import copy
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gradsync.refusing import require


class Operation(str, Enum):
    """The kind of a collective. The bytes of a collective are always those of the whole vector that
    it reduces or gathers, also where each rank has only a part of it.

    UNIT_GATHER and UNIT_REDUCE are the all-gather and the reduce-scatter of an FSDP2 unit
    (parameters that it gathers together), with the copies that FSDP2 makes before and after them.
    """

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    UNIT_GATHER = "unit_gather"
    UNIT_REDUCE = "unit_reduce"


# What programs measure and formulas compute. Costs of other operations are made of these.
KINDS = (Operation.ALL_REDUCE, Operation.ALL_GATHER)
SIZES = [2.0**k for k in range(8, 37)]  # bytes, between which a formula is taken to be linear


@dataclass(frozen=True)
class Cost:
    """The time and CPU use of collectives of one size, measured or computed.

    `in_flight`: how many collectives ran at the same time. `seconds`: the time until all of them
    were done. `bytes`: the size of the whole vector that one collective reduces or gathers.
    `processor`: the CPU-seconds that the collectives used on one rank, per second of their
    duration.
    """

    bytes: float
    seconds: float
    processor: float = 0
    kind: Operation = Operation.ALL_REDUCE
    in_flight: int = 1


class Curve:
    """A quantity, such as a time, that is known at some sizes, in bytes, and is taken to be linear
    between them.

    If several values are given for one size, the quantity at this size is their mean.
    """

    def __init__(self, points: Iterable[tuple[float, float]]) -> None:
        """`points`: pairs of a size in bytes and a value; there must be at least one."""
        values = defaultdict(list)
        for size, value in points:
            values[size].append(value)
        self.sizes: list[float] = sorted(values)
        self.values = [sum(values[size]) / len(values[size]) for size in self.sizes]

    def _along(self, size: float) -> float:
        """Interpolates linearly between the known sizes next to `size`. Beyond all known sizes,
        extrapolates from the two smallest or two largest. Needs at least two known sizes."""
        right = min(max(bisect.bisect(self.sizes, size), 1), len(self.sizes) - 1)
        left = right - 1
        slope = self.values[right] - self.values[left]
        part = (size - self.sizes[left]) / (self.sizes[right] - self.sizes[left])
        return self.values[left] + slope * part

    def ratio_at(self, size: float) -> float:
        """Returns the value, at this size, of a quantity that is not a time, such as CPU use.
        Between known sizes, the value is interpolated linearly. Below the smallest and above the
        largest known size, the value is that at this smallest or largest size."""
        if len(self.sizes) == 1:
            return self.values[0]
        return self._along(min(max(size, self.sizes[0]), self.sizes[-1]))

    def time_at(self, size: float) -> float:
        """Returns the time for `size` bytes, by interpolation. The curve's values must be times.

        Above the largest known size, the time is that of the largest known size, in proportion to
        `size`. If only one size is known, the times of all sizes are proportional to the size.
        Below the smallest known size, returns the longer of two times: the time of the smallest
        known size in proportion to `size`, and the time on the line through the two smallest known
        sizes.
        """
        smallest, largest = self.sizes[0], self.sizes[-1]
        if len(self.sizes) == 1 or size > largest:
            return self.values[-1] * size / largest
        if size < smallest:
            return max(self._along(size), self.values[0] * size / smallest)
        return self._along(size)

    def scaled(self, factor: float) -> Curve:
        """Returns a curve with the sizes of this curve, and its values times `factor`."""
        return Curve(
            (size, factor * value) for size, value in zip(self.sizes, self.values, strict=True)
        )


@dataclass(frozen=True)
class Curves:
    """Time and CPU use as functions of the size, for `in_flight` collectives that run at the same
    time."""

    in_flight: int
    seconds: Curve
    processor: Curve


class LinkCosts:
    """Time and CPU use of collectives between ranks, by operation, by size, and by how many
    collectives run at the same time.

    `channels`: the largest number of collectives that can run at the same time; any more wait until
    one of them is done.
    """

    def __init__(self, costs: Iterable[Cost], channels: int = 1) -> None:
        """Raises Refused if a cost has a size or a time that is not above 0, or an infinite time.
        Also raises Refused if no cost is of an all-reduce that ran while no other collective
        ran."""
        points: dict[Operation, dict[int, list[Cost]]] = defaultdict(lambda: defaultdict(list))
        for cost in costs:
            require(
                0 < cost.seconds < math.inf and cost.bytes > 0,
                f"a collective of {cost.bytes:g} bytes takes {cost.seconds:g} s, "
                "expected more than 0",
            )
            points[cost.kind][cost.in_flight].append(cost)
        require(1 in points[Operation.ALL_REDUCE], "no all-reduce")
        self.channels = channels
        self._curves: Mapping[Operation, Sequence[Curves]] = {
            kind: [_curves_of(in_flight, own) for in_flight, own in sorted(by_in_flight.items())]
            for kind, by_in_flight in points.items()
        }

    def with_curves(self, more: Mapping[Operation, Sequence[Curves]]) -> LinkCosts:
        """Returns a copy of these costs, in which each operation in `more` has only its curves in
        `more`.

        `more`: for each such operation, its new curves, sorted by `in_flight`, the number of
        collectives that run at the same time. The first Curves of each operation in `more` must be
        those of one collective alone (`in_flight` 1).
        """
        other = copy.copy(self)
        other._curves = {**self._curves, **more}
        return other

    def without_units(self) -> LinkCosts:
        """Returns these costs without those of the collectives of FSDP2's units (UNIT_GATHER and
        UNIT_REDUCE)."""
        other = copy.copy(self)
        other._curves = {
            kind: curves
            for kind, curves in self._curves.items()
            if kind not in (Operation.UNIT_GATHER, Operation.UNIT_REDUCE)
        }
        return other

    def changed(self, pace: float = 1, processor: float | None = None) -> LinkCosts:
        """Returns these costs with all times multiplied by `pace`. `processor`: unless None,
        replaces the CPU use of all collectives, in CPU-seconds on one rank per second of their
        duration."""

        def change(own: Curves) -> Curves:
            used = own.processor if processor is None else Curve([(1, processor)])
            return Curves(own.in_flight, own.seconds.scaled(pace), used)

        return self.with_curves(
            {kind: [change(one) for one in own] for kind, own in self._curves.items()}
        )

    def has(self, kind: Operation) -> bool:
        """Returns whether there are costs of this operation itself, and not only those of
        all-reduces."""
        return kind in self._curves

    def sizes(self, kind: Operation = Operation.ALL_REDUCE) -> list[float]:
        """Returns the sizes (bytes, smallest first) at which the cost of one collective of the
        operation `kind`, running alone, is known. If no costs of this operation are known, returns
        the sizes of all-reduces."""
        return self._of(kind).seconds.sizes

    def uses_processors(self) -> bool:
        """Returns whether all-reduces use CPU time, and so may slow down computation on CPUs."""
        return any(self._of(Operation.ALL_REDUCE).processor.values)

    def seconds(self, size: float, kind: Operation = Operation.ALL_REDUCE) -> float:
        """Returns the seconds that a collective takes if no other runs at the same time. If the
        costs of the operation `kind` are unknown, the collective is assumed to take half as long as
        an all-reduce of the same size."""
        return self._of(kind).seconds.time_at(size) / (1 if self.has(kind) else 2)

    def processor(
        self, size: float, in_flight: int, kind: Operation = Operation.ALL_REDUCE
    ) -> float:
        """Returns the CPU time that `in_flight` collectives of this size together use on one rank
        while they run at the same time, in CPU-seconds per second of their duration. If no costs of
        `in_flight` collectives are known, returns the CPU time of the largest known smaller number
        of collectives. If no costs of the operation `kind` are known, returns the CPU time of
        all-reduces."""
        return self._of(kind, in_flight).processor.ratio_at(size)

    def gain(self, size: float, in_flight: int) -> float:
        """Returns how many times faster `in_flight` all-reduces of this size are at the same time
        than one after the other; below 1 if they are slower. If no costs of `in_flight` all-reduces
        are known, returns the ratio for the largest known smaller number of all-reduces."""
        together = self._of(Operation.ALL_REDUCE, in_flight)
        return together.in_flight * self.seconds(size) / together.seconds.time_at(size)

    def _of(self, kind: Operation, in_flight: int = 1) -> Curves:
        """Returns the curves of this operation or, if it has none, of all-reduces, for the largest
        known number of concurrent collectives that is at most `in_flight`."""
        curves = self._curves.get(kind) or self._curves[Operation.ALL_REDUCE]
        return [one for one in curves if one.in_flight <= in_flight][-1]


@dataclass(frozen=True)
class MeasuredLink:
    """A measured link: the costs of collectives between `world_size` ranks. `says`: lines for the
    user about the measurement, for example that the measuring program's check of results failed."""

    costs: LinkCosts
    world_size: int
    says: Sequence[str] = ()


def _curves_of(in_flight: int, costs: Sequence[Cost]) -> Curves:
    return Curves(
        in_flight,
        Curve((cost.bytes, cost.seconds) for cost in costs),
        Curve((cost.bytes, cost.processor) for cost in costs),
    )
