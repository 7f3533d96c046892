#!/usr/bin/env python3
"""Recomputes what synchronisation costs from raw records, and compares it with the table of //tools:summarize.

  bazel-bin/tools/summarize --format=json DIR >tables.json
  python3 tests/decomposition_check.py tables.json DIR...

Shares no code with the tools, and needs Python's standard library only. A step of every rank begins when the last
rank of its host has left the barrier; of a turn of several steps, each bears its part of that. With the maximum over
ranks, in each round:

  computed = forward + backward    worked = computed + begin_step + hooks    averaged = worked + sync_exposed
  sync_cost = step - floor's step - c (forward - floor's forward)           exposed = averaged - worked
  own = worked - computed    tax = computed - floor's - c (forward - floor's)    rest = what is left

c is the coefficient that the rows of a cell have in common, where the table says that it is used: the median slope
between rounds of a row. The table shows the means over the rounds that are left when a fifth is taken from both ends of
sync_cost. The floor of a row with a period is the maximum over ranks of the mean of as many steps.
"""

import glob
import json
import math
import os
import statistics
import sys
from collections import defaultdict

PARTS = ("sync_cost", "exposed", "own", "tax", "rest")


def fail(text):
    sys.exit("decomposition_check: " + text)


def records_of(directories):
    for directory in directories:
        for path in sorted(glob.glob(os.path.join(directory, "*.jsonl"))):
            own = {}
            with open(path, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    try:
                        part = json.loads(line)
                    except ValueError:
                        continue  # cut off
                    if "of" not in part:
                        own[part.get("record", len(own))] = part
                        continue
                    for name, values in part.get("samples", {}).items():
                        own[part["of"]]["samples"].setdefault(name, []).extend(values)
            yield from own.values()


def strategy_of(record):
    variant = record["variant"]
    framework = variant["framework"] + "_" if variant["framework"] else ""
    return framework + variant["strategy"] + ("_compiled" if variant["compiled"] else "")


def name_of(record):
    backend, options = record["variant"]["backend"], record["variant"]["options"]
    return (strategy_of(record) + (":" if options else "") + ",".join(f"{k}={v}" for k, v in options.items()) +
            ("" if backend == "none" else "@" + backend))


def rounds_of(ranks):
    """Per step of one launch, in seconds."""
    result = []
    for i in range(min(len(rank["samples"]["step_ns"]) for rank in ranks)):
        at = [{name: 1e-9 * values[i] for name, values in rank["samples"].items() if i < len(values)} for rank in ranks]
        hosts = [rank["provenance"]["host"] for rank in ranks]
        is_aligned = all("begin_ns" in rank["samples"] for rank in ranks)
        begins = [rank["samples"]["begin_ns"][i] if is_aligned else 0 for rank in ranks]
        num_steps = ranks[0]["facts"].get("period", 1)
        early = [1e-9 * ((max(b for b, h in zip(begins, hosts) if h == host) - begin) // num_steps)
                 for begin, host in zip(begins, hosts)]
        own = [a.get("begin_step_ns", 0) + a.get("hooks_ns", 0) for a in at]
        computed = [a["forward_ns"] + a.get("backward_ns", math.nan) - e for a, e in zip(at, early)]
        result.append({"step": max(a["step_ns"] - e for a, e in zip(at, early)),
                       "forward": max(a["forward_ns"] for a in at),
                       "computed": max(computed),
                       "ranks": {"step": [a["step_ns"] - e for a, e in zip(at, early)], "computed": computed},
                       "worked": max(c + w for c, w in zip(computed, own)),
                       "averaged": max(c + w + a.get("sync_exposed_ns", math.nan)
                                       for c, w, a in zip(computed, own, at))})
    return result


def cells_of(directories):
    """cell -> variant -> (first run, floor, run -> rounds)."""
    ranks = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for record in records_of(directories):
        if record["variant"]["strategy"] and record.get("samples", {}).get("step_ns"):
            key = (record["facts"].get("launch_set", record["run_id"]), json.dumps(record["cell"], sort_keys=True))
            ranks[key][name_of(record)][record["run_id"]].append(record)
    for variants in ranks.values():
        yield {variant: (next(iter(runs.values()))[0], {run: rounds_of(of) for run, of in runs.items()})
               for variant, runs in variants.items()}


def coefficient_of(rows):
    """Of forward, in steps, once rounds and rows are taken out."""
    counts = {run: min(len(row.get(run, [])) for row in rows) for run in rows[0]}
    series = [[rounds[i] for run, rounds in row.items() for i in range(counts.get(run, 0))] for row in rows]
    n = len(series[0])
    if n < 10 or len(rows) < 2:
        return 0.0

    def left(name):
        means = [math.fsum(row[i][name] for row in series) / len(series) for i in range(n)]
        return [[r[name] - mean for r, mean in zip(row, means)] for row in series]
    slopes = []
    for step, forward in zip(left("step"), left("forward")):
        slopes += [(step[j] - step[i]) / (forward[j] - forward[i])
                   for i in range(n) for j in range(i + 1, min(n, i + 10)) if forward[i] != forward[j]]
    return statistics.median(slopes) if slopes else 0.0


def trimmed(values):
    cut = int(0.2 * len(values))
    kept = sorted(values)[cut:len(values) - cut]
    return math.fsum(kept) / len(kept)


def less_in_periods(floor, name, period):
    """How much less the floor's time is where it is the maximum of means of so many steps."""
    less = []
    for rounds in floor.values():
        for i, own in enumerate(rounds):
            after = [rounds[(i + 1 + k) % len(rounds)]["ranks"][name] for k in range(period)]
            less.append(own[name] - max(math.fsum(of) / period for of in zip(*after)))
    return trimmed(less) if period > 1 else 0.0


def costs_of(own, floor, c, period):
    less = {name: less_in_periods(floor, name, period) for name in ("step", "computed")}
    rounds = [pair for run in own for pair in zip(own[run], floor.get(run, []))]
    parts = []
    for a, b in rounds:
        shift = c * (a["forward"] - b["forward"])
        cost = a["step"] - b["step"] - shift + less["step"]
        tax = a["computed"] - b["computed"] - shift + less["computed"]
        exposed, work = a["averaged"] - a["worked"], a["worked"] - a["computed"]
        parts.append((cost, exposed, work, tax, cost - exposed - work - tax))
    cut = int(0.2 * len(parts))
    kept = sorted(parts, key=lambda part: part[0])[cut:len(parts) - cut]
    return [math.fsum(part[i] for part in kept) / len(kept) for i in range(len(PARTS))]


def main():
    if len(sys.argv) < 3:
        fail("takes the JSON that summarize printed, and the directories of its records")
    with open(sys.argv[1], encoding="utf-8") as file:
        table = next((table for table in json.load(file)["tables"] if table["name"] == "ddp"), None)
    if table is None:
        fail("no table ddp")
    rows = [dict(zip(table["columns"], row)) for row in table["rows"]]
    compared = 0
    for cell in cells_of(sys.argv[2:]):
        is_peer = {variant: bool(record["variant"]["framework"]) for variant, (record, _) in cell.items()}
        shown = {}
        for variant, (record, rounds) in cell.items():
            same = [row for row in rows if row["variant"] == variant and row["run"] == record["run_id"] and
                    all(row[name] == record["cell"].get(name)
                        for name in ("batch_size", "accumulation_steps", "seq_len", "image_size"))]
            if len(same) != 1:
                fail(f"{variant} of {record['run_id']}: {len(same)} rows")
            shown[variant] = same[0]
        for variant, (record, rounds) in cell.items():
            floors = [v for v, (r, _) in cell.items() if strategy_of(r) == record["facts"]["floor"]]
            own = record["variant"]
            alike = [[of["options"].get("clip_norm") == own["options"].get("clip_norm"), of["backend"] == own["backend"]]
                     for of in (cell[v][0]["variant"] for v in floors)]
            floor = floors[alike.index(max(alike))] if floors else None
            printed = [shown[variant][f"{part} (s)"] for part in PARTS]
            if floor in (None, variant) or record["cell"].get("order") != "interleaved":
                if printed[0] is not None:
                    fail(f"{variant}: the table has a cost, the records have no floor beside it")
                continue
            uses = all(shown[v]["covariate"] != 0 for v in (variant, floor))
            c = coefficient_of([of for v, (_, of) in cell.items() if is_peer[v] == is_peer[variant]]) if uses else 0.0
            costs = costs_of(rounds, cell[floor][1], c, record["facts"].get("period", 1))
            for part, own, table_has in zip(PARTS, costs, printed):
                if math.isnan(own) != (table_has is None) or not (
                        table_has is None or abs(own - table_has) <= 1e-9 * max(1e-3, abs(own))):
                    fail(f"{variant}: {part}: the table has {table_has!r}, the records give {own!r}")
                compared += table_has is not None
    if compared == 0:
        fail("nothing to compare: no strategy beside a floor")
    print(f"decomposition_check: {compared} numbers agree with the records")


if __name__ == "__main__":
    main()
