"""Checks that several measured times of equal collectives agree, because otherwise their mean is
useless."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gradsync import Refused
from gradsync.link import Cost, Operation
from gradsync.units_text import ms_text, sizes_text

MOST_RATIO = 1.5  # of two measurements that count as one


@dataclass(frozen=True)
class Spread:
    """The shortest and longest measured time, in seconds, of collectives with the same operation,
    size (`bytes`) and number running at a time."""

    bytes: float
    least_s: float
    most_s: float

    @property
    def ratio(self) -> float:
        return self.most_s / self.least_s

    def text(self) -> str:
        return (
            f"measurements of one size differ by up to {self.ratio:.3g} times, at "
            f"{sizes_text([self.bytes])}: {ms_text(self.least_s)} and {ms_text(self.most_s)}"
        )


def differing(costs: Iterable[Cost]) -> Spread | None:
    """Groups `costs` by operation, size and Cost.in_flight, and returns the Spread of the group
    with the largest ratio of times. Returns None if no ratio is above 1.5 (MOST_RATIO). Costs whose
    `seconds` are not above 0 are ignored."""
    taken: dict[tuple[Operation, int, float], list[float]] = defaultdict(list)
    for cost in costs:
        if cost.seconds > 0:  # others are refused elsewhere
            taken[cost.kind, cost.in_flight, cost.bytes].append(cost.seconds)
    spreads = [Spread(size, min(seconds), max(seconds)) for (_, _, size), seconds in taken.items()]
    widest = max(spreads, key=lambda spread: spread.ratio, default=None)
    return widest if widest and widest.ratio > MOST_RATIO else None


def refuse_differing(costs: Iterable[Cost]) -> None:
    """Raises Refused if differing(costs) is not None: if times of equal collectives differ by a
    factor above 1.5 (MOST_RATIO)."""
    spread = differing(costs)
    if spread:
        raise Refused(f"{spread.text()}; keep one of them in the file")
