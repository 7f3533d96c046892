"""What record and its Recorder write, of models that are small enough to take milliseconds."""

import gzip
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import weakref

from run_ranks import launch, sys, torch

import torch.distributed as dist

from gradsync import events, record, units
from gradsync.clock import HostClock
from gradsync.ddp_target import row_of
from gradsync.flat_buffer import FlatBuffer
from gradsync.recorder import Recorder
from gradsync.schema import MIB, CollectiveKind
from gradsync.step_machine import State
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


class RecordTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def launch(self, run, ranks=2):
        status, printed = launch(run, ranks, self.directory / "printed")
        self.assertEqual(status, 0, printed)
        return printed

    def test_probes_average_as_ddp_does(self):
        self.launch(lambda rank: check_on_two_ranks(rank, self.directory))
        for views in (False, True):
            launch = json.loads((self.directory / f"{views}.jsonl").read_text())
            self.assertEqual(launch["views"], views)
            self.assertEqual(launch["rows"][0]["bucket_bytes"], 25 * MIB)
            self.assertEqual(launch["rows"][0]["first_bucket_bytes"], MIB)
            self.assertEqual(
                sum(launch["rows"][0]["rebuilt_bucket_bytes"]),
                sum(p["bytes"] for p in launch["parameters"]),
            )
            for steps in launch["ranks"]:
                self.check_steps(steps, launch)
            self.check_pieces(launch)
            answer = what_if(self.directory / f"{views}.jsonl").stdout
            self.assertIn(
                "6 parameters, 1.598 MB of gradients, SGD; 2 ranks over gloo on cpu", answer
            )
            self.assertIn("as the script has it", answer)
            self.assertNotIn("other buckets", answer)
            tried = [
                s["collectives"]
                for s in launch["ranks"][1]
                if s.get("collectives", {}).get("kind") == "fully_shard"
            ]
            self.assertEqual(len(tried), units.can_be_tried([*net().parameters()]))
            parameters = [p.nbytes for p in net().parameters()]
            layers = [sum(parameters[i : i + 2]) for i in range(0, len(parameters), 2)]
            for sent in tried:
                self.assertEqual(sent["bytes"], layers)
                self.assertGreater(min(sent["in_ns"] + sent["out_ns"]), 0)
            self.assertEqual("as units, without copies;" in answer, not tried)

    def test_what_fsdp2_cannot_shard_is_not_tried(self):
        if units.can_be_tried([torch.ones(2)]):
            for other in (
                torch.ones(()),
                torch.ones(2, dtype=torch.float64),
                torch.ones(2, dtype=torch.cfloat),
                torch.ones(2, device="meta"),
            ):
                self.assertFalse(units.can_be_tried([torch.ones(2), other]))

    def check_steps(self, steps, launch):
        self.assertEqual([s["mode"] for s in steps].count("none"), 2)
        self.assertEqual([s["mode"] for s in steps].count("ddp"), 1)
        for before, after in itertools.pairwise(steps):
            self.assertLessEqual(before["begin_ns"] + before["step_ns"], after["begin_ns"])
        # A round begins one turn later than the one before, so that no kind of step always follows
        # the same one.
        self.assertEqual((steps[0]["mode"], steps[-1]["mode"]), ("probe", "none"))
        for s in steps:
            self.assertEqual(len(s["ready_ns"]), 6)
            if s["mode"] != "ddp":
                self.assertLessEqual(max(s["ready_ns"]), s["backward_ns"])
                self.assertLess(
                    s["ready_ns"][5], s["ready_ns"][0]
                )  # the last layer's is ready first
            sent = s.get("collectives", {"wall_ns": 0})
            parts = sum(
                s[k] for k in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")
            ) + s.get("copy_back_ns", 0)
            self.assertLessEqual(parts + sent["wall_ns"], s["step_ns"])
            self.assertEqual("copy_back_ns" in s, s["mode"] == "probe" and not launch["views"])
            self.assertEqual("collectives" in s, s["mode"] == "probe")
            if s["mode"] == "probe":
                self.assertGreater(sent["cpu_ns"], 0)
            if s["mode"] == "probe" and sent["kind"] == "bf16":
                self.assertGreater(min(sent["in_ns"] + sent["out_ns"]), 0)
            if s["mode"] == "probe" and sent["kind"] != "zero1":
                self.assertEqual(len(sent["ns"]), len(sent["bytes"]) * sent["in_flight"])
                self.assertLessEqual(
                    sum(sent["ns"]) + sum(sent.get("in_ns", [])) + sum(sent.get("out_ns", [])),
                    sent["wall_ns"],
                )

    def check_pieces(self, launch):
        """Each probe sends all gradients, in pieces of its size."""
        total_bytes = sum(p["bytes"] for p in launch["parameters"])
        sent = [s["collectives"] for s in launch["ranks"][0] if s["mode"] == "probe"]
        self.assertEqual({sum(one["bytes"]) for one in sent}, {total_bytes})
        pieces = {(one["kind"], one["in_flight"], max(one["bytes"])) for one in sent}
        for probe in probes_of(total_bytes):
            largest = probe.piece_bytes
            if probe.kind is CollectiveKind.ZERO1:
                largest = max(p["bytes"] for p in launch["parameters"])
            self.assertIn((probe.kind.value, int(probe.in_flight), largest), pieces)

    def script(self, steps):
        script = self.directory / "train.py"
        script.write_text(
            SCRIPT.replace("{steps}", str(steps)).replace(
                "{ended!r}", repr(str(self.directory / "ended"))
            )
        )
        return [str(script), "--lr", "0.1"]

    def test_a_script_is_recorded_as_it_is(self):
        out, script = self.directory / "out.jsonl", self.script(1000)
        for flags in ([], ["--no-ddp"]):

            def run(rank, flags=flags):
                os.chdir(self.directory)
                record.main(
                    ["--out=out.jsonl", "--rounds=2", *flags, *script],
                    finished=lambda out: print("finished", out),
                )

            printed = self.launch(run)
            self.assertEqual(printed.count(f"finished {out}"), 1)
            self.assertFalse((self.directory / "ended").exists())
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(len(lines), 2)  # a launch each
        for one, modes in zip(lines, ({"none", "probe", "ddp"}, {"none", "probe"}), strict=True):
            self.assertEqual({s["mode"] for s in one["ranks"][1]}, modes)
            self.assertEqual(one["passes"], 2)
            self.assertEqual(one["rows"][0]["passes"], 2)
            self.assertEqual(one["optimizer"], "AdamW")
            self.assertEqual(one["command"], script)
            self.assertEqual(len(one["hosts"]), 2)
            self.assertTrue(one["processor"])
            self.assertFalse(one["rows"][0]["bf16"])
            names = [p["name"] for p in one["parameters"]]
            self.assertEqual(sorted(names), ["embedding.weight", "norm.bias", "norm.weight"])

    def test_a_step_lasts_to_its_last_optimizer_and_not_while_gradients_are_averaged_for_the_script(
        self,
    ):
        out, hours = self.directory / "out.jsonl", 10**13

        def run(rank):
            clock = iter(range(10**9))
            slept = [0]
            time.monotonic_ns = lambda: next(clock) + slept[0]
            dist.init_process_group("gloo")
            model = DDP(net())
            parameters = list(model.parameters())
            recording = Recorder(model, out, rounds=2)
            optimizers = [
                torch.optim.SGD(parameters[::2], lr=0),
                torch.optim.SGD(parameters[1::2], lr=0),
            ]
            average = FlatBuffer.average

            def average_slowly(buffer, as_bf16):
                slept[0] += hours
                average(buffer, as_bf16)

            FlatBuffer.average = average_slowly
            while not recording.done:
                torch.nn.functional.cross_entropy(
                    model(batch_of(rank)[0]), batch_of(rank)[1]
                ).backward()
                for optimizer in optimizers:
                    optimizer.step()
                    slept[0] += hours // 8

        self.launch(run)
        for step in json.loads(out.read_text())["ranks"][1]:
            self.assertLess(step["step_ns"], hours // 4)
            self.assertLess(step["rest_ns"], hours // 8)
            self.assertGreaterEqual(
                step["optimizer_ns"], hours // 8
            )  # the second's begins behind the first's pause

    def test_what_a_probe_copies_is_freed_before_time_goes_on(self):
        def run(rank):
            dist.init_process_group("gloo")
            model = DDP(net())
            optimizer = torch.optim.SGD(model.parameters(), lr=0)
            recording = Recorder(model, self.directory / "out.jsonl", rounds=2)
            keep, average, mark = FlatBuffer.keep, FlatBuffer.average, HostClock.mark
            copies, averaged, there = [], [], []

            def watched_keep(buffer):
                keep(buffer)
                copies.append(weakref.ref(buffer._kept))

            def watched_average(buffer, as_bf16):
                average(buffer, as_bf16)
                averaged[:] = copies

            def watched_mark(clock):
                there.extend(copy() is not None for copy in averaged)
                return mark(clock)

            FlatBuffer.keep, FlatBuffer.average = watched_keep, watched_average
            HostClock.mark = watched_mark
            while not recording.done:
                torch.nn.functional.cross_entropy(
                    model(batch_of(rank)[0]), batch_of(rank)[1]
                ).backward()
                optimizer.step()
            assert len(copies) == 2 * sum(turn.is_probe for turn in recording.plan)
            assert there and not any(there)

        self.launch(run)

    def test_buffers_travel_as_with_ddp(self):
        """With the first forward of a step; in steps of `none` before they begin."""
        sent = []

        def run(rank):
            dist.init_process_group("gloo")
            model = DDP(torch.nn.BatchNorm1d(64))
            optimizer, sync = torch.optim.SGD(model.parameters(), lr=0), model._sync_buffers
            recording = Recorder(model, os.path.join(self.directory, "out.jsonl"), rounds=2)
            before_step, preparing = recording.target.before_step, []

            def watched_before_step(turn):
                preparing.append(turn)
                before_step(turn)
                preparing.clear()

            recording.target.before_step = watched_before_step

            def watched_sync():
                turn = preparing[0] if preparing else recording.step.turn
                sent.append((turn.mode and turn.mode.value, bool(preparing)))
                sync()

            model._sync_buffers = watched_sync
            while not recording.done:
                for passes in range(2):
                    model.require_backward_grad_sync = passes == 1
                    model(batch_of(rank)[0]).sum().backward()
                optimizer.step()
            modes = [turn.mode.value for turn in recording.plan]
            steps = [(mode, mode == "none") for mode in modes]
            assert sorted(sent[1:]) == sorted([*steps, *steps]), sent
            assert sent[0] == (None, False), sent

        self.launch(run)

    def test_one_process_has_steps_and_no_collectives(self):
        out = self.directory / "alone.jsonl"

        def run(rank):
            model, (inputs, targets) = net(), batch_of(0)
            optimizer, recording = (
                torch.optim.Adam(model.parameters()),
                Recorder(model, out, rounds=3),
            )
            self.assertIn("__call__", vars(torch.nn.Sequential))
            while not recording.done:
                optimizer.zero_grad()
                for _ in range(2):
                    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            self.assertNotIn("__call__", vars(torch.nn.Sequential))

        self.launch(run, ranks=1)
        launch = json.loads(out.read_text())
        self.assertEqual([s["mode"] for s in launch["ranks"][0]].count("probe"), 2)
        self.assertEqual(
            (launch["world_size"], launch["passes"], launch["optimizer"]), (1, 2, "Adam")
        )
        self.assertFalse(any("collectives" in s for s in launch["ranks"][0]))
        for link, status in ((["--link=25Gbit", "--world_size=8"], 0), ([], 2)):
            done = what_if(out, *link)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_a_guest_leaves_no_trace(self):
        """Of a recording that ends, that is refused, and of two at once."""

        def run(rank):
            dist.init_process_group("gloo")
            model = DDP(net(), gradient_as_bucket_view=True)
            plain = net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            before = traces(model, plain)
            out = os.path.join(self.directory, "out.jsonl")
            recording, other = Recorder(model, out, rounds=2), Recorder(plain, out)
            self.assertNotEqual(traces(model, plain), before)
            inputs, targets = batch_of(rank)
            while not recording.done:
                optimizer.zero_grad(set_to_none=False)
                torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            other.close()
            self.assertEqual(traces(model, plain), before)
            recording = Recorder(model, out, rounds=2)
            while not recording.step.turn.is_probe:
                optimizer.zero_grad(set_to_none=False)
                torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            gradients = [p.grad.clone() for p in model.parameters()]
            buffer = recording.step.buffer.flat
            own = {buffer.untyped_storage().data_ptr()}
            self.assertEqual(memories_of_gradients(model), own)
            buffer = weakref.ref(buffer)
            recording.close()
            self.assertIsNone(buffer(), "freed")
            self.assertFalse(memories_of_gradients(model) & own)
            for p, gradient in zip(model.parameters(), gradients, strict=True):
                torch.testing.assert_close(p.grad, gradient, rtol=0, atol=0)
            recording = Recorder(model, out)
            with self.assertRaisesRegex(ValueError, "call what DistributedDataParallel returned"):
                torch.nn.functional.cross_entropy(model.module(inputs), targets).backward()
            self.assertEqual(traces(model, plain), before)

        self.launch(run)

    def test_memory_is_measured_in_one_step_though_a_scaler_skips_the_first(self):
        def run(rank):
            model = net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0)
            scaler = torch.amp.GradScaler("cpu")
            recording = Recorder(model, self.directory / "out.jsonl", rounds=2)
            inputs, targets = batch_of(rank)
            measured = []
            while not recording.done:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(inputs), targets)
                measured.append(torch._C._len_torch_dispatch_stack())
                scaler.scale(loss).backward()
                if len(measured) == 2:
                    next(model.parameters()).grad.fill_(torch.inf)
                scaler.step(optimizer)
                scaler.update()
                self.assertEqual(torch._C._len_torch_dispatch_stack(), 0)
            self.assertEqual(measured, [0, 1, 1, *[0] * (len(measured) - 3)])

        self.launch(run, ranks=1)

    def test_a_recording_is_compressed_if_its_name_says_so(self):
        out = self.directory / "out.jsonl.gz"

        def run(rank):
            model, (inputs, targets) = net(), batch_of(0)
            optimizer = torch.optim.SGD(model.parameters(), lr=0)
            for _ in range(2):
                recording = Recorder(model, out, rounds=2)
                while not recording.done:
                    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                    optimizer.step()

        self.launch(run, ranks=1)
        with gzip.open(out, "rt") as lines:
            self.assertEqual(len([json.loads(line) for line in lines]), 2)
        asked = what_if(out, "--link=25Gbit", "--world_size=8")
        self.assertEqual(asked.returncode, 0, asked.stderr)

    def test_ones_own_loop_is_refused_by_an_exception(self):
        def run(rank):
            for model, said in (
                (torch.nn.Linear(1, 1, device="meta"), "meta"),
                (net().requires_grad_(False), "none"),
            ):
                with self.assertRaisesRegex(
                    ValueError, rf"record_test.py:\d+: .*on one CPU or GPU; this one is on .*{said}"
                ):
                    Recorder(model)
            model = torch.nn.EmbeddingBag(8, 4, sparse=True)
            Recorder(model)
            with self.assertRaisesRegex(
                ValueError, r"record_test.py:\d+: weight gets a sparse gradient"
            ):
                model(torch.ones(2, 2, dtype=torch.int)).sum().backward()
            model(torch.ones(2, 2, dtype=torch.int)).sum().backward()  # and goes on
            frozen = net().requires_grad_(True)
            recording = Recorder(frozen)
            frozen.requires_grad_(False)(
                batch_of(0)[0]
            )  # as a discriminator is while its generator learns
            self.assertEqual(recording.machine.state, State.BETWEEN)
            frozen.requires_grad_(True)(batch_of(0)[0])
            self.assertEqual(recording.machine.state, State.OPEN)

        self.launch(run, ranks=1)

    def test_the_package_records_where_nothing_else_is_installed(self):
        place, out = self.directory / "venv", self.directory / "out.jsonl"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", place], check=True, timeout=120
        )
        python, packages = place / "bin/python", next(place.glob("lib/python3*/site-packages"))
        # As an editable installation does, without a network.
        folders = (pathlib.Path(__file__).absolute(), pathlib.Path(torch.__file__).parent)
        (packages / "gradsync.pth").write_text("".join(f"{one.parent}\n" for one in folders))
        # The machine's own name need not resolve.
        done = subprocess.run(
            [
                python,
                "-m",
                "torch.distributed.run",
                "--nproc_per_node=2",
                "--rdzv_backend=c10d",
                "--rdzv_endpoint=localhost:0",
                "--local_addr=localhost",
                "-m",
                "gradsync",
                "record",
                f"--out={out}",
                "--rounds=2",
                *self.script(1000),
            ],
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=240,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("A step without synchronisation takes ", done.stdout)
        self.assertIn(
            f"gradsync: records {14 + 2 * units.can_be_tried([torch.ones(1)])} steps", done.stderr
        )
        environment = {"PATH": ""}
        asked = subprocess.run(
            [python, "-m", "gradsync", "what_if", out, "--link=25Gbit", "--world_size=64"],
            env=environment,
            cwd=self.directory,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertIn(
            "Asked for 64 ranks (1 on a host), 25 Gbit/s and 5 us between hosts.", asked.stdout
        )
        for arguments, said in (
            ([], "gradsync what_if FILE"),
            (["record", "--help"], "Not for join()"),
        ):
            told = subprocess.run(
                [python, "-m", "gradsync", *arguments],
                capture_output=True,
                text=True,
                cwd=self.directory,
                timeout=60,
            )
            self.assertIn(said, told.stderr + told.stdout)


if __name__ == "__main__":
    unittest.main()
