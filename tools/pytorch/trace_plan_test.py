"""`gradsync trace --out`: a recording of what a trace of DistributedDataParallel shows."""

import os
import pathlib
import tempfile
import unittest

from gradsync import Refused
from gradsync.recording import Recording
from gradsync.recording_file import read_launches
from gradsync.schema import MIB, StepMode
from gradsync.trace.plan import Gradient, Plan, launch_of, row_of, write_recording
from gradsync.trace.report import read_ranks
from sample_recordings import ask
from sample_traces import ALL_REDUCE, AUTOGRAD, COMPUTE, SEND, DdpSteps, Sample, run

NODE = "autograd::engine::evaluate_function: "


def rank_of(sample):
    return read_ranks([sample.written()])[0]


def launch(sample):
    return launch_of(rank_of(sample))[0]


def plan(sample):
    return launch_of(rank_of(sample))[1]


def micros(step, *names):
    """Parts of a step, in whole microseconds."""
    return [round(1e-3 * getattr(step, f"{name}_ns")) for name in names]


def ready(step):
    return [round(1e-3 * moment) for moment in step.ready_ns]


def out_path():
    directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
    return str(pathlib.Path(directory, "out.jsonl"))


class CpuPlanTest(unittest.TestCase):
    def test_gradients_and_buckets_are_those_of_the_trace(self):
        found = plan(DdpSteps().sample)
        self.assertEqual([one.bytes for one in found.gradients], [4, 8, 12])
        self.assertEqual([one.dtype for one in found.gradients], 3 * ["float32"])
        self.assertEqual((found.buckets, found.bucket_bytes), ((1, 2), (4, 20)))
        self.assertEqual((found.passes, found.has_views), (1, False))

    def test_parts_follow_each_other_without_waits_and_copies(self):
        """Backward begins 150 us after a step and ends 300 us later; of it a step that sends
        nothing lacks two calls of 5 us and three copies of 10 us.
        """
        steps = launch(DdpSteps().sample).ranks[0]
        self.assertEqual(len(steps), 6)
        none, probe = steps[0], steps[1]
        names = ("before", "backward", "copy_back", "rest", "optimizer")
        self.assertEqual((none.mode, probe.mode), (StepMode.UNSYNCHRONISED, StepMode.PROBE))
        # Copies out: 455 to 515 us, less waiting for the collective from 452 to 455 and 460 to 500.
        self.assertEqual(micros(probe, *names), [140, 290, 20, 87, 40])
        self.assertEqual(micros(none, *names), [140, 260, 0, 87, 40])
        for step in steps:
            self.assertEqual(step.step_ns, sum(getattr(step, f"{name}_ns") for name in names))

    def test_gradients_are_ready_before_their_copies_or_after(self):
        for none, probe in zip(*[iter(launch(DdpSteps().sample).ranks[0])] * 2, strict=True):
            self.assertEqual(ready(none), [50, 150 - 15, 250 - 25])
            self.assertEqual(ready(probe), [60, 160 - 5, 260 - 5])

    def test_what_lies_between_steps_is_from_the_optimizer_to_forward(self):
        steps = launch(DdpSteps().sample).ranks[0]
        self.assertEqual([micros(step, "between")[0] for step in steps], [0, 0, 370, 370, 370, 370])

    def test_waiting_in_forward_is_no_computation(self):
        """Buffers are broadcast before it."""
        sample = DdpSteps().sample
        for step in range(4):
            begin = 1000 * step
            shapes = {"Input Dims": [[10]], "Input type": ["float"]}
            sample.operator("c10d::broadcast_", begin + 115, 5)
            sample.annotation("gloo:broadcast", begin + 121, 19, 3, **shapes)
            sample.operator("aten::t", begin + 145, 1)
        none = launch(sample).ranks[0][0]
        self.assertEqual(micros(none, "before"), [140 - 5 - 19])

    def test_the_first_step_is_left_out_if_three_others_are_whole(self):
        self.assertEqual(len(launch(DdpSteps(steps=3).sample).ranks[0]), 2 * 3)
        self.assertEqual(len(launch(DdpSteps(steps=5).sample).ranks[0]), 2 * 4)

    def test_views_are_known_by_the_lack_of_copies_back(self):
        self.assertTrue(plan(DdpSteps(back=False).sample).has_views)

    def test_passes_that_do_not_synchronise_count_as_earlier_ones(self):
        class TwoPasses(DdpSteps):
            def add_backward(self, begin):
                for i in range(3):
                    at = begin - 30 + 10 * i
                    self.sample.operator(NODE + "AddmmBackward0", at, 3)
                    name = "torch::autograd::AccumulateGrad"
                    self.sample.operator(name, at + 5, 2, **self.of(i))
                super().add_backward(begin)

        found = launch(TwoPasses().sample)
        self.assertEqual((found.passes, found.rows[0].passes), (2, 2))
        none = found.ranks[0][0]
        self.assertEqual(micros(none, "before", "backward"), [140, 260])
        self.assertEqual(ready(none), [50, 135, 225])


