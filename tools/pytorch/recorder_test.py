"""What a Recorder does besides: buffers, memory, files, refusals, and what it leaves behind."""

import gzip
import json
import os
import pathlib
import subprocess
import threading
import time
import unittest
import weakref
from unittest import mock

from run_ranks import sys, torch

import torch.distributed as dist

from gradsync import units
from gradsync.clock import HostClock
from gradsync.flat_buffer import FlatBuffer
from gradsync.recorder import Recorder
from gradsync.sharded import recorder_of
from gradsync.step_machine import State
from gradsync.torch_private import DDP
from recorded_net import (
    RecordingTestCase,
    batch_of,
    memories_of_gradients,
    net,
    traces,
    what_if,
)


class RecorderTest(RecordingTestCase):
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

    def test_processor_time_is_of_what_is_timed(self):
        out = self.directory / "out.jsonl"
        spent = [100]

        def run(rank):
            dist.init_process_group("gloo")
            model = DDP(net())
            average = FlatBuffer.average

            def averages_for_long(buffer, as_bf16):
                spent[0] += 10**6
                average(buffer, as_bf16)

            def spend(ns):
                spent[0] += ns

            FlatBuffer.average = averages_for_long
            model.module[0].register_forward_hook(lambda *_: spend(7))
            optimizer = torch.optim.SGD(model.parameters(), lr=0)
            optimizer.register_step_pre_hook(lambda *_: spend(5))
            recording = Recorder(model, out, rounds=3)
            recording._clock.cpu_ns = lambda: spent[0]
            inputs, targets = batch_of(rank)
            while not recording.done:
                spend(1000)  # between two steps
                for passes in range(2):
                    model.require_backward_grad_sync = passes == 1
                    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                optimizer.step()
                optimizer.zero_grad()

        self.launch(run)
        for steps in json.loads(out.read_text())["ranks"]:
            alone = [step["cpu_ns"] for step in steps if step["mode"] == "none"]
            self.assertEqual(alone, [7 + 7 + 5] * 4)
            self.assertFalse([s for s in steps if s["mode"] != "none" and "cpu_ns" in s])

    def test_processor_time_is_of_all_threads_and_of_waiting(self):
        clock, asked = HostClock(), 20_000_000
        spent = []

        def spin():
            begin = time.thread_time_ns()
            while time.thread_time_ns() - begin < asked:
                pass
            spent.append(time.thread_time_ns() - begin)

        with mock.patch("gradsync.clock.waited_for_cpu_ns", lambda: 0):
            begin = clock.cpu_ns()
            thread = threading.Thread(target=spin)
            thread.start()
            thread.join()
            end = clock.cpu_ns()
        self.assertGreaterEqual(end - begin, spent[0])
        with mock.patch("gradsync.clock.waited_for_cpu_ns", lambda: 10**18):
            self.assertGreater(clock.cpu_ns(), 10**18)

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
                    ValueError,
                    rf"recorder_test.py:\d+: .*on one CPU or GPU; this one is on .*{said}",
                ):
                    Recorder(model)
            model = torch.nn.EmbeddingBag(8, 4, sparse=True)
            Recorder(model)
            with self.assertRaisesRegex(
                ValueError, r"recorder_test.py:\d+: weight gets a sparse gradient"
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
            # The name by which loops under fully_shard have asked for one.
            self.assertIsInstance(recorder_of(net()), Recorder)

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
            (["record", "--help"], "- join(), sparse gradients"),
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
