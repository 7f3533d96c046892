"""Scripts that train something else than they should, which check names, and right ones, of which it says nothing. Two ranks
over gloo."""

import os
import pathlib
import re
import tempfile
import types
import unittest
from unittest import mock

from run_ranks import launch, sys, torch

import torch.distributed as dist

from gradsync import Refused, check, comparing, reference, twin, watching
from torch_snapshot import groups_of, snapshot

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))

BEGIN = """
import contextlib, functools, os, sys, torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo"); torch.manual_seed(0); rank, world = dist.get_rank(), dist.get_world_size()
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
draw = torch.Generator().manual_seed(1 + rank)
def batch(): return torch.randn(8, 16, generator=draw)
def sgd(model): return torch.optim.SGD(model.parameters(), lr=.1)
def orthogonal(m):
    m = m / m.norm()
    for _ in range(5): a = m @ m.T; m = 3.4445 * m + (-4.7750 * a + 2.0315 * a @ a) @ m
    return m
passes = 1
"""
DDP_OF_NET = "model = DDP(net); optimizer = sgd(model)\n"
NONE = "model = net; optimizer = sgd(model)\n"
AVERAGE = """
def average():
    for p in model.parameters(): dist.all_reduce(p.grad); p.grad /= world
"""
LOOP = """
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    for i in range(passes):
        with model.no_sync() if i < passes - 1 else contextlib.nullcontext():
            (model(batch()).square().mean() / passes).backward()
    optimizer.step()
"""
ALL = LOOP.replace(
    "with model.no_sync() if i < passes - 1 else contextlib.nullcontext():", "if True:"
)
OWN = ALL.replace("    optimizer.step()", "    average()\n    optimizer.step()")
MUON = """
class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr): super().__init__(params, dict(lr=lr))
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in [p for p in group["params"] if p.grad is not None]:
                g = p.grad.clone()
                AVERAGE
                p -= group["lr"] * (orthogonal(g) if p.dim() > 1 else g)
"""
INSIDE = "model = net; optimizer = Muon(net.parameters(), lr=.1)\n" + ALL
# As DeepSpeed's: the optimizer steps copies of parts, and no parameter has its gradient.
DEEPSPEED = """
import types
sys.modules["deepspeed"] = types.SimpleNamespace(utils=types.SimpleNamespace(safe_get_full_grad=lambda p: p.full))
class Engine(nn.Module):
    __module__ = "deepspeed.runtime.engine"
    def __init__(self, module, factor=1):
        super().__init__()
        self.module, self.factor, self.passes = module, factor, 0
        self.parts = [nn.Parameter(p.detach().flatten()[rank::world].clone()) for p in module.parameters()]
        self.optimizer = torch.optim.SGD(self.parts, lr=.1)
    def forward(self, x): return self.module(x)
    def is_gradient_accumulation_boundary(self): return self.passes % 2 == 1
    def backward(self, loss):
        (loss / 2).backward()
        for p in self.module.parameters() if self.is_gradient_accumulation_boundary() else ():
            p.full, p.grad = p.grad * self.factor, None
            dist.all_reduce(p.full); p.full /= world
    def step(self):
        if self.is_gradient_accumulation_boundary():
            for p, part in zip(self.module.parameters(), self.parts): part.grad = p.full.flatten()[rank::world]
            self.optimizer.step()
            for p, part in zip(self.module.parameters(), self.parts):
                p.data.zero_(); p.data.view(-1)[rank::world] = part.detach(); dist.all_reduce(p.data)
        self.passes += 1
one, other = Engine(net), Engine(nn.Linear(8, 8))
for step in range(2 * int(sys.argv[1])):
    out = one(batch()); one.backward(out.square().mean()); one.step()
    other.backward(other(out.detach()).square().mean()); other.step()
"""

# A gradient that autograd delivers in a thread of its own, in which no line of the script runs: 61 passes are around it.
DEEP = """
model = nn.EmbeddingBag(9, 4, sparse=True); optimizer = sgd(model)
class Deep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, left): ctx.left = left; return x + 0
    @staticmethod
    def backward(ctx, gradient): deep(ctx.left - 1); return gradient, None
@torch.enable_grad()
def deep(left):
    loss = Deep.apply(torch.ones(1, requires_grad=True), left) if left else model(torch.ones(2, 2, dtype=int))
    loss.sum().backward() #!
deep(61)
"""

