#!/usr/bin/env python3
"""Records the emulated accelerator on two hosts, predicts larger launches, and measures those.

    DIR/bin/python tests/pytorch/accelerator_runs.py OUT record|predict|measure [--cases=base]
        [--hosts=4,8,16] [--ranks=1] [--rounds=6] [--ways=NAME;NAME] [--seed=TEXT]

As root, with PyTorch 2.15 and tools/dev/hosts.sh. `record` writes OUT/CASE.jsonl.gz, of all cases
at the same time; `predict` adds lines to OUT/CASE.predicted.jsonl, and `measure`, which refuses
launches that are not predicted yet, to OUT/CASE.measured.jsonl. Then tools/dev/accelerator_errors.py
says how far predictions are off. Nothing else may run meanwhile.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev"))
import accelerator_errors

RATE = "50mbit"  # so slow that a piece of a ring takes many hops
SCRIPT = "tests/pytorch/accelerator.py"
TIMEOUT_S = 600


def hosts(
    count: int, ranks: int, program: Sequence[str], rate: str = ""
) -> subprocess.Popen[bytes]:
    """Starts a Python program on so many hosts, of so many ranks each."""
    limits = [f"--rate={rate}"] if rate else []
    path = str(ROOT / "tools/pytorch")
    return subprocess.Popen(
        ["tools/dev/hosts.sh", f"--ranks={ranks}", *limits, str(count), sys.executable, *program],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )


def wait_for(runs: Sequence[subprocess.Popen[bytes]]) -> None:
    """Raises CalledProcessError if one of them fails, or TimeoutExpired."""
    for run in runs:
        status = run.wait(TIMEOUT_S)
        if status:
            raise subprocess.CalledProcessError(status, run.args)


def record(out: pathlib.Path, cases: Sequence[str], rounds: int, seed: str) -> None:
    wait_for(
        [
            hosts(
                2,
                1,
                [
                    "-m",
                    "gradsync",
                    "record",
                    f"--rounds={rounds}",
                    f"--out={out / case}.jsonl.gz",
                    SCRIPT,
                    "train",
                    case,
                    f"--seed={seed}",
                ],
                RATE,
            )
            for case in cases
        ]
    )


def predict(out: pathlib.Path, case: str, count: int, ranks: int) -> None:
    world_size = count * ranks
    line = {
        "time": datetime.datetime.now().isoformat(timespec="seconds"),
        "world_size": world_size,
        "ranks_per_host": ranks,
        "rows": accelerator_errors.predictions(out / f"{case}.jsonl.gz", world_size, ranks),
    }
    with (out / f"{case}.predicted.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def measure(
    out: pathlib.Path, case: str, count: int, ranks: int, rounds: int, ways: str, seed: str
) -> None:
    predicted = (out / f"{case}.predicted.jsonl").read_text().splitlines()
    place = {"world_size": count * ranks, "ranks_per_host": ranks}
    if not any(place.items() <= json.loads(line).items() for line in predicted):
        sys.exit(f"{case} on {count} hosts is not predicted yet")
    program = [SCRIPT, "measure", case, f"{out / case}.measured.jsonl"]
    program += [f"--ways={ways}", f"--seed={seed}"]
    wait_for([hosts(count, ranks, program)])  # a hop, without a rate
    wait_for([hosts(count, ranks, [*program, f"--rounds={rounds}"], RATE)])


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("what", choices=("record", "predict", "measure"))
    parser.add_argument("--cases", default="base")
    parser.add_argument("--hosts", default="4,8,16")
    parser.add_argument("--ranks", type=int, default=1, help="of a host")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--ways", default="")
    parser.add_argument("--seed", default="", help="of random numbers")
    flags = parser.parse_args()
    out = flags.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    cases = flags.cases.split(",")
    if flags.what == "record":
        record(out, cases, flags.rounds, flags.seed)
        return
    for case in cases:
        for count in map(int, flags.hosts.split(",")):
            if flags.what == "predict":
                predict(out, case, count, flags.ranks)
            else:
                measure(
                    out, case, count, flags.ranks, flags.rounds, flags.ways, flags.seed
                )


if __name__ == "__main__":
    main()