class RecordingTest(unittest.TestCase):
    def test_what_if_asks_for_a_link_and_answers(self):
        path, trace = out_path(), DdpSteps().sample.written()
        status, out, error = run(trace, f"--out={path}")
        self.assertEqual((status, error), (0, ""))
        self.assertIn("a recording of one process, 3 gradients, 24 B in 2 buckets", out)
        self.assertIn("contains what communication took from it", out)
        text = pathlib.Path(path).read_text()
        with self.assertRaisesRegex(Refused, "nothing was communicated: name a link"):
            ask(text)
        answer = ask(text, link="25Gbit,5us", world_size=2)
        self.assertAlmostEqual(answer.none_s, 527e-6)
        self.assertIsNone(answer.ways[0].memory_bytes)
        self.assertEqual(Recording(path).bucket_bytes(read_launches(path)[0].rows[0]), [4, 20])

    def test_launches_of_one_script_are_added_to_each_other(self):
        path = out_path()
        for _ in range(2):
            write_recording(rank_of(DdpSteps().sample), path)
        self.assertEqual(len(Recording(path).launches), 2)

        class Other(DdpSteps):
            SIZES = (4, 12, 8)

        with self.assertRaisesRegex(Refused, "launches that differ in parameters"):
            write_recording(rank_of(Other().sample), path)
        self.assertEqual(len(read_launches(path)), 2)

    def test_a_place_that_cannot_be_written_is_refused(self):
        status, out, error = run(DdpSteps().sample.written(), "--out=/nowhere/out.jsonl")
        self.assertEqual((status, out, error.count("\n")), (2, "", 1))
        self.assertIn("cannot be written", error)


class RowTest(unittest.TestCase):
    def row(self, sizes, buckets):
        gradients = tuple(Gradient(size, "float32") for size in sizes)
        own = Plan(gradients, tuple(buckets), 1, False)
        found = row_of(own)
        self.assertEqual(found.rebuilt_bucket_bytes, own.bucket_bytes)
        return found.first_bucket_bytes / MIB, found.bucket_bytes / MIB

    def test_buckets_tell_their_cap(self):
        self.assertEqual(self.row([MIB, 20 * MIB, 6 * MIB, MIB], [1, 2, 1]), (1, 25))
        self.assertEqual(self.row([3 * MIB, 3 * MIB, MIB], [1, 1, 1]), (1, 1))
        self.assertEqual(self.row([MIB, 3 * MIB, 2 * MIB, 3 * MIB, 5], [2, 2, 1]), (3, 3))
        self.assertEqual(self.row([5, 6, 7], [3]), (1, 25))
        self.assertEqual(self.row([MIB, MIB, MIB], [3]), (25, 25))

    def test_buckets_of_three_sizes_have_no_cap(self):
        gradients = tuple(Gradient(size, "float32") for size in (4, 8, 12, 1, 1))
        self.assertIsNone(row_of(Plan(gradients, (1, 2, 1, 1), 1, False)))

    def test_it_makes_the_same_buckets_again(self):
        for sizes, buckets in (
            ([MIB, 20 * MIB, 6 * MIB, MIB], (1, 2, 1)),
            ([100, 200, 300, 10, 5], (2, 1, 2)),
            ([4, 8, 12], (1, 2)),
            ([MIB, 3 * MIB, 2 * MIB, 3 * MIB, 5], (2, 2, 1)),
        ):
            row = row_of(Plan(tuple(Gradient(s, "") for s in sizes), buckets, 1, False))
            held, made, limit = [], [], row.first_bucket_bytes
            for size in sizes:
                held.append(size)
                if sum(held) >= limit:
                    made.append(len(held))
                    held, limit = [], row.bucket_bytes
            self.assertEqual((*made, *([len(held)] if held else [])), buckets)


