"""Reads what osu_allreduce prints, of the OSU micro-benchmarks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradsync.link import Cost, LinkCosts, MeasuredLink
from gradsync.refusing import require

# Before a line may stand what launchers and collectors of logs put there.
TITLE = re.compile(r"OSU .*?(\w+) Latency Test")
ROW = re.compile(r"(?:^|[^\d.])(\d+)((?:\s+\d+\.\d+)+)(?:\s+\d+)?\s*$")
COMMAND = re.compile(r"\s-(?:np?|-ntasks)[ =](\d+)\s.*osu_allreduce")
COLUMNS = re.compile(r"Size\s+(Avg )?Latency ?\(us\)")
MICROSECOND = 1e-6


def is_title(line: str) -> bool:
    """Whether a line names a test of latency."""
    return TITLE.search(line) is not None


def link_of(lines: Sequence[str], world_size: int) -> MeasuredLink:
    """Returns what was measured. `world_size` is used if no command line tells how many ranks
    measured, because the output lacks their number. Raises Refused."""
    costs = _costs_of(lines)
    told = {int(match[1]) for match in map(COMMAND.search, lines) if match}
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
    return MeasuredLink(LinkCosts(costs), ranks, says)


def _costs_of(lines: Sequence[str]) -> list[Cost]:
    costs = []
    is_all_reduce = False
    for line in lines:
        title = TITLE.search(line)
        row = ROW.search(line)
        if title:
            is_all_reduce = title[1] == "Allreduce"
        elif not is_all_reduce or COMMAND.search(line):
            continue
        elif "Size" in line:
            require(
                COLUMNS.search(line),
                f"its columns are {line.strip()}: expected Size and Avg Latency(us)",
            )
        elif row:
            costs.append(Cost(int(row[1]), MICROSECOND * _average_of(row[2])))
    return costs


def _average_of(text: str) -> float:
    """Returns the average latency in microseconds, which the least and the most may follow."""
    average, *others = map(float, text.split())
    if len(others) >= 2:
        least, most, *_ = others
        require(
            least <= average <= most,
            f"an average of {average} is not between {others[:2]}: its columns are not understood",
        )
    return average
