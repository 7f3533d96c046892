"""Computes bounds of printed numbers: a printed "1.5" stands for any number from about 1.45 to
1.55."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = re.compile(r"(\d+)(?:[.,](\d*))?(?:e([+-]?\d{1,2}))?")
# Of the last digit's unit: half of it, and a bit for the rounding of halves.
ROUNDING = 0.51
COMPUTED = 1e-12  # what products of numbers with all their digits may be off, as a part
LEAST_DIGITS = 0.1  # a less precise time or bandwidth proves nothing


@dataclass(frozen=True)
class Interval:
    """The smallest number `low` and the largest number `high` that may have been rounded to one
    printed number."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def is_precise(self) -> bool:
        """Returns whether `high - low` is less than 10 % of `high`."""
        return self.high - self.low < LEAST_DIGITS * self.high

    def scaled(self, factor: float) -> Interval:
        """Returns an Interval with `low` and `high` multiplied by the positive number `factor`."""
        return Interval(factor * self.low, factor * self.high)

    def may_be(self, value: float) -> bool:
        """Returns whether `value` is at least `low` and at most `high`."""
        return self.low <= value <= self.high


def interval_of(text: str) -> Interval | None:
    """Returns the Interval of the numbers that may have been printed as `text`, such as "1.5",
    "1,5" or "2e-3". Returns None if `text` has another form, for example if it begins with a
    sign."""
    match = NUMBER.fullmatch(text)
    if not match:
        return None
    unit = 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
    value = float(text.replace(",", "."))
    rounding = max(ROUNDING * unit, COMPUTED * value)
    return Interval(max(0.0, value - rounding), value + rounding)
