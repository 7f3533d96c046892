"""Keeps and checks the rows of measurements that one program of nccl-tests or rccl-tests has
printed. A row is rejected if its size is not its time times its algorithm bandwidth, within
rounding. A row is also rejected if its bus bandwidth differs, by more than rounding, from the
formula in nccl-tests' doc/PERFORMANCE.md."""

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
    """The printed units of a row's time ("us", "ms" or "s") and bandwidths (such as "MB/s"). A
    `rate` that is no key of BYTES counts as GB/s."""

    time: str
    rate: str


@dataclass(frozen=True)
class PrintedRow:
    """The texts of one printed row, a measurement of a collective on `size_bytes` bytes. `time`,
    `algbw` and `busbw`: the printed digits of the time and of the two bandwidths, without units."""

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
    """The numbers of one printed row, a measurement of a collective on `size_bytes` bytes. `algbw`
    and `busbw`: the algorithm bandwidth and the bus bandwidth in bytes per second."""

    size_bytes: int
    time_s: Interval
    algbw: Interval
    busbw: Interval
    is_wrong: bool

    def bus_factors(self) -> Interval:
        """Returns the range of the bus bandwidth divided by the algorithm bandwidth, given their
        rounding."""
        return Interval(self.busbw.low / self.algbw.high, self.busbw.high / self.algbw.low)

    def has_bus_factor(self, factor: float) -> bool:
        return (
            self.busbw.low <= factor * self.algbw.high
            and factor * self.algbw.low <= self.busbw.high
        )


@dataclass(frozen=True)
class RankPlace:
    """The host and the group that a program has printed for a rank. A member is None if the program
    has not printed it. The ranks of one group run collectives together."""

    group: str | None
    host: str | None


@dataclass(frozen=True)
class CheckedRun:
    """The results of one program of nccl-tests or rccl-tests, without the rows that contradict
    themselves. `costs`: the sizes and times of the kept rows, which have one data type and one
    reduction. A row whose printed time has too few digits (Interval.is_precise) is not in `costs`.
    `says`: lines for the user, such as the number of rejected rows."""

    ranks: int
    costs: list[Cost]
    says: list[str]


def halves_of(columns: Sequence[str]) -> list[slice]:
    """Returns a slice of `columns` for each time that is followed by both bandwidths. A table
    usually has two of these slices: one measured out of place and one in place."""
    begins = [place for place, name in enumerate(columns) if name == "time"]
    ends = [*begins[1:], len(columns)]  # one more than begins, if there are none
    halves = [slice(begin, end) for begin, end in zip(begins, ends, strict=False)]
    return [half for half in halves if set(NUMBERS) <= set(columns[half])]


def is_wrong(text: str) -> bool:
    """Returns whether the printed count of wrong elements is above 0; False for N/A."""
    count = interval_of(text)
    return count is not None and count.low > 0


@dataclass
class Run:
    """What one program of nccl-tests or rccl-tests has printed about one collective. `program`: the
    printed name of the collective, such as all_reduce; None if no name is printed. `places`: for
    each listed rank, its host and the group of ranks with which it runs collectives. `is_elided`:
    whether only a part of the list of ranks is printed. `failed`: whether the program says that its
    own check of results failed. `is_in_place_last`: whether the last time in a row was measured in
    place (with one buffer for input and output). `units`: the printed units of times and
    bandwidths; None if no units are printed. `unread`: the number of rows without a readable time
    and bandwidths."""

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
        """Adds a measurement to `rows`. `words`: the words of one printed row, in the order of
        `columns`. Stores the in-place numbers or, if they are missing, the out-of-place numbers.
        Returns False and adds no row if the line has no complete set of time, algbw and busbw."""
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
        """Returns the printed name of the collective. If no name is printed, returns "all_reduce"
        if the first row has a reduction, such as sum, and no root rank. Otherwise returns None."""
        if self.program:
            return self.program
        return Operation.ALL_REDUCE.value if self._reduces_to_all() else None

    def _reduces_to_all(self) -> bool:
        first = self.rows[0]
        return first.redop != NO_REDUCTION and not first.root.isdecimal()

    def checked(self, kind: Operation) -> CheckedRun:
        """Returns a CheckedRun of the rows, of one data type and one reduction, whose size, time
        and bandwidths agree with each other. Raises Refused, for example if too few rows agree, or
        if the number of ranks is 1 or unknown."""
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
        """Returns the rows of one data type, preferably float, and of one reduction, preferably
        sum."""
        types = [row.dtype for row in self.rows]
        dtype = "float" if "float" in types else types[0]
        rows = [row for row in self.rows if row.dtype == dtype]
        redops = [row.redop for row in rows]
        redop = "sum" if "sum" in redops else redops[0]
        return [row for row in rows if row.redop == redop]

    def _agreeing_rows(self) -> tuple[list[Row], list[str]]:
        """Returns what agreeing() returns for the rows of one data type and one reduction. If no
        units are printed, assumes GB/s and the unit of time that keeps most rows."""
        rows = self._rows_of_one_type()
        if self.units:
            return agreeing(rows, self.units)
        attempts = [agreeing(rows, Units(time, "GB/s")) for time in SECONDS]
        return max(attempts, key=lambda attempt: len(attempt[0]))

    def _ranks(self, told: BusFactor) -> tuple[int, list[str]]:
        """Returns the number of ranks of each collective, and lines about the ranks for the user.
        If the output does not list all ranks, the number is computed from `told`, a row's bus
        bandwidth divided by its algorithm bandwidth."""
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
    """The bus bandwidth of `row` divided by its algorithm bandwidth. `fitting`: the numbers of
    ranks, up to 16384, for which collectives of this kind have this quotient, within rounding."""

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
    """Returns the rows whose size is, within rounding, time times algorithm bandwidth, and a text
    about each row with another size. A row of matching size is in neither list if its size or its
    printed algorithm bandwidth is 0."""
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
