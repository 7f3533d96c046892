"""Reads the output of nccl-tests and rccl-tests, which are benchmarks of collectives on GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gradsync.nccl_run import COLUMNS, RankPlace, Run, Units, halves_of
from gradsync.refusing import require

# Launchers and collectors of logs put words before a line: nothing is looked for at its begin.
# A line is read in steps in proportion to its length: each pattern begins where a word begins.
PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?(?![\w/]|\.\w)")
PROGRAMS = (
    *("all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "broadcast"),
    *("reduce", "gather", "scatter", "sendrecv", "hypercube"),
)
BEGIN = re.compile(r"\bnThreads?:? +\d+ +nGpus")
RANK = re.compile(r"\bRank +(\d+) +(?:Group +(\d+) +)?(?:Pid +\d+ +on +(\S+)|uses) +device")
HEADER = re.compile(r"\b(?:size|bytes)\s+(?:count|N)\s")
RATES = re.compile(r"\balgbw\s+busbw\b")
UNITS = re.compile(r"\((s|ms|us)\)\s+\((\w+/s)\)")
ROW = re.compile(
    r"(?<!\d)(\d+)\s+(\d+)\s+(u?int\d*|u?char|half|float|double|(?:bf|bfloat|fp?)\d\w*)\s+(.*)"
)
# Words of the end of a row that another line has interrupted, and how many it has at least.
REST = re.compile(r"[\d.,]+(?:e[+-]?\d+)?|N/A|-1")
SHORTEST_REST = 3
ELIDED = re.compile(r"(?:^|\s)\.\.\.\s*$")
BOUNDS = "Out of bounds values"
FAILED = "FAILED"
CONCLUDED = "concluded"  # of a program: a line at its end


class OutputReader:
    """Reads lines printed by programs of nccl-tests or rccl-tests. `runs`: one Run for each program
    that printed rows of measurements, and possibly a last Run without rows."""

    def __init__(self) -> None:
        self.runs = [Run()]
        self._pending: list[str] | None = None  # the words of a row before its times

    @property
    def _run(self) -> Run:
        return self.runs[-1]

    def read(self, line: str) -> None:
        """Reads one line. Raises Refused if the line is the header of a table without a column
        `type`, or without a column `time` before `algbw` and `busbw`."""
        if self._begins_next(line):
            self.runs.append(Run())
        readers = (
            self._row,
            self._rest,
            self._header,
            self._rank,
            self._program,
            self._order,
            self._units,
            self._remark,
        )
        any(reader(line) for reader in readers)  # until one has read it

    def _begins_next(self, line: str) -> bool:
        """Returns whether the output of a new benchmark program begins with `line`; False if the
        current Run has no rows yet."""
        if not self._run.rows or CONCLUDED in line or ROW.search(line):
            return False
        return is_header(line) or any(pattern.search(line) for pattern in (RANK, PROGRAM, BEGIN))

    def _row(self, line: str) -> bool:
        match = ROW.search(line)
        if not match:
            return False
        words = [match[1], match[2], match[3], *match[4].split()]
        self._pending = None
        if not self._run.add(words):
            self._pending = words[: self._run.columns.index("time")]
            self._run.unread += 1
        return True

    def _rest(self, line: str) -> bool:
        words = line.split()
        if not self._pending or len(words) < SHORTEST_REST or not all(map(REST.fullmatch, words)):
            return False
        if self._run.add(self._pending + words):
            self._run.unread -= 1
        self._pending = None
        return True

    def _header(self, line: str) -> bool:
        columns = _columns_of(line)
        if not columns:
            return False
        require(
            "type" in columns and halves_of(columns),
            f"its columns are {' '.join(columns)}: expected {' '.join(COLUMNS)}",
        )
        self._run.columns = columns
        return True

    def _rank(self, line: str) -> bool:
        match = RANK.search(line)
        if not match:
            return False
        self._run.places[int(match[1])] = RankPlace(group=match[2], host=match[3])
        return True

    def _program(self, line: str) -> bool:
        program = program_of(line)
        if not program:
            return False
        if CONCLUDED not in line or not self._run.program:
            self._run.program = program
        return True

    def _order(self, line: str) -> bool:
        """If `line` has the titles out-of-place and in-place, stores their order in the current
        Run."""
        if "out-of-place" not in line or "in-place" not in line:
            return False
        self._run.is_in_place_last = line.index("in-place") > line.index("out-of-place")
        return True

    def _units(self, line: str) -> bool:
        match = UNITS.search(line)
        if not match or self._run.rows:
            return False
        self._run.units = Units(time=match[1], rate=match[2])
        return True

    def _remark(self, line: str) -> bool:
        if ELIDED.search(line):
            self._run.is_elided = True
        elif BOUNDS in line and FAILED in line:
            self._run.failed = True
        return True


def is_header(line: str) -> bool:
    """Returns whether `line` has the names of the columns of a table of nccl-tests."""
    return bool(_columns_of(line))


def _columns_of(line: str) -> Sequence[str]:
    """Returns the names of the columns if `line` is the header of a table of nccl-tests, else
    ()."""
    begin = HEADER.search(line)
    if not begin or not RATES.search(line, begin.end()):
        return ()
    return line[begin.start() :].split()


def program_of(line: str) -> str | None:
    """Returns the name of a collective, such as all_reduce, if the line names its program, such as
    all_reduce_perf; else None. Of several names, returns the last that is in PROGRAMS, or else the
    last one."""
    names: list[str] = PROGRAM.findall(line)
    known = [name for name in names if name in PROGRAMS]
    return known[-1] if known else names[-1] if names else None


def runs_of(lines: Iterable[str]) -> list[Run]:
    """Returns a Run for each execution of a program of nccl-tests or rccl-tests that printed rows
    of measurements in `lines`."""
    reader = OutputReader()
    for line in lines:
        reader.read(line)
    return [run for run in reader.runs if run.rows]
