"""`gradsync trace` of what torch.profiler writes of two ranks over gloo, against what `gradsync
record` finds out about the same script. Times are compared nowhere: they are the machine's.
"""

import inspect
import os
import pathlib
import tempfile
import unittest

from run_ranks import launch, sys, torch

from gradsync import Refused, record
from gradsync.recording import Recording
from gradsync.recording_file import read_launches
from gradsync.torch_private import DDP
from gradsync.trace.plan import launch_of, write_recording
from gradsync.trace.report import read_ranks, report_of

IS_2_15 = "lazy_bucket_allocation" in inspect.signature(DDP.__init__).parameters
STEPS = 5
SCRIPT = """
import contextlib, os, sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
torch.manual_seed(0)
# Each gradient has a size of its own, so that sizes in order tell which is which.
net = nn.Sequential(*(nn.Sequential(nn.Linear(300 + i, 301 + i), nn.Tanh()) for i in range(7)))
MODEL
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.randn(8, 300)
def step():
    optimizer.zero_grad()
    PASSES
    optimizer.step()
def trained(profiler):
    for _ in range(int(sys.argv[1])):
        step()
        if profiler: profiler.step()
if len(sys.argv) > 2:
    from torch.profiler import ProfilerActivity, profile, schedule
    path = os.path.join(sys.argv[2], f"rank{dist.get_rank()}.json.gz")
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=SHAPES,
        schedule=schedule(wait=2, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
    ) as profiler:
        trained(profiler)
else:
    trained(None)
"""
ONE_PASS = "model(x).square().mean().backward()"
TWO_PASSES = """
    with model.no_sync(): model(x).square().mean().backward()
    model(x).square().mean().backward()
"""


class GlooTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.script = self.directory / "train.py"

    def write(self, model, passes=ONE_PASS, shapes=True):
        text = SCRIPT.replace("MODEL", model).replace("PASSES", passes)
        text = text.replace("SHAPES", str(shapes)).replace("STEPS", str(STEPS))
        self.script.write_text(text)

    def launched(self, run):
        status, printed = launch(run, 2, self.directory / "printed")
        self.assertEqual(status, 0, printed)

    def profiled(self):
        """What is read of both ranks' traces."""
        arguments = [str(self.script), "12", str(self.directory)]

        def run(rank):
            sys.argv = arguments
            exec(compile(self.script.read_text(), self.script, "exec"), {"__name__": "__main__"})

        self.launched(run)
        return read_ranks([str(self.directory / f"rank{rank}.json.gz") for rank in (1, 0)])

    def recorded(self):
        """What `record` makes of the same script."""
        out = self.directory / "out.jsonl"
        self.launched(
            lambda rank: record.main([f"--out={out}", "--rounds=2", str(self.script), "200"])
        )
        return Recording(out)

    def assert_is_record_s_plan(self, model, passes=ONE_PASS):
        self.write(model, passes)
        ranks, recording = self.profiled(), self.recorded()
        row = recording.first.rows[0]
        order = [recording.first.parameters[i] for i in recording.ready_order]
        self.assertGreater(len(row.rebuilt_bucket_bytes), 2)
        for rank in ranks:
            launch, plan = launch_of(rank)
            self.assertEqual(
                [(one.numel, one.bytes, one.dtype) for one in launch.parameters],
                [(one.numel, one.bytes, one.dtype) for one in order],
            )
            own = launch.rows[0]
            self.assertEqual(own.rebuilt_bucket_bytes, row.rebuilt_bucket_bytes)
            self.assertEqual(
                [tuple(recording.ready_order[i] for i in bucket) for bucket in buckets_of(plan)],
                list(recording.buckets(row)),
            )
            self.assertEqual(own.bucket_bytes, row.bucket_bytes)
            self.assertEqual(own.first_bucket_bytes, row.first_bucket_bytes)
            self.assertEqual((launch.passes, launch.views), (row.passes, recording.first.views))
            self.assertEqual(launch.optimizer, recording.first.optimizer)
            self.assert_same_collectives(rank, row)
        return ranks

    def assert_same_collectives(self, rank, row):
        """Each step, also the first one, sends the buckets in their order."""
        steps = len(rank.windows)
        self.assertEqual(steps, STEPS)
        sent = [(one.kind, one.bytes) for one in rank.collectives]
        buckets = [("all_reduce", size) for size in row.rebuilt_bucket_bytes]
        self.assertEqual(sent, steps * buckets)

    def test_the_plan_of_a_script_is_record_s(self):
        ranks = self.assert_is_record_s_plan("model = DDP(net, bucket_cap_mb=1)")
        report = report_of(ranks)
        self.assertEqual([rank.rank for rank in report.ranks], [0, 1])
        self.assertEqual(report.skipped, 3)
        self.assertFalse(report.has_gpu)
        counts = {one.bytes: one.count for one in report.sizes}
        sent = [one.bytes for one in ranks[0].collectives[: len(ranks[0].collectives) // STEPS]]
        self.assertEqual(counts, {size: (STEPS - 1) * sent.count(size) for size in sent})
        out = self.directory / "trace.jsonl"
        write_recording(ranks[0], str(out))
        self.assertEqual(len(read_launches(out)[0].ranks[0]), 2 * (STEPS - 1))

    def test_views_and_passes_are_record_s(self):
        model = "model = DDP(net, bucket_cap_mb=1, gradient_as_bucket_view=True)"
        self.assert_is_record_s_plan(model, TWO_PASSES)

    def test_what_cannot_be_rebuilt_is_refused_by_name(self):
        hook = "; model.register_comm_hook(None, default_hooks.bf16_compress_hook)"
        sharded = "from torch.distributed.fsdp import fully_shard; model = fully_shard(net)"
        since_2_15 = [
            ("model = DDP(net, batched_grad_copy=True)", "batched copies"),
            (sharded, "FSDP"),
        ]
        for model, expected in (
            ("model = DDP(net)" + hook, "a comm hook"),
            ("model = DDP(net, find_unused_parameters=True)", "find_unused_parameters"),
            *(since_2_15 if IS_2_15 else ()),
        ):
            with self.subTest(model):
                self.write(model)
                rank = self.profiled()[0]
                with self.assertRaisesRegex(Refused, expected):
                    launch_of(rank)

    def test_without_shapes_sizes_are_unknown(self):
        self.write("model = DDP(net)", shapes=False)
        ranks = self.profiled()
        with self.assertRaisesRegex(Refused, "record_shapes=True"):
            launch_of(ranks[0])
        self.assertEqual({one.bytes for one in report_of(ranks).sizes}, {None})


def buckets_of(plan):
    """Numbers of gradients by bucket."""
    numbers = iter(range(len(plan.gradients)))
    return [tuple(next(numbers) for _ in range(count)) for count in plan.buckets]


if __name__ == "__main__":
    assert torch
    unittest.main()
