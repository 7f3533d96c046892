"""What FSDP2 does beside what is said of it: the order of its collectives, its memory, and scripts
under it as they are recorded.
"""

import contextlib
import json
import os
import pathlib
import tempfile
import unittest

from run_ranks import launch, torch

import torch.distributed as dist
from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.checkpoint import checkpoint

from gradsync import events, live, memory, record, sharding
from gradsync.recorder import Recorder
from gradsync.recording import Recording
from gradsync.schema import CollectiveKind, Unit
from gradsync.sharded import SyncFlags
from gradsync.sharding import Resharding
from gradsync.step_machine import State
from gradsync.torch_private import DDP, is_sharded, sharded_groups
from gradsync.unit_schedule import CALLS, Call, Event, collectives

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


class Net(nn.Module):
    recomputes = False  # activations of blocks

    def __init__(self):
        super().__init__()
        self.e, self.head = nn.Embedding(200, 32), nn.Linear(32, 200)
        self.h = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 32 + 16 * i), nn.GELU(), nn.Linear(32 + 16 * i, 32))
            for i in range(4)
        )

    def forward(self, x):
        x = self.e(x)
        for h in self.h:
            x = x + (checkpoint(h, x, use_reentrant=False) if self.recomputes else h(x))
        return self.head(x)


def sharded_net(how=None, nested=False):
    torch.manual_seed(0)
    net = Net()
    for i, h in enumerate(net.h):
        if nested and i in (1, 2):
            fully_shard(h[0], reshard_after_forward=how)
        fully_shard(h, reshard_after_forward=how)
    return fully_shard(net)


def step(model, optimizer, x, passes=1):
    for _ in range(passes):
        nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


@contextlib.contextmanager
def ranks(backend, count):
    """This process, as the first of so many."""
    dist.init_process_group(
        backend,
        rank=0,
        world_size=count,
        store=FakeStore() if backend == "fake" else dist.HashStore(),
    )
    try:
        yield torch.randint(200, (16, 64))
    finally:
        dist.destroy_process_group()


def tries_units(recorder):
    kind = CollectiveKind.FULLY_SHARD
    return any(turn.probe is not None and turn.probe.kind is kind for turn in recorder.plan)


class OrderTest(unittest.TestCase):
    def watch_collectives(self, issued):
        """Adds FSDP2's collectives to a list, with the elements of all ranks."""
        for kind, named in (
            ("all_gather", _fsdp_collectives.DefaultAllGather),
            ("reduce_scatter", _fsdp_collectives.DefaultReduceScatter),
        ):
            whole = "output_tensor" if kind == "all_gather" else "input_tensor"
            call = named.__call__

            def told(own, *args, kind=kind, whole=whole, call=call, **kwargs):
                issued.append((kind, kwargs[whole].numel()))
                return call(own, *args, **kwargs)

            named.__call__ = told
            self.addCleanup(setattr, named, "__call__", call)

    def watch_units(self, groups, calls):
        """Adds the first call of each kind of each unit to a list."""
        for unit, group in enumerate(groups):
            for name in CALLS:
                call = getattr(group, name)

                def told(*args, name=name, unit=unit, call=call, **kwargs):
                    if (name, unit) not in calls:
                        calls.append((name, unit))
                    return call(*args, **kwargs)

                setattr(group, name, told)

    def assert_planned(self, issued, nested, how):
        with ranks("fake", 2) as x:
            net = sharded_net(how, nested)
            groups = [m._get_fsdp_state()._fsdp_param_group for m in net.modules() if is_sharded(m)]
            calls = []
            self.watch_units(groups, calls)
            for _ in range(2):
                issued.clear()
                calls.clear()
                net(x).sum().backward()
        units = [Unit("", (), group.post_forward_mesh_info is not None) for group in groups]
        sizes = [
            2 * sum(p._sharded_param_data.numel() for p in group.fsdp_params) for group in groups
        ]
        events = [Event(i, Call(name), unit) for i, (name, unit) in enumerate(calls)]
        for overlaps in (False, True):
            plan = collectives(events, units, overlaps)
            found = [(c.operation, sizes[c.unit]) for c in plan]
            self.assertEqual(found, issued, (nested, how, overlaps))
        if how is False:
            self.assertEqual(len(plan), 14 if nested else 10)

    def test_collectives_are_in_the_order_in_which_fsdp2_issues_them(self):
        issued = []
        self.watch_collectives(issued)
        for nested in (False, True):
            for how in (None, True, False):
                self.assert_planned(issued, nested, how)


