"""What scripts do, and what record makes of each: a recording, or one line that names the script's line. Two ranks over gloo."""

import datetime
import inspect
import json
import os
import pathlib
import re
import resource
import signal
import tempfile
import unittest

from run_ranks import launch, sys, torch

from gradsync import record, units, world
from gradsync.launch_file import UnusableFile, check_usable
from gradsync.launch_writer import AGREE
from gradsync.schema import Launch
from gradsync.torch_private import DDP

NEEDED = 15 + 2 * units.can_be_tried([torch.ones(1)])  # steps of two rounds and the first
BEGIN = """
import contextlib, copy, os, pickle, sys, torch, types, torch.distributed as dist, torch.nn.functional as F
import torch.multiprocessing as mp
from torch import nn
from torch.autograd import backward
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo"); torch.manual_seed(dist.get_rank())
x = torch.randn(8, 16)
class Mine:
    def __init__(self, model): self.params = list(model.parameters())
    def step(self):
        for p in self.params: p.data.sub_(p.grad, alpha=1e-3)
def sgd(model): return torch.optim.SGD(model.parameters(), lr=1e-3)
"""
MODEL = "model = DDP(nn.Linear(16, 16)); optimizer = sgd(model)\n"
LOOP = """
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
PASSES = """
for step in range(int(sys.argv[1])):
    passes = PASSES
    for i in range(passes):
        with contextlib.nullcontext() if i == passes - 1 else model.no_sync(): model(x).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
"""
CLOSURE = """
def closure():
    optimizer.zero_grad(); loss = model(x).square().mean(); loss.backward(); return loss
for step in range(int(sys.argv[1])): optimizer.step(CLOSURE)
"""
GAN = """
D = DDP(nn.Linear(16, 1)); G = DDP(nn.Linear(16, 16)); d, g = sgd(D), sgd(G)
for step in range(int(sys.argv[1])):
    fake = G(x)
    d.zero_grad(); D_STEP; d.step()
    D.requires_grad_(FROZEN); g.zero_grad(); D(fake).mean().backward(); g.step(); D.requires_grad_(True)
"""
LAYERS = """
class Net(nn.Module):
    def __init__(self): super().__init__(); self.l = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    def forward(self, x):
        x = self.l[0](x)
        for l in self.l[1:]: x = LAYER
        return x
"""
SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, {}); self.base = torch.optim.SGD(self.param_groups, lr=.1)
    @torch.no_grad()
    def move(self, by):
        for p in self.param_groups[0]["params"]: p.add_(p.grad, alpha=by)
        self.zero_grad()
    def step(self, closure=None):
        if closure is not None: self.move(.1); torch.enable_grad()(closure)()
        self.base.step()
model = DDP(nn.Linear(16, 16)); optimizer = SAM(model.parameters())
def closure(): model(x).square().mean().backward()
for step in range(int(sys.argv[1])): STEP
"""
# What DDP has since PyTorch 2.15.
IS_2_15 = "lazy_bucket_allocation" in inspect.signature(DDP.__init__).parameters
SINCE_2_15 = (
    ("buckets by and by", "lazy_bucket_allocation=True"),
    ("views of buckets by and by", "lazy_bucket_allocation=True, gradient_as_bucket_view=True"),
    ("copies by bucket", "batched_grad_copy=True"),
    ("both", "lazy_bucket_allocation=True, batched_grad_copy=True"),
)
BY_HAND = LOOP.replace("optimizer.step", "model.finalize_backward(); optimizer.step")
REFUSED_SINCE_2_15 = (
    (
        "sizes of buckets",
        "model = DDP(nn.Linear(16, 16), bucket_cap_mb_list=[1, 2]) #!\noptimizer = sgd(model)\n"
        + LOOP,
        "with bucket_cap_mb_list: use bucket_cap_mb",
    ),
    (
        "finalised by hand",
        "model = DDP(nn.Linear(16, 16)) #!\nmodel.require_manual_backward_finalization = True\n"
        "optimizer = sgd(model)\n" + BY_HAND,
        "with require_manual_backward_finalization: leave it out",
    ),
    (
        "finalised by hand from some step on",
        "model = DDP(nn.Linear(16, 16)) #!\noptimizer = sgd(model)\n"
        + LOOP.replace("int(sys.argv[1])", "5")
        + "model.require_manual_backward_finalization = True\n"
        + BY_HAND,
        "with require_manual_backward_finalization: leave it out",
    ),
)
LINEAR = [("weight", 256), ("bias", 16)]
NET = "model = nn.Linear(16, 16); optimizer = sgd(model)\n"

OTHERS = """
class Two(nn.Module):
    def __init__(self):
        super().__init__(); self.a = nn.Linear(16, 16); self.b = nn.Linear(16, 16).double(); self.c = nn.Linear(16, 16).bfloat16()
    def forward(self, x): return self.c(self.b(self.a(x).double()).bfloat16()).float()
def two(model): return torch.optim.SGD([model.module.weight], lr=1e-3), torch.optim.Adam([model.module.bias])
"""
SCALED = LOOP.replace(
    "model(x).square().mean()", "scaler.scale(model(x).square().sum() * 99)"
).replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")

