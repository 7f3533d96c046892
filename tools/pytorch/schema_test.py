"""What a recording holds: what is read is what is written, and what is refused is refused in one
line.
"""

import copy
import dataclasses
import gzip
import json
import os
import pathlib
import tempfile
import unittest

from gradsync import Refused
from gradsync.launch_checks import differing_field
from gradsync.recording_file import append_launch, parse_launch, read_bytes, read_launches
from gradsync.schema import (
    CollectiveKind,
    Collectives,
    HostLoad,
    Launch,
    Memory,
    Row,
    StepMode,
    Unit,
)
from sample_recordings import MS, launch, steps_of, written

RECORDINGS = pathlib.Path(__file__).absolute().parents[2] / "docs/recordings"


def with_everything():
    """A launch in which no field has its default value."""
    one = launch()
    one.update(
        time="2026-01-01T00:00:00",
        processor="a processor",
        command=["train.py", "--lr=1"],
        link_rate=10**9,
        units=[
            {"name": "", "parameters": [0, 2], "reshards": False},
            {"name": "h.0", "parameters": [1], "reshards": True},
        ],
        memory={
            "weight_bytes": 1,
            "buffer_bytes": 2,
            "state_bytes": 3,
            "keeps_gradients": True,
            "forward_bytes": 4,
            "order": [2, 0, 1],
            "ready_bytes": [5, 6, 7],
            "held_bytes": [8, 9, 10],
            "optimizer_bytes": 11,
        },
    )
    one["loads"] = [
        {"steal_part": 0.25, "busy_part": 0.5, "load_average": average} for average in (1.5, 2.5)
    ]
    for parameter in one["parameters"]:
        parameter["dtype"] = "float32"
    one["rows"][0].update(fsdp=True, whole=True)
    for step in steps_of(one, "none") + steps_of(one, "probe"):
        step.update(
            between_ns=MS,
            copy_back_ns=2,
            units_ns=[[0, 1, 2, 3], [4, 5, 6, 7]],
            gather_ns=[1, 2],
            reduce_ns=[3, 4],
        )
    return one


class ReadTest(unittest.TestCase):
    def test_what_is_read_is_what_is_written(self):
        one = with_everything()
        for steps in one["ranks"]:
            for step in steps:
                if step["mode"] == "ddp":
                    del step["row"]  # which has its default value
        self.assertEqual(Launch.from_json(one).to_json(), one)

    def test_kept_recordings_are_read_and_written_as_they_are(self):
        paths = sorted(RECORDINGS.rglob("*.gz"))
        self.assertGreater(len(paths), 20)
        for path in paths:
            lines = read_bytes(path).decode().splitlines()
            for line, read in zip(lines, read_launches(path), strict=True):
                self.assertEqual(as_written(json.loads(line)), read.to_json(), path)

    def test_fields(self):
        read = Launch.from_json(with_everything())
        self.assertEqual(read.units[1], Unit("h.0", (1,), True))
        self.assertEqual(
            read.memory, Memory(1, 2, 3, True, 4, (2, 0, 1), (5, 6, 7), (8, 9, 10), 11)
        )
        self.assertEqual(read.loads[1], HostLoad(0.25, 0.5, 2.5))
        step = read.ranks[1][4]
        self.assertIs(step.mode, StepMode.PROBE)
        self.assertEqual(
            step.collectives,
            Collectives(
                CollectiveKind.BF16,
                1,
                bytes=(1 << 20,) * 4,
                ns=(12 * MS,) * 4,
                wall_ns=56 * MS,
                cpu_ns=0,
                in_ns=(MS,) * 4,
                out_ns=(MS,) * 4,
            ),
        )
        self.assertEqual((read.rows[0].fsdp, read.rows[0].whole), (True, True))

    def test_what_may_be_missing(self):
        one = with_everything()
        for name in ("time", "torch", "processor", "command", "link_rate", "memory"):
            del one[name]
        read = Launch.from_json(one)
        self.assertEqual(
            (read.time, read.torch, read.processor, read.command, read.link_rate, read.memory),
            ("", "", "", (), 0, None),
        )
        self.assertEqual(Launch.from_json(launch()).units, ())
        self.assertEqual(Launch.from_json(launch()).loads, ())
        self.assertIsNone(Launch.from_json(launch()).ranks[0][0].collectives)

    def test_memory_that_was_not_seen(self):
        for memory in ({}, {"weight_bytes": 0, "ready_bytes": [], "held_bytes": []}):
            self.assertIsNone(Launch.from_json({**launch(), "memory": memory}).memory)
        self.assertNotIn("memory", Launch.from_json(launch()).to_json())

    def test_defaults_of_pytorch(self):
        row = Row.by_default("as it is", passes=2)
        self.assertEqual((row.bucket_bytes, row.first_bucket_bytes), (25 << 20, 1 << 20))
        self.assertEqual((row.passes, row.fsdp, row.bf16, row.zero1), (2, False, False, False))

    def test_what_launches_of_one_recording_agree_in(self):
        one = Launch.from_json(with_everything())
        renamed = dataclasses.replace(one, hosts=("b", "b"), time="later", memory=None)
        self.assertIsNone(differing_field(one, renamed))
        self.assertEqual(differing_field(one, dataclasses.replace(one, hosts=("a", "b"))), "hosts")
        other = dataclasses.replace(one, cores=9, passes=9)
        self.assertEqual(differing_field(one, other), "cores")
        self.assertIsNone(differing_field(one, other, ["hosts"]))


