"""Keeps the rows of measurements that one program of nccl-tests or rccl-tests has printed, and
leaves out rows whose numbers contradict each other.

Leaves out a row if its size is not its time times its algorithm bandwidth, within the printed
digits. Also leaves out a row whose bus bandwidth is not the one that nccl-tests defines for the
collective and the number of ranks (its doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradsync.link import Cost, Operation
from gradsync.network import sent_part
from gradsync.printed import Interval, interval_of
from gradsync.refusing import require
from gradsync.units_text import ranks_text

COLUMNS = (  # of a row, where no header tells others
    *("size", "count", "type", "redop", "root"),
    *("time", "algbw", "busbw", "#wrong"),
    *("time", "algbw", "busbw", "#wrong"),
)
NUMBERS = ("time", "algbw", "busbw")
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
BYTES = {"GB/s": 1e9, "MB/s": 1e6, "KB/s": 1e3, "B/s": 1.0}
NO_REDUCTION = "none"  # the redop of collectives that move data alone
NO_ROOT = "-1"  # the root of collectives that have none, as an all-reduce
MOST_RANKS = 16384


@dataclass(frozen=True)
class Units:
    """The units in which the time and the two bandwidths (algorithm and bus) of a row are printed,
    such as "us" and "GB/s". `time` is "us", "ms" or "s". `rate` is a key of BYTES, such as "MB/s";
    any other text counts as GB/s."""

    time: str
    rate: str


@dataclass(frozen=True)
class PrintedRow:
    """One printed row: a measurement of a collective on `size_bytes` bytes. `time`, `algbw` and
    `busbw` are texts with exactly the digits that were printed."""

    size_bytes: int
    dtype: str
    redop: str
    root: str
    time: str
    algbw: str
    busbw: str
    is_wrong: bool


@dataclass(frozen=True)
class Row:
    """One printed row: a measurement of a collective on `size_bytes` bytes. The time is in seconds,
    and the bandwidths (`algbw` and `busbw`) are in bytes per second. Time and bandwidths are
    intervals, because they were printed with few digits."""

    size_bytes: int
    time_s: Interval
    algbw: Interval
    busbw: Interval
    is_wrong: bool

    def bus_factors(self) -> Interval:
        """Returns the bus bandwidth divided by the algorithm bandwidth. The quotient is the number
        of bytes that a rank sends for each byte that the collective reduces or gathers. The
        divisor, the interval self.algbw, must not contain 0."""
        return Interval(self.busbw.low / self.algbw.high, self.busbw.high / self.algbw.low)

    def has_bus_factor(self, factor: float) -> bool:
        return (
            self.busbw.low <= factor * self.algbw.high
            and factor * self.algbw.low <= self.busbw.high
        )


@dataclass(frozen=True)
class RankPlace:
    """The host of a rank, and the group of ranks with which it runs collectives. `group` or `host`
    is None if the program of nccl-tests or rccl-tests does not print it. Several groups of ranks
    may measure at the same time.
    """

    group: str | None
    host: str | None


@dataclass(frozen=True)
class CheckedRun:
    """The number of ranks, and the costs of collectives, computed from a program's output. Rows
    whose size, time and bandwidths contradict each other or the number of ranks are left out.
    `says`: lines for the user about the measurement, such as how many rows were rejected."""

    ranks: int
    costs: list[Cost]
    says: list[str]


def halves_of(columns: Sequence[str]) -> list[slice]:
    """Returns, for each half of a printed row, the slice of `columns` that has the time and the
    bandwidths of this half. One half is measured out of place (input and output are two buffers),
    the other in place (they are one buffer). Some programs print only one of the two halves."""
    begins = [place for place, name in enumerate(columns) if name == "time"]
    ends = [*begins[1:], len(columns)]  # one more than begins, if there are none
    halves = [slice(begin, end) for begin, end in zip(begins, ends, strict=False)]
    return [half for half in halves if set(NUMBERS) <= set(columns[half])]


def is_wrong(text: str) -> bool:
    """Returns whether a count of wrong elements is not 0. Returns False for N/A, which a program
    prints if it does not check its results."""
    count = interval_of(text)
    return count is not None and count.low > 0


@dataclass
class Run:
    """What one program of nccl-tests or rccl-tests has printed about one collective.

    `program`: the printed name of the measured collective; None if no name is printed. `places`:
    for each rank that is listed in the output, its host, and the group of ranks with which it runs
    collectives. `is_elided`: whether the printed list of ranks is shortened. `failed`: whether the
    program of nccl-tests or rccl-tests says that its own check of results failed.
    `is_in_place_last`: whether the second half of a row is the one that was measured in place
    (input and output are one buffer, as in DDP). `units`: the units that the program prints for
    times and bandwidths; None if it prints no units. `unread`: the number of rows that could not be
    read, because they lack numbers.
    """

    program: str | None = None
    places: dict[int, RankPlace] = field(default_factory=dict)
    is_elided: bool = False
    failed: bool = False
    columns: Sequence[str] = COLUMNS
    is_in_place_last: bool = True
    units: Units | None = None
    unread: int = 0
    rows: list[PrintedRow] = field(default_factory=list)

    def add(self, words: Sequence[str]) -> bool:
        """Adds a row of measurements. `words`: the words of the line that nccl-tests or rccl-tests
        has printed for the row. A row has one or two halves: one was measured out of place (input
        and output are two buffers), the other in place (they are one buffer). Uses the half in
        place if it has a time and both bandwidths, or else the half out of place. If neither half
        has all three, adds no row, and returns False."""
        halves = halves_of(self.columns)
        if self.is_in_place_last:
            halves.reverse()
        # A row may be cut off, or have more words than the header has columns.
        named = dict(zip(self.columns, words, strict=False))
        for half in halves:
            numbers = dict(zip(self.columns[half], words[half], strict=False))
            if all(interval_of(numbers.get(name, "")) for name in NUMBERS):
                row = PrintedRow(
                    size_bytes=int(words[0]),
                    dtype=words[2],
                    redop=named.get("redop", named.get("op", NO_REDUCTION)),
                    root=named.get("root", NO_ROOT),
                    time=numbers["time"],
                    algbw=numbers["algbw"],
                    busbw=numbers["busbw"],
                    is_wrong=is_wrong(numbers.get("#wrong", "0")),
                )
                self.rows.append(row)
                return True
        return False

    def collective(self) -> str | None:
        """Returns the name of the measured collective, if nccl-tests or rccl-tests has printed it.
        If it has not, but the first row of measurements names a reduction (such as sum) and no root
        rank, returns the name of an all-reduce. Otherwise returns None."""
        if self.program:
            return self.program
        return Operation.ALL_REDUCE.value if self._reduces_to_all() else None

    def _reduces_to_all(self) -> bool:
        first = self.rows[0]
        return first.redop != NO_REDUCTION and not first.root.isdecimal()

    def checked(self, kind: Operation) -> CheckedRun:
        """Returns the costs of collectives of this kind, computed from the rows whose size, time
        and bandwidths agree with each other and with the number of ranks. Raises Refused if the
        numbers agree in too few rows, if the number of ranks is 1 or unknown, or if every bandwidth
        has fewer than two digits."""
        first = self.rows[0]
        is_all_reduce = kind == Operation.ALL_REDUCE
        require(
            not is_all_reduce or first.redop != NO_REDUCTION,
            "says all_reduce and redop none: expected one such as sum",
        )
        require(
            not is_all_reduce or self._reduces_to_all(),
            f"says all_reduce and root {first.root}: expected {NO_ROOT}, as it has none",
        )
        good, bad = self._agreeing_rows()
        precise = [row for row in good if row.algbw.is_precise]
        require(
            precise and len(good) >= len(bad),
            bad[0] if bad else "no bandwidth has two digits or more: measure up to -e 128M",
        )
        # The row whose bandwidths have most digits tells most about the number of ranks.
        told = BusFactor(min(precise, key=_imprecision_of_busbw), kind)
        ranks, says = self._ranks(told)
        require(
            ranks > 1,
            "measured by 1 rank, expected 2 or more: nccl-tests that are built without MPI "
            "measure each by itself",
        )
        factor = sent_part(kind, ranks)
        kept = [row for row in good if row.has_bus_factor(factor)]
        require(
            2 * len(kept) > len(good),
            f"lists {ranks} ranks, but {told.text()}; {kind.value} of {ranks} has {factor:.3g}",
        )
        left_out = len(good) - len(kept) + len(bad) + self.unread
        if left_out:
            says.append(
                f"rows that are left out, because they do not agree with themselves: {left_out}"
            )
        if self.failed or any(row.is_wrong for row in good):
            says.append("its own check of results FAILED")
        timed = [row for row in kept if row.time_s.is_precise]
        costs = [Cost(row.size_bytes, row.time_s.middle, kind=kind) for row in timed]
        return CheckedRun(ranks, costs, says)

    def _rows_of_one_type(self) -> list[PrintedRow]:
        """Returns the rows with one data type and one operation (how a collective reduces, such as
        sum). The chosen data type is float if any row has it, or else the data type of the first
        row. The chosen operation is sum if any row of the chosen data type has it, or else that of
        the first such row.
        """
        types = [row.dtype for row in self.rows]
        dtype = "float" if "float" in types else types[0]
        rows = [row for row in self.rows if row.dtype == dtype]
        redops = [row.redop for row in rows]
        redop = "sum" if "sum" in redops else redops[0]
        return [row for row in rows if row.redop == redop]

    def _agreeing_rows(self) -> tuple[list[Row], list[str]]:
        """Returns two lists: the rows whose size is the time times the algorithm bandwidth, up to
        rounding, and a text about each row whose size differs from this product. If no units are
        printed, assumes GB/s and the unit of time with which the first list is longest.
        """
        rows = self._rows_of_one_type()
        if self.units:
            return agreeing(rows, self.units)
        attempts = [agreeing(rows, Units(time, "GB/s")) for time in SECONDS]
        return max(attempts, key=lambda attempt: len(attempt[0]))

    def _ranks(self, told: BusFactor) -> tuple[int, list[str]]:
        """Returns how many ranks took part in each measured collective, and lines for the user
        about this number. If not all ranks are listed, computes the number from `told`, the
        quotient of a row's two bandwidths. Raises Refused if the number stays unknown."""
        is_whole = sorted(self.places) == list(range(len(self.places)))
        if not self.places or self.is_elided or not is_whole:
            require(
                len(told.fitting) == 1,
                f"lists {len(self.places) or 'no'} ranks, not all of them, and {told.text()}: "
                "that does not tell how many there are",
            )
            return told.fitting[0], [f"it does not list all ranks, but {told.text()}"]
        groups = Counter(place.group for place in self.places.values())
        hosts = {place.host for place in self.places.values() if place.host is not None}
        ranks = max(groups.values())
        require(
            min(groups.values()) == ranks,
            f"groups of different numbers of ranks: {sorted(groups.values())}",
        )
        says = []
        if len(groups) > 1:
            says.append(f"{len(groups)} groups of {ranks} ranks at the same time")
        if len(hosts) == 1:
            says.append("all ranks on one host: it does not tell what a link between hosts takes")
        return ranks, says


