"""What FSDP2 does beside what is said of it: the order of its collectives, and its memory."""

import sys
import tempfile
import types
import unittest
from unittest import mock

from run_ranks import torch

from torch import nn
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_collectives

from gradsync import Refused, live, memory, sharding
from gradsync.recorder import Recorder
from gradsync.recording import Recording
from gradsync.schema import Unit
from gradsync.sharded import ShardedTarget
from gradsync.sharding import Resharding
from gradsync.torch_private import DDP, is_sharded, sharded_groups
from gradsync.unit_schedule import CALLS, Call, Event, collectives
from sharded_net import Net, ranks, sharded_net, step

BLOCKS = 4  # of Net
BLOCKS_WITHIN = 2  # that sharded_net() makes of parts of these


class OrderTest(unittest.TestCase):
    def setUp(self):
        """Keeps what collectives FSDP2 issues, and what it calls for its units, in order."""
        self.issued = []
        self.calls = []
        for operation, kind, tensor in (
            ("all_gather", _fsdp_collectives.DefaultAllGather, "output_tensor"),
            ("reduce_scatter", _fsdp_collectives.DefaultReduceScatter, "input_tensor"),
        ):
            self.note_issues(operation, kind, tensor)

    def note_issues(self, operation, kind, tensor):
        call = kind.__call__

        def noted(own, *args, **kwargs):
            self.issued.append((operation, kwargs[tensor].numel()))
            return call(own, *args, **kwargs)

        kind.__call__ = noted
        self.addCleanup(setattr, kind, "__call__", call)

    def note_calls(self, unit, group, name):
        call = getattr(group, name)

        def noted(*args, **kwargs):
            if (name, unit) not in self.calls:
                self.calls.append((name, unit))
            return call(*args, **kwargs)

        setattr(group, name, noted)

    def test_collectives_are_in_the_order_in_which_fsdp2_issues_them(self):
        for nested in (False, True):
            for how in (None, True, False):
                with self.subTest(nested=nested, how=how), ranks("fake", 2) as x:
                    self.check_order(sharded_net(how, nested), x, nested, how)

    def check_order(self, net, x, nested, how):
        groups = [group for module in net.modules() for group in sharded_groups(module)]
        for unit, group in enumerate(groups):
            for name in CALLS:
                self.note_calls(unit, group, name.value)
        for _ in range(2):  # the first step initialises
            self.issued.clear()
            self.calls.clear()
            net(x).sum().backward()
        units = [Unit("", (), group.post_forward_mesh_info is not None) for group in groups]
        sizes = [
            2 * sum(p._sharded_param_data.numel() for p in group.fsdp_params) for group in groups
        ]
        events = [Event(i, Call(name), unit) for i, (name, unit) in enumerate(self.calls)]
        for overlaps in (False, True):
            plan = collectives(events, units, overlaps)
            self.assertEqual([(c.operation, sizes[c.unit]) for c in plan], self.issued)
        if how is False:  # nothing is freed after forward, and gathered again
            units = 1 + BLOCKS + (BLOCKS_WITHIN if nested else 0)
            self.assertEqual(len(self.issued), 2 * units)


class KeptTest(unittest.TestCase):
    def test_units_reshard_after_forward_where_fsdp2_does(self):
        """A root keeps its own unit whole, unless it is told. If it has none, the first unit is
        another module's.
        """
        for root_has_a_unit, told, kept in (
            (True, None, [0]),
            (False, None, []),
            (True, True, []),
            (True, False, [0]),
        ):
            with self.subTest(has=root_has_a_unit, told=told), ranks("fake", 2) as x:
                net = Net()
                for part in (*net.h, *(() if root_has_a_unit else (net.e, net.head))):
                    fully_shard(part)
                target = ShardedTarget(fully_shard(net, reshard_after_forward=told))
                net(x)  # in the first forward FSDP2 decides
                units = list(enumerate(zip(target.groups, target.units, strict=True)))
                self.assertEqual(
                    [i for i, (group, _) in units if group.post_forward_mesh_info is None], kept
                )
                self.assertEqual([i for i, (_, unit) in units if not unit.reshards], kept)


