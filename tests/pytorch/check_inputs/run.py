#!/usr/bin/env python3
"""Runs `gradsync check` on folders of scripts, and prints what it says beside what it should say.

    DIR/bin/python tests/pytorch/check_inputs/run.py FOLDER... [--jobs=2] [--deadline=60]
        [--only=PART] [--package=tools/pytorch] [--out=FILE]

Each script runs as `torchrun --nproc_per_node=2 -m gradsync check SCRIPT`, in a scratch folder.
FOLDER/expected.txt has a line for each script:

    NAME: OUTCOME[ or OUTCOME]; WORD; PACKAGE, PACKAGE

WORD has to be in a line `differs`, or in the refusal. A script whose packages are not installed is
left out. The exit status is 0 if all scripts come out as expected.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import enum
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = (
    *("-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv_backend=c10d"),
    *("--rdzv_endpoint=localhost:0", "--local_addr=localhost", "-m", "gradsync", "check"),
)
SECONDS_TO_END = 20  # that torchrun has to end its ranks
LOOK_S = 0.1  # between two looks at a launch
LINE = re.compile(r"gradsync: .*")  # behind which another rank may print on the same line


class Outcome(enum.Enum):
    """How a check ends. BLIND is only expected: check cannot see it, so it may be silent."""

    SILENT = "silent"  # `same`, and no line `differs`
    NAMED = "named"  # a line `differs`
    REFUSED = "refused"  # one line says why it cannot be checked
    BLIND = "blind"
    LOST = "lost"  # it failed, and no line of gradsync says why
    FAULT = "fault"  # check itself has failed
    HANGS = "hangs"  # it did not end within the deadline


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a line of expected.txt says."""

    outcomes: tuple[Outcome, ...]
    word: str
    packages: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str) -> Expected:
        """Reads what stands behind the name."""
        outcomes, word, packages = (part.strip() for part in (text + ";;").split(";")[:3])
        return cls(
            outcomes=tuple(Outcome(name.strip()) for name in outcomes.split(" or ")),
            word=word,
            packages=tuple(part.split()[0] for part in packages.split(",") if part.strip()),
        )

    def missing_packages(self) -> list[str]:
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a check has printed, by its lines, and how long it took with its launch, in seconds."""

    outcome: Outcome
    lines: list[str]
    seconds: float

    def is_as(self, expected: Expected) -> bool:
        outcomes = set(expected.outcomes)
        if Outcome.BLIND in outcomes:
            outcomes |= {Outcome.SILENT, Outcome.REFUSED}
        has_word = any(expected.word in line for line in self.lines)
        has_reason = self.outcome in (Outcome.NAMED, Outcome.REFUSED)
        return self.outcome in outcomes and (has_word or not has_reason)

    def reason(self) -> str:
        return self.lines[0].removeprefix("gradsync:").strip() if self.lines else ""


def expectations(folder: pathlib.Path) -> dict[str, Expected]:
    """Returns what is expected of each script, by name."""
    lines = (folder / "expected.txt").read_text().splitlines()
    parts = [line.partition(":") for line in lines if line.strip() and not line.startswith("#")]
    return {name: Expected.from_text(text) for name, _, text in parts}


def judge(printed: str, status: int | None, seconds: float) -> Seen:
    """Says how a launch ended. `status`: torchrun's, or None if it had to be ended."""
    found = [match[0] for match in LINE.finditer(printed)]
    differs = [line for line in found if line.startswith("gradsync: differs ")]
    same = [line for line in found if line.startswith("gradsync: same ")]
    reasons = [line for line in found if not re.match("gradsync: (note|cost) ", line)]
    if status is None:
        return Seen(Outcome.HANGS, found, seconds)
    if "check itself has failed" in printed:
        last = [line for line in printed.splitlines() if re.match(r"\w+(Error|Exception)\b", line)]
        return Seen(Outcome.FAULT, [*last, *reasons], seconds)
    if differs:
        return Seen(Outcome.NAMED, differs, seconds)
    if same and status == 0:
        return Seen(Outcome.SILENT, [line for line in found if "gradsync: note " in line], seconds)
    if reasons and not same:
        return Seen(Outcome.REFUSED, reasons, seconds)
    return Seen(Outcome.LOST, found, seconds)


def run(script: pathlib.Path, package: pathlib.Path, deadline: float) -> Seen:
    """Runs one check. `deadline`: seconds, after which its ranks are ended."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        log = pathlib.Path(scratch) / "printed"
        paths = f"{package.resolve()}:{os.environ.get('PYTHONPATH', '')}"
        with log.open("w") as printed:
            launch = subprocess.Popen(
                [sys.executable, *LAUNCHER, str(script.resolve())],
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                cwd=scratch,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status = _wait(launch, deadline)
        return judge(log.read_text(errors="replace"), status, time.monotonic() - began)


def _wait(launch: subprocess.Popen[bytes], deadline: float) -> int | None:
    """Returns the status, or None if it had to be ended.

    Time does not count in which this process is stopped, as its launch may be with it.
    """
    for _ in range(round(deadline / LOOK_S)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return launch.wait(LOOK_S)
    _end(launch)
    return None


def _end(launch: subprocess.Popen[bytes]) -> None:
    """Ends torchrun, which ends its ranks when it is asked to."""
    launch.terminate()
    try:
        launch.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(launch.pid, signal.SIGKILL)
        launch.wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2, help="how many scripts run at a time")
    parser.add_argument("--deadline", type=float, default=60, help="seconds for each script")
    parser.add_argument("--only", default="", help="runs scripts whose names have this part")
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "tools/pytorch")
    parser.add_argument("--out", type=pathlib.Path, help="also writes the table to this file")
    return parser.parse_args()


@dataclasses.dataclass(frozen=True)
class _Started:
    """A script that runs, or waits for its turn."""

    name: str
    expected: Expected
    seen: concurrent.futures.Future[Seen]

    def line(self) -> str:
        """Waits for the end, and returns a line of the table."""
        seen = self.seen.result()
        wanted = " or ".join(outcome.value for outcome in self.expected.outcomes)
        return (
            f"{'right' if self.is_right() else 'WRONG'}  {self.name:32} {wanted:18} "
            f"{seen.outcome.value:8} {seen.seconds:5.1f} s  {seen.reason()}"
        )

    def is_right(self) -> bool:
        return self.seen.result().is_as(self.expected)


def main() -> int:
    flags = _arguments()
    out = flags.out.open("w") if flags.out else contextlib.nullcontext()
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool, out as table:
        started = [
            _Started(
                name,
                expected,
                pool.submit(run, folder / f"{name}.py", flags.package, flags.deadline),
            )
            for folder in flags.folders
            for name, expected in expectations(folder).items()
            if flags.only in name and not expected.missing_packages()
        ]
        for one in started:
            print(one.line(), flush=True)
            if table:
                print(one.line(), file=table, flush=True)
    right = sum(one.is_right() for one in started)
    print(f"{right} of {len(started)} as expected")
    return int(right < len(started))


if __name__ == "__main__":
    sys.exit(main())