class RefusedTest(unittest.TestCase):
    def assert_refused(self, sample, *expected):
        rank = rank_of(sample)
        with self.assertRaises(Refused) as caught:
            launch_of(rank)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        for part in (rank.trace.path, *expected):
            self.assertIn(part, text)

    def test_what_cannot_be_rebuilt_is_refused_by_name(self):
        self.assert_refused(
            DdpSteps(copy="torch::distributed::reducer::copy_").sample, "a comm hook"
        )
        batched = DdpSteps().sample
        name = "torch.distributed.ddp.reducer::copy_bucket_to_grad_batched"
        self.assert_refused(batched.operator(name, 520, 5), "batched copies (batched_grad_copy)")
        name = "torch.distributed.ddp.reducer::search_unused_parameters"
        self.assert_refused(DdpSteps().sample.operator(name, 120, 5), "find_unused_parameters")
        name = "FSDP::pre_forward (0)"
        self.assert_refused(
            DdpSteps().sample.annotation(name, 0, 5), "FSDP (FSDP::pre_forward (0))"
        )
        name = "FullyShardedDataParallel.forward"
        self.assert_refused(DdpSteps().sample.annotation(name, 0, 5), "FSDP (FullySharded")

    def test_gathers_are_those_of_sharding(self):
        sample = DdpSteps().sample.annotation("gloo:reduce_scatter", 300, 5, 3)
        self.assert_refused(sample, "what else communicates by reduce_scatter")

    def test_sizes_must_be_known(self):
        self.assert_refused(DdpSteps(shapes=False).sample, "record_shapes=True")

    def test_sums_must_be_what_was_communicated(self):
        sample = DdpSteps().sample
        for event in sample.events:
            if event["name"] == "gloo:all_reduce" and event["ts"] > 2000:
                event["args"]["Input Dims"] = [[event["args"]["Input Dims"][0][0] + 1]]
        self.assert_refused(sample, "step 2", "do not sum up to the 2 all-reduces of 32 bytes")

    def test_all_gradients_must_have_been_communicated(self):
        class Other(DdpSteps):
            SIZES = (12, 8, 4)

        sample = Other().sample
        for event in sample.events:
            if event["name"] == "gloo:all_reduce":
                event["args"]["Input Dims"] = [[3 if event["args"]["Input Dims"] == [[1]] else 2]]
        self.assert_refused(sample, "do not sum up to the 2 all-reduces of 20 bytes")

    def test_steps_must_have_the_same_order(self):
        class Turned(DdpSteps):
            def add_step(self, number, begin):
                self.SIZES = (4, 12, 8) if number == 3 else (4, 8, 12)
                super().add_step(number, begin)

        self.assert_refused(Turned().sample, "step 3 has other gradients or buckets than step 1")

    def test_three_whole_steps_are_needed(self):
        self.assert_refused(DdpSteps(steps=2).sample, "2 whole steps", "expected 3")
        sample = DdpSteps(steps=4).sample
        sample.events = [
            one
            for one in sample.events
            if not (one["name"].startswith("Optimizer") and one["ts"] > 1900)
        ]
        self.assert_refused(sample, "2 whole steps")

    def test_other_ways_to_train_are_refused(self):
        sample = Sample()
        for step in range(3):
            sample.step(step, 100 * step, 99).operator("aten::mm", 100 * step, 5)
        self.assert_refused(sample, "a step without AccumulateGrad")
        sample = DdpSteps().sample
        sample.events = [one for one in sample.events if "all" not in one["name"]]
        self.assert_refused(sample, "no all_reduce in backward")


