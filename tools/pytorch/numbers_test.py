"""Answers about the kept recordings do not change: numbers.jsonl has each question's arguments and 12 digits of the answer's numbers.
`numbers_test.py --write` writes that file anew, for a change that is meant to change numbers."""

import json
import pathlib
import sys
import unittest
from dataclasses import replace

HERE = pathlib.Path(__file__).absolute().parent
RECORDINGS = HERE.parents[1] / "docs/recordings"
NUMBERS = HERE / "numbers.jsonl"
sys.path.insert(0, str(HERE))
from gradsync import answer


def numbers_of(value):
    """All of them, in order; None is one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for one in value for number in numbers_of(one)]
    return [] if isinstance(value, str) else [value]


def answered(arguments):
    question = answer.Question(
        answer.parse([argument.replace("@", f"{RECORDINGS}/") for argument in arguments])
    )
    whole, own, options = answer.ask(question), question.own, []
    for changes, pace in (
        ({"passes": 4 * own.passes}, 1),
        ({"bf16": True}, 1),
        ({"zero1": True}, 1),
        ({}, 2),
        ({}, 0.5),
    ):
        row = replace(own, **changes)
        step = [s * own.passes / row.passes for s in question.predict(row, pace).step]
        options += [
            step,
            step[0] / whole["ddp"]["step_s"][0] - 1,
            not answer.overlap(step, whole["ddp"]["step_s"]),
        ]
    for row in whole["measured"]:
        del row["cost_error"]
    del whole["ddp"]["is_sharded"]
    parts = (
        "none_s",
        "slowest_s",
        "ddp",
        "sizes",
        "best_bucket_cap_mb",
        options,
        "measured",
        "pairs",
        "pairs_right",
    )
    return numbers_of([whole.get(part, 0) if isinstance(part, str) else part for part in parts])


def write():
    lines = []
    for arguments, _ in map(json.loads, NUMBERS.read_text().splitlines()):
        digits = [
            None if number is None else json.loads(f"{number:.12g}")
            for number in answered(arguments)
        ]
        lines.append(json.dumps([arguments, digits], separators=(",", ":")) + "\n")
    NUMBERS.write_text("".join(lines))


class NumbersTest(unittest.TestCase):
    def test_numbers_are_the_kept_ones(self):
        lines = NUMBERS.read_text().splitlines()
        self.assertGreater(len(lines), 40)
        for arguments, expected in map(json.loads, lines):
            found = answered(arguments)
            self.assertEqual(len(found), len(expected), arguments)
            for i, (a, b) in enumerate(zip(found, expected)):
                if a is None or b is None:
                    self.assertIs(a, b, (arguments, i))
                else:
                    self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(b), 1e-3), msg=(arguments, i))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