class MemoryTest(unittest.TestCase):
    def test_gradients_are_counted_until_they_are_ready(self):
        params = nn.ParameterList(torch.ones(n) for n in (1000, 10))
        one = live.StepMemory([*params], params, [], [])
        one.on_backward()
        for i, p in enumerate(params):
            p.grad = torch.ones_like(p) + torch.zeros_like(p)  # two tensors, and their sum
            one.on_ready(i)
        one.end()
        self.assertEqual(
            (one.result().ready_bytes, one.result().held_bytes), ((12000, 120), (0, 0))
        )

    def test_later_steps_change_nothing(self):
        params = nn.ParameterList(torch.ones(n) for n in (1000, 10))
        one = live.StepMemory([*params], params, [], [])
        activations = torch.ones(500) + torch.ones(500)
        one.on_backward()
        for i in (1, 0):
            params[i].grad = torch.zeros_like(params[i])
            one.on_ready(i)
        one.end()
        first = one.result()
        self.assertEqual((first.order, min(first.held_bytes)), ((1, 0), activations.nbytes))
        del activations
        for i in (0, 1):
            one.on_backward()
            params[i].grad = torch.zeros_like(params[i])
            one.on_ready(i)
            one.on_update()
            one.end()
        self.assertEqual(one.result(), first)

    def test_peaks_are_those_of_pytorchs_trackers_with_checkpoints_too(self):
        self.addCleanup(setattr, Net, "recomputes", False)
        Net.recomputes = True
        self.test_peaks_are_those_of_pytorchs_trackers()

    def test_peaks_are_those_of_pytorchs_trackers(self):
        with tempfile.TemporaryDirectory() as directory:
            x, model = torch.randint(200, (16, 64)), Net()
            optimizer, recorder = (
                torch.optim.AdamW(model.parameters()),
                Recorder(model, f"{directory}/out", rounds=2, views=True),
            )
            while not recorder.done:
                step(model, optimizer, x)
            recording = Recording(f"{directory}/out")
        need, units = memory.Need(recording), sharding.units_of(recording.first)

        def tracked(model, tracker, track):
            optimizer = torch.optim.AdamW(model.parameters())
            step(model, optimizer, x)
            nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
            views = [p.grad for p in model.parameters()] if isinstance(model, DDP) else []
            optimizer.step()
            optimizer.zero_grad()
            one = tracker(model, optimizer)
            track(one, model, optimizer, views)
            with one:
                step(model, optimizer, x)
            (peak,) = one.get_tracker_snapshot("peak").values()
            return peak["Total"]

        def external(tracker, *tensors):
            tracker.track_external(*tensors[:2], x, *tensors[2])

        found = {
            "one process": (
                need.replicated(buckets=False),
                tracked(Net(), lambda *_: MemTracker(), external),
            )
        }
        with ranks("gloo", 1):
            found["DDP"] = (
                need.replicated(),
                tracked(
                    DDP(Net(), gradient_as_bucket_view=True), lambda *_: MemTracker(), external
                ),
            )
        for resharding, how in ((Resharding.ALL, None), (Resharding.NONE, False)):
            with ranks("fake", 2):
                found[resharding.value] = (
                    need.sharded(sharding.reshard(units, resharding), 2),
                    tracked(
                        sharded_net(how),
                        FSDPMemTracker,
                        lambda tracker, *_: tracker.track_inputs((x,)),
                    ),
                )
        for way, (predicted, measured) in found.items():
            self.assertAlmostEqual(sum(predicted) / measured, 1, delta=0.01, msg=way)


class ScriptTest(unittest.TestCase):
    def launch(self, text, *flags, status=0):
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

            found, printed = launch(run, 2, directory / "printed")
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
            _, plain, _ = self.launch(script(options, 80, passes))
            printed, weights, one = self.launch(
                script(options, 80, passes), "--rounds=3", "--continue"
            )
            self.assertIn("finished", printed)
            self.assertTrue(all(map(torch.equal, weights, plain)))
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
                        self.assertTrue(
                            0
                            < begin
                            < end
                            < back
                            < last
                            <= one_step["before_ns"] + one_step["backward_ns"]
                        )
                    ends = [own[3] for own in one_step["units_ns"]]
                    self.assertEqual(ends, sorted(ends, reverse=True))
            self.assertAlmostEqual(
                one["memory"]["state_bytes"], 2 * 4 * 4016, delta=200
            )  # twice all parameters

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
            ("options = {}; net.compile(backend='eager')", {}, "with torch.compile"),
            (
                "options = {'offload_policy': CPUOffloadPolicy(pin_memory=False)}",
                {},
                "with an offload_policy",
            ),
            (
                "options = {'mp_policy': MixedPrecisionPolicy(torch.bfloat16)}",
                {},
                "with an mp_policy",
            ),
            (
                "names = ('r', 's')\n"
                "options = {'mesh': dist.init_device_mesh('cpu', (2, 1), mesh_dim_names=names)}",
                {},
                "over two dimensions (HSDP)",
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
