"""What gradsync.record records, on two ranks over gloo, of models that are small enough to take milliseconds."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

sys.path.insert(0, "tools/pytorch")
from gradsync import record as recording
from gradsync.record import DDP, MIB

# What real scripts do: accumulate with require_backward_grad_sync toggled by hand, evaluate on rank 0 alone, clip, tie weights.
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
        self.embedding, self.unused, self.head = nn.Embedding(50, 64), nn.Linear(3, 3), nn.Linear(64, 50, bias=False)
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


HOOK = "model.register_comm_hook(None, default_hooks."

# A step of a model in DDP, which users may get wrong.
SMALL = """
import torch
import torch.distributed.optim
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
torch.distributed.init_process_group("gloo")
model, x = DDP(nn.Linear(8, 8)), torch.ones(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range({steps}):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 700), torch.nn.ReLU(),
                               torch.nn.Linear(700, 10))


def batch_of(rank):
    torch.manual_seed(1 + rank)
    return torch.randn(8, 64), torch.randint(10, (8,))


def average(model, rank):
    """The gradients of all ranks' batches, by DDP itself."""
    copy = DDP(model)
    inputs, targets = batch_of(rank)
    torch.nn.functional.cross_entropy(copy(inputs), targets).backward()
    return [p.grad.clone() for p in model.parameters()]


def check_on_two_ranks(rank, port, directory):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    expected = average(net(), rank)
    for views in (False, True):
        # Compiled code must synchronise as the kind of step asks, and be the same for all probes.
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        torch._dynamo.config.recompile_limit = 4
        backward, model = torch.autograd.backward, DDP(net(), gradient_as_bucket_view=views)
        optimizer = torch.optim.SGD(model.parameters(), lr=0)
        out = os.path.join(directory, f"{views}.jsonl")
        recorder, (inputs, targets) = recording.Recorder(model, out, rounds=2), batch_of(rank)
        called = torch.compile(model, backend="eager") if views else model
        while not recorder.done:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(called(inputs), targets).backward()
            mode = recorder.mode
            if mode[0] == "ddp" or mode[:2] in (("probe", "all_reduce"), ("probe", "bf16")):
                tolerance = 1e-2 if "bf16" in mode else 1e-5
                for p, e in zip(model.parameters(), expected):
                    torch.testing.assert_close(p.grad, e, rtol=tolerance, atol=tolerance, msg=str(mode))
            if mode[0] == "probe":
                inside = {slot.data_ptr() for slot in recorder.slots}
                assert all((p.grad.data_ptr() in inside) == views for p in model.parameters()), "views"
            assert model.require_backward_grad_sync, "left as the script had it"
            optimizer.step()
        assert torch.autograd.backward is backward
        assert len(recorder.plan) == 2 + len(recording.probes_of(recorder.flat.nbytes)) + 1
    row = recording.row_of(DDP(net(), bucket_cap_mb=2))
    assert (row["bucket_bytes"], row["first_bucket_bytes"]) == (2 * MIB, 2 * MIB), "a script's own size is that of all buckets"
    # Rank 0 writes alone.
    assert rank == 0 or not recorder.head.get("hosts")
    numels = [p.numel() for p in net().parameters()]
    zero = ZeroRedundancyOptimizer(net().parameters(), torch.optim.SGD, lr=1)
    parts = [[p.numel() for group in groups for p in group["params"]] for groups in zero._partition_parameters()]
    owner = recording.zero1_owners(numels, 2)
    assert sorted(parts[rank]) == sorted(n for n, o in zip(numels, owner) if o == rank)
    dist.destroy_process_group()


def what_if(*arguments):
    return subprocess.run([sys.executable, "-m", "gradsync", "what_if", *arguments], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.abspath("tools/pytorch")})


class RecordTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def test_probes_average_as_ddp_does(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torch.multiprocessing.spawn(check_on_two_ranks, (port, str(self.directory)), nprocs=2)
        for views in (False, True):
            launch = json.loads((self.directory / f"{views}.jsonl").read_text())
            self.assertEqual(launch["views"], views)
            self.assertEqual(launch["rows"][0]["bucket_bytes"], 25 * MIB)
            self.assertEqual(launch["rows"][0]["first_bucket_bytes"], MIB)
            self.assertEqual(sum(launch["rows"][0]["rebuilt_bucket_bytes"]), sum(p["bytes"] for p in launch["parameters"]))
            for steps in launch["ranks"]:
                self.check_steps(steps, launch)
            answer = what_if(self.directory / f"{views}.jsonl").stdout
            self.assertIn("6 parameters, 1.598 MB of gradients, SGD; 2 ranks over gloo on cpu", answer)
            self.assertIn("as the script has it", answer)
            self.assertNotIn("other buckets", answer)

    def check_steps(self, steps, launch):
        self.assertEqual([s["mode"] for s in steps].count("none"), 2)
        self.assertEqual([s["mode"] for s in steps].count("ddp"), 1)
        for before, after in zip(steps, steps[1:]):
            self.assertLessEqual(before["begin_ns"] + before["step_ns"], after["begin_ns"])
        # A round begins one step later in turn than the one before, so that no kind of step always follows the same one.
        self.assertEqual((steps[0]["mode"], steps[-1]["mode"]), ("probe", "none"))
        for s in steps:
            self.assertEqual(len(s["ready_ns"]), 6)
            if s["mode"] != "ddp":
                self.assertLessEqual(max(s["ready_ns"]), s["backward_ns"])
                self.assertLess(s["ready_ns"][5], s["ready_ns"][0])  # the last layer's is ready first
            sent = s.get("collectives", {"wall_ns": 0})
            parts = sum(s[k] for k in ("before_ns", "backward_ns", "rest_ns", "optimizer_ns")) + s.get("copy_back_ns", 0)
            self.assertLessEqual(parts + sent["wall_ns"], s["step_ns"])
            self.assertEqual("copy_back_ns" in s, s["mode"] == "probe" and not launch["views"])
            self.assertEqual("collectives" in s, s["mode"] == "probe")
            if s["mode"] == "probe":
                self.assertGreater(sent["cpu_ns"], 0)
            if s["mode"] == "probe" and sent["kind"] != "zero1":
                self.assertEqual(len(sent["ns"]), len(sent["bytes"]) * sent["in_flight"])
                self.assertLessEqual(sum(sent["ns"]) + sum(sent.get("in_ns", [])) + sum(sent.get("out_ns", [])), sent["wall_ns"])

    def run_script(self, steps, *flags, start=(os.path.abspath("tools/pytorch/gradsync/record.py"),), python=sys.executable, text=SCRIPT,
                   ranks=2):
        script, out = self.directory / "train.py", self.directory / "out.jsonl"
        script.write_text(text.replace("{steps}", str(steps)).replace("{ended!r}", repr(str(self.directory / "ended"))))
        done = subprocess.run([python, "-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--rdzv_backend=c10d",
                               "--rdzv_endpoint=localhost:0", *start, "--out=out.jsonl", "--rounds=2", *flags, str(script),
                               "--lr", "0.1"], capture_output=True, text=True, cwd=self.directory)
        return done, out

    def test_a_script_is_recorded_as_it_is(self):
        for flags in ([], ["--no-ddp"]):
            done, out = self.run_script(1000, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse((self.directory / "ended").exists())
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(len(lines), 2)  # a launch each
        for launch, modes in zip(lines, ({"none", "probe", "ddp"}, {"none", "probe"})):
            self.assertEqual({s["mode"] for s in launch["ranks"][1]}, modes)
            self.assertEqual(launch["passes"], 2)
            self.assertEqual(launch["rows"][0]["passes"], 2)
            self.assertEqual(launch["optimizer"], "AdamW")
            self.assertEqual(launch["command"], [str(self.directory / "train.py"), "--lr", "0.1"])
            self.assertFalse(launch["rows"][0]["bf16"])
            names = [p["name"] for p in launch["parameters"]]
            self.assertEqual(sorted(names), ["embedding.weight", "norm.bias", "norm.weight"])
        done, _ = self.run_script(1000, ranks=1)
        self.assertIn("out.jsonl holds launches that differ in world_size: record this one to another file", done.stderr)
        self.assertEqual(len(out.read_text().splitlines()), 2)
        for key in "command parameters world_size device backend passes views threads link_rate".split():
            with self.assertRaisesRegex(ValueError, f"differ in {key}:"):
                recording.check_kind(out, lines[0] | {key: "other"})

    def test_a_script_that_ends_too_early_is_named(self):
        done, _ = self.run_script(3)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("train.py took 3 steps, which are too few: ", done.stderr)

    def test_what_users_get_wrong_is_named(self):
        model, update = "DDP(nn.Linear(8, 8))", "    optimizer.step()\n"
        for found, changed, said, fails in (
                (model, "nn.Linear(8, 8)", ["trains without DistributedDataParallel", "used no Dist"], True),
                (update, "", ["before the step of an optimizer of torch.optim"], True),
                ("    model(x)", "    model(x).sum().backward()\n    model(x)", ["use no_sync in all passes but the last"], True),
                ("optimizer =", f"other = {model}\noptimizer =", ["the first model in DistributedData"], False),
                ("    model(x).sum().backward()\n" + update,
                 "    scaler = torch.amp.GradScaler('cpu', init_scale=2.**127)\n    scaler.scale(model(x).sum()).backward()\n"
                 "    scaler.step(optimizer)\n", ["GradScaler(enabled=False), which skips no step"], True),
                ("    model(x)", "    y = model(x)\n    nn.Linear(8, 8)(x).sum().backward()\n    y", [], False),
                (update, update + "    if step == 5: raise KeyboardInterrupt\n", ["was interrupted; nothing was recorded"], True),
                (model, model[:-1] + ", static_graph=True)", ["does not record DistributedDataParallel(static_graph"], True),
                ("optimizer =", HOOK + "fp16_compress_hook)\noptimizer =", ["with fp16_compress_hook: leave it out"], True),
                ("optimizer =", HOOK + "bf16_compress_hook)\noptimizer =", [], False),
                ("torch.optim.SGD(model.parameters(), ", "torch.distributed.optim.ZeroRedundancyOptimizer(model.parameters(), "
                 "torch.optim.SGD, ", ["does not record ZeroRedundancyOptimizer"], True),
                (update, update + "    torch.optim.SGD(list(model.parameters())[:1], lr=1).step()\n", ["that one optimizer ends"],
                 True),
                (model, f"torch.compile({model}, backend='eager')", ["7 steps of warm-up took", "records 14 steps"], False)):
            with self.subTest(changed):
                self.assertIn(found, SMALL)
                done, out = self.run_script(200, text=SMALL.replace(found, changed))
                self.assertEqual(done.returncode != 0, fails, done.stderr)
                self.assertEqual(out.exists(), not fails)
                if not fails:
                    self.assertEqual(json.loads(out.read_text())["rows"][0]["bf16"], "bf16_compress_hook" in changed)
                for text in said:
                    self.assertIn(text, done.stderr)
                lines = [line for line in done.stderr.splitlines() if line.startswith("gradsync: ")]
                self.assertEqual(len(lines), len(set(lines)), "said once, by one rank")
                out.unlink(missing_ok=True)

    def test_what_cannot_be_run_is_named_at_once(self):
        script = self.directory / "empty.py"
        script.write_text("")
        other = self.directory / "other.jsonl"
        other.write_text('{"command": ["train.py"]}\n')
        notes = self.directory / "notes.txt"
        notes.write_text("no steps\n")
        for flags, said in (([], "no script"), (["nowhere.py"], "no script nowhere.py"),
                            (["--rounds=1", script], "--rounds=1: expected at least 2"),
                            ([f"--out={self.directory}/no/file", script], "no/file cannot be written"),
                            ([f"--out={other}", script], "other.jsonl holds launches that differ in command"),
                            ([f"--out={notes}", script], "notes.txt holds launches that differ in command"),
                            ([script], "used no DistributedDataParallel; nothing was recorded")):
            done = subprocess.run([sys.executable, "tools/pytorch/gradsync/record.py", *flags], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)

        done = subprocess.run([sys.executable, "tools/pytorch/gradsync/record.py", "--help"], capture_output=True, text=True, check=True)
        self.assertIn("Not for a GradScaler", done.stdout)

    def test_one_process_has_steps_and_no_collectives(self):
        model, out = net(), self.directory / "alone.jsonl"
        optimizer = torch.optim.Adam(model.parameters())
        recording.record(model, optimizer, torch.nn.functional.cross_entropy, [batch_of(0)], out, rounds=3, passes=2)
        launch = json.loads(out.read_text())
        self.assertEqual([s["mode"] for s in launch["ranks"][0]].count("probe"), 2)
        self.assertEqual((launch["world_size"], launch["passes"], launch["optimizer"]), (1, 2, "Adam"))
        self.assertFalse(any("collectives" in s for s in launch["ranks"][0]))
        for link, status in ((["--link=25Gbit", "--world_size=8"], 0), ([], 2)):
            done = what_if(out, *link)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_the_package_records_where_nothing_else_is_installed(self):
        place = self.directory / "venv"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        python, packages = place / "bin/python", next(place.glob("lib/python3*/site-packages"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", os.path.abspath("tools/pytorch")], check=True)
        (packages / "torch.pth").write_text(os.path.dirname(os.path.dirname(torch.__file__)))
        done, out = self.run_script(1000, start=["-m", "gradsync", "record"], python=python)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Your step takes ", done.stdout)
        environment = {"PATH": ""}
        asked = subprocess.run([place / "bin/gradsync", "what_if", out, "--link=25Gbit", "--world_size=64"], env=environment,
                               check=True, capture_output=True, text=True)
        self.assertIn("Asked for 64 ranks (1 on a host), 25 Gbit/s and 5 us between hosts.", asked.stdout)
        refused = subprocess.run([python, "-m", "gradsync"], capture_output=True, text=True)
        self.assertIn("gradsync what_if FILE", refused.stderr)

    def test_what_cannot_be_recorded_is_named(self):
        model = net()
        model[0].bfloat16()
        with self.assertRaisesRegex(ValueError, "of one dtype.*bfloat16"):
            recording.Recorder(model)


if __name__ == "__main__":
    unittest.main()