def as_written(value):
    """Without fields that have their default value, in which recordings of other versions
    differ.
    """
    if isinstance(value, list):
        return [as_written(one) for one in value]
    if not isinstance(value, dict):
        return value
    defaults = {"row": 0, "fsdp": False, "whole": False, "link_rate": 0}
    return {
        name: as_written(one)
        for name, one in value.items()
        if (name not in defaults or one != defaults[name]) and not is_unseen(name, one)
    }


def is_unseen(name, value):
    unseen_memory = name == "memory" and not value["ready_bytes"]
    return unseen_memory or (name in ("units", "command", "ready_ns") and value == [])


class RefusedTest(unittest.TestCase):
    def said_of(self, change):
        one = with_everything()
        change(one)
        with self.assertRaises(Refused) as refused:
            parse_launch(json.dumps(one))
        self.assertNotIn("\n", str(refused.exception))
        return str(refused.exception)

    def test_unknown_fields_and_versions(self):
        unknown = "is unknown, expected fields that this version of gradsync writes"
        for where, change in (
            ("color", lambda one: one.update(color=1)),
            ("rows[0].color", lambda one: one["rows"][0].update(color=1)),
            ("memory.color", lambda one: one["memory"].update(color=1)),
            ("units[1].color", lambda one: one["units"][1].update(color=1)),
            ("loads[1].color", lambda one: one["loads"][1].update(color=1)),
            ("parameters[2].color", lambda one: one["parameters"][2].update(color=1)),
            ("ranks[1][0].color", lambda one: one["ranks"][1][0].update(color=1)),
            (
                "ranks[1][1].collectives.color",
                lambda one: one["ranks"][1][1]["collectives"].update(color=1),
            ),
        ):
            self.assertEqual(self.said_of(change), f"{where} {unknown}")
        self.assertEqual(
            self.said_of(lambda one: one.update(gradsync_torch=2, color=1)),
            "gradsync_torch is 2, expected 1 to 1",
        )

    def test_values_of_another_kind(self):
        for said, change in (
            ('mode is "slow", expected one of none, probe, ddp', {"mode": "slow"}),
            ("mode is 3, expected a text", {"mode": 3}),
            ("row is true, expected 0 to 1e+06", {"row": True}),
            ("row is 0.5, expected 0 to 1e+06", {"row": 0.5}),
            ("step_ns is true, expected 0 to 1e+18", {"step_ns": True}),
            ("step_ns is -1, expected 0 to 1e+18", {"step_ns": -1}),
            ("step_ns is 1e+19, expected 0 to 1e+18", {"step_ns": 1e19}),
            ("begin_ns is -2e+18, expected -1e+18 to 1e+18", {"begin_ns": -2e18}),
            ("ready_ns is 3, expected a list", {"ready_ns": 3}),
            ("gather_ns[1] is null, expected 0 to 1e+18", {"gather_ns": [1, None]}),
            ("units_ns[0] is 1, expected a list", {"units_ns": [1]}),
            ("units_ns[0][2] is -1, expected 0 to 1e+18", {"units_ns": [[1, 2, -1, 3]]}),
            ("collectives is 1, expected an object", {"collectives": 1}),
            (
                'collectives.kind is "send", expected one of all_reduce, bf16, zero1, fully_shard',
                {"collectives": {"kind": "send"}},
            ),
        ):
            changed = self.said_of(lambda one, change=change: one["ranks"][0][3].update(change))
            self.assertEqual(changed, f"ranks[0][3].{said}")
        for said, change in (
            ("views is 1, expected true or false", {"views": 1}),
            ("world_size is 0, expected 1 to 16384", {"world_size": 0}),
            ("hosts[1] is 5, expected a text", {"hosts": ["a", 5]}),
            ("units[0] is 5, expected an object", {"units": [5]}),
            ("ranks[0] is 5, expected a list", {"ranks": [5]}),
            ("memory lacks parameters", {"memory": {"ready_bytes": [1]}}),
            ("loads of 1 ranks, expected 2", {"loads": with_everything()["loads"][:1]}),
            (
                "loads[0].steal_part is 1.5, expected 0 to 1",
                {"loads": [{**with_everything()["loads"][0], "steal_part": 1.5}] * 2},
            ),
        ):
            self.assertEqual(self.said_of(lambda one, change=change: one.update(change)), said)
        self.assertEqual(self.said_of(lambda one: one.pop("views")), "no views")
        self.assertEqual(self.said_of(lambda one: one["rows"][0].pop("bf16")), "no rows[0].bf16")
        self.assertEqual(
            self.said_of(lambda one: one["memory"].update(order=[0, 0])),
            "memory has a gradient twice in its order: record again",
        )
        self.assertEqual(
            self.said_of(lambda one: one["memory"].update(order=[3])), "memory lacks parameters"
        )


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.launch = Launch.from_json(with_everything())

    def test_launches_are_added(self):
        for name in ("a.jsonl", "a.jsonl.gz"):
            path = self.folder / name
            for count in (1, 2, 3):
                append_launch(path, self.launch)
                self.assertEqual(read_launches(path), [self.launch] * count)
            is_compressed = path.read_bytes()[:2] == b"\x1f\x8b"
            self.assertEqual(is_compressed, name.endswith(".gz"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.jsonl", "a.jsonl.gz"])

    def test_a_file_stays_as_it_is(self):
        """Versions before this one wrote text into files of any name."""
        text, compressed = self.folder / "a.jsonl.gz", self.folder / "b.jsonl"
        line = json.dumps(launch()) + "\n"
        text.write_text(line)
        compressed.write_bytes(gzip.compress(line.encode()))
        for path in (text, compressed):
            before = path.read_bytes()
            append_launch(path, self.launch)
            self.assertTrue(path.read_bytes().startswith(before))
            self.assertEqual(read_launches(path), [Launch.from_json(launch()), self.launch])

    def test_a_launch_that_cannot_be_written_leaves_the_file(self):
        path = self.folder / "a.jsonl"
        append_launch(path, self.launch)
        before = path.read_bytes()
        (self.folder / f"a.jsonl.{os.getpid()}").mkdir()  # in the way of the new file
        with self.assertRaises(OSError):
            append_launch(path, copy.deepcopy(self.launch))
        self.assertEqual(path.read_bytes(), before)

    def test_what_cannot_be_read(self):
        cut = self.folder / "cut.gz"
        cut.write_bytes(gzip.compress(json.dumps(launch()).encode())[:-9])
        for path, said in (
            (cut, "cannot be read: Compressed file ended before the end-of-stream marker"),
            (self.folder, "cannot be read: Is a directory"),
            (self.folder / "none", "cannot be read: No such file or directory"),
            (written(""), "no launch of gradsync record"),
            (written(launch(), "{}"), "line 2: no gradsync_torch"),
        ):
            with self.assertRaises(Refused) as refused:
                read_launches(path)
            self.assertIn(said, str(refused.exception))
            self.assertTrue(str(refused.exception).startswith(str(path)))


if __name__ == "__main__":
    unittest.main()