# A name, the script behind BEGIN, and what its launch holds.
RECORDED = (
    ("closure", MODEL + CLOSURE.replace("CLOSURE", "closure"), {"passes": 1, "optimizer": "SGD"}),
    ("closure by name", MODEL + CLOSURE.replace("CLOSURE", "closure=closure"), {"passes": 1}),
    ("closure of a loss alone", MODEL + LOOP.replace("step()", "step(lambda: 1)"), {"passes": 1}),
    (
        "LBFGS",
        MODEL
        + "optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)"
        + CLOSURE.replace("CLOSURE", "closure"),
        {"optimizer": "LBFGS"},
    ),
    (
        "SAM by a closure",
        SAM.replace("STEP", "closure(); optimizer.step(closure); optimizer.zero_grad()"),
        {"optimizer": "SAM"},
    ),
    (
        "SAM without synchronising twice",
        SAM.replace(
            "STEP",
            "\n    with model.no_sync(): closure()\n    optimizer.move(.1); "
            "closure(); optimizer.step(); optimizer.zero_grad()",
        ),
        {"passes": 2},
    ),
    ("two views", MODEL + LOOP.replace("model(x)", "(model(x) - model(x + 1))"), {"passes": 1}),
    (
        "a forward for nothing",
        MODEL + "model(x)\n" + LOOP.replace("    opt", "    model(x)\n    opt", 1),
        {"passes": 1},
    ),
    (
        "a forward that fails and is repeated",
        MODEL
        + LOOP.replace(
            "    model", "    try: model(x[:, 1:])\n    except RuntimeError: pass\n    model"
        ),
        {"passes": 1},
    ),
    ("eval mode", MODEL + "model.eval()\n" + LOOP, {"passes": 1}),
    (
        "evaluation with gradients",
        MODEL + LOOP.replace("    opt", "    model.eval(); model(x); model.train()\n    opt", 1),
        {},
    ),
    (
        "a discriminator before its generator",
        GAN.replace("D_STEP", "(D(x) + D(fake.detach())).mean().backward()").replace(
            "FROZEN", "False"
        ),
        {"parameters": [("weight", 16), ("bias", 1)], "passes": 1},
    ),
    (
        "a teacher that is wrapped first",
        "teacher = DDP(nn.Linear(16, 8))\n"
        + MODEL
        + LOOP.replace("model(x)", "(model(x)[:, :8] - teacher(x).detach())"),
        {"parameters": [("weight", 256), ("bias", 16)]},
    ),
    (
        "two models of one optimizer",
        "a = DDP(nn.Linear(16, 8)); b = DDP(nn.Linear(8, 4)); optimizer = torch.optim.SGD("
        "[*a.parameters(), *b.parameters()], lr=.1); model = lambda x: b(a(x))\n"
        + LOOP.replace(
            "    optimizer.step()",
            "    mean = "
            "b.module.weight.grad.clone(); dist.broadcast(mean, 0); assert torch.equal(mean, b.module.weight.grad)\n    optimizer.step()\n"
            "    if step == 9: from gradsync.events import listeners; assert len(listeners) == 1",
        ),
        {"parameters": [("weight", 128), ("bias", 8)]},
    ),
    (
        "the last update of an epoch has fewer passes",
        MODEL + PASSES.replace("PASSES", "4 if step % 3 < 2 else 2", 1),
        {"passes": 4},
    ),
    (
        "small updates are more frequent",
        MODEL + PASSES.replace("PASSES", "8 if step % 3 == 0 else 1", 1),
        {"passes": 8},
    ),
    (
        "layers are dropped on some ranks",
        LAYERS.replace("LAYER", "l(x) if torch.rand(()) > .5 else x")
        + "model = DDP(Net(), find_unused_parameters=True); optimizer = sgd(model)\n"
        + LOOP,
        {"passes": 1},
    ),
    (
        "activations are computed again",
        LAYERS.replace("LAYER", "torch.utils.checkpoint.checkpoint(l, x, use_reentrant=True)")
        + "model = DDP(Net()); optimizer = sgd(model)\n"
        + LOOP,
        {"passes": 1},
    ),
    (
        "saved and copied",
        MODEL
        + LOOP
        + "    saved = pickle.dumps(model); copy.deepcopy(model)(x).mean().backward()\n"
        "    assert type(pickle.loads(saved)) is DDP and b'gradsync' not in saved\n",
        {},
    ),
    (
        "wrapped again",
        "net = nn.Sequential(nn.Linear(16, 4), nn.Linear(4, 16)); net[0].requires_grad_(False); model = DDP(net)\n"
        "optimizer = sgd(net)\n"
        + LOOP.replace(
            "    opt", "    if step == 9: model = DDP(net.requires_grad_(True))\n    opt", 1
        ),
        {"parameters": [("0.weight", 64), ("0.bias", 4), ("1.weight", 64), ("1.bias", 16)]},
    ),
    (
        "backward by its own name",
        MODEL
        + LOOP.replace("model(x).square().mean().backward()", "backward(model(x).square().mean())"),
        {},
    ),
    (
        "ignored by DDP",
        "net = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16, bias=False)); DDP."
        "_set_params_and_buffers_to_ignore_for_model(net, ['0.weight', '0.bias']); model = DDP(net); optimizer = sgd(net[1])\n"
        + LOOP,
        {"parameters": [("1.weight", 256)]},
    ),
    (
        "bare except",
        MODEL
        + LOOP.replace(
            "    model(x).square().mean().backward()\n    optimizer.step()",
            "    try: model(x).square().mean().backward(); optimizer.step()\n    except: print('went on')",
        ),
        {},
    ),
    (
        "the end of a script that catches all",
        "def main():\n    "
        + MODEL
        + LOOP.replace("\n", "\n    ")
        .replace("for step", "try:\n     for step")
        .replace("        ", "          ")
        + "\n    except BaseException: raise RuntimeError('caught')\nmain()\n",
        {},
    ),
    (
        "trained in a thread",
        MODEL
        + "def main():"
        + LOOP.replace("\n", "\n    ")
        + "\nimport threading; t = threading.Thread("
        "target=main); t.start(); t.join()\n",
        {},
    ),
    (
        "steps without gradients",
        MODEL + "optimizer.step()\n" + LOOP.replace("    model", "    optimizer.step()\n    model"),
        {},
    ),
    (
        "loading in processes",
        MODEL
        + LOOP.replace(
            "    model",
            "    for x in torch.utils.data.DataLoader(torch.randn(8, 16), 8, "
            "num_workers=1): pass\n    model",
        ),
        {},
    ),
    (
        "bf16 hook",
        MODEL + "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n" + LOOP,
        {},
    ),
    (
        "a scaler that skips nothing",
        MODEL
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.)\n"
        + LOOP.replace(
            "model(x).square().mean()", "scaler.scale(model(x).square().mean())"
        ).replace("optimizer.step()", "scaler.step(optimizer); scaler.update()"),
        {},
    ),
    (
        "a scaler that skips",
        MODEL
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
        + SCALED,
        {},
    ),
    (
        "two optimizers",
        OTHERS
        + MODEL
        + "a, b = two(model)\n"
        + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
        {"optimizer": "Adam and SGD"},
    ),
    (
        "an optimizer that steps seldom",
        OTHERS
        + MODEL
        + "a, b = two(model)\n"
        + LOOP.replace("optimizer.step()", "a.step(); step % 3 or b.step()"),
        {"optimizer": "Adam and SGD"},
    ),
    (
        "an object with step() after a teacher",
        "teacher = DDP(nn.Linear(16, 8))\n"
        + MODEL
        + "mine = Mine(model)\n"
        + LOOP.replace(
            "optimizer.step()",
            "assert step < 9 or '__call__' in vars(nn.Module) and nn.Module.__call__.__name__ != 'told'; mine.step()",
        ),
        {"parameters": LINEAR},
    ),
    (
        "an object with step()",
        MODEL + "mine = Mine(model)\n" + LOOP.replace("optimizer.step()", "mine.step()"),
        {"optimizer": "no optimizer of torch.optim"},
    ),
    (
        "several dtypes",
        OTHERS + "model = DDP(Two()); optimizer = sgd(model)\n" + LOOP,
        {
            "parameters": [
                (f"{name}.{part}", n)
                for name in "abc"
                for part, n in (("weight", 256), ("bias", 16))
            ]
        },
    ),
    (
        "static graph",
        "model = DDP(nn.Linear(16, 16), static_graph=True); optimizer = sgd(model)\n" + LOOP,
        {},
    ),
    (
        "complex and empty",
        LAYERS.replace("nn.Linear(16, 16) for _ in range(4)", "")
        .replace("x = self.l[0](x)", "x = x[:4] * self.c.abs() + self.e.sum().abs()")
        .replace(
            "__init__();",
            "__init__(); self.c = nn.Parameter(torch.ones(16, dtype=torch.cfloat)); self.e = "
            "nn.Parameter(self.c[:0].detach());",
        )
        + "model = DDP(Net()); optimizer = sgd(model)\n"
        + LOOP,
        {"parameters": [("c", 16)]},
    ),
)
# A name, the script behind BEGIN with #! in the line that is named, and what is said.
TWICE = "gradients come again after those of this step were synchronised"
HERE = LOOP.replace("step()", "step() #!")
BACK = LOOP.replace("backward()", "backward() #!")
REFUSED = (
    ("join", MODEL + "with model.join():" + BACK.replace("\n", "\n    "), "within join()"),
    (
        "module called",
        MODEL + BACK.replace("model(x)", "model.module(x)"),
        "call what DistributedDataParallel returned",
    ),
    (
        "module called in eval mode",
        MODEL
        + "model.eval()\n"
        + LOOP.replace("int(sys.argv[1])", "3")
        + BACK.replace("model(x)", "model.module(x)"),
        "call what DistributedDataParallel returned",
    ),
    (
        "sparse",
        "model = DDP(nn.EmbeddingBag(99, 4, sparse=True)); optimizer = sgd(model); x = torch.arange(8).view(2, 4)\n"
        + BACK,
        "weight gets a sparse gradient",
    ),
    ("spawned", "mp.spawn(sgd) #!", "starts processes"),
    ("forked", "mp.start_processes(sgd, start_method='fork') #!", "starts processes"),
    (
        "trains in a child",
        "if os.fork() == 0:\n    DDP(nn.Linear(1, 1)) #!\nsys.exit(os.waitstatus_to_exitcode(os.wait()[1]))",
        "trains in a process that the script started",
    ),
    ("no optimizer", MODEL + BACK.replace("optimizer.step()", "pass"), TWICE),
    (
        "an object with step() and passes",
        MODEL
        + "mine = Mine(model)\n"
        + PASSES.replace("PASSES", "2")
        .replace("optimizer.step()", "mine.step()")
        .replace("backward()", "backward() #!"),
        "several passes and no optimizer of torch.optim",
    ),
    (
        "gradients that the script averages",
        NET
        + HERE.replace(
            "    opt", "    for p in model.parameters(): dist.all_reduce(p.grad)\n    opt"
        ).replace("    for p in model.parameters(): dist.all_reduce(p.grad)\n", "", 1),
        "trains without DistributedDataParallel",
    ),
    (
        "every pass synchronises",
        MODEL
        + LOOP.replace(
            "    optimizer.step()", "    model(x).mean().backward() #!\n    optimizer.step()"
        ),
        TWICE,
    ),
    (
        "two losses",
        MODEL
        + LOOP.replace(
            "model(x).square().mean().backward()",
            "y = model(x); y.mean().backward(retain_graph=True)\n"
            "    y.square().mean().backward() #!",
        ),
        TWICE,
    ),
    (
        "ZeRO",
        MODEL
        + "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1)"
        + HERE,
        "use the optimizer that",
    ),
    (
        "a hook",
        "model = DDP(nn.Linear(16, 16)) #!\nmodel.register_comm_hook(None, default_hooks.fp16_compress_hook)\n"
        "optimizer = sgd(model)\n" + LOOP,
        "with fp16_compress_hook: leave it out",
    ),
    (
        "groups",
        "model = DDP(nn.Linear(16, 16), process_group=[dist.new_group([r]) for r in (0, 1)][dist.get_rank()]) #!\n"
        "optimizer = sgd(model)\n" + LOOP,
        "of a part of the ranks",
    ),
    (
        "within another",
        "model = DDP(nn.Sequential(DDP(nn.Linear(16, 16)))) #!\noptimizer = sgd(model)\n" + LOOP,
        "within another",
    ),
    ("no DDP", NET + "optimizer.step()\n" + HERE, "without DistributedDataParallel"),
    (
        "never synchronised",
        MODEL + "with model.no_sync():" + HERE.replace("\n", "\n    "),
        "that no backward synchronised",
    ),
    (
        "other passes on each rank",
        MODEL
        + PASSES.replace("PASSES", "2 + dist.get_rank()", 1)
        .replace("pass\n", "pass #!\n")
        .replace("backward()", "backward() #!"),
        "ranks took different numbers of passes",
    ),
    (
        "more passes later",
        MODEL
        + PASSES.replace("PASSES", "1 if step < 9 else 3", 1).replace("step();", "step(); #!\n   "),
        "steps had 1 passes, which are recorded, and have 3 now",
    ),
    (
        "a discriminator that synchronises twice",
        GAN.replace(
            "D_STEP; d", "D(x).mean().backward()\n    D(fake.detach()).mean().backward() #!\n    d"
        ).replace("FROZEN", "True"),
        TWICE,
    ),
)
# The same without any distributed code, in one process.
PLAIN_PASSES = PASSES.replace(
    "with contextlib.nullcontext() if i == passes - 1 else model.no_sync(): ", ""
)
PLAIN_GAN = (
    GAN.replace("DDP", "")
    .replace("D_STEP", "D(x).mean().backward(); D(fake.detach()).mean().backward()")
    .replace("FROZEN", "True")
)
ALONE = (
    (
        "a loop",
        NET + LOOP,
        {"parameters": LINEAR, "passes": 1, "optimizer": "SGD", "world_size": 1},
    ),
    (
        "a module that holds the model",
        LAYERS.replace("LAYER", "l(x)") + "net = Net(); teacher = nn.Linear(16, 16); copied = copy."
        "deepcopy(net); loss = nn.MSELoss(); optimizer = sgd(net)\ncopied(x); net.l[0](x)\ndef model(x): return loss(net(x), teacher(x)."
        "detach() + copied(x).detach())\n" + LOOP,
        {"parameters": [(f"l.{i}.{n}", k) for i in range(4) for n, k in LINEAR]},
    ),
    (
        "a module that holds a teacher",
        "class Both(nn.Module):\n    def __init__(self): super().__init__(); self.t, self.s = nn.Linear("
        "16, 16), nn.Linear(16, 16)\n    def forward(self, x):\n        with torch.no_grad(): t = self.t(x)\n        return self.s(x) - t\n"
        "model = Both(); optimizer = sgd(model)\n" + LOOP,
        {"parameters": [("s.weight", 256), ("s.bias", 16)]},
    ),
    (
        "another model between",
        NET
        + "other = nn.Linear(16, 16); another = sgd(other)\n"
        + LOOP
        + "    other(x).mean().backward(); another.step()\n",
        {"parameters": LINEAR},
    ),
    (
        "parts that nothing holds",
        "a, b = nn.Linear(16, 4), nn.Linear(4, 16); optimizer = torch.optim.SGD([*a.parameters(), *b."
        "parameters()], lr=1e-3)\ndef model(x): return b(a(x))\n" + LOOP,
        {"parameters": [("0.weight", 64), ("0.bias", 4), ("1.weight", 64), ("1.bias", 16)]},
    ),
    (
        "a frozen part",
        "model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 8)); model[0].requires_grad_(False); "
        "optimizer = sgd(model)\n" + LOOP,
        {"parameters": [("1.weight", 64), ("1.bias", 8)]},
    ),
    ("passes", NET + PLAIN_PASSES.replace("PASSES", "4"), {"passes": 4}),
    (
        "the last update of an epoch has fewer passes",
        NET + PLAIN_PASSES.replace("PASSES", "2 if step % 3 == 0 else 4"),
        {"passes": 4},
    ),
    (
        "the first steps have fewer passes",
        NET + PLAIN_PASSES.replace("PASSES", "4 if step > 1 else 1"),
        {"passes": 4},
    ),
    (
        "two optimizers",
        OTHERS
        + NET
        + "a, b = two(types.SimpleNamespace(module=model))\n"
        + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
        {"parameters": LINEAR, "optimizer": "Adam and SGD"},
    ),
    ("a closure", NET + CLOSURE.replace("CLOSURE", "closure"), {"passes": 1}),
    (
        "compiled",
        "model = torch.compile(nn.Linear(16, 16), backend='eager'); optimizer = sgd(model)\n"
        + LOOP,
        {"parameters": [("_orig_mod.weight", 256), ("_orig_mod.bias", 16)]},
    ),
    (
        "compiled in place",
        NET + "model.compile(backend='eager', fullgraph=True)\n" + LOOP,
        {"parameters": LINEAR},
    ),
    (
        "compiled by block",
        LAYERS.replace("LAYER", "l(x)")
        + "model = Net(); optimizer = sgd(model)\nfor l in model.l: l.compile("
        "backend='eager', fullgraph=True)\n" + LOOP,
        {},
    ),
    (
        "a scaler that skips",
        NET
        + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
        + SCALED,
        {},
    ),
    ("eval mode", NET + "model.eval()\n" + LOOP, {"passes": 1}),
    (
        "validated",
        NET + LOOP + "    model.eval()\n    with torch.no_grad(): model(x)\n    model.train()\n",
        {"passes": 1},
    ),
    (
        "an object with step()",
        NET + "mine = Mine(model)\n" + LOOP.replace("optimizer.step()", "mine.step()"),
        {"optimizer": "no optimizer of torch.optim"},
    ),
    (
        "saved",
        NET
        + LOOP
        + "    assert b'gradsync' not in pickle.dumps(model) + pickle.dumps(optimizer.state_dict())\n",
        {},
    ),
    ("a discriminator", PLAIN_GAN, {"parameters": [("weight", 16), ("bias", 1)], "passes": 3}),
)


class ScriptTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.out = self.directory / "out.jsonl"
        self.script = self.directory / "train.py"

    def record(
        self, text, *flags, steps=120, ranks=2, setup=lambda rank: None, arguments=None, alone=False
    ):
        begin = (
            "\n".join(
                line for line in BEGIN.splitlines() if not alone or "init_process_group" not in line
            )
            + "\n"
        )
        self.script.write_text(begin + text + "\nopen('ended', 'w')\n")
        (self.directory / "ended").unlink(missing_ok=True)

        def run(rank):
            os.chdir(self.directory)
            setup(rank)
            record.main(
                [
                    f"--out={self.out}",
                    "--rounds=2",
                    *flags,
                    *([str(self.script), str(steps)] if arguments is None else arguments),
                ]
            )

        return launch(run, 1 if alone else ranks, self.directory / "printed")

    def said(self, printed):
        return [
            line
            for line in printed.splitlines()
            if line.startswith("gradsync: ")
            and not re.match(r"gradsync: (recorded;|records|\d+ steps of warm-up)", line)
        ]

    def test_what_scripts_do_is_recorded(self):
        for name, text, expected in RECORDED:
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text)
                if status and re.search(
                    r"in _sync_module_states\n(.*\n)*.*Invalid scalar|'persistent_id' is read-only",
                    printed,
                ):
                    continue  # DDP cannot send complex numbers in PyTorch 2.5, nor can that be saved with Python 3.13
                self.assertEqual(status, 0, printed)
                self.assertEqual((self.directory / "ended").exists(), name == "trained in a thread")
                head = json.loads(self.out.read_text())
                head["parameters"] = [(p["name"], p["numel"]) for p in head["parameters"]]
                self.assertEqual(expected, {key: head[key] for key in expected})
                kinds = len(head["ranks"][0])
                self.assertIn(kinds, (7, 8))
                for steps in head["ranks"]:
                    self.assertEqual(
                        sorted({step["mode"] for step in steps}), ["ddp", "none", "probe"]
                    )
                    for step in steps:
                        parts = sum(
                            step.get(part, 0)
                            for part in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")
                        )
                        self.assertLessEqual(0 < parts, parts <= step["step_ns"])
                        least = -1 if name == "layers are dropped on some ranks" else 0
                        self.assertTrue(
                            all(least <= ready <= step["backward_ns"] for ready in step["ready_ns"])
                        )
                self.assertEqual(len(re.findall("went on", printed)), 2 * (name == "bare except"))

    def test_scripts_for_one_process_are_recorded(self):
        for name, text, expected in ALONE:
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text, alone=True)
                if "Dynamo is not supported" in printed:
                    continue  # PyTorch 2.5 compiles nothing with Python 3.13
                self.assertEqual((status, self.said(printed)), (0, []), printed)
                self.assertIn(
                    f"recorded; ask: gradsync what_if {self.out} --link=25Gbit,5us --world_size=8",
                    printed,
                )
                self.assertFalse((self.directory / "ended").exists())
                head = json.loads(self.out.read_text())
                head["parameters"] = [(p["name"], p["numel"]) for p in head["parameters"]]
                self.assertEqual(expected, {key: head[key] for key in expected})
                (steps,) = head["ranks"]
                self.assertEqual([step["mode"] for step in steps].count("probe"), 1)
                for step in steps:
                    parts = sum(
                        step.get(part, 0)  # which is left out
                        for part in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")
                    )
                    self.assertLessEqual(0 < parts, parts <= step["step_ns"])
                    self.assertTrue(
                        all(0 <= ready <= step["backward_ns"] for ready in step["ready_ns"])
                    )
                    self.assertEqual(
                        "between_ns" in step,
                        # Behind what is no optimizer nothing tells when the update has ended.
                        name
                        not in (
                            "another model between",
                            "a scaler that skips",
                            "an object with step()",
                        ),
                    )

    def test_an_optimizer_that_steps_within_backward_is_refused(self):
        """Its first step shows the model, in the middle of a backward."""
        text = (
            NET + "model.weight.register_post_accumulate_grad_hook(lambda p: optimizer.step()) #!\n"
        )
        _, printed = self.record(text + LOOP.replace("optimizer.step()", "pass"), alone=True)
        (said,) = self.said(printed)
        self.assertIn("an optimizer steps with gradients that no backward synchronised", said)

    def test_the_model_can_be_named(self):
        self.assertEqual(self.record(PLAIN_GAN, "--model=2", alone=True)[0], 0)
        self.assertEqual(
            [p["numel"] for p in json.loads(self.out.read_text())["parameters"]], [256, 16]
        )
        self.out.unlink()
        self.assertIn(
            "which (--model=3); nothing was recorded",
            self.record(PLAIN_GAN, "--model=3", alone=True)[1],
        )
        text = GAN.replace(
            "D_STEP", "D(x).mean().backward(); D(fake.detach()).mean().backward()"
        ).replace("FROZEN", "True")
        self.assertEqual(self.record(text, "--model=2")[0], 0)
        self.assertEqual(
            [p["numel"] for p in json.loads(self.out.read_text())["parameters"]], [256, 16]
        )

    def test_training_goes_on_as_without_the_recorder(self):
        """Bit for bit, on each rank."""
        norm = "net = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(.1), nn.Linear(16, 16))\n"
        momentum = "optimizer = torch.optim.SGD(model.parameters(), lr=.1, momentum=.9)\n"
        zeros = LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)")
        clipped = PASSES.replace("PASSES", "2").replace(
            "optimizer.step()", "nn.utils.clip_grad_norm_(model.parameters(), .1); optimizer.step()"
        )
        dropped = LAYERS.replace("LAYER", "l(x) if torch.rand(()) > .5 else x")
        for name, text in (
            ("statistics of batches", norm + "model = DDP(net)\n" + momentum + LOOP),
            ("views", norm + "model = DDP(net, gradient_as_bucket_view=True)\n" + momentum + zeros),
            (
                "gradients that stay",
                norm
                + "model = DDP(net); optimizer = sgd(model)\n"
                + LOOP.replace("optimizer.zero_grad()", "step % 5 or optimizer.zero_grad()"),
            ),
            (
                "passes and clipping",
                norm
                + "model = DDP(net)\noptimizer = torch.optim.AdamW(net.parameters())\n"
                + clipped,
            ),
            (
                "layers that are dropped",
                dropped + "model = DDP(Net(), find_unused_parameters=True)\n" + momentum + LOOP,
            ),
            (
                "passes that drop layers",
                dropped
                + "model = DDP(Net(), find_unused_parameters=True)\n"
                + momentum
                + PASSES.replace("PASSES", "2").replace(
                    "zero_grad()", "zero_grad(set_to_none=False)"
                ),
            ),
            (
                "bf16 hook",
                "model = DDP(nn.Linear(16, 16)); model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n"
                + momentum
                + LOOP,
            ),
            (
                "a scaler",
                MODEL
                + "scaler = torch.amp.GradScaler('cpu', init_scale=2.**127, growth_interval=9)\n"
                + SCALED,
            ),
            ("several dtypes", OTHERS + "model = DDP(Two())\n" + momentum + LOOP),
            ("static graph", norm + "model = DDP(net, static_graph=True)\n" + momentum + LOOP),
            *(
                (name, norm + f"model = DDP(net, {options})\n" + momentum + zeros)
                for name, options in SINCE_2_15
                if IS_2_15
            ),
            (
                "two optimizers",
                OTHERS
                + MODEL
                + "a, b = two(model)\n"
                + LOOP.replace("optimizer.step()", "a.step(); b.step()"),
            ),
        ):
            if name == "passes that drop layers" and torch.__version__ < "2.5":
                continue  # where what only earlier passes brought is not averaged
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                text += "\ntorch.save(model.state_dict(), f'weights{dist.get_rank()}')\n"
                status, printed = self.record(text, "--continue", steps=70)
                self.assertEqual(status, 0, printed)
                self.assertTrue(self.out.exists())

                def plain(rank):
                    os.chdir(self.directory)
                    sys.argv = [str(self.script), "70"]
                    exec(
                        compile(self.script.read_text(), str(self.script), "exec"),
                        {"__name__": "__main__"},
                    )

                recorded = [torch.load(self.directory / f"weights{rank}") for rank in range(2)]
                self.assertEqual(launch(plain, 2, self.directory / "printed")[0], 0)
                for rank in range(2):
                    weights = torch.load(self.directory / f"weights{rank}")
                    self.assertEqual(weights.keys(), recorded[rank].keys())
                    for key in weights:
                        self.assertTrue(torch.equal(weights[key], recorded[rank][key]), (rank, key))

    def test_what_cannot_be_recorded_is_refused_in_one_line(self):
        for name, text, expected in (*REFUSED, *(REFUSED_SINCE_2_15 if IS_2_15 else ())):
            with self.subTest(name):
                self.out.unlink(missing_ok=True)
                status, printed = self.record(text)
                self.assertEqual(status, 1, printed)
                self.assertFalse((self.directory / "ended").exists())
                self.assertFalse(self.out.exists())
                said = self.said(printed)
                self.assertEqual(len(said), 1, printed)
                self.assertIn(expected, said[0])
                lines = [
                    f"{self.script}:{n}"
                    for n, line in enumerate((BEGIN + text).splitlines(), 1)
                    if "#!" in line
                ]
                self.assertIn(said[0].split(": ")[1], lines)

    def test_other_models_are_named(self):
        for name, said in (
            ("wrapped again", "wrapped again"),
            ("a discriminator before its generator", "this one of 2 models"),
            ("two views", None),
        ):
            (text,) = [text for entry, text, _ in RECORDED if entry == name]
            _, printed = self.record(text)
            self.assertEqual(
                [said in line for line in self.said(printed)], [True] if said else [], printed
            )
            self.out.unlink()

    def test_each_call_of_a_closure_is_a_step(self):
        (text,) = [text for entry, text, _ in RECORDED if entry == "LBFGS"]
        self.assertEqual(self.record(text, steps=6)[0], 0)  # three calls each
        self.out.unlink()
        self.assertIn(
            f"took 12 steps, which are too few: {NEEDED} are needed", self.record(text, steps=4)[1]
        )

    def test_a_script_that_ends_without_a_recording_says_so(self):
        for text, said in (
            (MODEL + LOOP, f"train.py 5 took 5 steps, which are too few: {NEEDED} are needed"),
            (
                MODEL + LOOP + "sys.exit(0)",
                f"train.py 5 took 5 steps, which are too few: {NEEDED} are needed",
            ),
            (
                "",
                "trained no model, or too few steps to tell which (--model=1); nothing was recorded",
            ),
            (
                "for epoch in range(3):\n    "
                + MODEL.replace("; ", "\n    ")
                + LOOP.replace("\n", "\n    "),
                f"took 5 steps, which are too few: {NEEDED} are needed",
            ),
            (
                MODEL + LOOP + "    if step == 3: raise KeyboardInterrupt",
                "was interrupted; nothing was recorded",
            ),
        ):
            status, printed = self.record(text, steps=5)
            self.assertEqual(status, 1)
            self.assertEqual(len(self.said(printed)), 1, printed)
            self.assertIn(said, printed)
        for text, said in (
            (MODEL + "1 / 0", "ZeroDivisionError"),
            ("sys.exit('my own words')", "my own words"),
        ):
            status, printed = self.record(text)
            self.assertEqual((status, self.said(printed)), (1, []))
            self.assertIn(said, printed)

    def test_ranks_that_are_not_recorded_are_noticed(self):
        def alone(rank):
            world.WAIT = datetime.timedelta(seconds=1)
            if rank == 1:
                sys.argv = [str(self.script), "120"]
                exec(
                    compile(self.script.read_text(), str(self.script), "exec"),
                    {"__name__": "__main__"},
                )

        status, printed = self.record(MODEL + LOOP, setup=alone)
        self.assertEqual(status, 1)
        self.assertIn("not all ranks are recorded", self.said(printed)[0])

    def test_modules_are_recorded(self):
        package = self.directory / "pkg"
        package.mkdir()
        (package / "__init__.py").write_text(BEGIN)
        (package / "train.py").write_text(
            "from . import *\nfrom . import F, dist\nassert sys.argv[1] == '120', sys.argv\n"
            + MODEL
            + LOOP
        )
        path = lambda rank: sys.path.insert(0, "")  # as python -m has it
        for arguments in (["-m", "pkg.train", "120"], ["--", str(self.script), "120"]):
            status, printed = self.record(MODEL + LOOP, arguments=arguments, setup=path)
            self.assertEqual(status, 0, printed)
            self.assertEqual(
                json.loads(self.out.read_text())["command"], arguments[arguments[0] == "--" :]
            )
            self.out.unlink()
        (package / "__init__.py").write_text("")
        (package / "broken.py").write_text("import nowhere")
        for arguments, said in (
            (["-m", "pkg.none"], "no module pkg.none"),
            (["-m", "none.none"], "no module none.none"),
            (["-m"], "no module"),
            ([], "no script"),
            (["none.py"], "no script none.py"),
            (["--rounds=1", "train.py"], "--rounds=1: expected at least 2"),
            (["--rounds=x"], "invalid int"),
            ([f"--out={self.directory}", "train.py"], "cannot be written, or is no file"),
            (["--out=/dev/full", "train.py"], "cannot be written, or is no file"),
            ([f"--out={self.directory}/no/file", "train.py"], "cannot be written"),
        ):
            with self.subTest(said):
                status, printed = self.record("", arguments=arguments, setup=path, ranks=1)
                self.assertEqual((status, len(self.said(printed))), (2, 1), printed)
                self.assertIn(said, printed)
        self.assertIn(
            "No module named 'nowhere'",
            self.record("", arguments=["-m", "pkg.broken"], setup=path, ranks=1)[1],
        )

    def test_a_launch_is_written_whole_or_not_at_all(self):
        def full(rank):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 1000, len(first) + 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        self.assertEqual(self.record(MODEL + LOOP)[0], 0)
        first = self.out.read_text()
        status, printed = self.record(MODEL + LOOP, setup=full)
        self.assertEqual(status, 1)
        self.assertIn("out.jsonl was left as it was: File too large", self.said(printed)[0])
        self.assertEqual(self.out.read_text(), first)
        self.assertEqual(
            sorted(p.name for p in self.directory.iterdir()), ["out.jsonl", "printed", "train.py"]
        )
        with open(self.out) as before:
            self.assertEqual(self.record(MODEL + LOOP)[0], 0)
            self.assertEqual(before.read(), first)  # who reads meanwhile sees no part of a launch
        self.assertEqual(self.out.read_text()[: len(first)], first)
        self.assertEqual(len(self.out.read_text().splitlines()), 2)

    def test_launches_of_another_kind_are_refused(self):
        self.assertEqual(self.record(MODEL + LOOP)[0], 0)
        launch = json.loads(self.out.read_text())
        own = Launch.from_json(launch)
        own = {field: getattr(own, field) for field in AGREE}
        check_usable(str(self.out), **own)
        check_usable(str(self.out), **(own | {"hosts": ("other", "other")}))
        for field in AGREE:
            other = ("one", "two") if isinstance(own[field], tuple) else "other"
            with self.assertRaisesRegex(UnusableFile, f"differ in {field}:"):
                check_usable(str(self.out), **(own | {field: other}))
        for change in (
            {"torch": "1.0"},
            {"optimizer": "AdamW"},
            {"cores": 99},
            {"processor": "68000"},
            {"passes": 3},
        ):
            self.out.write_text(json.dumps(launch | change) + "\n")
            status, printed = self.record(MODEL + LOOP)
            self.assertEqual(status, 2)
            self.assertIn(
                f"out.jsonl holds launches that differ in {[*change][0]}: record this one to another file",
                printed,
            )
            self.assertEqual(len(self.said(printed)), 1)
        for text in ("notes\n", "{\n", "3\n", "[]\n"):
            self.out.write_text(text)
            self.assertIn("is no recording, to which", self.record(MODEL + LOOP)[1])
            self.assertEqual(self.out.read_text(), text)

    def test_a_pytorch_that_was_not_tried_is_named(self):
        for version, said in (
            ("2.2.1", True),
            ("2.3.0+cpu", False),
            ("2.15.1", False),
            ("2.99.0a0+git", True),
            ("3.0.0", True),
        ):

            def pretend(rank):
                torch.__version__ = version

            _, printed = self.record("", setup=pretend, arguments=["none.py"], ranks=1)
            self.assertEqual(
                f"PyTorch {version} was never tried; 2.3 to 2.15 were" in printed, said, printed
            )


if __name__ == "__main__":
    unittest.main()
