#!/usr/bin/env python3
"""Does `record` do what is expected of scripts in the shapes of public training loops?

    PYTHON tests/pytorch/record_inputs.py [FOLDER [NAME...]]

PYTHON has PyTorch. FOLDER holds scripts and expected.txt, which says what each comes to; by default it is
record_inputs. Each script runs for ten seconds. The exit status is 0 if all came to what is expected.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "tools/pytorch"
SECONDS = 300  # until a script is ended


@dataclass(frozen=True)
class Expected:
    """What a script comes to. `words`: what is printed then, perhaps nothing."""

    name: str
    ranks: int
    outcome: str
    words: str

    @classmethod
    def of(cls, line: str) -> "Expected":
        name, ranks, outcome, *words = line.split(maxsplit=3)
        return cls(name, int(ranks), outcome, "".join(words))


def run_gradsync(folder: pathlib.Path, *arguments: str, ranks: int = 1) -> tuple[int, str]:
    """Runs the command there, by torchrun if there are several ranks. Returns its status and all that it printed."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "gradsync", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout


def outcome_of(script: pathlib.Path, ranks: int) -> tuple[str, str]:
    """Records a script, and asks what_if. Returns what came of it, and all that was printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        status, printed = run_gradsync(
            folder, "record", "--rounds=2", "--out=out.jsonl", str(script), "300", ranks=ranks
        )
        said = [line for line in printed.splitlines() if line.startswith("gradsync: ")]
        if status:
            is_clear = len(said) == 1 and "Traceback" not in printed.split("gradsync: ")[0]
            return "refused" if is_clear else "failed", printed
        if not (folder / "out.jsonl").exists():
            return "ended without a recording", printed
        status, answer = run_gradsync(folder, "what_if", "out.jsonl", "--link=25Gbit,5us", "--world_size=8")
        return "no answer" if status else "recorded", printed + answer


def main() -> int:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "record_inputs").resolve()
    lines = (folder / "expected.txt").read_text().splitlines()
    all_of_them = [Expected.of(line) for line in lines if line.strip() and not line.startswith("#")]
    wrong = 0
    for expected in all_of_them:
        if sys.argv[2:] and expected.name not in sys.argv[2:]:
            continue
        try:
            outcome, printed = outcome_of(folder / expected.name, expected.ranks)
        except subprocess.TimeoutExpired as error:
            outcome, printed = f"ran longer than {SECONDS} s", str(error.stdout)
        is_right = outcome == expected.outcome and expected.words in printed
        wrong += not is_right
        print(f"{'right' if is_right else 'WRONG'}  {expected.name} ({expected.ranks}): {outcome}", flush=True)
        if not is_right:
            print(f"expected: {expected.outcome} {expected.words}\n{printed}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
