"""Reads the JSON or CSV output of nccl-tests (with -J), rccl-tests (with -Z json or csv), and
Meta's nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.nccl_output import program_of
from gradsync.nccl_run import COLUMNS, NO_ROOT, NUMBERS, PrintedRow, RankPlace, Run, Units, is_wrong
from gradsync.printed import interval_of
from gradsync.refusing import require

UNITS = Units("us", "GB/s")
MOST_GPUS = 16384  # of one process
STRUCTURED = "nccl-tests structured output"  # Meta's identifier
# Of rccl-tests' tables: what the heading of the collective's column is, and what all tables have.
COLLECTIVE = "collective"
TABLE_COLUMNS = {COLLECTIVE, "size", "type", "redop", "inplace", "time", "algbw", "busbw"}
HOSTS = "nodes"  # a column that the heading of a table lacks, if the program was built with MPI
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Measured:
    """The collective that a program of rccl-tests measured, the number of ranks that took part, and
    whether all of them were on one host."""

    collective: str
    ranks: int
    is_one_host: bool

    def run(self) -> Run:
        """Returns a Run of this collective, to which the caller adds rows of measurements."""
        host = "one host" if self.is_one_host else None
        places = {rank: RankPlace(None, host) for rank in range(min(self.ranks, MOST_GPUS))}
        return Run(program=self.collective, places=places, units=UNITS)


def is_measurement(document: Any) -> bool:
    """Returns whether a JSON document has the keys or the identifier of a document that this module
    reads."""
    return isinstance(document, dict) and (
        {"args", "results"} <= set(document)
        or document.get("identifier") == STRUCTURED
        or _is_rccl_row(document)
    )


def runs_of_documents(documents: Iterable[Any], lines: Iterable[str]) -> list[Run]:
    """Returns the Runs (measurements of one collective each) that `documents` and `lines` describe,
    without Runs that have no readable row. `documents`: JSON documents for which is_measurement()
    is True. `lines`: lines of text, some of which may be rccl-tests' comma-separated tables.

    Raises LookupError, TypeError, AttributeError, ValueError or OverflowError if a document or
    table row has a missing or wrong field. Rows with an unreadable time or bandwidth raise nothing;
    Run.unread counts these rows."""
    runs = []
    rows: list[Mapping[str, Any]] = []
    for document in documents:
        if _is_rccl_row(document):
            rows.append({name.lower().lstrip("#"): value for name, value in document.items()})
        elif "results" in document:
            runs.append(_run_of(document))
        else:
            runs.append(_structured_run_of(document))
    rows += _table_rows(lines)
    return [run for run in [*runs, *_runs_of_rccl(rows)] if run.rows]


def _is_rccl_row(document: Mapping[str, Any]) -> bool:
    return {"name", "size", "inPlace", "algBw", "busBw"} <= set(document)


def _run_of(document: Any) -> Run:
    program = document["args"][0]
    run = Run(program=program_of(program) or program, units=UNITS)
    run.places = _places_of(document["config"])
    run.failed = document.get("out_of_bounds", {}).get("okay") in (False, "false")
    for result in document["results"]:
        times = result["in_place"] or result["out_of_place"]
        require(
            "time" in times,
            f"its results have {', '.join(times)}: expected time, "
            "which nccl-tests write without -C",
        )
        before = [str(result[name]).strip() for name in COLUMNS[: COLUMNS.index("time")]]
        numbers = [_printed(times[name]) for name in ("time", "alg_bw", "bus_bw")]
        if not run.add(before + numbers):
            run.unread += 1
    return run


def _places_of(config: Any) -> dict[int, RankPlace]:
    """Returns, by rank number, the RankPlace (host and group) of each rank that `config` lists.
    `config`: the value of that name in a JSON document of nccl-tests."""
    each = int(config["nthreads"]) * int(config["ngpus"])
    return {
        each * process + gpu: RankPlace(device.get("group"), device.get("hostname"))
        for process, device in enumerate(config["devices"])
        for gpu in range(min(each, MOST_GPUS))
    }


def _structured_run_of(document: Any) -> Run:
    """Returns the measurements in a JSON document of Meta's nccl-tests. For each size, uses the
    time with one buffer for input and output or, without it, the time with two buffers."""
    run = Run(units=UNITS)
    for one in document["benchmark"]:
        for size, numbers in one.items():
            half = "ip" if interval_of(str(numbers.get("ip_time"))) else "oop"
            before = [size, *(str(numbers[name]).strip() for name in COLUMNS[1:5])]
            times = [_printed(numbers[f"{half}_{name}"]) for name in NUMBERS]
            if not run.add([*before, *times, str(numbers.get(f"{half}_error", "0"))]):
                run.unread += 1
    return run


def _table_rows(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of rccl-tests' comma-separated tables in these lines, as dictionaries by
    column name."""
    columns: list[str] = []
    for line in lines:
        words = [word.strip(' "\t') for word in line.split(",")]
        names = [word.lower().lstrip("#") for word in words]
        if set(names) >= TABLE_COLUMNS:
            columns = ["name" if name == COLLECTIVE else name for name in names]
        elif columns and len(words) == len(columns):
            yield dict(zip(columns, words, strict=True))
        elif columns and len(words) == len(columns) + 1 and HOSTS not in columns:
            yield dict(zip([columns[0], HOSTS, *columns[1:]], words, strict=True))


def _runs_of_rccl(rows: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Returns `rows` as Runs. A new Run begins where a row's collective, number of ranks or
    `is_one_host` differs from the row before. If any row was measured in place (with one buffer for
    input and output), drops rows that were not."""
    runs: list[Run] = []
    last: Measured | None = None
    is_in_place = any(str(row["inplace"]) == "1" for row in rows)
    for row in rows:
        measured = _measured_of(row)
        if measured != last:
            runs.append(measured.run())
            last = measured
        if (str(row["inplace"]) == "1") == is_in_place:
            _add_rccl(runs[-1], row)
    return runs


def _measured_of(row: Mapping[str, Any]) -> Measured:
    gpus = int(row["gpusperrank"]) * int(row["ranks"]) if "ranks" in row else int(row["gpus"])
    is_one_host = (
        str(row["nodes"]) == "1"
        if "nodes" in row
        else "ranks" not in row or row["ranks"] == row.get("rankspernode")
    )
    return Measured(CAPITAL.sub("_", str(row["name"])).lower(), gpus, is_one_host)


def _add_rccl(run: Run, row: Mapping[str, Any]) -> None:
    numbers = [_printed(row[name]) for name in NUMBERS]
    if not all(map(interval_of, numbers)):
        run.unread += 1
        return
    time, algbw, busbw = numbers
    run.rows.append(
        PrintedRow(
            size_bytes=int(row["size"]),
            dtype=str(row["type"]),
            redop=str(row["redop"]),
            root=NO_ROOT,
            time=time,
            algbw=algbw,
            busbw=busbw,
            is_wrong=is_wrong(str(row.get("wrong", "0"))),
        )
    )


def _printed(number: Any) -> str:
    """Returns the number as text, without ".0" at its end."""
    return str(number).removesuffix(".0")
