"""A script that tests of `check` write, and run under it in forked ranks."""

import os
import pathlib
import tempfile
import unittest

from run_ranks import launch

from check_scripts import begin
from gradsync import check


class CheckTestCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.script = self.directory / "train.py"

    def check(self, text, *flags, steps=3, ranks=2, prepare=lambda: None):
        """Returns the exit status and what is printed. `prepare` is called in each rank before."""
        self.script.write_text(begin(ranks=ranks) + text + "\nopen('ended', 'w')\n")
        (self.directory / "ended").unlink(missing_ok=True)

        def run(rank):
            os.chdir(self.directory)
            prepare()
            check.main([*flags, str(self.script), str(steps)])

        return launch(run, ranks, self.directory / "printed")

    def has_ended(self):
        """Whether the script ran to its end."""
        return (self.directory / "ended").exists()

    def lines(self, printed, status):
        return [
            line.split(None, 2)[2]
            for line in printed.splitlines()
            if line.startswith(f"gradsync: {status}")
        ]
