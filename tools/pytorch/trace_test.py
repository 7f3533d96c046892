"""The command `gradsync trace`: steps and collectives of one rank, and the command line."""

import json
import pathlib
import random
import subprocess
import sys
import unittest

from gradsync.trace.collectives import Group
from gradsync.trace.command import LIMITS
from gradsync.trace.report import read_ranks, report_of
from sample_traces import ALL_REDUCE, AUTOGRAD, GEMM, GLOO, SEND, DdpSteps, Sample, run, written

HERE = pathlib.Path(__file__).absolute().parent
PARTS = (
    "step",
    "computation",
    "communication",
    "uncovered",
    "lengthens",
    "between",
    "idle",
    "rest",
)


def report(*samples):
    return report_of(read_ranks([sample.written() for sample in samples]))


def micros(times):
    """The parts of a step in whole microseconds."""
    return {part: round(1e6 * getattr(times, f"{part}_s")) for part in PARTS}


class GpuStepTest(unittest.TestCase):
    def one_step(self, sample):
        steps = report(sample).ranks[0].steps
        self.assertEqual(len(steps), 1)
        return micros(steps[0])

    def test_overlapping_kernels_are_no_sum(self):
        sample = Sample().step(5, 0, 1000)
        sample.kernel(100, 300, 90).kernel(200, 300, 95, stream=8)
        sample.all_reduce(450, 100, 120).all_reduce(500, 100, 130, size=2_000_000)
        found = self.one_step(sample)
        self.assertEqual(found["computation"], 400)
        self.assertEqual(found["communication"], 150)
        self.assertEqual(found["uncovered"], 100)
        self.assertEqual(found["step"], 1000)

    def test_parts_share_the_whole_step(self):
        numbers = random.Random(3)
        for _ in range(100):
            sample = Sample().step(5, 0, 1000)
            for _ in range(12):
                launched = numbers.randrange(900)
                add = numbers.choice([sample.kernel, sample.kernel, sample.all_reduce])
                add(launched + numbers.randrange(100), numbers.randrange(1, 120), launched)
            accumulate = "torch::autograd::AccumulateGrad"
            sample.operator(accumulate, numbers.randrange(1000), 1)
            times = report(sample).ranks[0].steps[0]
            self.assertAlmostEqual(
                times.step_s,
                times.computation_s
                + times.lengthens_s
                + times.between_s
                + times.idle_s
                + times.rest_s,
            )
            self.assertLessEqual(times.lengthens_s, times.uncovered_s + 1e-12)

    def test_communication_that_the_next_kernel_does_not_wait_for_lengthens_nothing(self):
        """The host is late: a GPU without work would be as long without communication."""
        sample = Sample().step(5, 0, 1000)
        sample.kernel(0, 100, 0).all_reduce(110, 200, 50).kernel(405, 100, 400)
        sample.operator("torch::autograd::AccumulateGrad", 450, 1)
        found = self.one_step(sample)
        self.assertEqual((found["uncovered"], found["lengthens"]), (200, 0))
        self.assertEqual((found["idle"], found["rest"]), (300 + 495, 5))

    def test_communication_for_which_a_launched_kernel_waits_lengthens_the_step(self):
        sample = Sample().step(5, 0, 500)
        sample.kernel(0, 100, 0).all_reduce(110, 200, 50).kernel(312, 188, 60)
        sample.operator("torch::autograd::AccumulateGrad", 400, 1)
        found = self.one_step(sample)
        self.assertEqual((found["uncovered"], found["lengthens"]), (200, 200))
        self.assertEqual((found["idle"], found["rest"]), (0, 12))

    def test_a_collective_that_goes_on_is_not_what_a_kernel_waited_for(self):
        sample = Sample().step(5, 0, 500)
        sample.kernel(0, 100, 0).all_reduce(110, 390, 50).kernel(312, 188, 60)
        sample.operator("torch::autograd::AccumulateGrad", 400, 1)
        self.assertEqual(self.one_step(sample)["lengthens"], 0)

    def test_a_kernel_that_begins_much_later_has_not_waited_for_a_collective(self):
        sample = Sample().step(5, 0, 500)
        sample.kernel(0, 100, 0).all_reduce(110, 200, 50).kernel(412, 88, 60)
        sample.operator("torch::autograd::AccumulateGrad", 400, 1)
        self.assertEqual(self.one_step(sample)["lengthens"], 0)

    def test_communication_that_the_host_waits_for_lengthens_the_step(self):
        sample = Sample().step(5, 0, 500)
        sample.kernel(0, 100, 0).all_reduce(110, 200, 50)
        sample.add("cuda_runtime", "cudaStreamSynchronize", 60, 250, correlation=9)
        sample.kernel(330, 170, 320)
        sample.operator("torch::autograd::AccumulateGrad", 400, 1)
        self.assertEqual(self.one_step(sample)["lengthens"], 200)

    def test_after_backward_all_communication_lengthens_and_copies_follow(self):
        """The optimizer's kernel is launched late, behind the copies out of buckets."""
        sample = Sample().step(5, 0, 1000)
        sample.kernel(0, 300, 0, tid=AUTOGRAD)
        node = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        sample.operator(node, 40, 20, tid=AUTOGRAD)
        sample.all_reduce(310, 200, 58, tid=AUTOGRAD)
        for i in range(4):
            name = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
            sample.operator(name, 400 + 50 * i, 30, tid=AUTOGRAD)
            at = 520 + 50 * i
            sample.kernel(at, 5, 410 + 50 * i, "Memcpy DtoD", tid=AUTOGRAD, cat="gpu_memcpy")
        sample.annotation("Optimizer.step#SGD.step", 700, 300)
        sample.kernel(850, 150, 800)
        found = self.one_step(sample)
        self.assertEqual(found["lengthens"], 200)
        self.assertEqual(found["between"], 675 - 520 + 10)
        self.assertEqual(found["idle"], 10 + 800 - 675)
        self.assertEqual(found["computation"], 450)

    def test_a_gpu_that_is_behind_ends_its_steps_later_than_the_host(self):
        sample = Sample()
        for step in range(3):
            sample.step(step, 100 * step, 100)
            sample.kernel(50 + 400 * step, 400, 100 * step + 10)
        found = [micros(times) for times in report(sample).ranks[0].steps]
        self.assertEqual([one["step"] for one in found], [450, 400, 400])
        self.assertEqual([one["computation"] for one in found], [400, 400, 400])

    def test_without_gradients_the_optimizer_ends_backward(self):
        sample = Sample().step(5, 0, 1000).kernel(0, 100, 0).all_reduce(110, 200, 50)
        sample.annotation("Optimizer.step#SGD.step", 400, 50).kernel(500, 500, 420)
        self.assertEqual(self.one_step(sample)["lengthens"], 200)

    def test_launches_by_the_driver_are_launches(self):
        """As triton's kernels are launched."""
        sample = Sample().step(5, 0, 1000).kernel(0, 100, 0).kernel(500, 500, 300)
        for event in sample.events:
            if event.get("cat") == "cuda_runtime":
                event["cat"] = "cuda_driver"
        found = self.one_step(sample)
        self.assertEqual((found["idle"], found["rest"]), (200, 200))

    def test_copies_are_no_computation(self):
        sample = Sample().step(5, 0, 1000).kernel(0, 100, 0)
        sample.kernel(200, 300, 90, "Memcpy HtoD", cat="gpu_memcpy")
        sample.kernel(600, 100, 91, "Memset (Device)", cat="gpu_memset")
        self.assertEqual(self.one_step(sample)["computation"], 100)

    def test_categories_of_old_pytorch_are_read(self):
        sample = Sample().step(5, 0, 1000).kernel(0, 100, 0, cat="Kernel")
        sample.kernel(200, 100, 90, "Memcpy DtoD", cat="Memcpy").add("Operator", "aten::mm", 0, 5)
        self.assertEqual(self.one_step(sample)["computation"], 100)


