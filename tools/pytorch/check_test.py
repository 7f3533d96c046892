"""`check` names what trains wrong, says nothing of what trains right, and leaves no trace."""

import os
import re
import unittest
from unittest import mock

from run_ranks import launch, sys, torch

import torch.distributed as dist

from check_scripts import (
    BEGIN,
    DDP_OF_NET,
    NO_DDP,
    begin,
    loop,
    muon,
    plain_loop,
    sharded,
)
from checked_script import CheckTestCase
from faulty_scripts import FAULTS
from gradsync import Refused, check, comparing, own_work
from right_scripts import RIGHT
from torch_snapshot import groups_of, snapshot

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
SCRIPTS = {script.name: script for script in (*FAULTS, *RIGHT)}
SPARSE = "model = nn.EmbeddingBag(9, 4, sparse=True); optimizer = sgd(model)\n"

# A gradient that autograd delivers in a thread of its own, in which no line of the script runs: 61
# passes are around it.
DEEP = """
class Deep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, left):
        ctx.left = left
        return x + 0

    @staticmethod
    def backward(ctx, gradient):
        deep(ctx.left - 1)
        return gradient, None

@torch.enable_grad()
def deep(left):
    if left:
        loss = Deep.apply(torch.ones(1, requires_grad=True), left)
    else:
        loss = model(torch.ones(2, 2, dtype=int))
    loss.sum().backward() #!

deep(61)
"""
GRADIENTS_WITHOUT_BACKWARD = """
params = [*net.parameters()]
for p, g in zip(params, torch.autograd.grad(net(batch()).sum(), params)):
    p.grad = g
optimizer.step() #!
"""
UPDATES_WITHOUT_OPTIMIZER = """
weight = nn.Parameter(torch.ones(2))
for step in range(2):
    weight.sum().backward() #!
    weight.data -= weight.grad
"""
# What cannot be checked, and what is said; #! marks the line that is named.
REFUSED = (
    (SPARSE + "model(torch.ones(2, 2, dtype=int)).sum().backward() #!", "gradient that is sparse"),
    (SPARSE + DEEP, "weight gets a gradient that is sparse"),
    (
        NO_DDP + GRADIENTS_WITHOUT_BACKWARD,
        "no optimizer of PyTorch stepped with gradients of backward()",
    ),
    (UPDATES_WITHOUT_OPTIMIZER, "no optimizer of PyTorch stepped"),
    (
        "def divide(): 1 / 0 #!\nfunctools.reduce(lambda *_: divide(), (1, 2))",
        "failed: ZeroDivisionError",
    ),
    ("sys.exit(3) #!", "failed: SystemExit"),
    ("", "train.py: no optimizer of PyTorch stepped"),
    (
        muon("dist.all_reduce(g); g /= self.world")
        + "optimizer.world = 2\n"
        + plain_loop(step="optimizer.step() #!"),
        "cannot be checked: AttributeError: 'Muon' object has no attribute 'world'",
    ),
)
SAVE = """
def part(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor

weights = [part(tensor) for tensor in model.state_dict().values()]
torch.save([*weights, torch.rand(4)], f"weights{rank}")
"""
BY_HAND = "model.finalize_backward()"
# What PyTorch 2.15 has that older ones have not: a name, a script, and what is wrong with it.
NEWEST = (
    (
        "buckets that are allocated late",
        DDP_OF_NET.replace("(net)", "(net, lazy_bucket_allocation=True)", 1) + loop(),
        "",
    ),
    (
        "gradients that are copied together",
        DDP_OF_NET.replace("(net)", "(net, batched_grad_copy=True)", 1) + loop(),
        "",
    ),
    (
        "a size of each bucket",
        DDP_OF_NET.replace("(net)", "(net, bucket_cap_mb_list=[1, 2])", 1) + loop(),
        "",
    ),
    (
        "DDP's backward, finalised by hand",
        DDP_OF_NET
        + "model.require_manual_backward_finalization = True\n"
        + loop(before_step=BY_HAND),
        "",
    ),
    (
        "DDP's backward, finalised too late",
        DDP_OF_NET
        + "model.require_manual_backward_finalization = True\n"
        + loop(step=f"optimizer.step(); {BY_HAND}"),
        "each rank's own, which nothing has averaged",
    ),
    (
        "fully_shard's backward, finalised by hand",
        sharded()
        + "net.set_manual_backward_finalization(True)\n"
        + NO_DDP
        + plain_loop(before_step=BY_HAND),
        "",
    ),
    (
        "bf16 parameters whose gradients are reduced in f32",
        "net.to(torch.bfloat16)\n"
        + sharded("reduce_dtype=torch.float32")
        + NO_DDP
        + plain_loop(loss="model(batch().bfloat16()).square().mean()"),
        "",
    ),
)


