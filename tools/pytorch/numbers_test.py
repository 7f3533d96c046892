"""Answers about the kept recordings do not change: numbers.jsonl has each question's arguments and
12 digits of the answer's numbers. `numbers_test.py --write` writes that file anew, for a change
that is meant to change numbers.
"""

import json
import pathlib
import sys
import unittest
from dataclasses import replace

from gradsync.answer import as_json
from gradsync.answering import answer_of
from gradsync.prediction import Predictor
from gradsync.what_if_command import parse, question_from

HERE = pathlib.Path(__file__).absolute().parent
RECORDINGS = HERE.parents[1] / "docs/recordings"
NUMBERS = HERE / "numbers.jsonl"


def numbers_of(value):
    """All of them, in order; None is one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for one in value for number in numbers_of(one)]
    return [] if isinstance(value, str) else [value]


def own_options(predictor, script_step):
    """Steps with other settings or over other links: interval, change, and whether it is told."""
    own = predictor.question.script_row
    options = []
    for changes, pace in (
        ({"passes": 4 * own.passes}, 1),
        ({"bf16": True}, 1),
        ({"zero1": True}, 1),
        ({}, 2),
        ({}, 0.5),
    ):
        row = replace(own, **changes)
        step = predictor.step(row, pace).step_s.scaled(own.passes / row.passes)
        change = step.value / script_step.value - 1
        options += [as_json(step), change, step.is_told_from(script_step)]
    return options


def answered(arguments):
    """The numbers of an answer that numbers.jsonl has, in its order."""
    flags = parse([argument.replace("@", f"{RECORDINGS}/") for argument in arguments])
    question = question_from(flags)
    answer = answer_of(question)
    told = as_json(answer)
    for row in told["measured"]:
        del row["cost_error"]
    del told["ddp"]["is_sharded"]
    del told["ddp"]["parts"]  # parts_test.py has them
    return numbers_of(
        [
            told["none_s"],
            told["slowest_s"],
            told["ddp"],
            told["sizes"],
            told["best_bucket_cap_mb"],
            own_options(Predictor(question), answer.ddp.step_s),
            told["measured"],
            told["pairs"],
            told["pairs_right"],
        ]
    )


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
            for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                if a is None or b is None:
                    self.assertIs(a, b, (arguments, i))
                else:
                    self.assertAlmostEqual(a, b, delta=1e-9 * max(abs(b), 1e-3), msg=(arguments, i))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
