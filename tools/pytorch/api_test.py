"""What Python programs call, and what the README shows of it."""

import contextlib
import doctest
import importlib.util
import io
import json
import math
import os
import pathlib
import pkgutil
import subprocess
import sys
import unittest

import gradsync
from gradsync import Refused, what_if_command
from gradsync.answer import as_json
from gradsync.estimates import Estimate, Interval
from sample_recordings import ask, launch, steps_of, written

HERE = pathlib.Path(__file__).absolute().parent


class WhatIfTest(unittest.TestCase):
    def test_is_what_the_command_answers(self):
        path = written(launch())
        named = {"link": "25Gbit,5us", "world_size": 8, "ranks_per_host": 4}
        for arguments in (
            {},
            {"world_size": 4},
            {**named, "within": "400Gbit,2us", "algorithm": "ring", "processor_percent": 10},
            {"link": pathlib.Path(written(launch())), "at": pathlib.Path(path)},
        ):
            flags = {name: str(value) for name, value in arguments.items()}
            said, asked = as_json(gradsync.what_if(path, **arguments)), as_json(ask(**flags))
            self.assertEqual({**said, "recording": ""}, {**asked, "recording": ""}, arguments)
        self.assertEqual(gradsync.what_if(path).recording, path)

    def test_each_argument_counts(self):
        path = written(launch())
        slow = launch()
        for step in steps_of(slow, "none"):
            step["step_ns"] *= 2
        named = {"link": "1Gbit,5us", "world_size": 8, "ranks_per_host": 4, "algorithm": "best"}
        plain = gradsync.what_if(path, **named).ddp.step_s.value
        for arguments in (
            {"link": "2Gbit,5us"},
            {"world_size": 16},
            {"ranks_per_host": 2},
            {"within": "1Gbit,3us"},
            {"algorithm": "tree"},
            {"processor_percent": 100},
            {"at": written(slow)},
        ):
            changed = gradsync.what_if(path, **{**named, **arguments}).ddp.step_s.value
            self.assertNotAlmostEqual(changed, plain, places=6, msg=arguments)

    def test_memory_is_bytes_or_a_text(self):
        one = launch()
        one["memory"] = {"forward_bytes": 1, "ready_bytes": [1] * 3, "held_bytes": [0] * 3}
        path = written(one)
        said = gradsync.what_if(path, memory="1GB")
        self.assertEqual(said.memory_limit_bytes, 1e9)
        self.assertEqual(said, gradsync.what_if(path, memory=1e9))
        self.assertTrue(said.batches)

    def test_is_refused_in_one_line(self):
        path = written(launch())
        for arguments, said in (
            ({"memory": "80"}, "--memory=80: expected bytes such as 80GB"),
            *(
                ({"memory": size}, f"--memory={size}: expected bytes such as 80GB")
                for size in (0, -1, math.nan, math.inf)
            ),
            ({"world_size": 2.5}, "--world_size=2.5: expected 1 to 16384"),
            ({"world_size": "2"}, "--world_size='2': expected 1 to 16384"),
            ({"within": "fast"}, "--within=fast: expected a rate and a latency"),
            (
                {"algorithm": "star"},
                "--algorithm=star: expected one of best, ring, tree, hierarchical",
            ),
            ({"ranks_per_host": 2}, "--ranks_per_host is for a --link that is a rate"),
            ({"link": "25Gbps"}, "did you mean 25Gbit,5us?"),
            ({"at": "/nonexistent"}, "/nonexistent: cannot be read"),
            ({"world_size": 16385}, "--world_size=16385: expected 1 to 16384"),
            (
                {"link": "25Gbit", "ranks_per_host": 0},
                "--ranks_per_host=0: expected 1 to 16384",
            ),
            ({"processor_percent": -1}, "--processor_percent=-1: expected 0 to 1000"),
            ({"world_size": 1}, "one rank communicates with nobody"),
        ):
            with self.assertRaises(ValueError) as refused:
                gradsync.what_if(path, **arguments)
            self.assertIsInstance(refused.exception, Refused)
            self.assertIn(said, str(refused.exception))
            self.assertNotIn("\n", str(refused.exception))

    def test_json_has_the_names_of_the_dataclasses(self):
        path = written(launch())
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(what_if_command.main([path, "--format=json"]), 0)
        printed, answer = json.loads(out.getvalue()), gradsync.what_if(path)
        self.assertEqual(printed["none_s"], answer.none_s)
        step = answer.ddp.step_s
        self.assertEqual(printed["ddp"]["step_s"], [step.value, step.low, step.high])
        self.assertEqual(printed["ways"][0]["way"], answer.ways[0].way)
        self.assertEqual(printed["ranks"][1]["forward_s"], answer.ranks[1].forward_s)
        self.assertEqual(
            as_json({"a": (Estimate(1, None), Estimate(2, Interval(2, 1, 3)), None)}),
            {"a": [[1, None, None], [2, 1, 3], None]},
        )


class PackageTest(unittest.TestCase):
    def test_what_if_needs_no_pytorch(self):
        program = (
            "import sys, gradsync\n"
            "gradsync.what_if(sys.argv[1])\n"
            "sys.exit(any(name.partition('.')[0] == 'torch' for name in sys.modules))\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        run = [sys.executable, "-c", program, written(launch())]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_a_recorder_is_imported_when_it_is_asked_for(self):
        from gradsync.record import Recorder

        self.assertIs(gradsync.Recorder, Recorder)

    def test_other_names_are_none(self):
        with self.assertRaisesRegex(AttributeError, "has no attribute 'whatif'"):
            gradsync.whatif  # noqa: B018

    def test_no_public_name_hides_a_module(self):
        modules = {module.name for module in pkgutil.iter_modules([HERE / "gradsync"])}
        self.assertIn("what_if_command", modules)
        self.assertTrue(modules.isdisjoint(gradsync.__all__))


class ReadmeTest(unittest.TestCase):
    def test_examples_print_what_they_show(self):
        before = os.getcwd()
        os.chdir(HERE.parents[1])  # their paths are the repository's
        try:
            failed, tried = doctest.testfile(str(HERE / "README.md"), module_relative=False)
        finally:
            os.chdir(before)
        self.assertEqual(failed, 0)
        self.assertGreater(tried, 3)


if __name__ == "__main__":
    unittest.main()
