"""What is said of processors where Linux's ways are missing."""

import os
import pathlib
import platform
import tempfile
import unittest
from unittest import mock

from gradsync import host


class HostTest(unittest.TestCase):
    def name_of(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "cpuinfo")
            if text is not None:
                path.write_text(text)
            with mock.patch.object(host, "CPUINFO", path):
                return host.processor_name()

    def test_linux_names_the_model(self):
        text = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9V74\nmodel name\t: other\n"
        self.assertEqual(self.name_of(text), "AMD EPYC 9V74")
        self.assertEqual(self.name_of("processor\t: 0\nBogoMIPS\t: 50\n"), platform.machine())

    def test_other_systems_ask_sysctl(self):
        with tempfile.TemporaryDirectory() as directory:
            sysctl = pathlib.Path(directory, "sysctl")
            sysctl.write_text(
                '#!/bin/sh\n[ "$*" = "-n machdep.cpu.brand_string" ] && echo Apple M9\n'
            )
            sysctl.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{directory}:/bin:/usr/bin"}):
                self.assertEqual(self.name_of(None), "Apple M9")
            sysctl.write_text("#!/bin/sh\necho unknown\nexit 1\n")
            with mock.patch.dict(os.environ, {"PATH": f"{directory}:/bin:/usr/bin"}):
                self.assertEqual(self.name_of(None), platform.machine())
        with mock.patch.dict(os.environ, {"PATH": ""}):
            self.assertEqual(self.name_of(None), platform.machine())

    def test_cores_are_those_that_the_process_may_use(self):
        with mock.patch.object(os, "sched_getaffinity", lambda pid: {3, 5, 7}, create=True):
            self.assertEqual(host.usable_cores(), 3)

    def test_without_affinity_all_cores_count(self):
        with (
            mock.patch.object(os, "cpu_count", lambda: 12),
            mock.patch.object(os, "sched_getaffinity", create=True),
        ):
            del os.sched_getaffinity
            self.assertEqual(host.usable_cores(), 12)


if __name__ == "__main__":
    unittest.main()