class CollectivesTest(unittest.TestCase):
    def only_size(self, sample):
        sizes = report(sample).sizes
        self.assertEqual(len(sizes), 1, sizes)
        return sizes[0]

    def test_facts_of_a_kernel_tell_kind_size_and_group(self):
        found = self.only_size(Sample().step(1, 0, 500).kernel(0, 10, 0).all_reduce(20, 200, 0))
        self.assertEqual(
            (found.kind, found.group, found.bytes), ("all_reduce", "0 [0, 1]", 1_000_000)
        )
        self.assertEqual((found.count, found.waiting_s, found.is_limit), (1, None, True))
        self.assertAlmostEqual(found.pure_s, 200e-6)
        self.assertAlmostEqual(1e-9 * found.bus_bytes_per_s, 5)

    def test_bus_bandwidth_is_that_of_nccl_tests(self):
        for kind, factor in (("allreduce", 1.5), ("_allgather_base", 0.75), ("broadcast", 1)):
            more = {"Collective name": kind, "Group size": 4}
            sample = Sample(world_size=4).step(1, 0, 500).kernel(0, 10, 0)
            found = self.only_size(sample.all_reduce(20, 100, 0, **more))
            self.assertAlmostEqual(1e-10 * found.bus_bytes_per_s, factor, msg=kind)

    def test_the_larger_side_of_a_gather_is_its_size(self):
        more = {"In msg nelems": 100, "Out msg nelems": 400, "dtype": "BFloat16"}
        more["Collective name"] = "reduce_scatter_tensor"
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0).all_reduce(20, 100, 0, **more)
        found = self.only_size(sample)
        self.assertEqual((found.kind, found.bytes), ("reduce_scatter", 800))

    def facts_of_record(self, **more):
        return {
            "Collective name": "allreduce",
            "In msg nelems": 50,
            "dtype": "Half",
            "Group size": 2,
            "Process Group Name": "7",
            **more,
        }

    def test_a_record_tells_what_a_kernel_without_a_known_name_is(self):
        """They have the same External id."""
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0)
        facts = self.facts_of_record(**{"External id": 77})
        sample.operator("record_param_comms", 15, 10, **facts)
        sample.kernel(30, 100, 18, "mystery_kernel", SEND, **{"External id": 77})
        found = self.only_size(sample)
        self.assertEqual((found.kind, found.group, found.bytes), ("all_reduce", "7", 100))

    def test_facts_of_a_collective_make_a_kernel_of_any_name_one(self):
        facts = self.facts_of_record()
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0)
        found = self.only_size(sample.kernel(30, 100, 18, "mystery_kernel", SEND, **facts))
        self.assertEqual((found.kind, found.bytes), ("all_reduce", 100))

    def test_bandwidth_needs_the_number_of_ranks(self):
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0).all_reduce(30, 100, 18)
        del sample.facts["distributedInfo"]
        del sample.events[-1]["args"]["Group size"]
        found = self.only_size(sample)
        self.assertEqual((found.bytes, found.bus_bytes_per_s), (1_000_000, None))

    def test_collectives_at_the_same_time_are_told(self):
        for begin, is_told in ((100, True), (200, False)):
            sample = Sample().step(1, 0, 500).kernel(0, 10, 0).all_reduce(50, 100, 18)
            sample.all_reduce(begin, 100, 20, **{"Process Group Name": "1"})
            notes = " ".join(report(sample).notes)
            self.assertEqual("Collectives run at the same time" in notes, is_told)

    def test_ranks_that_a_group_leaves_out_may_be_in_it(self):
        self.assertTrue(Group("0", "[0, 1, ..., 7]").may_hold(4))
        self.assertTrue(Group("0", "[0, 1, 7]").may_hold(7))
        self.assertFalse(Group("0", "[0, 1, 17]").may_hold(7))
        self.assertTrue(Group().may_hold(7))

    def test_a_record_counts_without_the_calls_that_launch(self):
        sample = Sample().step(1, 0, 500).kernel(0, 10)
        facts = self.facts_of_record(**{"External id": 77})
        sample.operator("record_param_comms", 15, 10, **facts)
        sample.kernel(30, 100, None, ALL_REDUCE, SEND, **{"External id": 77})
        self.assertEqual(self.only_size(sample).bytes, 100)

    def test_an_external_id_that_is_a_correlation_names_no_record(self):
        """Old traces write the correlation there, which is a record's by chance."""
        sample = Sample().step(1, 0, 500).all_reduce(300, 20, 290)
        for launched in (200, None):
            number = sample.correlation + 1
            facts = self.facts_of_record(**{"External id": number})
            sample.operator("record_param_comms", 15, 10, **facts)
            sample.kernel(200, 50, launched, GEMM, **{"External id": number})
        found = report(sample)
        self.assertEqual(round(1e6 * found.ranks[0].mean.communication_s), 20)
        self.assertEqual(len(found.sizes), 1)

    def test_shapes_of_the_call_tell_sizes_where_nothing_else_does(self):
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0)
        shapes = {"Input Dims": [[5, 5], []], "Input type": ["c10::BFloat16", "Scalar"]}
        sample.annotation("nccl:_all_gather_base", 15, 10, **shapes)
        sample.kernel(30, 100, 18, "ncclKernel_AllGather_RING_LL_Sum_int8_t(int)", SEND)
        found = self.only_size(sample)
        self.assertEqual((found.kind, found.bytes), ("all_gather", 2 * 25 * 2))

    def test_without_any_fact_the_name_tells_the_kind_and_nothing_the_size(self):
        sample = Sample().step(1, 0, 500).kernel(0, 10, 0)
        sample.kernel(30, 100, 18, "ncclKernel_ReduceScatter_RING_LL_Sum_half(int)", SEND)
        found = self.only_size(sample)
        self.assertEqual((found.kind, found.bytes, found.pure_s), ("reduce_scatter", None, None))
        self.assertIsNone(found.bus_bytes_per_s)

    def test_groups_are_kept_apart(self):
        sample = Sample(world_size=4).step(1, 0, 900).kernel(0, 10, 0)
        for i, ranks in enumerate(("[0, 1]", "[0, 2]", "[0, 1]")):
            more = {"Process Group Ranks": ranks}
            sample.all_reduce(20 + 200 * i, 100, 200 * i, **more)
        found = {one.group: one.count for one in report(sample).sizes}
        self.assertEqual(found, {"0 [0, 1]": 2, "0 [0, 2]": 1})

    def test_a_group_of_one_sends_nothing(self):
        facts = self.facts_of_record(**{"Group size": 1})
        sample = Sample(world_size=1).step(1, 0, 500).kernel(0, 10, 0)
        sample.operator("record_param_comms", 15, 10, **facts)
        sample.operator("record_param_comms", 35, 10, **{**facts, "Collective name": "init"})
        notes = report(sample).notes
        self.assertIn("No communication was found.", notes)
        self.assertIn("Of groups of one rank, for which nothing is sent: 1 all_reduce.", notes)


