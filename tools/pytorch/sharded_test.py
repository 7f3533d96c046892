"""Models under fully_shard, and scripts that use it, as they are recorded."""

import contextlib
import json
import os
import pathlib
import tempfile
import unittest

from run_ranks import launch, torch

import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp._fully_shard import _fsdp_collectives

from gradsync import events, record, sharding
from gradsync.recorder import Recorder
from gradsync.schema import CollectiveKind
from gradsync.sharded import SyncFlags
from gradsync.step_machine import State
from gradsync.torch_private import DDP, sharded_groups
from sharded_net import Net, sharded_net, step

IS_2_15 = hasattr(torch.Tensor, "grad_dtype") and torch.__version__ >= "2.15"
SCRIPT = """
import contextlib, os, sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
dist.init_process_group("gloo"); torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 16)
        self.h = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 24 + 8 * i), nn.ReLU(), nn.Linear(24 + 8 * i, 16))
            for i in range(3)
        )
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.e.weight
    def forward(self, x):
        x = self.e(x)
        for h in self.h: x = x + h(x)
        return self.head(x)
net = Net(); OPTIONS
for h in net.h: fully_shard(h, **options)
fully_shard(net, **options) #!
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
torch.manual_seed(1 + dist.get_rank()); x = torch.randint(50, (4, 8))
for step in range(STEPS):
    for i in range(PASSES):
        net.set_requires_gradient_sync(SYNC)
        nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step(); optimizer.zero_grad()
if dist.get_rank() == 0: torch.save([p.to_local() for p in net.parameters()], os.environ["WEIGHTS"])
"""


def script(options="options = {}", steps=400, passes=1, sync="i == PASSES - 1", more=""):
    text = (
        SCRIPT.replace("optimizer = ", more + "\noptimizer = ")
        .replace("OPTIONS", options)
        .replace("STEPS", str(steps))
    )
    return text.replace("SYNC", sync).replace("PASSES", str(passes))


def tries_units(recorder):
    kind = CollectiveKind.FULLY_SHARD
    return any(turn.probe is not None and turn.probe.kind is kind for turn in recorder.plan)


