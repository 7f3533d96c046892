#!/usr/bin/env python3
"""Recomputes times from raw records, and compares them with the table of //tools:summarize.

  bazel-bin/tools/summarize --format=json DIR >tables.json
  python3 tests/decomposition_check.py tables.json DIR...

Shares no code with the tools, and needs Python's standard library only. A step of the ranks of a host begins when
the last of them has left the barrier before it: what a rank has done by then is nobody's. Per round, with the maximum
over ranks, counted from there:

  computed = max(forward + backward)      step = max(end of the step)
  skew     = mean over the other ranks of (computed - their own forward + backward)

The table shows the means over rounds, launch by launch. What synchronisation costs there is an estimate, and no mean;
but its parts must add up to it.
"""

import glob
import json
import math
import os
import sys
from collections import defaultdict

PARTS = ("exposed (s)", "own (s)", "tax (s)", "rest (s)")
PHASES = {"forward (s)": "forward_ns", "backward (s)": "backward_ns", "begin_step (s)": "begin_step_ns",
          "hooks (s)": "hooks_ns", "optimizer (s)": "optimizer_ns"}
PRINTED = 1e-9  # of a number's size; tables in JSON have all digits


def fail(text):
    sys.exit("decomposition_check: " + text)


def records_of(directories):
    """Continuation lines are merged into their records."""
    for directory in directories:
        for path in sorted(glob.glob(os.path.join(directory, "*.jsonl"))):
            own = {}
            with open(path, encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines):
                    try:
                        part = json.loads(line)
                    except ValueError:
                        continue  # cut off
                    if not isinstance(part, dict) or part.get("schema") != "gradsync.record/3":
                        continue
                    if "of" not in part:
                        own[part.get("record", number)] = part
                        continue
                    record = own.get(part["of"])
                    if record is None:
                        fail(f"{path}:{number + 1}: continues record {part['of']}, which is not there")
                    for name, values in part.get("samples", {}).items():
                        record["samples"].setdefault(name, []).extend(values)
            yield from own.values()


def times_of(ranks):
    """Sums over the steps of one launch, in seconds, by column, and their number."""
    steps = min(len(rank["samples"]["step_ns"]) for rank in ranks)
    sums = defaultdict(list)
    for i in range(steps):
        own = [{name: 1e-9 * values[i] for name, values in rank["samples"].items()} for rank in ranks]
        last = {}  # by host
        for rank, each in zip(ranks, own):
            if "begin_ns" in each:
                host = rank["provenance"]["host"]
                last[host] = max(last.get(host, 0), each["begin_ns"])
        ahead = [last[rank["provenance"]["host"]] - each["begin_ns"] if "begin_ns" in each else 0
                 for rank, each in zip(ranks, own)]
        sums["time_per_step"].append(max(each["step_ns"] - a for each, a in zip(own, ahead)))
        for column, name in PHASES.items():
            if name in own[0]:
                sums[column].append(max(each[name] for each in own))
        if "backward_ns" in own[0]:
            ready = [each["forward_ns"] + each["backward_ns"] - a for each, a in zip(own, ahead)]
            computed = max(ready)
            sums["forward_backward (s)"].append(computed)
            others = len(ready) - 1
            sums["skew (s)"].append(sum(computed - r for r in ready) / others if others else 0.0)
    return sums


def expected_of(directories):
    """(run, variant, model, batch, sequence, image) -> means by column."""
    launches = defaultdict(lambda: defaultdict(list))  # row -> launch -> ranks
    for record in records_of(directories):
        if record["experiment"] != "ddp" or not record.get("samples", {}).get("step_ns"):
            continue
        config = record["config"]
        run_set = record.get("facts", {}).get("launch_set", record["run_id"])
        key = (run_set, config["variant"], config["model"], config["batch_size"], config.get("seq_len"),
               config.get("image_size"))
        launches[key][record["run_id"]].append(record)
    expected = {}
    for key, runs in launches.items():
        columns = defaultdict(list)
        for ranks in runs.values():
            for column, values in times_of(ranks).items():
                columns[column].extend(values)
        expected[key[1:]] = {column: math.fsum(values) / len(values) for column, values in columns.items()}
    return expected


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        tables = json.load(file)["tables"]
    for table in tables:
        if table["name"] != "ddp":
            continue
        names = [column["name"] if isinstance(column, dict) else column for column in table["columns"]]
        for row in table["rows"]:
            yield dict(zip(names, row))


def main():
    if len(sys.argv) < 3:
        fail("takes the JSON that summarize printed, and the directories of its records")
    expected = expected_of(sys.argv[2:])
    compared = costs = 0
    for cells in rows_of(sys.argv[1]):
        key = tuple(cells[name] for name in ("variant", "model_size", "batch_size", "seq_len", "image_size"))
        own = expected.get(key)
        if own is None:
            fail(f"{key}: the table has a row that the records do not have")
        for column, value in own.items():
            printed = cells.get(column)
            if printed is None or not abs(value - printed) <= PRINTED * max(1e-3, abs(value)):
                fail(f"{key}: {column}: the table has {printed!r}, the records give {value!r}")
            compared += 1
        parts = [cells[part] for part in PARTS]
        if cells["sync_cost (s)"] is not None and None not in parts:
            if abs(cells["sync_cost (s)"] - math.fsum(parts)) > 1e-9:
                fail(f"{key}: the parts miss sync_cost by {cells['sync_cost (s)'] - math.fsum(parts)} s")
            costs += 1
    if compared == 0:
        fail("nothing to compare")
    print(f"decomposition_check: {compared} numbers agree with the records, {costs} costs with their parts")


if __name__ == "__main__":
    main()
