"""What is said of processors where Linux's ways are missing."""

import os
import pathlib
import platform
import tempfile
import unittest
from unittest import mock

from gradsync import host, host_load
from gradsync.host_load import CpuTimes, load_between
from gradsync.schema import HostLoad


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

    def test_waiting_for_a_cpu_is_told_on_linux_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "schedstat")
            with mock.patch.object(host, "SCHEDSTAT", path):
                self.assertEqual(host.waited_for_cpu_ns(), 0)
                for text, expected in (("7000 42 3\n", 42), ("", 0), ("x y z\n", 0)):
                    path.write_text(text)
                    self.assertEqual(host.waited_for_cpu_ns(), expected)

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


class LoadTest(unittest.TestCase):
    def times_of(self, stat, average="0.50 0.40 0.30 1/200 12345\n"):
        with tempfile.TemporaryDirectory() as directory:
            paths = [pathlib.Path(directory, name) for name in ("stat", "loadavg")]
            for path, text in zip(paths, (stat, average), strict=True):
                if text is not None:
                    path.write_text(text)
            with (
                mock.patch.object(host_load, "STAT", paths[0]),
                mock.patch.object(host_load, "LOAD_AVERAGE", paths[1]),
            ):
                return CpuTimes.now()

    def test_load_is_of_the_time_between(self):
        # user, nice, system, idle, iowait, irq, softirq, steal, and guests, which user has.
        begin = self.times_of("cpu  100 10 50 1000 20 1 2 5 70 0\ncpu0 9 9 9\n")
        end = self.times_of("cpu  180 20 60 1050 30 2 3 39 90 0\n", "2.25 0.1 0.1 1/2 3")
        self.assertEqual(begin, CpuTimes(1188, 1020, 5, 0.5))
        # Of 196 ticks 60 were idle and 34 stolen.
        self.assertEqual(load_between(begin, end), HostLoad(34 / 196, (196 - 60 - 34) / 196, 2.25))

    def test_what_is_unknown_is_none(self):
        known = self.times_of("cpu  1 2 3 4 5 6 7 8 9 10\n")
        for stat, average in (
            (None, "1.0"),
            ("cpu  1 2 3 4 5 6 7 8\n", None),
            ("", "1.0"),
            ("cpu  1 2 3 4\n", "1.0"),
            ("cpu0 1 2 3 4 5 6 7 8\n", "1.0"),
            ("cpu  1 2 3 4 5 6 7 x\n", "1.0"),
            ("cpu  1 2 3 4 5 6 7 8\n", ""),
        ):
            self.assertIsNone(self.times_of(stat, average), (stat, average))
        later = CpuTimes(known.total + 10, known.idle, known.steal, 0)
        self.assertIsNotNone(load_between(known, later))
        for begin, end in ((None, later), (known, None), (known, known), (later, known)):
            self.assertIsNone(load_between(begin, end))

    def test_counters_that_go_backwards_make_no_impossible_parts(self):
        begin = CpuTimes(total=100, idle=50, steal=10, load_average=0)
        for idle, steal in ((40, 10), (50, 5), (200, 10), (50, 300)):
            load = load_between(begin, CpuTimes(200, idle, steal, 0))
            self.assertTrue(0 <= load.steal_part <= 1 and 0 <= load.busy_part <= 1, load)
            self.assertLessEqual(load.steal_part + load.busy_part, 1)

    @unittest.skipUnless(host_load.STAT.exists(), "needs /proc/stat")
    def test_this_host_tells(self):
        times = CpuTimes.now()
        self.assertGreater(times.total, times.idle)


if __name__ == "__main__":
    unittest.main()
