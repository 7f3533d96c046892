"""Reads the records that gradsync's C++ benchmark //bench:all_reduce writes, and makes a
MeasuredLink of them: the time and CPU use of collectives, by size."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.estimates import trimmed_mean
from gradsync.link import KINDS, Cost, LinkCosts, MeasuredLink, Operation
from gradsync.log_text import read_text
from gradsync.refusing import require
from gradsync.repeats import differing
from gradsync.schema import NS
from gradsync.units_text import ranks_text

SCHEMA = "gradsync.record/5"  # bench/records/names.h has its names
MARK = '"gradsync.record/'  # of such a file
KIND_NAMES = {kind.value for kind in KINDS}


@dataclass(frozen=True)
class Measurement:
    """Identifies one measurement of //bench:all_reduce by its backend, number of ranks, run,
    collective, size in bytes, and number of concurrent collectives."""

    backend: str
    world_size: int
    run_id: str
    collective: str
    size_bytes: int
    in_flight: int


@dataclass(frozen=True)
class RankRecord:
    """What one rank of //bench:all_reduce has measured for one Measurement. `time_ns`: the duration
    of each repetition, in which Measurement.in_flight collectives run at the same time.
    `communication_cpu_ns`: the CPU time of all threads of the rank's process in each repetition.
    `channels`: how many collectives the rank can run at the same time."""

    time_ns: Sequence[float]
    communication_cpu_ns: Sequence[float]
    channels: int


def link_of(path: str) -> MeasuredLink:
    """Returns the measured link that the records describe: the time and CPU use of all-reduces and
    all-gathers, by size. `path` is a file of records, or a directory of such files (.jsonl,
    .jsonl.gz).

    Raises Refused if the records cannot be used, for example if they are of several backends or of
    several numbers of ranks. If a line is not a record, raises another error, such as KeyError,
    TypeError or json.JSONDecodeError.
    """
    measured: dict[Measurement, list[RankRecord]] = defaultdict(list)
    for record in _records_of(path):
        if record["experiment"] == "all_reduce" and "communication_cpu_ns" in record["samples"]:
            measured[_measurement_of(record)].append(_rank_record_of(record))
    worlds = sorted({(one.backend, one.world_size) for one in measured})
    found = " and ".join(f"{backend} of {ranks_text(count)}" for backend, count in worlds)
    require(
        len(worlds) == 1,
        f"records of all_reduce over {found or 'nothing'}: "
        "expected one backend and number of ranks",
    )
    ((_, world_size),) = worlds
    require(world_size > 1, "measured by 1 rank, expected 2 or more")
    costs = [
        _cost_of(one, ranks) for one, ranks in measured.items() if one.collective in KIND_NAMES
    ]
    first, *_ = next(iter(measured.values()))
    require(first.channels >= 1, f"channels: {first.channels}, expected 1 or more")
    spread = differing(costs)
    says = (f"{spread.text()}; their mean counts",) if spread else ()
    return MeasuredLink(LinkCosts(costs, first.channels), world_size, says)


def _records_of(path: str) -> Iterator[Any]:
    paths = [path]
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        paths = [
            os.path.join(path, name) for name in names if name.endswith((".jsonl", ".jsonl.gz"))
        ]
    for one in paths:
        for line in read_text(one).splitlines():
            record = json.loads(line)
            require(
                record["schema"] == SCHEMA,
                f"schema {record['schema']}, expected {SCHEMA}: measure again with this version",
            )
            yield record


def _measurement_of(record: Any) -> Measurement:
    cell = record["cell"]
    return Measurement(
        backend=record["variant"]["backend"],
        world_size=record["world_size"],
        run_id=record["run_id"],
        collective=cell["collective"],
        size_bytes=cell["size_bytes"],
        in_flight=cell.get("in_flight", 1),
    )


def _rank_record_of(record: Any) -> RankRecord:
    samples = record["samples"]
    return RankRecord(
        time_ns=samples["time_ns"],
        communication_cpu_ns=samples["communication_cpu_ns"],
        channels=record["facts"]["channels"],
    )


def _cost_of(measurement: Measurement, ranks: Sequence[RankRecord]) -> Cost:
    # The last rank to arrive waited least. Ranks that were ended have fewer samples.
    waited_least = [min(times) for times in zip(*(one.time_ns for one in ranks), strict=False)]
    cpu_ns = sum(trimmed_mean(one.communication_cpu_ns) for one in ranks)
    time_ns = sum(trimmed_mean(one.time_ns) for one in ranks)
    return Cost(
        measurement.size_bytes,
        NS * trimmed_mean(waited_least),
        cpu_ns / time_ns,
        Operation(measurement.collective),
        measurement.in_flight,
    )