class CpuStepTest(unittest.TestCase):
    def test_operators_of_the_reducer_and_of_c10d_are_no_computation(self):
        found = micros(report(DdpSteps().sample).ranks[0].mean)
        # Forward, three nodes of 40 us and the rest of three of 60 us, and the optimizer.
        self.assertEqual(found["computation"], 100 + 3 * 100 - 3 * 10 - 2 * 5 + 40)
        self.assertEqual(found["communication"], 60 + 48)
        self.assertEqual(found["between"], 3 * 10 + 2 * 5 + 3 * 5)
        self.assertEqual(found["lengthens"], 48 - 5)  # without a copy meanwhile
        self.assertEqual(found["idle"], 0)

    def test_a_collective_that_ends_while_the_main_thread_computes_lengthens_nothing(self):
        sample = Sample().step(1, 0, 300).operator("aten::mm", 0, 100).gloo(50, 100, 20)
        sample.operator("aten::mm", 140, 100)
        found = micros(report(sample).ranks[0].steps[0])
        self.assertEqual((found["uncovered"], found["lengthens"]), (40, 0))

    def test_the_main_thread_waits_for_the_first_of_two_collectives_at_once(self):
        sample = Sample().step(1, 0, 500).operator("aten::mm", 0, 100)
        sample.gloo(50, 150, 20).gloo(60, 340, 30)
        sample.operator("aten::mm", 210, 250)
        found = micros(report(sample).ranks[0].steps[0])
        self.assertEqual((found["uncovered"], found["lengthens"]), (110, 100))

    def test_operators_of_other_threads_and_inner_ones_do_not_count(self):
        sample = Sample().step(1, 0, 300).operator("aten::mm", 0, 100).operator("aten::t", 10, 20)
        sample.operator("aten::mm", 150, 100, tid=GLOO)
        self.assertEqual(micros(report(sample).ranks[0].steps[0])["computation"], 100)


