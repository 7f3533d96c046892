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
    """The kind of a collective. The bytes of a collective are always the bytes of the whole vector.

    UNIT_GATHER and UNIT_REDUCE are the all-gather and the reduce-scatter of a unit of FSDP2, with
    the copies that FSDP2 makes before and after them.
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
    """The measured time and CPU use of collectives of one size.

    `in_flight`: the number of collectives that ran at the same time, and together took `seconds`.
    `bytes`: the size of one whole vector. `processor`: the CPU time that the collectives used on
    one rank, in CPU-seconds per second.
    """

    bytes: float
    seconds: float
    processor: float = 0
    kind: Operation = Operation.ALL_REDUCE
    in_flight: int = 1


class Curve:
    """A quantity that was measured at some sizes, in bytes, and is linear between them.

    If one size has several measurements, their mean is used.
    """

    def __init__(self, points: Iterable[tuple[float, float]]) -> None:
        """`points` are sizes with values, at least one."""
        values = defaultdict(list)
        for size, value in points:
            values[size].append(value)
        self.sizes: list[float] = sorted(values)
        self.values = [sum(values[size]) / len(values[size]) for size in self.sizes]

    def _along(self, size: float) -> float:
        """Returns the value on the line through the two nearest points."""
        right = min(max(bisect.bisect(self.sizes, size), 1), len(self.sizes) - 1)
        left = right - 1
        slope = self.values[right] - self.values[left]
        part = (size - self.sizes[left]) / (self.sizes[right] - self.sizes[left])
        return self.values[left] + slope * part

    def ratio_at(self, size: float) -> float:
        """Returns a quantity, such as CPU use, at this size; outside of the measured sizes it is
        constant.
        """
        if len(self.sizes) == 1:
            return self.values[0]
        return self._along(min(max(size, self.sizes[0]), self.sizes[-1]))

    def time_at(self, size: float) -> float:
        """Returns a time, which consists of latency and bytes divided by a rate, at this size.

        Above the largest measured size, the time is proportional to the bytes. Below the smallest
        measured size, it follows the line through the first two points, but is at least
        proportional to the bytes, so that it is never negative.
        """
        smallest, largest = self.sizes[0], self.sizes[-1]
        if len(self.sizes) == 1 or size > largest:
            return self.values[-1] * size / largest
        if size < smallest:
            return max(self._along(size), self.values[0] * size / smallest)
        return self._along(size)

    def scaled(self, factor: float) -> Curve:
        """Returns this curve with all values multiplied."""
        return Curve(
            (size, factor * value) for size, value in zip(self.sizes, self.values, strict=True)
        )


@dataclass(frozen=True)
class Curves:
    """Time and CPU use as functions of the size, for `in_flight` collectives at the same time."""

    in_flight: int
    seconds: Curve
    processor: Curve


class LinkCosts:
    """Time and CPU use of all kinds of collectives between all ranks.

    `channels`: the number of collectives that can run at the same time; a later one waits until one
    of them is done.
    """

    def __init__(self, costs: Iterable[Cost], channels: int = 1) -> None:
        """Raises Refused if a cost has no size or takes no time, or if there is no cost of a single
        all-reduce.
        """
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
        """Returns these costs, with the curves of some operations replaced.

        `more`: for each operation the curves, ordered by the number of collectives in flight,
        beginning with 1.
        """
        other = copy.copy(self)
        other._curves = {**self._curves, **more}
        return other

    def without_units(self) -> LinkCosts:
        """Returns these costs without the costs of FSDP2's units."""
        other = copy.copy(self)
        other._curves = {
            kind: curves
            for kind, curves in self._curves.items()
            if kind not in (Operation.UNIT_GATHER, Operation.UNIT_REDUCE)
        }
        return other

    def changed(self, pace: float = 1, processor: float | None = None) -> LinkCosts:
        """Returns these costs with all times multiplied by `pace`, and with this use of a rank's
        processors by collectives of all sizes, unless it is None.
        """

        def change(own: Curves) -> Curves:
            used = own.processor if processor is None else Curve([(1, processor)])
            return Curves(own.in_flight, own.seconds.scaled(pace), used)

        return self.with_curves(
            {kind: [change(one) for one in own] for kind, own in self._curves.items()}
        )

    def has(self, kind: Operation) -> bool:
        """Returns whether this operation itself was measured."""
        return kind in self._curves

    def sizes(self, kind: Operation = Operation.ALL_REDUCE) -> list[float]:
        """Returns the measured sizes of this operation, in bytes, smallest first."""
        return self._of(kind).seconds.sizes

    def uses_processors(self) -> bool:
        """Returns whether an all-reduce uses CPU time, and so slows computation on CPUs down."""
        return any(self._of(Operation.ALL_REDUCE).processor.values)

    def seconds(self, size: float, kind: Operation = Operation.ALL_REDUCE) -> float:
        """Returns the time of a single collective. An operation without measured costs takes half
        as long as an all-reduce of the same size.
        """
        return self._of(kind).seconds.time_at(size) / (1 if self.has(kind) else 2)

    def processor(
        self, size: float, in_flight: int, kind: Operation = Operation.ALL_REDUCE
    ) -> float:
        """Returns the CPU time that this number of concurrent collectives uses on one rank, in
        CPU-seconds per second.
        """
        return self._of(kind, in_flight).processor.ratio_at(size)

    def gain(self, size: float, in_flight: int) -> float:
        """Returns the speed of concurrent all-reduces divided by the speed of consecutive
        all-reduces; below 1 if they slow each other down.
        """
        together = self._of(Operation.ALL_REDUCE, in_flight)
        return together.in_flight * self.seconds(size) / together.seconds.time_at(size)

    def _of(self, kind: Operation, in_flight: int = 1) -> Curves:
        """Returns the curves for the largest measured number of concurrent collectives that is at
        most this number.
        """
        curves = self._curves.get(kind) or self._curves[Operation.ALL_REDUCE]
        return [one for one in curves if one.in_flight <= in_flight][-1]


@dataclass(frozen=True)
class MeasuredLink:
    """A measured link: the costs of collectives between this number of ranks. `says`: lines for
    users about the measurement."""

    costs: LinkCosts
    world_size: int
    says: Sequence[str] = ()


def _curves_of(in_flight: int, costs: Sequence[Cost]) -> Curves:
    return Curves(
        in_flight,
        Curve((cost.bytes, cost.seconds) for cost in costs),
        Curve((cost.bytes, cost.processor) for cost in costs),
    )