class ScriptTest(unittest.TestCase):
    def launch(self, text, *flags, status=0, ranks=2):
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            (directory / "train.py").write_text(text)

            def run(rank):
                os.environ["WEIGHTS"] = str(directory / "weights")
                os.chdir(directory)
                if flags:
                    record.main(
                        [*flags, "--out=out", "train.py"], finished=lambda out: print("finished")
                    )
                else:
                    exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})

            found, printed = launch(run, ranks, directory / "printed")
            self.assertEqual(found, status, printed)
            weights, out = directory / "weights", directory / "out"
            return (
                printed,
                weights.exists() and torch.load(weights),
                out.exists() and json.loads(out.read_text()),
            )

    def test_is_recorded_and_trains_on_as_without(self):
        for passes, options, reshards in (
            (1, "options = {}", [False, True, True, True]),
            (2, "options = {'reshard_after_forward': False}", [False] * 4),
        ):
            one = self.recorded_as_without(script(options, 30, passes))
            self.assertEqual(
                [(u["name"], u["reshards"]) for u in one["units"]],
                list(zip(["", "h.0", "h.1", "h.2"], reshards, strict=True)),
            )
            self.assertEqual(
                (one["passes"], one["optimizer"], len(one["parameters"])), (passes, "AdamW", 13)
            )
            self.assertEqual(
                one["parameters"][one["units"][0]["parameters"][0]]["numel"], 800
            )  # all of it, and tied
            for one_step in one["ranks"][1]:
                if one_step["mode"] != "ddp":
                    self.assertEqual(
                        (
                            len(one_step["gather_ns"]),
                            min(one_step["gather_ns"]) > 0,
                            min(one_step["reduce_ns"]) > 0,
                        ),
                        (4, True, True),
                    )
                    for begin, end, back, last in one_step["units_ns"][1:]:
                        # Those of the last pass.
                        before_ns = one_step["before_ns"]
                        self.assertTrue(0 < begin < end <= before_ns <= back < last)
                        self.assertLessEqual(last, before_ns + one_step["backward_ns"])
                    ends = [own[3] for own in one_step["units_ns"]]
                    self.assertEqual(ends, sorted(ends, reverse=True))
            self.assertAlmostEqual(
                one["memory"]["state_bytes"], 2 * 4 * 4016, delta=200
            )  # twice all parameters

    def recorded_as_without(self, text, ranks=2):
        """Returns the launch of a script that trains on, with the weights of one that is alone."""
        _, plain, _ = self.launch(text, ranks=ranks)
        printed, weights, one = self.launch(text, "--rounds=3", "--continue", ranks=ranks)
        self.assertIn("finished", printed)
        self.assertTrue(all(map(torch.equal, weights, plain)))
        return one

    def test_mixed_precision_is_recorded_with_its_bytes(self):
        """Of f32 parameters; without a reduce_dtype PyTorch reduces in f32 since 2.15."""
        for policy, passes, gathered, reduced in (
            ("torch.bfloat16, torch.float32", 1, 2, 4),
            ("torch.bfloat16, torch.float32", 3, 2, 4),
            ("torch.bfloat16", 1, 2, 4 if IS_2_15 else 2),
            ("torch.bfloat16, torch.bfloat16", 2, 2, 2),
            ("None, torch.bfloat16", 1, 4, 2),
        ):
            options = f"options = {{'mp_policy': MixedPrecisionPolicy({policy})}}"
            with self.subTest(policy=policy, passes=passes):
                one = self.recorded_as_without(script(options, 30, passes))
                for p in one["parameters"]:
                    self.assertEqual((p["bytes"], p["dtype"]), (4 * p["numel"], "float32"))
                    self.assertEqual(p.get("gathered_bytes", p["bytes"]), gathered * p["numel"])
                    self.assertEqual(p.get("reduced_bytes", p["bytes"]), reduced * p["numel"])
                elements = sum(p["numel"] for p in one["parameters"])
                memory = one["memory"]
                self.assertEqual(memory["weight_bytes"], 4 * elements)
                self.assertAlmostEqual(memory["state_bytes"], 2 * 4 * elements, delta=200)

    def test_blocks_are_compiled(self):
        options = (
            "options = {'mp_policy': MixedPrecisionPolicy(torch.bfloat16, torch.float32)}\n"
            "for h in net.h: h.compile(backend='eager')"
        )
        one = self.recorded_as_without(script(options, 30))
        self.assertNotIn("memory", one)  # operations of compiled code are not seen
        for own in one["ranks"][0]:
            if own["mode"] == "none":
                self.assertTrue(all(0 < b < e <= p < q for b, e, p, q in own["units_ns"][1:]))

    def test_hybrid_shards_are_recorded(self):
        options = (
            "mesh = dist.init_device_mesh('cpu', (2, 2), mesh_dim_names=('r', 's'))\n"
            "options = {'mesh': mesh}"
        )
        one = self.recorded_as_without(script(options, 30, 2), ranks=4)
        self.assertEqual((one["sharing_ranks"], one["world_size"]), (2, 4))
        elements = sum(p["numel"] for p in one["parameters"])
        self.assertAlmostEqual(one["memory"]["state_bytes"], 2 * 4 * elements, delta=200)

    def test_none_communicates_nothing(self):
        def run(rank):
            dist.init_process_group("gloo")
            net = sharded_net()
            optimizer, x = torch.optim.SGD(net.parameters(), lr=0.1), torch.randint(200, (2, 8))
            recorder, kinds = Recorder(net, f"{directory}/out", rounds=2), []
            assert not tries_units(recorder), "its own units are timed"
            before_step, preparing = recorder.target.before_step, []

            def watched_before_step(turn):
                preparing.append(turn)
                before_step(turn)
                preparing.clear()

            recorder.target.before_step = watched_before_step
            for named in (
                _fsdp_collectives.DefaultAllGather,
                _fsdp_collectives.DefaultReduceScatter,
            ):

                def told(own, *args, call=named.__call__, **kwargs):
                    mode = recorder.step.turn.mode
                    is_open = recorder.machine.state is State.OPEN and not preparing
                    kinds.append(mode and mode.value if is_open else "between")
                    return call(own, *args, **kwargs)

                named.__call__ = told
            while recorder.taken < len(recorder.plan):
                step(net, optimizer, x)
            assert {None, "ddp", "between"} == set(kinds), set(kinds)

        with tempfile.TemporaryDirectory() as directory:
            status, printed = launch(run, 2, f"{directory}/printed")
        self.assertEqual(status, 0, printed)

    def test_what_is_refused_within_a_step_leaves_units_as_they_were(self):
        def run(rank):
            dist.init_process_group("gloo")
            net = sharded_net()
            groups = [g for m in net.modules() for g in sharded_groups(m)]
            optimizer, x = torch.optim.SGD(net.parameters(), lr=0.1), torch.randint(200, (2, 8))
            step(net, optimizer, x)  # in which FSDP2 initialises itself
            before = [(g.post_forward_mesh_info, SyncFlags.of(g), {*vars(g)}) for g in groups]
            recorder = Recorder(net, f"{directory}/out", rounds=2)
            while recorder.taken < 1:
                step(net, optimizer, x)
            net(x).sum().backward()
            with contextlib.suppress(ValueError):
                net(x).sum().backward()
            assert not events.listeners, "refused"
            after = [(g.post_forward_mesh_info, SyncFlags.of(g), {*vars(g)}) for g in groups]
            assert after == before, (after, before)
            recorder = Recorder(net, f"{directory}/out", rounds=2)
            optimizer.zero_grad()
            while recorder.taken < 1:
                step(net, optimizer, x)
            net(x)
            assert [g.post_forward_mesh_info for g in groups] != [b[0] for b in before]
            recorder.close()
            assert [g.post_forward_mesh_info for g in groups] == [b[0] for b in before]

        with tempfile.TemporaryDirectory() as directory:
            status, printed = launch(run, 2, f"{directory}/printed")
        self.assertEqual(status, 0, printed)

    def test_a_probe_of_ddps_gathers_and_reduces_blocks(self):
        def run(rank):
            dist.init_process_group("gloo")
            net, x, sent = Net(), torch.randint(200, (2, 8)), []
            net.e.weight.data = (
                net.e.weight.data.t().contiguous().t()
            )  # as of channels_last, which FSDP2 refuses
            net = DDP(net)
            optimizer, recorder = (
                torch.optim.SGD(net.parameters(), lr=0.1),
                Recorder(net, f"{directory}/out", rounds=2),
            )
            for named, kind, of in (
                (_fsdp_collectives.DefaultAllGather, "gather", "output_tensor"),
                (_fsdp_collectives.DefaultReduceScatter, "reduce", "input_tensor"),
            ):

                def told(own, *args, call=named.__call__, kind=kind, of=of, **kwargs):
                    sent.append((recorder.step.turn.probe.kind, kind, kwargs[of].nbytes))
                    return call(own, *args, **kwargs)

                named.__call__ = told
            while not recorder.done:
                step(net, optimizer, x)
            names = [name for name, _ in recorder.target.named]
            units = [
                sum(recorder.params[p].nbytes for p in unit.parameters)
                for unit in sharding.repeated_blocks(names)
            ]
            kind = CollectiveKind.FULLY_SHARD
            assert len(units) > 2 and sent == 2 * [
                (kind, what, size) for size in units for what in ("gather", "reduce")
            ], sent
            net = Net()
            net.scale = nn.Parameter(torch.ones(()))  # FSDP2 wants at least one dimension
            assert not tries_units(Recorder(DDP(net), f"{directory}/out"))

        with tempfile.TemporaryDirectory() as directory:
            status, printed = launch(run, 2, f"{directory}/printed")
        self.assertEqual(status, 0, printed)

    def test_what_cannot_be_recorded_is_refused(self):
        for options, more, said in (
            (
                "options = {'offload_policy': CPUOffloadPolicy(pin_memory=False)}",
                {},
                "with an offload_policy",
            ),
            (
                "names = ('r', 's')\n"
                "mesh = dist.init_device_mesh('cpu', (2, 1), mesh_dim_names=names)\n"
                "options = {'mesh': mesh['s']}",
                {},
                "over a part of the ranks",
            ),
            (
                "options = {}",
                {"more": "net.h[0].set_modules_to_forward_prefetch([net.h[1]])"},
                "with explicit prefetching",
            ),
            (
                "options = {}; net.bfloat16(); torch.optim.AdamW = torch.optim.SGD\n"
                "for p in net.parameters(): p.grad_dtype = torch.float32",
                {},
                "parameters whose gradients have another dtype, such as e.weight",
            ),
            (
                "options = {}",
                {"more": "net.set_manual_backward_finalization(True)"},
                "with set_manual_backward_finalization: leave it out",
            ),
            (
                "options = {}",
                {"passes": 2, "sync": "True"},
                "use set_requires_gradient_sync(False) in all passes",
            ),
        ):
            printed, _, one = self.launch(script(options, **more), "--rounds=3", status=1)
            self.assertIn(said, printed)
            self.assertEqual((one, printed.count("gradsync:")), (False, 1), printed)
            self.assertRegex(printed, r"gradsync: \S*train.py:\d+: ")


if __name__ == "__main__":
    unittest.main()