class StepsTest(unittest.TestCase):
    def test_the_first_step_is_in_no_mean(self):
        """It holds seconds in which the profiler starts."""
        sample = Sample()
        for step, begin in enumerate((0, 5_000_000, 5_001_000)):
            sample.step(step, begin, 900 if step else 4_999_000)
            sample.kernel(begin, 100, begin)
            sample.all_reduce(begin + 200, 300 if step else 4_000_000, begin)
        found = report(sample)
        self.assertEqual((found.skipped, len(found.ranks[0].steps)), (0, 3))
        self.assertEqual(micros(found.ranks[0].mean)["step"], 900)
        self.assertEqual([(one.count, round(1e6 * one.mean_s)) for one in found.sizes], [(2, 300)])
        self.assertIn(
            "Means are without step 0, the first, in which the profiler starts.", found.notes
        )

    def test_of_two_steps_both_count(self):
        sample = (
            Sample().step(0, 0, 1000).kernel(0, 10, 0).step(1, 1000, 500).kernel(1000, 10, 1000)
        )
        found = report(sample)
        self.assertIsNone(found.skipped)
        self.assertEqual(micros(found.ranks[0].mean)["step"], 750)

    def test_without_steps_all_of_a_trace_is_one(self):
        sample = Sample().kernel(100, 50, 60).all_reduce(160, 40, 70).kernel(300, 100, 80)
        found = report(sample)
        self.assertEqual(micros(found.ranks[0].mean)["step"], 300)
        self.assertTrue(any(note.startswith("No ProfilerStep") for note in found.notes))
        self.assertEqual(found.sizes[0].count, 1)

    def test_what_is_called_outside_of_steps_is_in_none(self):
        sample = Sample().step(0, 100, 400).kernel(100, 10, 100).all_reduce(150, 50, 120)
        sample.all_reduce(20, 50, 10).all_reduce(620, 50, 600)
        self.assertEqual([one.count for one in report(sample).sizes], [1])

    def test_no_communication_is_told(self):
        sample = Sample().step(0, 0, 1000).kernel(0, 10, 0)
        found = report(sample)
        self.assertEqual((found.sizes, found.waiting), ([], None))
        self.assertIn("No communication was found.", found.notes)