class CheckTest(CheckTestCase):
    def test_planted_faults_are_named(self):
        for script in FAULTS:
            with self.subTest(script.name):
                status, printed = self.check(script.text)
                self.assertEqual(status, 1, printed)
                self.assertEqual(len(self.lines(printed, "differs")), 1, printed)
                self.assertRegex(self.lines(printed, "differs")[0], script.says)
                is_muon = "class Muon" in script.text
                self.assertEqual("averages by itself" in printed, is_muon, printed)

    def test_of_right_scripts_it_says_nothing(self):
        for script in RIGHT:
            with self.subTest(script.name):
                status, printed = self.check(script.text)
                self.assertEqual(status, 0, printed)
                (same,) = self.lines(printed, "same")
                self.assertFalse(same.startswith("0 of"), printed)
                notes = [line for line in self.lines(printed, "note") if "random" not in line]
                self.assertEqual(len(notes), int(bool(script.says)), printed)
                self.assertIn(script.says, "".join(notes))

    def test_the_scripts_own_run_is_not_changed(self):
        """Bit for bit, on each rank."""
        adam = "optimizer = torch.optim.Adam(model.parameters(), lr=.01)\n"
        for name in (
            "BatchNorm and dropout",
            "accumulation with no_sync",
            "GradScaler",
            "a hybrid mesh of (1, 2)",
            "bf16 hook",
            "Muon that averages",
            "hooks that average",
        ):
            with self.subTest(name):
                text = SCRIPTS[name].text.replace("optimizer = sgd(model)\n", adam) + SAVE
                status, printed = self.check(text, "--continue", steps=5)
                self.assertEqual((status, self.has_ended()), (0, True), printed)
                checked = self.saved()
                self.assertEqual(launch(self.run_unchecked, 2, self.directory / "printed")[0], 0)
                for own, expected in zip(checked, self.saved(), strict=True):
                    self.assertTrue(all(map(torch.equal, own, expected)))

    def saved(self):
        return [torch.load(self.directory / f"weights{rank}") for rank in range(2)]

    def run_unchecked(self, rank):
        os.chdir(self.directory)
        sys.argv = [str(self.script), "5"]
        code = compile(self.script.read_text(), str(self.script), "exec")
        exec(code, {"__name__": "__main__"})

    def test_groups_of_parameters_take_turns(self):
        wide = (
            "net = nn.Sequential(nn.Linear(16, 400), nn.ReLU(), nn.Linear(400, 16))\n"
            + DDP_OF_NET
            + loop()
        )
        status, printed = self.check(wide, "--groups=2", steps=9)
        self.assertEqual(status, 0)
        self.assertIn("4 of 4 parameters get the mean of 2 ranks' gradients in 4 steps", printed)
        self.assertFalse(self.has_ended())
        _, whole = self.check(wide)
        size = [float(re.search(r", ([\d.]+) MB", text)[1]) for text in (printed, whole)]
        self.assertLess(size[0], size[1])

        text = SCRIPTS["one of 100 is off by 1 %"].text
        status, printed = self.check(text, "--groups=2", steps=9)
        (line,) = self.lines(printed, "differs")
        self.assertRegex(line, "gradient of 24.bias .* 1.01 times the mean")

        text = SCRIPTS["Muon that averages"].text
        status, printed = self.check(text, "--groups=2", steps=9)
        self.assertEqual(status, 2)
        self.assertIn("averages by itself, which needs --groups=1", printed)

    def test_what_cannot_be_checked_is_said_with_its_line(self):
        for text, said in REFUSED:
            status, printed = self.check(text)
            self.assertEqual(status, 2, printed)
            lines = [
                f"{self.script}:{n}:"
                for n, line in enumerate((BEGIN + text).splitlines(), 1)
                if "#!" in line
            ]
            self.assertIn(" ".join(["gradsync:", *lines]), printed)
            self.assertIn(said, printed)

    def test_a_script_that_catches_exceptions_is_refused(self):
        text = SPARSE + (
            "for step in range(9):\n"
            "    try: model(torch.ones(2, 2, dtype=int)).sum().backward()\n"
            "    except BaseException: pass\n"
        )
        status, printed = self.check(text)
        self.assertEqual(status, 2, printed)
        self.assertIn("cannot be checked: weight gets a gradient that is sparse", printed)
        self.assertFalse(self.has_ended())

    def test_a_script_that_catches_exceptions_ends(self):
        caught = "try: optimizer.step()\n    except BaseException: pass"
        status, printed = self.check(DDP_OF_NET + loop(step=caught), steps=9)
        self.assertEqual((status, self.has_ended()), (0, False), printed)

    def test_a_gradient_that_is_no_number_differs(self):
        spoiled = loop(before_step="net[0].bias.grad += float('nan') if rank else 0")
        status, printed = self.check(DDP_OF_NET + spoiled)
        self.assertEqual(status, 1, printed)
        self.assertIn("SGD", self.lines(printed, "differs")[0])
        self.assertIn("is off by nan of its norm", self.lines(printed, "differs")[0])

    def test_a_fault_of_check_itself_is_no_fault_of_the_script(self):
        def break_it():
            comparing.judge_losses = lambda *_: 1 / 0

        caught = "try: optimizer.step()\n    except BaseException: pass"
        for text in (DDP_OF_NET + loop(), DDP_OF_NET + loop(step=caught)):
            status, printed = self.check(text, prepare=break_it)
            self.assertEqual(status, 5, printed)
            self.assertIn("check itself has failed", printed)
            self.assertIn("ZeroDivisionError: division by zero", printed)
            self.assertIn("in before_update", printed)  # a traceback
            self.assertNotIn("cannot be checked", printed)

    def test_own_work_ends_whatever_happens_in_it(self):
        for error, statuses in ((Refused("no"), [2]), (KeyError("no"), [5]), (SystemExit(), [])):
            work = own_work.OwnWork()
            with mock.patch.object(own_work, "end_rank") as end_rank:
                try:
                    with work():
                        with work():
                            self.assertTrue(work.is_running)
                        self.assertTrue(work.is_running)
                        self.assertFalse(torch.is_grad_enabled())
                        raise error
                except SystemExit:
                    pass
            self.assertEqual([call.args[1] for call in end_rank.mock_calls], statuses)
            self.assertFalse(work.is_running)
            self.assertTrue(torch.is_grad_enabled())
            self.assertGreater(work.spent_ns, 0)

    def test_it_leaves_no_trace(self):
        for name in (
            "clipping",
            "GradScaler",
            "DeepSpeed",
            "a hybrid mesh of (1, 2)",
            "Muon that averages",
            "a closure",
        ):
            more = "assert not hasattr(Engine.step, '__wrapped__')" if name == "DeepSpeed" else ""
            text = begin(initialises=False) + SCRIPTS[name].text + "\nsys.net = net\n" + more
            self.script.write_text(text)
            with self.subTest(name):
                status, printed = launch(self.check_twice, 2, self.directory / "printed")
                self.assertEqual((status, len(self.lines(printed, "same"))), (0, 2), printed)

    def check_twice(self, rank):
        """In one process, with snapshots before and after."""
        os.chdir(self.directory)
        torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)  # which wraps its own step()
        dist.init_process_group("gloo")
        before = snapshot()
        for _ in range(2):
            try:
                check.main(["--continue", str(self.script), "5"])
            except SystemExit as end:
                assert end.code == 0, end.code
            assert snapshot() == before
            params = [*sys.net.parameters()]
            params += [
                p._unsharded_param for group in groups_of(sys.net) for p in group.fsdp_params
            ]
            hooks = {key: held for key, held in snapshot(params).items() if key not in before}
            assert len(hooks) == 2 * len(params) and not any(hooks.values()), hooks

    @unittest.skipIf(VERSION < (2, 15), "PyTorch 2.15 has them")
    def test_what_is_new_in_pytorch_2_15_is_checked(self):
        for name, text, said in NEWEST:
            with self.subTest(name):
                status, printed = self.check(text)
                self.assertEqual(status, int(bool(said)), printed)
                for line in self.lines(printed, "differs"):
                    self.assertIn(said, line)

    def test_one_process_is_checked(self):
        status, printed = self.check("passes = 2\n" + NO_DDP + plain_loop(), ranks=1)
        self.assertEqual(status, 0, printed)
        self.assertIn("4 of 4 parameters get the mean of 1 ranks' gradients", printed)

        # As NCCL does, this group of one rank sends no tensors of the CPU.
        group = "dist.init_process_group('cuda:gloo', store=dist.HashStore(), rank=0, world_size=1)"
        text = f"{group}\npasses = 2\n{NO_DDP}{plain_loop()}"
        status, printed = self.check(text, ranks=1)
        self.assertEqual(status, 0, printed)
        self.assertIn("4 of 4 parameters get the mean of 1 ranks' gradients", printed)

        halved = plain_loop(before_step="net[0].bias.grad /= 2")
        status, printed = self.check("passes = 2\n" + NO_DDP + halved, ranks=1)
        self.assertIn("0.5 times the mean: divided by the number of passes, 2", printed)


if __name__ == "__main__":
    unittest.main()
