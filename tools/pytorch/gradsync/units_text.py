"""Formats times, bytes and percentages for users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradsync.estimates import Interval
from gradsync.schema import MIB

KIB = 1 << 10
LARGE = 9999.5  # from here on four digits would need an exponent


def ms_text(seconds: float) -> str:
    return f"{_four_digits(1e3 * seconds)} ms"


def _four_digits(value: float) -> str:
    """Returns a number with up to four significant digits; from a magnitude of 9999.5 on, as a
    whole number. Only nonzero numbers of a magnitude below 0.0001 have an exponent."""
    return f"{value:.0f}" if abs(value) >= LARGE else f"{value:.4g}"


def limits_text(step_s: Interval) -> str:
    """Returns the limits of an interval in ms, without the unit, such as "[9.5, 10.25]"."""
    return f"[{_four_digits(1e3 * step_s.low)}, {_four_digits(1e3 * step_s.high)}]"


def interval_text(step_s: Interval) -> str:
    """Returns an interval's value and limits in ms, such as "9.8 [9.5, 10.25]"."""
    return f"{_four_digits(1e3 * step_s.value)} {limits_text(step_s)}"


def estimate_text(step_s: Interval) -> str:
    """Returns an interval's value and limits with their unit, such as "9.8 [9.5, 10.25] ms"."""
    return f"{interval_text(step_s)} ms"


def sum_texts(total_s: float, parts_s: Sequence[float]) -> list[str]:
    """Returns the texts of a total, which must be positive, and of its parts in ms, without the
    unit. All these texts have as many decimals as the total needs for four significant digits. The
    printed parts add up to the printed total, because the first part gets the rounding error."""
    total = 1e3 * total_s
    decimals = max(0, 3 - math.floor(math.log10(total)))
    _, *others = (round(1e3 * part, decimals) for part in parts_s)
    first = round(total, decimals) - sum(others)
    return [f"{part:.{decimals}f}" for part in (total, first, *others)]


def percent_text(part: float | None) -> str:
    """Returns a relative change as a percentage, such as "+1.5 %" for 0.015; empty for None."""
    return "" if part is None else f"{100 * part:+.1f} %"


def gbit_text(bytes_per_second: float) -> str:
    return f"{8e-9 * bytes_per_second:.4g} Gbit/s"


def bytes_text(size: float | None) -> str:
    """Returns a size in decimal units of bytes, such as "1.5 MB"; "unknown" for None."""
    if size is None:
        return "unknown"
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= factor:
            return f"{size / factor:.4g} {prefix}B"
    return f"{size:.4g} B"


def sizes_text(sizes: Iterable[float]) -> str:
    """Returns the smallest and the largest of these sizes as a text in MiB or KiB, such as "1 MiB
    to 25 MiB"; only one if they are equal. `sizes`: in bytes; must not be empty."""
    sizes = list(sizes)
    return " to ".join(_binary_text(size) for size in sorted({min(sizes), max(sizes)}))


def _binary_text(size: float) -> str:
    return f"{size / MIB:.4g} MiB" if size >= MIB else f"{size / KIB:.4g} KiB"


def ranks_text(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"
