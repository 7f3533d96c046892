"""A small model, scripts that train it, and a test case that records them by several processes."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from run_ranks import launch, sys, torch

import torch.distributed as dist

from gradsync import events, units
from gradsync.ddp_target import row_of
from gradsync.flat_buffer import FlatBuffer
from gradsync.recorder import Recorder
from gradsync.schema import MIB, CollectiveKind
from gradsync.torch_private import DDP
from gradsync.turns import probes_of

SCRIPT = """
import os, sys, torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
assert sys.argv[1:] == ["--lr", "0.1"] and __name__ == "__main__"
torch.distributed.init_process_group("gloo")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.unused = nn.Embedding(50, 64), nn.Linear(3, 3)
        self.head = nn.Linear(64, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(64)
        self.unused.requires_grad_(False)
    def forward(self, x): return self.head(self.norm(self.embedding(x)))
model = DistributedDataParallel(Net())
other = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randint(50, (16,))
for step in range({steps}):
    if step % 3 == 0 and torch.distributed.get_rank() == 0:
        model.eval()
        with torch.no_grad(): model.module(x)
        model.train()
    for micro in range(2):
        model.require_backward_grad_sync = micro == 1
        nn.functional.cross_entropy(model(x), x).backward()
        other.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
open({ended!r}, "w")
"""


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 700),
        torch.nn.ReLU(),
        torch.nn.Linear(700, 10),
    )


def batch_of(rank):
    torch.manual_seed(1 + rank)
    return torch.randn(8, 64), torch.randint(10, (8,))


def average(model, rank):
    """The gradients of all ranks' batches, by DDP itself."""
    copy = DDP(model)
    inputs, targets = batch_of(rank)
    torch.nn.functional.cross_entropy(copy(inputs), targets).backward()
    return [p.grad.clone() for p in model.parameters()]


ALL_REDUCES = (CollectiveKind.ALL_REDUCE, CollectiveKind.BF16)


def averages_itself(turn):
    """Whether the probe of a step leaves the averages of all ranks in the buffer."""
    return turn.probe is not None and turn.probe.kind in ALL_REDUCES


def skip_averaging_of_all_reduces(recording):
    """Lets what these probes do be all that makes gradients equal on all ranks."""
    average = FlatBuffer.average

    def average_others(buffer, as_bf16):
        if not averages_itself(recording.step.turn):
            average(buffer, as_bf16)

    FlatBuffer.average = average_others
    return average


def limit_recompilations():
    """Compiled code must synchronise as the kind of step asks, and be the same for all probes."""
    config = torch._dynamo.config
    if not hasattr(config, "fail_on_recompile_limit_hit"):
        return False  # in the first version that is recorded
    config.fail_on_recompile_limit_hit = True
    config.recompile_limit = 4
    return True


def check_gradients(recording, parameters, expected):
    turn = recording.step.turn
    is_bf16 = turn.probe is not None and turn.probe.kind is CollectiveKind.BF16
    tolerance = 1e-2 if is_bf16 else 1e-5
    for p, e in zip(parameters, expected, strict=True):
        torch.testing.assert_close(p.grad, e, rtol=tolerance, atol=tolerance, msg=str(turn))
    if turn.is_probe:
        inside = {slot.data_ptr() for slot in recording.step.buffer.slots}
        views = recording.target.views
        assert all((p.grad.data_ptr() in inside) == views for p in parameters), "views"


def check_on_two_ranks(rank, directory):
    dist.init_process_group("gloo")
    expected = average(net(), rank)
    for views in (False, True):
        compiles = limit_recompilations()
        model = DDP(net(), gradient_as_bucket_view=views)
        optimizer = torch.optim.SGD(model.parameters(), lr=0)
        recording = Recorder(model, os.path.join(directory, f"{views}.jsonl"), rounds=2)
        inputs, targets = batch_of(rank)
        own = skip_averaging_of_all_reduces(recording)
        called = torch.compile(model, backend="eager") if views and compiles else model
        while not recording.done:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(called(inputs), targets).backward()
            check_gradients(recording, [*model.parameters()], expected)
            assert model.require_backward_grad_sync, "left as the script had it"
            optimizer.step()
        FlatBuffer.average = own
        assert not events.listeners
        assert not any(p._post_accumulate_grad_hooks for p in recording.params)
        total_bytes = sum(p.nbytes for p in model.parameters())
        probes = len(probes_of(total_bytes)) + units.can_be_tried(recording.params)
        assert len(recording.plan) == 2 + probes + 1
    row = row_of(DDP(net(), bucket_cap_mb=2))
    assert (row.bucket_bytes, row.first_bucket_bytes) == (2 * MIB, 2 * MIB), (
        "a script's own size is that of all buckets"
    )
    dist.destroy_process_group()


def memories_of_gradients(model):
    """The addresses of the memory in which the gradients of a model lie."""
    return {p.grad.untyped_storage().data_ptr() for p in model.parameters()}


def traces(*models):
    """All that recording could leave in PyTorch's classes, its hooks, and these models."""
    owners = [
        DDP,
        torch.nn.Module,
        torch.nn.Sequential,
        torch.distributed.Reducer,
        torch.autograd,
        torch.amp.GradScaler,
    ]
    hooks = sys.modules["torch.optim.optimizer"]
    return (
        [dict(vars(owner)) for owner in owners],
        [*hooks._global_optimizer_pre_hooks.values(), *hooks._global_optimizer_post_hooks.values()],
        [
            [*(p._post_accumulate_grad_hooks or {}).values()]
            for model in models
            for p in model.parameters()
        ],
        [sorted(vars(module)) for model in models for module in model.modules()],
        list(events.listeners),
    )


def what_if(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gradsync", "what_if", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.path.abspath("tools/pytorch")},
    )


class RecordingTestCase(unittest.TestCase):
    """Has a directory, and launches functions and scripts in it."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def launch(self, run, ranks=2):
        status, printed = launch(run, ranks, self.directory / "printed")
        self.assertEqual(status, 0, printed)
        return printed

    def script(self, steps):
        script = self.directory / "train.py"
        script.write_text(
            SCRIPT.replace("{steps}", str(steps)).replace(
                "{ended!r}", repr(str(self.directory / "ended"))
            )
        )
        return [str(script), "--lr", "0.1"]
