"""Reads what programs of nccl-tests and rccl-tests print, and what nccl-tests write with -J."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from gradsync.nccl_run import COLUMNS, RankPlace, Run, Units, halves_of
from gradsync.refusing import require

# Launchers and collectors of logs put words before a line: nothing is looked for at its begin.
PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf\b")
BEGIN = re.compile(r"\bnThreads?:? +\d+ +nGpus")
RANK = re.compile(r"\bRank +(\d+) +(?:Group +(\d+) +)?(?:Pid +\d+ +on +(\S+)|uses) +device")
HEADER = re.compile(r"\b(?:size|bytes)\s+(?:count|N)\s.*\balgbw\s+busbw\b.*")
UNITS = re.compile(r"\((s|ms|us)\)\s+\((\w+/s)\)")
ROW = re.compile(
    r"(\d+)\s+(\d+)\s+(u?int\d*|u?char|half|float|double|(?:bf|bfloat|fp?)\d\w*)\s+(.*)"
)
# The end of a row that another line has interrupted.
REST = re.compile(r"\s*(?:(?:[\d.,]+(?:e[+-]?\d+)?|N/A)\s+){3,}[\d.,e+/NA-]*\s*")
ELIDED = re.compile(r"(^|\s)\.\.\.\s*$")
FAILED_CHECK = re.compile(r"Out of bounds values\s*:.*FAILED")
CONCLUDED = "concluded"  # of a program: a line at its end
MOST_GPUS = 16384  # of one process


class OutputReader:
    """Reads the output of programs, one after the other, line by line."""

    def __init__(self) -> None:
        self.runs = [Run()]
        self._pending: list[str] | None = None  # the words of a row before its times

    @property
    def _run(self) -> Run:
        return self.runs[-1]

    def read(self, line: str) -> None:
        """Reads the next line."""
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
        """Whether the line is of the next program: something that stands before rows."""
        if not self._run.rows or CONCLUDED in line or ROW.search(line):
            return False
        return any(pattern.search(line) for pattern in (RANK, HEADER, PROGRAM, BEGIN))

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
        if not self._pending or not REST.fullmatch(line + " "):
            return False
        if self._run.add(self._pending + line.split()):
            self._run.unread -= 1
        self._pending = None
        return True

    def _header(self, line: str) -> bool:
        match = HEADER.search(line)
        if not match:
            return False
        columns = match[0].split()
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
        match = PROGRAM.search(line)
        if not match:
            return False
        if CONCLUDED not in line or not self._run.program:
            self._run.program = match[1]
        return True

    def _order(self, line: str) -> bool:
        """Which half of a row is in place."""
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
        elif FAILED_CHECK.search(line):
            self._run.failed = True
        return True


def is_header(line: str) -> bool:
    """Whether a line names the columns of rows."""
    return HEADER.search(line) is not None


def runs_of(lines: Iterable[str]) -> list[Run]:
    """Returns the runs that have rows."""
    reader = OutputReader()
    for line in lines:
        reader.read(line)
    return [run for run in reader.runs if run.rows]


def runs_of_json(text: str) -> list[Run]:
    """Returns the runs that have rows, of the JSON of -J: one document per program.

    Raises KeyError or TypeError if a document is another one.
    """
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)  # texts show their digits
    runs = []
    while text:
        document, end = decoder.raw_decode(text)
        text = text[end:].strip()
        run = _run_of(document)
        if run.rows:
            runs.append(run)
    return runs


def _run_of(document: Any) -> Run:
    named = PROGRAM.search(document["args"][0])
    run = Run(program=named[1] if named else document["args"][0], units=Units("us", "GB/s"))
    run.places = _places_of(document["config"])
    run.failed = document.get("out_of_bounds", {}).get("okay") in (False, "false")
    for result in document["results"]:
        times = result["in_place"] or result["out_of_place"]
        require(
            "time" in times,
            f"its results have {', '.join(times)}: expected time, "
            "which nccl-tests write without -C",
        )
        before = [str(result[name]) for name in COLUMNS[: COLUMNS.index("time")]]
        numbers = [str(times[name]) for name in ("time", "alg_bw", "bus_bw")]
        if not run.add(before + numbers):
            run.unread += 1
    return run


def _places_of(config: Any) -> dict[int, RankPlace]:
    """Returns the places of ranks, which are GPUs; the document lists processes."""
    each = int(config["nthreads"]) * int(config["ngpus"])
    return {
        each * process + gpu: RankPlace(device.get("group"), device.get("hostname"))
        for process, device in enumerate(config["devices"])
        for gpu in range(min(each, MOST_GPUS))
    }