class BusFactor:
    """The bus bandwidth of one row divided by its algorithm bandwidth. `fitting`: the numbers of
    ranks, up to MOST_RANKS, with which the collective would have this quotient, within the rounding
    of the two printed bandwidths."""

    def __init__(self, row: Row, kind: Operation) -> None:
        self._factors = row.bus_factors()
        self.fitting = [
            ranks
            for ranks in range(1, MOST_RANKS + 1)
            if self._factors.may_be(sent_part(kind, ranks))
        ]

    def text(self) -> str:
        text = f"busbw / algbw is {self._factors.low:.3g} to {self._factors.high:.3g}"
        if len(self.fitting) == 1:
            text += f", as of {ranks_text(self.fitting[0])}"
        return text


def _imprecision_of_busbw(row: Row) -> float:
    return row.busbw.high / row.busbw.low if row.busbw.low else math.inf


def agreeing(rows: Sequence[PrintedRow], units: Units) -> tuple[list[Row], list[str]]:
    """Takes the numbers in `rows` to be in `units`. The first returned list has the rows whose size
    is the time times the algorithm bandwidth, up to rounding, except rows with size 0 or a printed
    bandwidth of 0.00. The second list has a text about each row whose size differs from this
    product."""
    good = []
    bad = []
    for printed in rows:
        row = _row_of(printed, units)
        least = row.time_s.low * row.algbw.low
        most = row.time_s.high * row.algbw.high
        if not least <= row.size_bytes <= most:
            bad.append(
                f"size {printed.size_bytes} in a time of {printed.time} is not an algbw of "
                f"{printed.algbw}: columns or units are not understood"
            )
        elif row.size_bytes > 0 and row.algbw.low > 0:
            good.append(row)
    return good, bad


def _row_of(printed: PrintedRow, units: Units) -> Row:
    rate = BYTES.get(units.rate, BYTES["GB/s"])
    return Row(
        printed.size_bytes,
        _scaled(printed.time, SECONDS[units.time]),
        _scaled(printed.algbw, rate),
        _scaled(printed.busbw, rate),
        printed.is_wrong,
    )


def _scaled(text: str, unit: float) -> Interval:
    interval = interval_of(text)
    assert interval is not None, text  # Run.add has taken numbers alone
    return interval.scaled(unit)
