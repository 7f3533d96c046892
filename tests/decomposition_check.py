#!/usr/bin/env python3
"""Recomputes what synchronisation costs from raw records, and compares it with the table of //tools:summarize.

  bazel-bin/tools/summarize --format=json DIR >tables.json
  python3 tests/decomposition_check.py tables.json DIR...

Shares no code with the tools, and needs Python's standard library only. Per round i and strategy s, with the
maximum over ranks:

  computed = max(forward + backward)         averaged = max(forward + backward + sync_exposed)
  sync_cost = step_s - step_none             exposed  = averaged_s - computed_s
  tax       = computed_s - computed_none     rest     = sync_cost - exposed - tax
  skew      = mean over the other ranks of (computed - their own forward + backward)

The tables show the means over the rounds that s and `none` have in common, launch by launch.
"""

import glob
import json
import math
import os
import sys
from collections import defaultdict

PARTS = ("sync_cost", "exposed", "tax", "rest")
PRINTED = 1e-9  # of a number's size; tables in JSON have all digits


def fail(text):
    sys.exit("decomposition_check: " + text)


def records_of(directories):
    """Records of /1 and /2; continuation lines of /2 are merged into theirs."""
    for directory in directories:
        for path in sorted(glob.glob(os.path.join(directory, "*.jsonl"))):
            own = {}
            with open(path, encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines):
                    try:
                        part = json.loads(line)
                    except ValueError:
                        continue  # cut off
                    if not isinstance(part, dict) or "schema" not in part:
                        continue
                    if "of" not in part:
                        own[part.get("record", number)] = part
                        continue
                    record = own.get(part["of"])
                    if record is None:
                        fail(f"{path}:{number + 1}: continues record {part['of']}, which is not there")
                    for name, values in part.get("samples", {}).items():
                        record["samples"].setdefault(name, []).extend(values)
                    for name in ("facts", "checks"):
                        record.setdefault(name, {}).update(part.get(name, {}))
            yield from own.values()


def times_of(ranks):
    """Per step of one launch, in seconds: step, computed, averaged (None where unknown), skew."""
    steps = min(len(rank["samples"]["step_ns"]) for rank in ranks)
    result = []
    for i in range(steps):
        own = [{name: 1e-9 * values[i] for name, values in rank["samples"].items()} for rank in ranks]
        ready = [each["forward_ns"] + each["backward_ns"] for each in own] if "backward_ns" in own[0] else None
        done = None
        if ready is not None and "sync_exposed_ns" in own[0]:
            done = max(r + each["sync_exposed_ns"] for r, each in zip(ready, own))
        computed = max(ready) if ready else None
        skew = None
        if ready:
            skew = (len(ready) * computed - sum(ready)) / (len(ready) - 1) if len(ready) > 1 else 0.0
        result.append({"step": max(each["step_ns"] for each in own), "computed": computed, "averaged": done,
                       "skew": skew})
    return result


def floor_of(strategy):
    if not strategy.startswith("pytorch_"):
        return "none"
    return "pytorch_none" + ("_compiled" if strategy.endswith("_compiled") else "")


