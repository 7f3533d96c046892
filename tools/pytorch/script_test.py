"""What scripts do, and what record makes of each: a recording, or one line that names the script's
line. Two ranks over gloo.
"""

import datetime
import inspect
import json
import os
import pathlib
import re
import resource
import signal
import tempfile
import unittest
from unittest import mock

from run_ranks import launch, sys, torch

from alone_scripts import ALONE
from continued_scripts import CONTINUED, CONTINUED_SINCE_2_15
from gradsync import record, units, world
from gradsync.launch_file import UnusableFile, check_usable
from gradsync.launch_writer import AGREE
from gradsync.schema import Launch
from gradsync.torch_private import DDP
from recorded_scripts import RECORDED
from refused_scripts import REFUSED, REFUSED_SINCE_2_15
from script_parts import BEGIN, GAN, LOOP, MODEL, NET, PLAIN_GAN

NEEDED = 15 + 2 * units.can_be_tried([torch.ones(1)])  # steps of two rounds and the first
IS_2_15 = "lazy_bucket_allocation" in inspect.signature(DDP.__init__).parameters


class ScriptTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.out = self.directory / "out.jsonl"
        self.script = self.directory / "train.py"

    def record(
        self, text, *flags, steps=120, ranks=2, setup=lambda rank: None, arguments=None, alone=False
    ):
        begin = (
            "\n".join(
                line for line in BEGIN.splitlines() if not alone or "init_process_group" not in line
            )
            + "\n"
        )
        self.script.write_text(begin + text + "\nopen('ended', 'w')\n")
        (self.directory / "ended").unlink(missing_ok=True)

        def run(rank):
            os.chdir(self.directory)
            setup(rank)
            record.main(
                [
                    f"--out={self.out}",
                    "--rounds=2",
                    *flags,
                    *([str(self.script), str(steps)] if arguments is None else arguments),
                ]
            )

        return launch(run, 1 if alone else ranks, self.directory / "printed")

    def said(self, printed):
        return [
            line
            for line in printed.splitlines()
            if line.startswith("gradsync: ")
            and not re.match(r"gradsync: (recorded;|records|\d+ steps of warm-up)", line)
        ]

    def test_what_scripts_do_is_recorded(self):
        for name, text, expected in RECORDED:
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text)
                if status and re.search(
                    r"in _sync_module_states\n(.*\n)*.*Invalid scalar|'persistent_id' is read-only",
                    printed,
                ):
                    # DDP cannot send complex numbers in PyTorch 2.5, nor can that be saved with
                    # Python 3.13.
                    continue
                self.assertEqual(status, 0, printed)
                self.assertEqual((self.directory / "ended").exists(), name == "trained in a thread")
                head = json.loads(self.out.read_text())
                head["parameters"] = [(p["name"], p["numel"]) for p in head["parameters"]]
                self.assertEqual(expected, {key: head[key] for key in expected})
                kinds = len(head["ranks"][0])
                self.assertIn(kinds, (7, 8))
                for steps in head["ranks"]:
                    self.assertEqual(
                        sorted({step["mode"] for step in steps}), ["ddp", "none", "probe"]
                    )
                    for step in steps:
                        parts = sum(
                            step.get(part, 0)
                            for part in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")
                        )
                        self.assertLess(0, parts)
                        self.assertLessEqual(parts, step["step_ns"])
                        least = -1 if name == "layers are dropped on some ranks" else 0
                        self.assertTrue(
                            all(least <= ready <= step["backward_ns"] for ready in step["ready_ns"])
                        )
                self.assertEqual(len(re.findall("went on", printed)), 2 * (name == "bare except"))

    def test_scripts_for_one_process_are_recorded(self):
        for name, text, expected in ALONE:
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text, alone=True)
                if "Dynamo is not supported" in printed:
                    continue  # PyTorch 2.5 compiles nothing with Python 3.13
                self.assertEqual((status, self.said(printed)), (0, []), printed)
                self.assertIn(
                    f"recorded; ask: gradsync what_if {self.out} --link=25Gbit,5us --world_size=8",
                    printed,
                )
                self.assertFalse((self.directory / "ended").exists())
                head = json.loads(self.out.read_text())
                head["parameters"] = [(p["name"], p["numel"]) for p in head["parameters"]]
                self.assertEqual(expected, {key: head[key] for key in expected})
                (steps,) = head["ranks"]
                self.assertEqual([step["mode"] for step in steps].count("probe"), 1)
                for step in steps:
                    parts = sum(
                        step.get(part, 0)  # which is left out
                        for part in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")
                    )
                    self.assertLess(0, parts)
                    self.assertLessEqual(parts, step["step_ns"])
                    self.assertTrue(
                        all(0 <= ready <= step["backward_ns"] for ready in step["ready_ns"])
                    )
                    self.assertEqual(
                        "between_ns" in step,
                        # Behind what is no optimizer nothing tells when the update has ended.
                        name
                        not in (
                            "another model between",
                            "a scaler that skips",
                            "an object with step()",
                        ),
                    )

    def test_an_optimizer_that_steps_within_backward_is_refused(self):
        """Its first step shows the model, in the middle of a backward."""
        text = (
            NET + "model.weight.register_post_accumulate_grad_hook(lambda p: optimizer.step()) #!\n"
        )
        _, printed = self.record(text + LOOP.replace("optimizer.step()", "pass"), alone=True)
        (said,) = self.said(printed)
        self.assertIn("an optimizer steps within backward", said)

    def test_a_compiled_training_step_is_refused_by_its_name(self):
        text = NET + (
            "@torch.compile(backend='eager')\ndef train():\n"
            "    model(x).square().mean().backward()\n    optimizer.step() #!\n"
            "    optimizer.zero_grad()\nfor step in range(int(sys.argv[1])): train()\n"
        )
        _, printed = self.record(text, alone=True)
        if "Dynamo is not supported" not in printed:
            (said,) = self.said(printed)
            self.assertIn("compile the model instead", said)

    def test_processes_that_train_are_refused_and_others_are_not(self):
        child = (
            "import datetime, multiprocessing\n"
            "def child(): DOES #!\n"
            "if __name__ == '__main__':\n"
            "    context = multiprocessing.get_context('METHOD')\n"
            "    process = context.Process(target=child)\n"
            "    process.start(); process.join(); assert process.exitcode == 0\n    "
        )
        loop = (NET + LOOP).replace("\n", "\n    ")
        makes_a_group = "dist.init_process_group('gloo', world_size="
        for method, does, trains in (
            ("fork", "pass", False),
            ("spawn", "pass", False),
            ("fork", "torch.optim.SGD([nn.Parameter(x)], lr=1)", True),
            ("spawn", "torch.optim.SGD([nn.Parameter(x)], lr=1)", True),
            ("fork", makes_a_group + "1, rank=0, store=dist.HashStore())", True),
            # The others are not there: it would wait for them, and fail.
            (
                "fork",
                makes_a_group + "2, rank=1, init_method='tcp://127.0.0.1:1', "
                "timeout=datetime.timedelta(seconds=5))",
                True,
            ),
        ):
            with self.subTest(method=method, does=does):
                self.out.unlink(missing_ok=True)
                text = child.replace("METHOD", method).replace("DOES", does) + loop
                status, printed = self.record(text, alone=True)
                said = self.said(printed)
                self.assertEqual((status, len(said)), (int(trains), int(trains)), printed)
                self.assertEqual(self.out.exists(), not trains)
                for line in said:
                    self.assertIn("let torchrun start those that train", line)
                    self.assertIn(f"{self.script}:", line)

    def test_collectives_of_the_script_itself_are_counted(self):
        text = MODEL + LOOP.replace(
            "model(x).square().mean().backward()",
            "z = model(x); y = [torch.empty(8, 16) for _ in range(2)]; dist.all_gather(y, x)\n"
            "    z.square().mean().backward(); dist.all_reduce(x.mean())",
        )
        status, printed = self.record(text)
        self.assertEqual(status, 0, printed)
        for own in json.loads(self.out.read_text())["ranks"]:
            for step in own:
                counted = step.get("own_collectives", 0), step.get("own_bytes", 0)
                expected = (2, 2 * 8 * 16 * 4 + 4) if step["mode"] == "none" else (0, 0)
                self.assertEqual(counted, expected)
        self.assertEqual(self.record(MODEL + LOOP, "--out=other")[0], 0)
        self.assertNotIn("own_collectives", (self.directory / "other").read_text())

    def test_the_model_can_be_named(self):
        self.assertEqual(self.record(PLAIN_GAN, "--model=2", alone=True)[0], 0)
        self.assertEqual(
            [p["numel"] for p in json.loads(self.out.read_text())["parameters"]], [256, 16]
        )
        self.out.unlink()
        self.assertIn(
            "which (--model=3); nothing was recorded",
            self.record(PLAIN_GAN, "--model=3", alone=True)[1],
        )
        text = GAN.replace(
            "D_STEP", "D(x).mean().backward(); D(fake.detach()).mean().backward()"
        ).replace("FROZEN", "True")
        self.assertEqual(self.record(text, "--model=2")[0], 0)
        self.assertEqual(
            [p["numel"] for p in json.loads(self.out.read_text())["parameters"]], [256, 16]
        )

    def test_training_goes_on_as_without_the_recorder(self):
        """Bit for bit, on each rank."""
        since_2_15 = CONTINUED_SINCE_2_15 if IS_2_15 else ()
        for name, text in (*CONTINUED, *since_2_15):
            if name == "passes that drop layers" and torch.__version__ < "2.5":
                continue  # where what only earlier passes brought is not averaged
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                text += "\ntorch.save(model.state_dict(), f'weights{dist.get_rank()}')\n"
                status, printed = self.record(text, "--continue", steps=70)
                self.assertEqual(status, 0, printed)
                self.assertTrue(self.out.exists())

                def plain(rank):
                    os.chdir(self.directory)
                    sys.argv = [str(self.script), "70"]
                    exec(
                        compile(self.script.read_text(), str(self.script), "exec"),
                        {"__name__": "__main__"},
                    )

                recorded = [torch.load(self.directory / f"weights{rank}") for rank in range(2)]
                self.assertEqual(launch(plain, 2, self.directory / "printed")[0], 0)
                for rank in range(2):
                    weights = torch.load(self.directory / f"weights{rank}")
                    self.assertEqual(weights.keys(), recorded[rank].keys())
                    for key in weights:
                        self.assertTrue(torch.equal(weights[key], recorded[rank][key]), (rank, key))

    def test_what_cannot_be_recorded_is_refused_in_one_line(self):
        for name, text, expected in (*REFUSED, *(REFUSED_SINCE_2_15 if IS_2_15 else ())):
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text)
                self.assertEqual(status, 1, printed)
                self.assertFalse((self.directory / "ended").exists())
                self.assertFalse(self.out.exists())
                said = self.said(printed)
                self.assertEqual(len(said), 1, printed)
                self.assertIn(expected, said[0])
                lines = [
                    f"{self.script}:{n}"
                    for n, line in enumerate((BEGIN + text).splitlines(), 1)
                    if "#!" in line
                ]
                self.assertIn(said[0].split(": ")[1], lines)

    def test_other_models_are_named(self):
        for name, said in (
            ("wrapped again", "wrapped again"),
            ("a discriminator before its generator", "this one of 2 models"),
            ("two views", None),
        ):
            (text,) = [text for entry, text, _ in RECORDED if entry == name]
            _, printed = self.record(text)
            self.assertEqual(
                [said in line for line in self.said(printed)], [True] if said else [], printed
            )
            self.out.unlink()

    def test_each_call_of_a_closure_is_a_step(self):
        (text,) = [text for entry, text, _ in RECORDED if entry == "LBFGS"]
        self.assertEqual(self.record(text, steps=6)[0], 0)  # three calls each
        self.out.unlink()
        self.assertIn(
            f"took 12 steps, which are too few: {NEEDED} are needed", self.record(text, steps=4)[1]
        )

    def test_a_script_that_ends_without_a_recording_says_so(self):
        for text, said in (
            (MODEL + LOOP, f"train.py 5 took 5 steps, which are too few: {NEEDED} are needed"),
            (
                MODEL + LOOP + "sys.exit(0)",
                f"train.py 5 took 5 steps, which are too few: {NEEDED} are needed",
            ),
            (
                "",
                "trained no model, or too few steps to tell which (--model=1); nothing was "
                "recorded",
            ),
            (
                "for epoch in range(3):\n    "
                + MODEL.replace("; ", "\n    ")
                + LOOP.replace("\n", "\n    "),
                f"took 5 steps, which are too few: {NEEDED} are needed",
            ),
            (
                MODEL + LOOP + "    if step == 3: raise KeyboardInterrupt",
                "was interrupted; nothing was recorded",
            ),
        ):
            status, printed = self.record(text, steps=5)
            self.assertEqual(status, 1)
            self.assertEqual(len(self.said(printed)), 1, printed)
            self.assertIn(said, printed)
        for text, said in (
            (MODEL + LOOP + "sys.exit(0)", "took 5 steps, which are too few"),
            (MODEL + LOOP + "raise KeyboardInterrupt", "was interrupted; nothing was recorded"),
        ):
            status, printed = self.record(text, "--continue", steps=5)
            self.assertEqual((status, len(self.said(printed))), (1, 1), printed)
            self.assertIn(said, printed)
        for text, said in (
            (MODEL + "1 / 0", "ZeroDivisionError"),
            ("sys.exit('my own words')", "my own words"),
        ):
            status, printed = self.record(text)
            self.assertEqual((status, self.said(printed)), (1, []))
            self.assertIn(said, printed)

    def test_how_a_script_ends_behind_its_recording_is_its_own(self):
        for end, expected in (
            ("sys.exit(0)", 0),
            ("sys.exit('my own words')", 1),
            ("raise KeyboardInterrupt", 1),
        ):
            with self.subTest(end):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(MODEL + LOOP + end, "--continue", steps=70)
                self.assertEqual(status, expected, printed)
                self.assertTrue(self.out.exists())
                self.assertNotIn("nothing was recorded", printed)

    def test_ranks_that_are_not_recorded_are_noticed(self):
        def alone(rank):
            world.WAIT = datetime.timedelta(seconds=1)
            if rank == 1:
                sys.argv = [str(self.script), "120"]
                exec(
                    compile(self.script.read_text(), str(self.script), "exec"),
                    {"__name__": "__main__"},
                )

        status, printed = self.record(MODEL + LOOP, setup=alone)
        self.assertEqual(status, 1)
        self.assertIn("not all ranks are recorded", self.said(printed)[0])

    def test_modules_are_recorded(self):
        package = self.directory / "pkg"
        package.mkdir()
        (package / "__init__.py").write_text(BEGIN)
        (package / "train.py").write_text(
            "from . import *\nfrom . import F, dist\nassert sys.argv[1] == '120', sys.argv\n"
            + MODEL
            + LOOP
        )

        def path(rank):
            sys.path.insert(0, "")  # as python -m has it

        for arguments in (["-m", "pkg.train", "120"], ["--", str(self.script), "120"]):
            status, printed = self.record(MODEL + LOOP, arguments=arguments, setup=path)
            self.assertEqual(status, 0, printed)
            self.assertEqual(
                json.loads(self.out.read_text())["command"], arguments[arguments[0] == "--" :]
            )
            self.out.unlink()
        (package / "__init__.py").write_text("")
        (package / "broken.py").write_text("import nowhere")
        # It lacks another module, whose name begins like its own: running it says so.
        other = self.directory / "nowhere_else"
        other.mkdir()
        (other / "__init__.py").write_text("import nowhere")
        with mock.patch.object(sys, "path", [str(self.directory), *sys.path]):
            self.assertTrue(record.is_there("nowhere_else.main", is_module=True))
        for arguments, said in (
            (["-m", "pkg.none"], "no module pkg.none"),
            (["-m", "none.none"], "no module none.none"),
            (["-m", ".none"], "no module .none"),
            (["-m"], "no module"),
            ([], "no script"),
            (["none.py"], "no script none.py"),
            (["--rounds=1", "train.py"], "--rounds=1: expected at least 2"),
            (["--rounds=x"], "invalid int"),
            ([f"--out={self.directory}", "train.py"], "cannot be written, or is no file"),
            (["--out=/dev/full", "train.py"], "cannot be written, or is no file"),
            ([f"--out={self.directory}/no/file", "train.py"], "cannot be written"),
        ):
            with self.subTest(said):
                status, printed = self.record("", arguments=arguments, setup=path, ranks=1)
                self.assertEqual((status, len(self.said(printed))), (2, 1), printed)
                self.assertIn(said, printed)
        self.assertIn(
            "No module named 'nowhere'",
            self.record("", arguments=["-m", "pkg.broken"], setup=path, ranks=1)[1],
        )

    def test_a_launch_is_written_whole_or_not_at_all(self):
        def full(rank):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 1000, len(first) + 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        self.assertEqual(self.record(MODEL + LOOP)[0], 0)
        first = self.out.read_text()
        status, printed = self.record(MODEL + LOOP, setup=full)
        self.assertEqual(status, 1)
        self.assertIn("out.jsonl was left as it was: File too large", self.said(printed)[0])
        self.assertEqual(self.out.read_text(), first)
        self.assertEqual(
            sorted(p.name for p in self.directory.iterdir()), ["out.jsonl", "printed", "train.py"]
        )
        with open(self.out) as before:
            self.assertEqual(self.record(MODEL + LOOP)[0], 0)
            self.assertEqual(before.read(), first)  # who reads meanwhile sees no part of a launch
        self.assertEqual(self.out.read_text()[: len(first)], first)
        self.assertEqual(len(self.out.read_text().splitlines()), 2)

    def test_launches_of_another_kind_are_refused(self):
        self.out.touch()  # an empty file holds no other launch
        self.assertEqual(self.record(MODEL + LOOP)[0], 0)
        launch = json.loads(self.out.read_text())
        own = Launch.from_json(launch)
        own = {field: getattr(own, field) for field in AGREE}
        check_usable(str(self.out), **own)
        check_usable(str(self.out), **(own | {"hosts": ("other", "other")}))
        for field in AGREE:
            other = ("one", "two") if isinstance(own[field], tuple) else "other"
            with self.assertRaisesRegex(UnusableFile, f"differ in {field}:"):
                check_usable(str(self.out), **(own | {field: other}))
        for change in (
            {"torch": "1.0"},
            {"optimizer": "AdamW"},
            {"cores": 99},
            {"processor": "68000"},
            {"passes": 3},
        ):
            self.out.write_text(json.dumps(launch | change) + "\n")
            status, printed = self.record(MODEL + LOOP)
            self.assertEqual(status, 2)
            self.assertIn(
                f"out.jsonl holds launches that differ in {[*change][0]}: record this one to "
                "another file",
                printed,
            )
            self.assertEqual(len(self.said(printed)), 1)
        for text in ("notes\n", "{\n", "3\n", "[]\n"):
            self.out.write_text(text)
            self.assertIn("is no recording, to which", self.record(MODEL + LOOP)[1])
            self.assertEqual(self.out.read_text(), text)

    def test_a_pytorch_that_was_not_tried_is_named(self):
        for version, said in (
            ("2.2.1", True),
            ("2.3.0+cpu", False),
            ("2.15.1", False),
            ("2.99.0a0+git", True),
            ("3.0.0", True),
        ):

            def pretend(rank, version=version):
                torch.__version__ = version

            _, printed = self.record("", setup=pretend, arguments=["none.py"], ranks=1)
            self.assertEqual(
                f"PyTorch {version} was never tried; 2.3 to 2.15 were" in printed, said, printed
            )


if __name__ == "__main__":
    unittest.main()