# A name, the script behind BEGIN, and what is said.
FAULTS = (
    (
        "a sum under DeepSpeed",
        DEEPSPEED.replace("(8, 8))", "(8, 8), world)"),
        "gradient of weight .* that Engine at .* 2 times the mean: summed",
    ),
    (
        "each rank's own under DeepSpeed",
        DEEPSPEED.replace("dist.all_reduce(p.full); p.full /= world", ""),
        "gradient of 0.weight .* that Engine at .* each rank's own",
    ),
    (
        "settings under DeepSpeed",
        DEEPSPEED.replace("lr=.1", "lr=.1 + rank"),
        "settings of Engine at .*: lr of group 0 differs between",
    ),
    (
        "sum for mean",
        NONE + AVERAGE.replace("p.grad /= world", "") + OWN,
        "2 times the mean: summed and not averaged: the number of ranks, 2",
    ),
    (
        "gloo sums for AVG, as in pytorch 162338",
        "from torch.distributed.fsdp import fully_shard\n"
        "def summed(own): return lambda *args, op, **more: own(*args, op=dist.ReduceOp.SUM, **more)\n"
        "for name in {'reduce_scatter_tensor', 'reduce_scatter_single'} & set(dir(dist)): setattr(dist, name, summed(getattr(dist, name)))\n"
        "for m in (net[0], net[2], net): fully_shard(m)\n" + NONE + ALL,
        "gradient of 0.weight .* 2 times the mean: summed and not averaged",
    ),
    (
        "replicas that are not averaged",
        "import types\nfrom torch.distributed.fsdp import fully_shard\nfrom torch.distributed.fsdp._fully_shard import _fsdp_collectives as own\n"
        "own.dist = types.SimpleNamespace(**vars(dist) | {'all_reduce': lambda *args, **more: None})\n"
        "mesh = dist.init_device_mesh('cpu', (2, 1), mesh_dim_names=('replicate', 'shard'))\n"
        "for m in (net[0], net[2], net): fully_shard(m, mesh=mesh)\n" + NONE + ALL,
        "gradient of 0.weight .* that SGD",
    ),
    (
        "gradients that are not unscaled",
        DDP_OF_NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=1000.)\n"
        + LOOP.replace(
            "(model(batch()).square().mean() / passes)",
            "scaler.scale(model(batch()).square().mean())",
        ),
        "1000 times the mean: no known mistake",
    ),
    (
        "gradients of rank 1",
        DDP_OF_NET
        + LOOP.replace(
            "    optimizer.step()", "    if rank: net[0].bias.grad *= 3\n    optimizer.step()"
        ),
        r"gradient of 0.bias \(and 0 of 3 others\) that SGD at .* gets is 3 times the mean: no known mistake",
    ),
    (
        "sum and passes",
        "passes = 3\n" + NONE + AVERAGE.replace("/= world", "*= 3") + OWN,
        "6 times the mean: ranks times passes, 6",
    ),
    (
        "averaged twice",
        DDP_OF_NET + AVERAGE.replace("dist.all_reduce(p.grad); ", "") + OWN,
        "0.5 times the mean: averaged twice",
    ),
    (
        "clip before reduce",
        NONE
        + AVERAGE
        + OWN.replace(
            "    average", "    nn.utils.clip_grad_norm_(model.parameters(), .01)\n    average"
        ),
        "each rank's own, which nothing has averaged: it is clipped before the sum",
    ),
    (
        "clip before reduce, by hand",
        NONE
        + AVERAGE
        + OWN.replace(
            "    average",
            "    norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()\n"
            "    for p in net.parameters(): p.grad *= (.1 / norm).clamp(max=1)\n    average",
        ),
        r"0.weight .*off by 0.\d+ of its norm: ranks' are scaled before the sum, by 0.\d+ to 0.\d+, as if",
    ),
    (
        "no_sync in the last pass",
        "passes = 2\n" + DDP_OF_NET + LOOP.replace("i < passes - 1", "i == passes - 1"),
        "the last pass is within no_sync",
    ),
    (
        "no_sync in every pass",
        "passes = 2\n" + DDP_OF_NET + LOOP.replace("i < passes - 1", "True"),
        "each rank's own, which nothing has averaged: the last pass",
    ),
    (
        "model.module(x)",
        DDP_OF_NET + LOOP.replace("model(batch", "model.module(batch"),
        "called past DistributedDataParallel",
    ),
    (
        "a parameter made after wrapping",
        "model = DDP(net); net.extra = nn.Parameter(torch.ones(8)); optimizer = sgd(model)\n"
        + LOOP.replace("model(batch())", "(model(batch()) * net.extra)"),
        "gradient of extra \\(and 0 of 4 others\\) .* made after the model was wrapped",
    ),
    (
        "a buffer that is not synchronised",
        "net.insert(1, nn.BatchNorm1d(16)); model = DDP(net, broadcast_buffers=False); optimizer = sgd(model)\n"
        + LOOP,
        "buffers of SGD at .*: 1.running_(mean|var) differs between ranks 0 and 1",
    ),
    (
        "first weights that differ",
        "torch.manual_seed(rank); nn.init.normal_(net[2].weight)\n" + NONE + AVERAGE + OWN,
        "weights of SGD at .*: 2.weight differs between ranks 0 and 1$",
    ),
    (
        "weights that drift apart",
        DDP_OF_NET + LOOP + "    net[0].bias.data += rank\n",
        "weights of SGD at .*: 0.bias differs between ranks 0 and 1$",
    ),
    (
        "the same data on all ranks",
        "draw.manual_seed(1)\n" + DDP_OF_NET + LOOP,
        "ranks get the same batches in the step of SGD",
    ),
    (
        "Muon per micro-batch, as in DeepSpeed 8443",
        "passes = 4; net = nn.Linear(16, 16, bias=False); model = net; optimizer = sgd(model)\n"
        + ALL.replace("optimizer.zero_grad()", "total = 0; optimizer.zero_grad()")
        .replace(
            ".backward()",
            ".backward()\n            g = net.weight.grad; "
            "dist.all_reduce(g); total = total + orthogonal(g / world); g.zero_()",
        )
        .replace("optimizer.step", "net.weight.grad = total; optimizer.step"),
        "the sum of each pass's orthogonal factor, as if Muon's products ran per pass",
    ),
    (
        "Muon of each rank's own",
        MUON.replace("AVERAGE", "pass") + INSIDE,
        "0.weight is off by 0.\\d+ of its norm after Muon has averaged and stepped$",
    ),
    (
        "Muon of each rank's own, then averaged",
        MUON.replace(
            "AVERAGE",
            "g = orthogonal(g) if p.dim() > 1 else g; dist.all_reduce(g); g /= dist.get_world_size()",
        )
        + INSIDE,
        "off by .* after Muon has averaged",
    ),
    (
        "a sum inside of the optimizer",
        MUON.replace("AVERAGE", "dist.all_reduce(g)").replace(
            "orthogonal(g) if p.dim() > 1 else g", "g"
        )
        + INSIDE,
        "off by .* after Muon has averaged",
    ),
    (
        "weights of rank 1 alone",
        MUON.replace(
            "AVERAGE", "dist.all_reduce(g); g *= (1 + dist.get_rank()) / dist.get_world_size()"
        ).replace("orthogonal(g) if p.dim() > 1 else g", "g")
        + INSIDE,
        "off by .* after Muon has averaged",
    ),
    (
        "one of 100 is off by 1 %",
        "net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(50)]); net[24].bias.register_hook(lambda g: g)\n"
        + DDP_OF_NET
        + LOOP.replace(
            "    optimizer.step()", "    net[24].bias.grad *= 1.01\n    optimizer.step()"
        ),
        r"gradient of 24.bias \(and 0 of 99 others\) that SGD at .* gets is 1.01 times the mean: no known mistake",
    ),
    ("gradients that stay", DDP_OF_NET + LOOP.replace("optimizer.zero_grad()", "pass"), "off by"),
    (
        "clip before reduce, after which it is scaled by hand",
        DDP_OF_NET
        + LOOP.replace(
            "    optimizer.step",
            "    nn.utils.clip_grad_norm_(net.parameters(), .01)\n"
            "    for p in net.parameters(): p.grad *= rank + 1\n    optimizer.step",
        ),
        r"is 0.0\d+ times the mean: no known mistake",
    ),
    (
        "settings that differ",
        "model = DDP(net); optimizer = torch.optim.SGD(net.parameters(), lr=.1 + rank)\n" + LOOP,
        "settings of SGD at .*: lr of group 0 differs between ranks 0 and 1: 0.1 and 1.1$",
    ),
    (
        "other parameters",
        NONE + "if rank: optimizer = sgd(net[:1])\n" + ALL,
        "parameters of SGD at .*: what trains differs between ranks 0 and 1$",
    ),
    (
        "a loss of a mean times ranks, as in Automodel 3830",
        "passes = 4\n"
        + DDP_OF_NET
        + LOOP.replace(
            "model(batch()).square().mean() / passes",
            "F.mse_loss(model(batch()), torch.zeros(8, 8)) * world",
        ),
        "is 8 times the mean loss: ranks times passes, 8",
    ),
)
RIGHT = (
    ("DeepSpeed", DEEPSPEED, ()),
    (
        "BatchNorm and dropout",
        "net.insert(1, nn.BatchNorm1d(16)); net.append(nn.Dropout(.5))\n" + DDP_OF_NET + LOOP,
        (),
    ),
    ("accumulation with no_sync", "passes = 4\n" + DDP_OF_NET + LOOP, ()),
    (
        "clipping",
        DDP_OF_NET
        + LOOP.replace(
            "    optimizer.step",
            "    nn.utils.clip_grad_norm_(net.parameters(), .01)\n    optimizer.step",
        ),
        (),
    ),
    (
        "clipping by parts",
        DDP_OF_NET
        + LOOP.replace(
            "    optimizer.step",
            "    for m in (net[0], net[2]): nn.utils.clip_grad_norm_("
            "m.parameters(), .01)\n    optimizer.step",
        ),
        (),
    ),
    (
        "a scale that is the number of ranks",
        DDP_OF_NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.)\n"
        + LOOP.replace(
            "(model(batch()).square().mean() / passes)",
            "scaler.scale(F.mse_loss(model(batch()), torch.zeros(8, 8)))",
        ).replace("optimizer.step()", "scaler.step(optimizer); scaler.update()"),
        (),
    ),
    (
        "GradScaler",
        DDP_OF_NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=1000.)\n"
        + LOOP.replace(
            "(model(batch()).square().mean() / passes).backward()",
            "with torch.autocast('cpu', dtype=torch.bfloat16): loss = model(batch()).square().mean()"
            "\n            scaler.scale(loss).backward()",
        ).replace(
            "optimizer.step()",
            "scaler.unscale_(optimizer); nn.utils.clip_grad_norm_("
            "net.parameters(), .01); scaler.step(optimizer); scaler.update()",
        ),
        (),
    ),
    *(
        (
            f"a hybrid mesh of {shape}",
            "from torch.distributed.fsdp import fully_shard\nfrom torch.distributed.device_mesh import init_device_mesh\n"
            f"mesh = init_device_mesh('cpu', {shape}, mesh_dim_names=('replicate', 'shard'))\nfor m in (net[0], net[2], net): fully_shard(m, mesh=mesh)\n"
            "passes = 2\n" + NONE + ALL,
            (),
        )
        for shape in ((1, 2), (2, 1))
    ),
    (
        "a scaler that skips",
        DDP_OF_NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127)\n"
        + LOOP.replace(
            "(model(batch()).square().mean() / passes)",
            "scaler.scale(F.mse_loss(model(batch() * 100), torch.zeros(8, 8)))",
        )
        .replace(
            "optimizer.step()",
            "scaler.step(optimizer); scaler.update(); assert step or scaler.get_scale() < 2.**127",
        )
        .replace("int(sys.argv[1])", "40"),
        (),
    ),
    (
        "a discriminator that its generator uses, and whose loss is scaled",
        "G = DDP(net); D = DDP(nn.Linear(8, 1)); g, d = sgd(G), sgd(D)\n"
        "scaler = torch.amp.GradScaler('cpu', init_scale=1000.)\nfor step in range(3):\n    fake = G(batch()); d.zero_grad()\n"
        "    scaler.scale(D(fake.detach()).square().mean()).backward(); scaler.step(d); scaler.update()\n"
        "    g.zero_grad(); D(fake).mean().backward(); g.step()",
        (),
    ),
    (
        "a closure",
        DDP_OF_NET
        + """
def closure(): optimizer.zero_grad(); loss = model(batch()).square().mean(); loss.backward(); return loss
for step in range(3): optimizer.step(closure)
""",
        (),
    ),
    (
        "a scheduler",
        "model = net; optimizer = Muon(net.parameters(), lr=.1); torch.optim.lr_scheduler.StepLR(optimizer, 9)\n".join(
            (MUON.replace("AVERAGE", "dist.all_reduce(g); g /= dist.get_world_size()"), ALL)
        ),
        ("Muon averages by itself",),
    ),
    (
        "ZeroRedundancyOptimizer",
        "model = DDP(net); optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=.01)\n"
        + LOOP,
        (),
    ),
    (
        "bf16 hook",
        DDP_OF_NET + "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n" + LOOP,
        ("gradients are rounded to torch.bfloat16 on their way",),
    ),
    (
        "Muon that averages, and a matrix that is not used",
        "net.more = nn.Parameter(torch.eye(4))\n"
        + MUON.replace("AVERAGE", "dist.all_reduce(g); g /= dist.get_world_size()")
        + INSIDE,
        ("Muon averages by itself",),
    ),
    (
        "Muon that averages",
        MUON.replace("AVERAGE", "dist.all_reduce(g); g /= dist.get_world_size()") + INSIDE,
        ("Muon averages by itself",),
    ),
    (
        "hooks that average",
        "for p in net.parameters(): p.register_hook(lambda g: (dist.all_reduce(g := g.clone()), g / world)[1])\n"
        + NONE
        + ALL,
        (),
    ),
    (
        "a loss for all tokens",
        DDP_OF_NET
        + LOOP.replace(
            "model(batch()).square().mean() / passes",
            "F.cross_entropy(model(batch()), torch.tensor("
            "[-100] * 5 * rank + [1] * 3 + [2] * (5 - 5 * rank)), reduction='sum') / 11 * world",
        ),
        (),
    ),
    (
        "counts of tokens",
        DDP_OF_NET
        + LOOP.replace(
            "model(batch()).square().mean() / passes",
            "F.cross_entropy(model(batch()), torch.tensor("
            "[-100] * 5 * rank + [1] * 3 + [2] * (5 - 5 * rank)))",
        ),
        ("passes have 3 to 8 tokens, and the loss is -0.41% off the mean over all of them",),
    ),
    (
        "passes divided behind the sum",
        "passes = 4\n"
        + DDP_OF_NET
        + LOOP.replace(
            "model(batch()).square().mean() / passes",
            "F.mse_loss(model(batch()), torch.zeros(8, 8))",
        ).replace(
            "    optimizer.step",
            "    for p in net.parameters(): p.grad /= passes\n    optimizer.step",
        ),
        ("together right",),
    ),
)


class CheckTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.script = self.directory / "train.py"

    def check(self, text, *flags, steps=3, ranks=2, begin=BEGIN, prepare=lambda: None):
        """`prepare` is called in each rank before the check."""
        self.script.write_text(begin + text + "\nopen('ended', 'w')\n")
        (self.directory / "ended").unlink(missing_ok=True)

        def run(rank):
            os.chdir(self.directory)
            prepare()
            check.main([*flags, str(self.script), str(steps)])

        return launch(run, ranks, self.directory / "printed")

    def lines(self, printed, status):
        return [
            line.split(None, 2)[2]
            for line in printed.splitlines()
            if line.startswith(f"gradsync: {status}")
        ]

    def test_planted_faults_are_named(self):
        for name, text, said in FAULTS:
            with self.subTest(name):
                status, printed = self.check(text)
                self.assertEqual(status, 1, printed)
                self.assertEqual(len(self.lines(printed, "differs")), 1, printed)
                self.assertRegex(self.lines(printed, "differs")[0], said)
                self.assertEqual("averages by itself" in printed, "class Muon" in text, printed)

    def test_of_right_scripts_it_says_nothing(self):
        for name, text, said in RIGHT:
            with self.subTest(name):
                status, printed = self.check(text)
                self.assertEqual(status, 0, printed)
                self.assertEqual(
                    [line.startswith("0 of") for line in self.lines(printed, "same")],
                    [False],
                    printed,
                )
                notes = [line for line in self.lines(printed, "note") if "random" not in line]
                self.assertEqual(len(notes), len(said), printed)
                for note, expected in zip(notes, said):
                    self.assertIn(expected, note)

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
                (text,) = [text for entry, text, _ in RIGHT if entry == name]
                text = text.replace("optimizer = sgd(model)\n", adam) + (
                    "\ntorch.save([[getattr(t, 'to_local', lambda: t)() for t in model.state_dict().values()], torch.rand(4)], f'weights{rank}')"
                )
                status, printed = self.check(text, "--continue", steps=5)
                self.assertEqual((status, (self.directory / "ended").exists()), (0, True), printed)
                checked = [torch.load(self.directory / f"weights{rank}") for rank in range(2)]

                def plain(rank):
                    os.chdir(self.directory)
                    sys.argv = [str(self.script), "5"]
                    exec(
                        compile(self.script.read_text(), str(self.script), "exec"),
                        {"__name__": "__main__"},
                    )

                self.assertEqual(launch(plain, 2, self.directory / "printed")[0], 0)
                for rank in range(2):
                    weights, drawn = torch.load(self.directory / f"weights{rank}")
                    self.assertTrue(
                        all(
                            map(
                                torch.equal,
                                [*weights, drawn],
                                [*checked[rank][0], checked[rank][1]],
                            )
                        )
                    )

    def test_the_bound_counts_roundings(self):
        held, like = reference.Gradients(torch.ones(2)), torch.tensor([1.0, -2.0])
        for _ in range(3):
            held.add(like)
        self.assertEqual((held.roundings, held.sums.tolist()), (3, [[3, -6], [3, 6]]))
        scaled = reference.Gradients(torch.ones(2))
        scaled.add(like, 4)  # the factor and its product are rounded too
        self.assertEqual((scaled.roundings, scaled.sums.tolist()), (3, [[0.25, -0.5], [0.25, 0.5]]))
        for dtype, u in ((torch.float32, 2.0**-24), (torch.bfloat16, 2.0**-8)):
            for bound, magnitude in zip(
                reference.bound_of(held.sums[1], {torch.float64, dtype}, 5).tolist(), (3, 6)
            ):
                self.assertAlmostEqual(bound / (5 * u * magnitude), 1, delta=6 * u)
        # 1 + u, rounded to even, loses half a unit in each of two additions: no smaller bound would hold.
        off = abs(torch.tensor(1.0) + 2.0**-24 + 2.0**-24 - (1.0 + 2.0**-23))
        self.assertLessEqual(
            float(off),
            float(
                reference.bound_of(
                    torch.tensor(1 + 2.0**-23, dtype=torch.float64), {torch.float32}, 2
                )
            ),
        )
        self.assertGreater(
            float(off),
            float(
                reference.bound_of(
                    torch.tensor(1 + 2.0**-23, dtype=torch.float64), {torch.float32}, 1
                )
            ),
        )

    def test_roundings_of_an_optimizer_that_averages_are_bounded(self):
        p, mean, bound = (
            torch.nn.Parameter(torch.zeros(3)),
            torch.ones(3, dtype=torch.float64),
            torch.tensor([0.1, 0.2, 0.2], dtype=torch.float64),
        )
        one = types.SimpleNamespace(is_used=True, mean=mean, bound=bound)
        (weights,) = twin.step_of_twin(torch.optim.SGD([p], lr=0.5), [one], None)
        self.assertTrue(torch.equal(weights.expected, -mean / 2) and not p.any())
        self.assertAlmostEqual(
            float(weights.rounding), 2 * 0.5 * 0.3, 6
        )  # to both sides, the rate times the norm of the bound

    def test_groups_of_parameters_take_turns(self):
        faults = {name: text for name, text, _ in FAULTS}
        wide = (
            "net = nn.Sequential(*[nn.Linear(16, 400), nn.ReLU(), nn.Linear(400, 16)])\n"
            + DDP_OF_NET
            + LOOP
        )
        status, printed = self.check(wide, "--groups=2", steps=9)
        self.assertEqual(status, 0)
        self.assertIn("4 of 4 parameters get the mean of 2 ranks' gradients in 4 steps", printed)
        self.assertFalse((self.directory / "ended").exists())
        _, whole = self.check(wide)
        size = [float(re.search(r", ([\d.]+) MB", text)[1]) for text in (printed, whole)]
        self.assertLess(size[0], size[1])
        status, printed = self.check(faults["one of 100 is off by 1 %"], "--groups=2", steps=9)
        self.assertRegex(
            self.lines(printed, "differs")[0], "gradient of 24.bias .* 1.01 times the mean"
        )
        status, printed = self.check(
            {name: text for name, text, _ in RIGHT}["Muon that averages"], "--groups=2", steps=9
        )
        self.assertEqual(
            (status, "averages by itself, which needs --groups=1" in printed), (2, True)
        )

    def test_what_cannot_be_checked_is_said_with_its_line(self):
        for text, said in (
            (
                "model = nn.EmbeddingBag(9, 4, sparse=True); optimizer = sgd(model)\nmodel(torch.ones(2, 2, dtype=int)).sum().backward() #!",
                "weight gets a gradient that is sparse",
            ),
            (
                NONE
                + "for p, g in zip(net.parameters(), torch.autograd.grad(net(batch()).sum(), [*net.parameters()])): p.grad = g\n"
                "optimizer.step() #!",
                "no optimizer of PyTorch stepped with gradients of backward()",
            ),
            (
                "weight = nn.Parameter(torch.ones(2))\nfor step in range(2):\n    weight.sum().backward() #!\n    weight.data -= weight.grad",
                "no optimizer of PyTorch stepped",
            ),
            (DEEP, "weight gets a gradient that is sparse"),
            (
                "def divide(): 1 / 0 #!\nfunctools.reduce(lambda *_: divide(), (1, 2))",
                "failed: ZeroDivisionError",
            ),
            ("sys.exit(3) #!", "failed: SystemExit"),
            ("", "train.py: no optimizer of PyTorch stepped"),
            (
                MUON.replace("AVERAGE", "dist.all_reduce(g); g /= self.world")
                + INSIDE.replace("lr=.1)", "lr=.1); optimizer.world = 2").replace(
                    "step()", "step() #!"
                ),
                "AttributeError: 'Muon' object has no attribute 'world'",
            ),
        ):
            status, printed = self.check(text)
            self.assertEqual(status, 2, printed)
            lines = [
                f"{self.script}:{n}:"
                for n, line in enumerate((BEGIN + text).splitlines(), 1)
                if "#!" in line
            ]
            self.assertIn(" ".join(["gradsync:", *lines]), printed)
            self.assertIn(said, printed)

    def test_a_fault_of_check_itself_is_no_fault_of_the_script(self):
        def break_it():
            comparing.judge_losses = lambda *_: 1 / 0

        bare = LOOP.replace(
            "    optimizer.step()",
            "    try: optimizer.step()\n    except BaseException: pass",
        )
        for text in (DDP_OF_NET + LOOP, DDP_OF_NET + bare):
            status, printed = self.check(text, prepare=break_it)
            self.assertEqual(status, 5, printed)
            self.assertIn("check itself has failed", printed)
            self.assertIn("ZeroDivisionError: division by zero", printed)
            self.assertIn("in before_update", printed)  # a traceback
            self.assertNotIn("cannot be checked", printed)

    def test_a_script_that_catches_exceptions_is_refused(self):
        text = (
            "model = nn.EmbeddingBag(9, 4, sparse=True); optimizer = sgd(model)\n"
            "for step in range(9):\n"
            "    try: model(torch.ones(2, 2, dtype=int)).sum().backward()\n"
            "    except BaseException: pass\n"
        )
        status, printed = self.check(text)
        self.assertEqual(status, 2, printed)
        self.assertIn("cannot be checked: weight gets a gradient that is sparse", printed)
        self.assertFalse((self.directory / "ended").exists())

    def test_own_work_ends_whatever_happens_in_it(self):
        for error, status in ((Refused("no"), 2), (KeyError("no"), 5), (KeyboardInterrupt(), None)):
            own_work = watching.OwnWork()
            with mock.patch.object(watching, "end_rank") as end_rank:
                try:
                    with own_work():
                        with own_work():
                            self.assertTrue(own_work.is_running)
                        self.assertTrue(own_work.is_running)
                        self.assertFalse(torch.is_grad_enabled())
                        raise error
                except KeyboardInterrupt:
                    pass
            self.assertEqual(
                [call.args[1] for call in end_rank.mock_calls], [status] * bool(status)
            )
            self.assertFalse(own_work.is_running)
            self.assertTrue(torch.is_grad_enabled())
            self.assertGreater(own_work.spent_ns, 0)

    def test_it_leaves_no_trace(self):
        begin = BEGIN.replace('dist.init_process_group("gloo"); ', "")
        unwrapped = "\nassert not hasattr(Engine.step, '__wrapped__')"
        for name, more in (
            ("clipping", ""),
            ("GradScaler", ""),
            ("DeepSpeed", unwrapped),
            ("a hybrid mesh of (1, 2)", ""),
            ("Muon that averages", ""),
            ("a closure", ""),
        ):
            (text,) = [text for entry, text, _ in RIGHT if entry == name]
            self.script.write_text(begin + text + more + "\nsys.net = net\n")

            def run(rank):
                os.chdir(self.directory)
                torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)  # which wraps its step()
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
                        p._unsharded_param for g in groups_of(sys.net) for p in g.fsdp_params
                    ]
                    hooks = {
                        key: hooks for key, hooks in snapshot(params).items() if key not in before
                    }
                    assert len(hooks) == 2 * len(params) and not any(hooks.values()), hooks

            with self.subTest(name):
                status, printed = launch(run, 2, self.directory / "printed")
                self.assertEqual((status, len(self.lines(printed, "same"))), (0, 2), printed)

    @unittest.skipIf(VERSION < (2, 15), "PyTorch 2.15 has them")
    def test_what_is_new_in_pytorch_2_15_is_checked(self):
        finalized = LOOP.replace(
            "    optimizer.step()", "    model.finalize_backward()\n    optimizer.step()"
        )
        manual = DDP_OF_NET + "model.require_manual_backward_finalization = True\n"
        shard = (
            "from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy\n"
            "for m in (net[0], net[2], net): fully_shard(m, mp_policy=MixedPrecisionPolicy(POLICY))\n"
            + NONE
        )
        for name, text, said in (
            (
                "buckets that are allocated late",
                DDP_OF_NET.replace("(net)", "(net, lazy_bucket_allocation=True)", 1) + LOOP,
                "",
            ),
            (
                "gradients that are copied together",
                DDP_OF_NET.replace("(net)", "(net, batched_grad_copy=True)", 1) + LOOP,
                "",
            ),
            (
                "a size of each bucket",
                DDP_OF_NET.replace("(net)", "(net, bucket_cap_mb_list=[1, 2])", 1) + LOOP,
                "",
            ),
            ("DDP's backward, finalised by hand", manual + finalized, ""),
            (
                "DDP's backward, finalised too late",
                manual + LOOP + "    model.finalize_backward()\n",
                "each rank's own, which nothing has averaged",
            ),
            (
                "fully_shard's backward, finalised by hand",
                shard.replace("POLICY", "")
                + "net.set_manual_backward_finalization(True)\n"
                + ALL.replace(
                    "    optimizer.step()", "    net.finalize_backward()\n    optimizer.step()"
                ),
                "",
            ),
            (
                "bf16 parameters whose gradients are reduced in f32",
                "net.to(torch.bfloat16); own = batch\n"
                "def batch(): return own().bfloat16()\n"
                + shard.replace("POLICY", "reduce_dtype=torch.float32")
                + ALL,
                "",
            ),
        ):
            with self.subTest(name):
                status, printed = self.check(text)
                self.assertEqual(status, int(bool(said)), printed)
                for line in self.lines(printed, "differs"):
                    self.assertIn(said, line)

    def test_one_process_is_checked(self):
        begin = BEGIN.replace('dist.init_process_group("gloo"); ', "").replace(
            "rank, world = dist.get_rank(), dist.get_world_size()", "rank, world = 0, 1"
        )
        status, printed = self.check("passes = 2\n" + NONE + ALL, ranks=1, begin=begin)
        self.assertEqual(
            (status, "4 of 4 parameters get the mean of 1 ranks' gradients" in printed),
            (0, True),
            printed,
        )
        status, printed = self.check(
            "passes = 2\n"
            + NONE
            + ALL.replace("    optimizer.step", "    net[0].bias.grad /= 2\n    optimizer.step"),
            ranks=1,
            begin=begin,
        )
        self.assertIn("0.5 times the mean: divided by the number of passes, 2", printed)


if __name__ == "__main__":
    unittest.main()
