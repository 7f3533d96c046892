"""The command `gradsync`: its commands, its exit statuses, and what it says without PyTorch."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import gradsync
from gradsync import check_flags, record_flags
from gradsync.__main__ import USAGE
from sample_recordings import launch, screen, written

HERE = pathlib.Path(__file__).absolute().parent


class CommandLineTest(unittest.TestCase):
    def run_gradsync(self, *arguments, path=(HERE,), **more):
        """Runs the folder's package by a Python that sees no installed one, nor PyTorch."""
        return subprocess.run(
            [sys.executable, "-S", "-m", "gradsync", *arguments],
            env={"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"},
            stderr=subprocess.PIPE,
            timeout=60,
            **more,
        )

    def assert_run(self, arguments, status, out, error, **more):
        done = self.run_gradsync(*arguments, stdout=subprocess.PIPE, text=True, **more)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, out, error))

    def test_what_if_needs_the_standard_library_alone(self):
        self.assert_run(["what_if", written(launch())], 0, screen() + "\n", "")

    def test_the_version_is_that_of_the_package(self):
        self.assertRegex(gradsync.__version__, r"^\d+\.\d+\.\d+$")
        self.assert_run(["--version"], 0, f"gradsync {gradsync.__version__}\n", "")

    def test_the_programs_have_the_same_version(self):
        header = HERE.parents[1] / "model" / "base" / "version.h"
        if not header.exists():
            self.skipTest("the C++ programs are not here: an sdist")
        self.assertIn(f'kVersion = "{gradsync.__version__}";', header.read_text())

    def test_help_is_printed_and_other_commands_are_refused(self):
        for flag in ("-h", "--help"):
            self.assert_run([flag], 0, USAGE + "\n", "")
        self.assert_run([], 2, "", USAGE + "\n")
        expected = (
            "gradsync: no command recrod: expected record, what_if, trace or check (--help)\n"
        )
        self.assert_run(["recrod"], 2, "", expected)

    def test_without_pytorch_record_and_check_say_what_they_need(self):
        for command, status in (("record", 4), ("check", 2)):
            expected = f"{command}: no module torch: it needs PyTorch 2.3 or newer\n"
            self.assert_run([command, "train.py"], status, "", expected)

    def test_help_and_limits_are_printed_without_pytorch(self):
        for command, module in (("record", record_flags), ("check", check_flags)):
            done = self.run_gradsync(command, "--help", stdout=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"\n{module.LIMITS}\n", done.stdout)
            self.assertIn("--continue", done.stdout)
            # A flag of the script is no flag of the command.
            expected = f"{command}: no module torch: it needs PyTorch 2.3 or newer\n"
            status = 2 if command == "check" else 4
            self.assert_run([command, "train.py", "--help"], status, "", expected)
            self.assert_run(
                [command, "--nonsense"], 2, "", "gradsync: unrecognized arguments: --nonsense\n"
            )

    def test_a_pytorch_that_is_too_old_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            torch = pathlib.Path(directory, "torch.py")
            for version in ("2.2.1+cpu", "1.13.1"):
                torch.write_text(f"__version__ = {version!r}\n")
                for command, status in (("record", 4), ("check", 2)):
                    said = f"PyTorch {version} is too old: it needs PyTorch 2.3 or newer"
                    path = (HERE, directory)
                    arguments = [command, "train.py"]
                    self.assert_run(arguments, status, "", f"{command}: {said}\n", path=path)
            # Of a version that is not refused, something else is missing.
            for version in ("2.3.0", "2.10.0a0+git1"):
                torch.write_text(f"__version__ = {version!r}\n")
                done = self.run_gradsync("record", path=(HERE, directory), stdout=subprocess.PIPE)
                self.assertNotIn(b"too old", done.stderr)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = self.run_gradsync("what_if", written(launch()), stdout=full)
        expected = b"what_if: cannot write to stdout: No space left on device\n"
        self.assertEqual((done.returncode, done.stderr), (1, expected))

    def test_a_closed_stdout_is_an_error(self):
        command = [sys.executable, "-m", "gradsync", "what_if", written(launch())]
        closing = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command]
        done = subprocess.run(
            closing, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True
        )
        expected = b"what_if: cannot write to stdout: it is closed\n"
        self.assertEqual((done.returncode, done.stderr), (1, expected))

    def test_the_folder_has_what_a_package_needs(self):
        text = (HERE / "pyproject.toml").read_text()
        self.assertIn('path = "gradsync/__init__.py"', text)  # the only place of the version
        self.assertIsNone(re.search(r"^version *=", text, re.MULTILINE))
        self.assertTrue((HERE / "gradsync/py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
