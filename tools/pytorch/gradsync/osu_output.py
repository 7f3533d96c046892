"""Reads the output of osu_allreduce, the program of the OSU micro-benchmarks that measures
all-reduces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gradsync.link import Cost, LinkCosts, MeasuredLink
from gradsync.refusing import require
from gradsync.repeats import refuse_differing

# Before a line may stand what launchers and collectors of logs put there.
TITLE = re.compile(r"\b(\w+) Latency Test")
COLUMN = re.compile(
    r"\b(?:Size|(?:Avg |Min |Max )?Latency ?\(us\)|Iterations|Validation|"
    r"P\d+ Tail Lat ?\(us\)|Transmit Size)"
)
AVERAGE_LATENCY = re.compile(r"(?:Avg )?Latency ?\(us\)")
SIZE = re.compile(r"(?<![\d.])(\d+)$")
LATENCY = re.compile(r"\d+\.\d+")
RANKS = re.compile(r"\s(?:-n|--?np|--ntasks)[ =]?(\d+)\s")
PROGRAM = "osu_allreduce"
FAILED = "Fail"
MICROSECOND = 1e-6


def is_title(line: str) -> bool:
    """Returns whether a line is the title of a latency test of the OSU micro-benchmarks."""
    return _test_of(line) is not None


def link_of(lines: Sequence[str], world_size: int) -> MeasuredLink:
    """Returns the costs of all-reduces, from the times that osu_allreduce has printed in `lines`.
    The number of ranks is that of a command in `lines` that starts osu_allreduce (-n, -np, --np or
    --ntasks), else `world_size`. Raises Refused if `lines` has no row of measurements, or if times
    for one size differ by a factor of more than 1.5. Also raises Refused if `lines` has commands
    that start osu_allreduce with different numbers of ranks, or if the number of ranks is 1. Raises
    Refused, too, if a table has an unknown column, or its second column is not the average latency.
    An average latency outside of the row's minimum and maximum raises Refused as well, as does a
    latency or a size of 0."""
    rows = list(_rows_of(lines))
    costs = [_cost_of(row) for row in rows]
    told = {ranks for ranks in map(_ranks_of, lines) if ranks}
    require(costs, "no rows of osu_allreduce")
    require(len(told) < 2, "osu_allreduce of several numbers of ranks, expected one")
    (ranks,) = told or {world_size}
    require(
        ranks > 1, "osu_allreduce does not tell how many ranks measured: say so with --world_size"
    )
    says = []
    if not told:
        says.append(
            f"taken to be measured by {ranks} ranks, as many as are asked for, "
            "which it does not tell"
        )
    if any(row.get("Validation") == FAILED for row in rows):
        says.append("its own check of results FAILED")
    refuse_differing(costs)
    return MeasuredLink(LinkCosts(costs), ranks, says)


def _test_of(line: str) -> str | None:
    """Returns the name of the latency test whose title this line is; None if it is no title."""
    title = TITLE.search(line)
    return title[1] if title and "OSU " in line[: title.start()] else None


def _ranks_of(line: str) -> int | None:
    """Returns the number of ranks (-n, -np or --ntasks) with which a command in this line starts
    osu_allreduce; None if the line has no such number."""
    launcher, program, _ = line.partition(PROGRAM)
    options = RANKS.findall(launcher) if program else []
    return int(options[-1]) if options else None


def _rows_of(lines: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yields the rows of the tables that osu_allreduce prints for its latency test of all-reduces,
    as dictionaries by column name."""
    columns: Sequence[str] = ()
    is_all_reduce = False
    for line in lines:
        test = _test_of(line)
        if test:
            is_all_reduce = test == "Allreduce"
        elif is_all_reduce and "Size" in line:
            columns = _columns_of(line)
        elif is_all_reduce and columns:
            row = _row_of(line, columns)
            if row:
                yield row


def _columns_of(line: str) -> Sequence[str]:
    """Returns the names of the columns in this line, which is the header of osu_allreduce's table.
    Raises Refused if the second column is not the average latency, or if a column is unknown."""
    columns = COLUMN.findall(line)
    unknown = COLUMN.sub("", line[line.index("Size") :]).strip()
    require(
        columns[1:] and AVERAGE_LATENCY.fullmatch(columns[1]) is not None and not unknown,
        f"its columns are {line.strip()}: expected Size and Avg Latency(us)",
    )
    return columns


def _row_of(line: str, columns: Sequence[str]) -> Mapping[str, str] | None:
    """Returns a row of osu_allreduce's table as a dictionary by column name; None if the line is
    not a row."""
    words = line.split()[-len(columns) :]
    if len(words) < len(columns) or not LATENCY.fullmatch(words[1]):
        return None
    size = SIZE.search(words[0])
    return {**dict(zip(columns, words, strict=True)), "Size": size[1]} if size else None


def _cost_of(row: Mapping[str, str]) -> Cost:
    """Returns the size and the average latency of a row of osu_allreduce's table. Raises Refused if
    the row has a minimum and a maximum, and the average is not between them."""
    names = [name for name in row if "Latency" in name]
    average, *others = (float(row[name]) for name in names)
    if len(others) >= 2:
        least, most, *_ = others
        require(
            least <= average <= most,
            f"an average of {average} is not between {others[:2]}: its columns are not understood",
        )
    return Cost(int(row["Size"]), MICROSECOND * average)
