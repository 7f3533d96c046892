"""What is read from recordings, and refused; means and intervals of what was measured."""

import random
import unittest
from dataclasses import replace

from gradsync import Refused
from gradsync.estimates import Estimate, Interval, estimate, trimmed_mean
from gradsync.recording import Recording
from gradsync.schema import Row
from sample_recordings import MIB, MS, changed, launch, steps_of, written


def row(first_bucket_bytes, bucket_bytes):
    return replace(
        Row.by_default("", passes=1),
        first_bucket_bytes=first_bucket_bytes,
        bucket_bytes=bucket_bytes,
    )


class RecordingTest(unittest.TestCase):
    def test_adds_a_tensor_and_closes_the_bucket_that_reached_its_size(self):
        one = launch()
        one["parameters"] = [
            {"name": "", "numel": size, "bytes": size} for size in (40, 60, 10, 100, 30)
        ]
        for step in steps_of(one, "probe") + steps_of(one, "none"):
            step["ready_ns"] = [3, 4, 2, 5, 1]
        one["ranks"][0][1]["ready_ns"] = [1, 2, 3, 4, 5]  # one step that was disturbed
        for step in one["ranks"][1]:  # rank 0's order counts
            step["ready_ns"] = [1, 2, 3, 4, 5]
        recording = Recording(written(one))
        for first, size, expected in (
            (40, 100, ((4, 2), (0, 1), (3,))),
            (41, 101, ((4, 2, 0), (1, 3))),
            (1, 1, ((4,), (2,), (0,), (1,), (3,))),
            (1000, 1, ((4, 2, 0, 1, 3),)),
        ):
            self.assertEqual(recording.buckets(row(first, size)), expected)

    def test_each_dtype_has_buckets_of_its_own(self):
        one = launch()
        one["parameters"] = [
            {"name": "", "numel": size, "bytes": size, "dtype": dtype}
            for size, dtype in (
                (10, "float32"),
                (10, "bfloat16"),
                (30, "float32"),
                (30, "bfloat16"),
                (30, "float32"),
                (5, "bfloat16"),
            )
        ]
        for step in steps_of(one, "probe") + steps_of(one, "none"):
            step["ready_ns"] = [1, 2, 3, 4, 5, 6]
        recording = Recording(written(one))
        # Each begins with a first bucket. Those that are not full come last.
        self.assertEqual(
            recording.buckets(row(10, 60)),
            ((0,), (1,), (2, 4), (3, 5)),
        )
        self.assertEqual(
            recording.buckets(row(10, 31)),
            ((0,), (1,), (2, 4), (3, 5)),
        )
        self.assertEqual(
            recording.buckets(row(40, 30)),
            ((0, 2), (1, 3), (4,), (5,)),
        )

    def test_what_got_no_gradient_is_ready_after_backward(self):
        one = launch()
        for step in steps_of(one, "probe"):
            step["ready_ns"][2] = -1
        self.assertEqual(
            Recording(written(one)).buckets(row(MIB, 25 * MIB))[0],
            (1,),
        )

    def test_a_step_lasts_from_the_last_ranks_begin_to_the_last_ranks_end(self):
        one = launch()
        for step in one["ranks"][0]:
            step["begin_ns"] = 5 * MS
        for more, seconds in ((1, 63e-3), (5, 65e-3)):
            for step in one["ranks"][1]:
                step["step_ns"] += more * MS
            self.assertAlmostEqual(Recording(written(one)).none_s, seconds if more == 1 else 64e-3)
        one["hosts"] = ["a", "b"]  # whose clocks have nothing in common
        self.assertAlmostEqual(Recording(written(one)).none_s, 69e-3)

    def test_a_second_run_is_ddps_in_the_other_launches(self):
        slow = launch()
        for step in steps_of(slow, "ddp"):
            step["step_ns"] = 99 * MS
        self.assertAlmostEqual(
            Recording(written(launch(), slow, slow)).second_run_error("as the script has it"), 0.1
        )
        self.assertIsNone(Recording(written(slow)).second_run_error("as the script has it"))

    def test_locations(self):
        self.assertEqual(trimmed_mean([100, 1, 2, 3, -100]), 2)  # a fifth at each end
        self.assertEqual(trimmed_mean([5, 1]), 3)

    def test_an_interval_holds_the_mean_as_often_as_it_says(self):
        source = random.Random(7)
        missed = [0, 0]
        for _ in range(400):
            values = [source.gauss(10, 1) for _ in range(40)]
            offsets = [source.gauss(0, 2) for _ in range(4)]
            for kind, sample in enumerate(
                (values, [v + offsets[i // 10] for i, v in enumerate(values)])
            ):
                launches = [sample[i : i + 10] for i in range(0, 40, 10)]
                interval = estimate(launches).interval
                missed[kind] += not interval.low <= 10 <= interval.high
        for count in missed:  # 20 of 400; launches that differ are the samples
            self.assertTrue(8 < count < 36, missed)
        self.assertEqual(estimate([[3, 3]]), Estimate(3, Interval(3, 3, 3)))
        self.assertEqual(estimate([[3]]), Estimate(3, None))
        launches_differ = estimate([[1, 1], [2, 2]]).interval
        self.assertEqual(launches_differ.value, 1.5)
        self.assertLess(launches_differ.low, 0)  # of one degree of freedom
        # Too few to tell how much launches vary: as of one launch.
        self.assertEqual(estimate([[1], [3]]), estimate([[1, 3]]))
        self.assertEqual(estimate([[1, 2], [4]]), estimate([[1, 2, 4]]))


def said_of(*launches):
    """Why a recording of these launches, or texts, is refused."""
    try:
        Recording(written(*launches))
    except Refused as refused:
        return str(refused)
    raise AssertionError("was read")


def said_of_changed(change):
    """Why a launch is refused that was changed by this function."""
    one = launch()
    change(one)
    return said_of(one)


def said_of_step(i, part=None, **values):
    """Why a launch is refused whose rank 0 has these values in step `i`, or in a part of it."""
    one = launch()
    step = one["ranks"][0][i]
    (step[part] if part else step).update(values)
    return said_of(one)


class RefusedTest(unittest.TestCase):
    def assert_said(self, expected, said):
        self.assertIn(expected, said)
        self.assertNotIn("\n", said)

    def test_launches_that_contradict_themselves(self):
        for expected, change in (
            ("gradsync_torch is 2, expected 1 to 1", lambda one: one.update(gradsync_torch=2)),
            ("no parameters", lambda one: one.update(parameters=[])),
            ("2 ranks on 2 hosts, expected 3", lambda one: one.update(world_size=3)),
            ("2 ranks on 1 hosts, expected 2", lambda one: one.update(hosts=["a"])),
            ("different numbers of steps", lambda one: one["ranks"].__setitem__(1, [])),
            ("lacks its row or ready times", lambda one: one.update(rows=[])),
            (
                'parameters[0].bytes is "many", expected 1 to 1e+18',
                lambda one: one["parameters"][0].update(bytes="many"),
            ),
        ):
            self.assert_said(expected, said_of_changed(change))

    def test_steps_that_lack_something(self):
        for i, values, expected in (
            (0, {"mode": "ddp"}, "step 0 differs between ranks"),
            (0, {"ready_ns": [1]}, "step 0 lacks its row or ready"),
            (0, {"step_ns": 0}, "step 0 takes no time"),
            (1, {"backward_ns": 0}, "step 1 takes no time"),
            (0, {"ready_ns": [1, 2, -2]}, "ranks[0][0].ready_ns[2] is -2, expected -1 to 1e+18"),
            (
                0,
                {"ready_ns": [1, float("nan"), 2]},
                'ranks[0][0].ready_ns[1] is "NaN", expected -1 to 1e+18',
            ),
            (0, {"mode": 3}, "ranks[0][0].mode is 3, expected a text"),
        ):
            self.assert_said(expected, said_of_step(i, **values))

    def test_collectives_that_lack_something(self):
        for i, name, value in (
            (1, "ns", [1]),
            (1, "ns", [1, 1, 1, 0]),
            (1, "wall_ns", 0),
            (1, "bytes", []),
            (4, "out_ns", []),
            (4, "in_ns", []),
            (4, "in_flight", 0),
            (5, "in_flight", 1),
        ):
            said = said_of_step(i, "collectives", **{name: value})
            self.assert_said(f"step {i} lacks times of its collectives", said)

    def test_texts_that_are_no_launch(self):
        for text, expected in (
            ("{}", "line 1: no gradsync_torch"),
            ('{"gradsync_torch": 1, ', "cut off (one is a line), error at byte 23"),
            ("{1}", "no launch, or cut off (one is a line), error at byte 2"),
            ("notes", "error at byte 1"),
            ("{\n", "cut off (one is a line)"),
            ("", "no launch"),
            ("[" * 100000, ""),
            ("9" * 5000, ""),
            ("[1]", "expected an object"),
            ("NaN", ""),
        ):
            self.assert_said(expected, said_of(text))

    def test_launches_that_differ(self):
        self.assertEqual(len(Recording(written(launch(), changed(hosts=["b", "b"]))).launches), 2)
        for name, value in (
            ("threads", 2),
            ("command", ["train.py", "8"]),
            ("torch", "2.3.1"),
            ("optimizer", "AdamW"),
            ("cores", 3),
            ("processor", "another"),
            ("hosts", ["a", "b"]),
            ("parameters", [{**p, "bytes": 8} for p in launch()["parameters"]]),
        ):
            said = said_of(launch(), changed(**{name: value}))
            self.assert_said("line 2: another script, model, world or machine", said)


if __name__ == "__main__":
    unittest.main()