class OlderTest(unittest.TestCase):
    def test_a_pytorch_that_is_too_old_is_refused(self):
        for version, is_refused in (("2.5.1+cpu", True), ("2.6.0", True), ("2.7.1+cpu", False)):
            with (
                self.subTest(version),
                ranks("fake", 2),
                tempfile.TemporaryDirectory() as directory,
                mock.patch.object(torch, "__version__", version),
            ):
                said = ""
                try:
                    Recorder(sharded_net(), f"{directory}/out").close()
                except Refused as error:
                    said = str(error)
                expected = (
                    "gradsync does not record fully_shard of PyTorch "
                    f"{version}: use PyTorch 2.7 or newer"
                )
                self.assertEqual(said.partition(": ")[2], expected if is_refused else "")

    def test_a_module_is_known_where_fully_shard_was_before(self):
        """Before PyTorch 2.6."""
        here = sys.modules["torch.distributed.fsdp"]
        moved = {
            "torch.distributed.fsdp": types.ModuleType("fsdp"),
            "torch.distributed._composable.fsdp": here,
        }
        with ranks("fake", 2):
            net = sharded_net()
            for places in ({}, moved):
                with mock.patch.dict(sys.modules, places):
                    self.assertTrue(is_sharded(net))
                    self.assertFalse(is_sharded(net.h[0][0]))


def recording_of_one_process(x):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(model, f"{directory}/out", rounds=2, views=True)
        while not recorder.done:
            step(model, optimizer, x)
        return Recording(f"{directory}/out")


def tracked_peak(model, tracker, x):
    """The bytes that PyTorch's tracker counts at the peak of a step; None: FSDP2's."""
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, x)
    nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    views = [p.grad for p in model.parameters()] if isinstance(model, DDP) else []
    optimizer.step()
    optimizer.zero_grad()
    if tracker is None:
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((x,))
    else:
        tracker.track_external(model, optimizer, x, *views)
    with tracker:
        step(model, optimizer, x)
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    return peak["Total"]


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

    def test_a_gradient_is_ready_when_the_last_nested_pass_has_added_to_it(self):
        params = nn.ParameterList(torch.ones(n) for n in (1000, 10))
        one = live.StepMemory([*params], params, [], [])
        one.on_backward()
        for i in (0, 1, 0):
            params[i].grad = torch.zeros_like(params[i])
            one.on_ready(i)
        one.end()
        self.assertEqual(one.result().order, (1, 0))

    def test_what_optimizers_hold_is_none_of_what_they_compute_with(self):
        params = nn.ParameterList(torch.ones(n) for n in (1000, 10))
        shards = [nn.Parameter(torch.ones(500))]  # as under fully_shard
        optimizer = torch.optim.SGD(shards, lr=1)
        one = live.StepMemory([*params], params, [optimizer], [])
        one.on_backward()
        shards[0].grad = torch.ones(500) + torch.ones(500)
        one.on_update()
        optimizer.step()
        one.end()
        self.assertLess(one.result().optimizer_bytes, shards[0].nbytes)

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
        x = torch.randint(200, (16, 64))
        recording = recording_of_one_process(x)
        need = memory.Need(recording)
        units = sharding.units_of(recording.first)
        plain = tracked_peak(Net(), MemTracker(), x)
        found = {"one process": (need.replicated(buckets=False), plain)}
        with ranks("gloo", 1):
            ddp = DDP(Net(), gradient_as_bucket_view=True)
            found["DDP"] = (need.replicated(), tracked_peak(ddp, MemTracker(), x))
        for resharding, how in ((Resharding.ALL, None), (Resharding.NONE, False)):
            with ranks("fake", 2):
                predicted = need.sharded(sharding.reshard(units, resharding), 2)
                found[resharding.value] = (predicted, tracked_peak(sharded_net(how), None, x))
        for way, (predicted, measured) in found.items():
            self.assertAlmostEqual(sum(predicted) / measured, 1, delta=0.01, msg=way)


if __name__ == "__main__":
    unittest.main()