def expected_of(directories):
    """(experiment, run, strategy, batch, sequence, bucket bytes, buffer) -> means."""
    launches = defaultdict(lambda: defaultdict(list))  # configuration -> launch -> ranks
    first_run = {}
    for record in records_of(directories):
        if record["experiment"] not in ("ddp", "compare") or "step_ns" not in record.get("samples", {}):
            continue
        config = {k: v for k, v in record["config"].items() if k not in ("seed", "placement")}
        run_set = record.get("facts", {}).get("launch_set", record["run_id"])
        key = (record["experiment"], run_set, record["world_size"], json.dumps(config, sort_keys=True))
        launches[key][record["run_id"]].append(record)
        first_run.setdefault(key, record["run_id"])
    shared = ("model", "backend", "device", "dtype", "batch_size", "seq_len", "image_size", "buffer_elements",
              "threads_per_rank", "order", "steps", "optimizer", "warmup_steps", "units")
    times = {key: {run: times_of(ranks) for run, ranks in runs.items()} for key, runs in launches.items()}
    floors = {}
    for key in times:
        config = json.loads(key[3])
        place = key[:3] + tuple(config.get(name) for name in shared)
        floors.setdefault((place, config["strategy"]), times[key])
    expected = {}
    for key in times:
        config = json.loads(key[3])
        place = key[:3] + tuple(config.get(name) for name in shared)
        floor = floors.get((place, floor_of(config["strategy"])))
        if floor is None or floor is times[key]:
            continue
        rounds = [(own, base) for run, steps in times[key].items() for own, base in
                  zip(steps, floor.get(run, []))]
        if not rounds:
            continue
        mean = {"rounds": len(rounds)}
        known = all(own["averaged"] is not None and base["computed"] is not None for own, base in rounds)
        sums = defaultdict(list)
        for own, base in rounds:
            sums["sync_cost"].append(own["step"] - base["step"])
            if known:
                sums["exposed"].append(own["averaged"] - own["computed"])
                sums["tax"].append(own["computed"] - base["computed"])
                sums["rest"].append(sums["sync_cost"][-1] - sums["exposed"][-1] - sums["tax"][-1])
        for part, values in sums.items():
            mean[part] = math.fsum(values) / len(values)
        skews = [step["skew"] for steps in times[key].values() for step in steps]
        if all(skew is not None for skew in skews):
            mean["skew"] = math.fsum(skews) / len(skews)
        row = (key[0], first_run[key], config["strategy"], config.get("batch_size"), config.get("seq_len"),
               config.get("bucket_bytes"), config.get("buffer_elements"))
        expected[row] = mean
    return expected


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        tables = json.load(file)["tables"]
    for table in tables:
        if table["name"] not in ("ddp", "compare"):
            continue
        names = [column["name"] if isinstance(column, dict) else column for column in table["columns"]]
        for row in table["rows"]:
            cells = dict(zip(names, row))
            if table["name"] == "compare" and cells["phase"] != "step":
                continue
            mebi = cells.get("buffer_elements (Mi)")
            unit = 1.0 if table["name"] == "ddp" else 1e-3
            name = "s" if table["name"] == "ddp" else "ms"
            key = (table["name"], cells["run"], cells["strategy"], cells["batch_size"], cells["seq_len"],
                   cells["bucket_bytes"], None if mebi is None else round(mebi * 2**20))
            printed = {part: cells[f"{part} ({name})"] for part in PARTS + ("skew",)}
            yield key, {part: None if value is None else value * unit for part, value in printed.items()}


def main():
    if len(sys.argv) < 3:
        fail("takes the JSON that summarize printed, and the directories of its records")
    expected = expected_of(sys.argv[2:])
    compared = 0
    for key, printed in rows_of(sys.argv[1]):
        own = expected.get(key)
        if own is None:
            if printed["sync_cost"] is not None:
                fail(f"{key}: the table has a cost, the records have no `none` beside it")
            continue
        for part in PARTS + ("skew",):
            if (part in own) != (printed[part] is not None):
                fail(f"{key}: {part}: the table has {printed[part]}, the records give {own.get(part)}")
            if part in own:
                if not abs(own[part] - printed[part]) <= PRINTED * max(1e-3, abs(own[part])):
                    fail(f"{key}: {part}: the table has {printed[part]!r}, the records give {own[part]!r}")
                compared += 1
        if "rest" in own:
            left = own["sync_cost"] - printed["exposed"] - printed["tax"] - printed["rest"]
            if abs(left) > 1e-9:
                fail(f"{key}: the parts miss sync_cost by {left} s")
    if compared == 0:
        fail("nothing to compare: no strategy beside a `none`")
    print(f"decomposition_check: {compared} numbers agree with the records")


if __name__ == "__main__":
    main()