class CommandTest(unittest.TestCase):
    def test_a_screen_has_steps_and_collectives(self):
        status, out, error = run(DdpSteps().sample.written())
        self.assertEqual((status, error), (0, ""))
        for text in ("  step 3", "rank 0", "all_reduce", "20 B", "lengthen the step", "unknown"):
            self.assertIn(text, out)
        self.assertTrue(all(line == line.rstrip() for line in out.splitlines()))

    def test_json_has_the_same_in_seconds(self):
        path = DdpSteps().sample.written()
        status, out, _ = run(path, "--format=json")
        found = json.loads(out)
        self.assertEqual(status, 0)
        self.assertAlmostEqual(found["ranks"][0]["mean"]["step_s"], 990e-6)
        self.assertEqual([one["bytes"] for one in found["sizes"]], [4, 20])
        self.assertEqual((found["waiting"], found["skipped"]), (None, 0))

    def test_many_steps_are_means_on_the_screen(self):
        _, out, _ = run(DdpSteps(steps=40).sample.written())
        self.assertNotIn("  step 3", out)
        self.assertIn("each step of each rank: --format=json", out)
        self.assertLess(len(out.splitlines()), 30)

    def test_what_cannot_be_read_is_one_line_and_status_2(self):
        path = written("{")
        status, out, error = run(path)
        self.assertEqual((status, out, error.count("\n")), (2, "", 1))
        self.assertTrue(error.startswith(f"trace: {path}: broken JSON in line 1"))
        status, out, error = run("--nothing", path)
        self.assertEqual((status, out, error.count("\n")), (2, "", 1))
        self.assertEqual(run()[0], 2)

    def test_help_tells_limits(self):
        status, out, _ = run("--help")
        self.assertEqual(status, 0)
        self.assertIn(" ".join(LIMITS.split()), " ".join(out.split()))

    def run_program(self, path, stdout):
        """By a Python that sees no installed package, nor PyTorch."""
        return subprocess.run(
            [sys.executable, "-S", "-m", "gradsync", "trace", path],
            env={"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )

    def test_the_program_has_the_command(self):
        path = DdpSteps().sample.written()
        done = self.run_program(path, subprocess.PIPE)
        self.assertEqual((done.returncode, done.stdout, done.stderr), run(path))

    def test_a_full_disk_is_status_1(self):
        with open("/dev/full", "w") as full:
            done = self.run_program(DdpSteps().sample.written(), full)
        self.assertEqual(done.returncode, 1)
        self.assertIn("trace: cannot write to stdout", done.stderr)


if __name__ == "__main__":
    unittest.main()
