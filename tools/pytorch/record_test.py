"""What the steps and probes of a recording hold, of a model that takes milliseconds."""

import itertools
import json
import os
import time
import unittest
import weakref

from run_ranks import torch

import torch.distributed as dist

from gradsync import record, units
from gradsync.clock import HostClock
from gradsync.flat_buffer import FlatBuffer
from gradsync.prober import Prober
from gradsync.recorder import Recorder
from gradsync.schema import MIB, CollectiveKind
from gradsync.torch_private import DDP
from gradsync.turns import Probe, probes_of
from gradsync.world import World
from recorded_net import RecordingTestCase, batch_of, check_on_two_ranks, net, what_if


class RecordTest(RecordingTestCase):
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

    def test_pieces_have_the_bytes_that_a_probe_says(self):
        """Of gradients of any dtype."""
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
        self.addCleanup(dist.destroy_process_group)
        clock = HostClock()
        world = World(torch.device("cpu"), clock)
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            params = [torch.nn.Parameter(torch.ones(8000 // dtype.itemsize, dtype=dtype))] * 2
            prober = Prober(FlatBuffer(params, ranks=1), world, clock, [])
            for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.BF16):
                sent = prober.run(Probe(kind, piece_bytes=3200))
                self.assertEqual(sent.bytes, [3200] * 5, (dtype, kind))

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
            self.assertEqual("cpu_ns" in s, s["mode"] == "none")
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
            for load in one["loads"]:  # of this machine, which ran two ranks
                self.assertGreater(load["busy_part"], 0)
                self.assertGreaterEqual(load["load_average"], 0)
            self.assertEqual(len(one["loads"]), 2 * os.path.exists("/proc/stat"))
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


if __name__ == "__main__":
    unittest.main()