class GpuSteps:
    """Steps of 2000 us on a GPU of two gradients of 400 and 800 bytes, each its own bucket.

    On the host, a step's forward is called after 10 us, backward begins after 100 us, gradient `i`
    is ready at 150 + 100 i, and is copied into its bucket, and the optimizer begins at 500. The
    kernel of gradient `i` begins after `begins[i]` us, and takes `lasts`; its copy begins 60 us
    after it. Collectives run on the stream `sends`.
    """

    def __init__(self, begins, shapes=True, copied=(400, 800), lasts=60, sends=SEND):
        self.sample = Sample(world_size=2)
        self.lasts, self.sends = lasts, sends
        self.begins, self.shapes, self.copied = begins, shapes, copied
        self.sample.add("python_function", "train.py(5): main", 0, 9000)
        for step in range(3):
            self.add_step(step, 2000.0 * step)

    def add_step(self, number, begin):
        one = self.sample
        one.step(number, begin, 1990)
        one.annotation("DistributedDataParallel.forward", begin + 10, 80)
        one.kernel(begin + 30, 40, begin + 20)
        for i in range(2):
            at = begin + 100 * (i + 1)
            one.operator(NODE + "MmBackward0", at, 40, AUTOGRAD)
            one.kernel(begin + self.begins[i], self.lasts, at + 5, tid=AUTOGRAD)
            one.operator(NODE + "torch::autograd::AccumulateGrad", at + 42, 50, AUTOGRAD)
            shapes = {"Input Dims": [[100 * (i + 1)]], "Input type": ["float"]}
            more = shapes if self.shapes else {}
            one.operator("torch::autograd::AccumulateGrad", at + 45, 5, AUTOGRAD, **more)
            one.operator("torch::distributed::reducer::mul_out", at + 55, 10, AUTOGRAD)
            one.kernel(begin + self.begins[i] + 60, 10, at + 58, tid=AUTOGRAD)
            facts = {
                "Collective name": "allreduce",
                "In msg nelems": 100 * (i + 1),
                "dtype": "Float",
                "Group size": 2,
            }
            name = {"name": ALL_REDUCE, "stream": self.sends, "tid": AUTOGRAD}
            one.kernel(begin + self.begins[i] + 75, 20, at + 70, **name, **facts)
        for i in range(2):
            at = begin + 400 + 20 * i
            one.operator("torch.distributed.ddp.reducer::copy_bucket_to_grad", at, 10, AUTOGRAD)
            copy = {"name": "Memcpy DtoD", "cat": "gpu_memcpy", "tid": AUTOGRAD}
            size = {"bytes": self.copied[i]}
            one.kernel(begin + self.begins[1] + 100 + 20 * i, 5, at + 2, **copy, **size)
        one.annotation("Optimizer.step#Adam.step", begin + 500, 100)
        one.kernel(max(begin + self.begins[1] + 200, begin + 520), 30, begin + 510)


class GpuPlanTest(unittest.TestCase):
    def test_a_gradient_is_ready_when_its_kernel_has_ended_if_the_gpu_is_late(self):
        """The host says after 50 us and 150 us, and the kernels run until 860 and 1060 us."""
        none, probe = launch(GpuSteps(begins=(800, 1000)).sample).ranks[0][:2]
        self.assertEqual(ready(none), [860 - 100, 1060 - 100 - 10])
        self.assertEqual(ready(probe), [870 - 100, 1070 - 100])
        self.assertEqual(micros(probe, "before", "backward"), [90, 970])
        self.assertEqual(micros(none, "before", "backward"), [90, 950])

    def test_a_gradient_is_ready_when_its_kernel_has_ended_if_the_host_is_late(self):
        """The kernels begin as they are launched, at 105 and 205 us, and have ended long before the
        host says so, at 150 and 250.
        """
        none, probe = launch(GpuSteps(begins=(106, 206), lasts=20).sample).ranks[0][:2]
        self.assertEqual(ready(none), [126 - 100, 226 - 100 - 10])
        self.assertEqual(ready(probe), [176 - 100, 276 - 100])

    def test_a_collective_on_the_same_stream_makes_no_gradient_ready(self):
        found = [
            launch(GpuSteps(begins=(106, 206), lasts=20, sends=stream).sample).ranks[0]
            for stream in (SEND, COMPUTE)
        ]
        self.assertEqual(*([step.ready_ns for step in steps] for steps in found))
        self.assertEqual(*([step.backward_ns for step in steps] for steps in found))

    def test_parts_of_a_step_on_a_gpu(self):
        probe = launch(GpuSteps(begins=(800, 1000)).sample).ranks[0][1]
        # Copies run from 1100 to 1125, of which no collective's time is left out, and the optimizer
        # begins when they have ended.
        self.assertEqual(micros(probe, "copy_back", "optimizer"), [25, 1230 - 1125])

    def test_copies_tell_sizes_where_shapes_were_not_recorded(self):
        found = plan(GpuSteps(begins=(106, 206), shapes=False).sample)
        self.assertEqual([one.bytes for one in found.gradients], [400, 800])
        self.assertEqual([one.dtype for one in found.gradients], ["float32", "float32"])
        self.assertEqual(found.buckets, (1, 1))

    def test_copies_that_do_not_sum_up_are_refused(self):
        sample = GpuSteps(begins=(106, 206), shapes=False, copied=(404, 796)).sample
        with self.assertRaisesRegex(Refused, "do not sum up to the 2 all-reduces of 1200 bytes"):
            launch(sample)

    def test_the_launch_is_of_one_process_on_this_gpu(self):
        sample = GpuSteps(begins=(106, 206)).sample
        sample.facts["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200"}]
        found = launch(sample)
        self.assertEqual(
            (found.device, found.backend, found.world_size), ("NVIDIA H200", "none", 1)
        )
        self.assertEqual((found.optimizer, found.memory), ("Adam", None))


if __name__ == "__main__":
    unittest.main()
