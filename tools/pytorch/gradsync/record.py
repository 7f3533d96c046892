#!/usr/bin/env python3
"""Records what a step of a PyTorch model costs, so that `what_if` can predict DistributedDataParallel (DDP) for it.

    torchrun --nproc_per_node=2 -m gradsync record [--out=FILE] [--rounds=N] [--no-ddp] train.py ARGS...

runs a script that uses DDP, as it is, and ends it after enough steps. In one's own loop: make a Recorder(model, FILE) of any
module or DDP, and loop until it is `done`; record() is such a loop. Needs PyTorch 2.1 and nothing else. Without a process
group nothing is communicated: what_if then has to be told a link.

Steps take turns. `none` does not synchronise. A `probe` does to memory what DDP does and overlaps nothing: it copies each
gradient into a flat buffer as it is ready (and leaves a view of it, if DDP has gradient_as_bucket_view), communicates the
buffer in pieces after backward, and copies gradients back that are no views. `ddp` is the script's own. A step begins with
the first forward in training after the optimizer's last step, behind a barrier, and ends with the optimizer's next one.

NOT_RECORDED below says what this is not for. A compiled model compiles in the warm-up round. Of several models the first
that DDP wraps is recorded.

FILE gets a line of JSON for each launch; record several, because memory lies elsewhere in each. Times are nanoseconds of
the host's monotonic clock, on a GPU of events. recording.py reads the fields:

    {"gradsync_torch": 1, "time", "torch", "command": [], "device", "backend", "world_size", "hosts": [by rank], "threads",
     "cores", "optimizer", "passes", "views", "link_rate", "parameters": [{"name", "numel", "bytes"}],
     "rows": [{"name", "bucket_bytes", "first_bucket_bytes", "bf16", "zero1", "passes", "rebuilt_bucket_bytes"}],
     "ranks": [rank: [step: {"mode", "row", "begin_ns", "before_ns", "backward_ns", "ready_ns", "copy_back_ns", "rest_ns",
        "optimizer_ns", "step_ns", "collectives": {"kind", "bytes", "in_flight", "ns", "in_ns", "out_ns", "wall_ns", "cpu_ns"}}]]}
"""
import argparse
import datetime
import itertools
import json
import os
import platform
import runpy
import sys
import time

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

DDP = torch.nn.parallel.DistributedDataParallel
MIB = 1 << 20
NOT_RECORDED = """Not for a GradScaler that skips steps (ranks that do not synchronise would skip different ones), parameters of
several dtypes or devices, static_graph, hooks of communication but bf16_compress_hook, ZeroRedundancyOptimizer, several
optimizers of one model, FSDP, or processes that the script starts itself (mp.spawn): start those by torchrun."""
KIND = ("command", "parameters", "world_size", "device", "backend", "passes", "views", "threads", "link_rate")
PIECES = (MIB // 16, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
MOST_PIECES = 128  # of a probe: with the smallest pieces more say nothing new


def probes_of(total_bytes):
    """(kind, bytes of a piece, in flight) of each probe."""
    sizes = [p for p in PIECES if 2 * p <= total_bytes] + [total_bytes]
    return [*(("all_reduce", size, 1) for size in sizes), *(("all_reduce", size, 0) for size in sizes[1:-1]),
            ("bf16", min(MIB, total_bytes), 1), ("bf16", min(16 * MIB, total_bytes), 1), ("zero1", total_bytes, 0)]


def zero1_owners(numels, world_size):
    """Which rank ZeroRedundancyOptimizer gives each parameter: the largest first, each to who has least."""
    held, owner = [0] * world_size, [0] * len(numels)
    for i in sorted(range(len(numels)), key=lambda i: -numels[i]):
        owner[i] = held.index(min(held))
        held[owner[i]] += numels[i]
    return owner


def check_kind(out, head, keys=KIND):
    """Raises unless the launches that a file already has are of this kind: what_if takes them together."""
    try:
        with open(out if os.path.exists(out) else os.devnull) as file:
            first = json.loads(file.readline() or "null") or head
        differs = [key for key in keys if first.get(key) != head.get(key)]
    except (ValueError, AttributeError):
        differs = keys  # not ours
    if differs:
        raise ValueError(f"{out} holds launches that differ in {differs[0]}: record this one to another file (--out)")


class Recorder:
    """Records the steps of a module, by hooks, until it is `done`; then writes. `passes`: forward passes in a step, if
    there is no DDP whose require_backward_grad_sync tells."""

    def __init__(self, model, out="gradsync.jsonl", rounds=16, ddp=True, passes=1, views=None):
        self.wrapper = model if isinstance(model, DDP) else None
        module = model.module if self.wrapper else model
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self.params, self.out, self.rounds, self.passes = [p for _, p in named], out, rounds, passes
        self.views = bool(self.wrapper and self.wrapper.gradient_as_bucket_view) if views is None else views
        kinds = {(str(p.dtype), p.device) for p in self.params}
        if len(kinds) != 1 or self.params[0].device.type not in ("cpu", "cuda"):
            raise ValueError(f"gradsync records modules of one dtype on one CPU or GPU; this one has {kinds}")
        if self.wrapper and self.wrapper.static_graph:
            raise ValueError("gradsync does not record DistributedDataParallel(static_graph=True), whose steps all synchronise")
        self.device, self.world = self.params[0].device, dist.get_world_size() if dist.is_initialized() else 1
        self.cuda, self.ids = self.device.type == "cuda", {id(p) for p in self.params}
        numels = [p.numel() for p in self.params]
        self.flat = torch.zeros(sum(numels), dtype=self.params[0].dtype, device=self.device)
        self.slots = [v.view_as(p) for v, p in zip(self.flat.split(numels), self.params)]
        self.share = torch.tensor(1 / self.world, dtype=self.flat.dtype)
        owner = zero1_owners(numels, self.world)
        self.owned = [[i for i, o in enumerate(owner) if o == r] for r in range(self.world)]
        probes = [("probe", *p) for p in probes_of(self.flat.nbytes)] if self.world > 1 else [("probe",)]
        half = len(probes) // 2
        self.plan = [("none",), *probes[:half], ("none",), *probes[half:], *[("ddp",)] * bool(self.wrapper and ddp)]
        self.head = {"gradsync_torch": 1, "time": datetime.datetime.now().isoformat(timespec="seconds"),
                     "torch": torch.__version__, "command": list(sys.argv), "world_size": self.world,
                     "backend": dist.get_backend() if self.world > 1 else "none",
                     "device": torch.cuda.get_device_name(self.device) if self.cuda else "cpu",
                     "threads": torch.get_num_threads(), "cores": len(os.sched_getaffinity(0)),
                     "views": self.views, "rows": [],
                     "parameters": [{"name": n, "numel": p.numel(), "bytes": p.nbytes} for n, p in named]}
        if "GRADSYNC_LINK_RATE" in os.environ:
            self.head["link_rate"] = int(os.environ["GRADSYNC_LINK_RATE"])
        self.steps, self.step, self.updating, self.taken, self.done = [], None, None, 0, False
        self.handles = [p.register_post_accumulate_grad_hook(lambda p, i=i: self._on_ready(p, i))
                        for i, p in enumerate(self.params)]
        # torch.compile around DDP would trace the hook, and compile it anew for each kind of step.
        self.handles += [model.register_forward_pre_hook(torch.compiler.disable(self._on_forward)),
                         register_optimizer_step_pre_hook(self._on_update),
                         register_optimizer_step_post_hook(self._on_updated)]
        self.backward, torch.autograd.backward = torch.autograd.backward, self._on_backward

    # Times. A mark is a number of nanoseconds or an event of the current stream.

    def _mark(self):
        if not self.cuda:
            return time.monotonic_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _ns(self, a, b):
        return b - a if not self.cuda else int(1e6 * a.elapsed_time(b))

    def _meet(self):
        if self.world > 1:
            dist.barrier()
        if self.cuda:
            torch.cuda.synchronize()

    # What a step calls, in this order.

    def _on_forward(self, module, _):
        if not (module.training and torch.is_grad_enabled()) or self.done:
            return
        first = self.step is None
        if first:
            if self.wrapper and self.taken == 0 and hook_of(self.wrapper) not in ("", "bf16_compress_hook"):
                raise ValueError(f"gradsync does not record DistributedDataParallel with {hook_of(self.wrapper)}: leave it out")
            self.mode = self.plan[(self.taken + self.taken // len(self.plan)) % len(self.plan)]
            for p in self.params:
                p.grad = None
            self._meet()
            self.passed, self.ready = 0, [None] * len(self.params)
            self.step = {"mode": self.mode[0], "begin_ns": time.monotonic_ns()}
            self.step |= {"row": 0} if self.mode[0] == "ddp" else {}
            self.begin = self._mark()
        self.passed += 1
        self.syncs = self.passed == self.passes
        if self.wrapper:
            self.syncs = self.wrapper.require_backward_grad_sync
            self.wrapper.require_backward_grad_sync = self.syncs and self.mode[0] == "ddp"
            if first:  # whether forward begins with the broadcast of buffers, which DDP makes depend on the last pass
                self.wrapper.require_forward_param_sync = self.mode[0] in ("probe", "ddp")

    def _on_ready(self, p, i):
        if self.step is None:
            return
        if self.mode[0] == "probe" and self.syncs:
            torch.mul(p.grad, self.share, out=self.slots[i])
            if self.views:
                p.grad = self.slots[i]
        self.ready[i], self.heard = self._mark(), True

    def _on_backward(self, *args, **kwargs):
        if self.step is None or not self.syncs:
            return self.backward(*args, **kwargs)
        step, begin, self.heard = self.step, self._mark(), False
        self.backward(*args, **kwargs)
        end = self._mark()
        if not self.heard:
            return  # another model's
        if "before_ns" in step:
            raise ValueError("gradsync records steps that synchronise once, before the step of an optimizer of torch.optim: "
                             "use no_sync in all passes but the last, and GradScaler(enabled=False), which skips no step")
        step |= {"before_ns": (self.begin, begin), "backward_ns": (begin, end),
                 "ready_ns": [(begin, ready) if ready else -1 for ready in self.ready]}
        if self.wrapper:
            self.wrapper.require_backward_grad_sync = True
        if self.mode[0] == "probe" and self.world > 1:
            self._meet()
            step["collectives"] = self._communicate(*self.mode[1:])
        if self.mode[0] == "probe" and not self.views:
            begin = self._mark()
            for p, slot in zip(self.params, self.slots):
                if p.grad is not None:
                    p.grad.copy_(slot)
            step["copy_back_ns"] = (begin, self._mark())
        self.rest = self._mark()

    def _pieces(self, size_bytes):
        return self.flat.split(max(1, size_bytes // self.flat.element_size()))[:MOST_PIECES]

    def _communicate(self, kind, piece_bytes, in_flight):
        """Of the flat buffer; see TorchCollectives."""
        pieces, marks, works = self._pieces(piece_bytes), [], []
        cpu, begin = time.process_time_ns(), self._mark()
        if kind == "zero1":
            works = [dist.broadcast(self.slots[i], src=r, async_op=True) for r in range(self.world) for i in self.owned[r]]
        elif not in_flight:
            works = [dist.all_reduce(piece, async_op=True) for piece in pieces]
        else:
            for piece in pieces:
                marks.append([self._mark()])
                # The hook divides here; a probe has divided before.
                sent = piece.to(torch.bfloat16).div_(1) if kind == "bf16" else piece
                marks[-1].append(self._mark())
                dist.all_reduce(sent)
                marks[-1].append(self._mark())
                if kind == "bf16":
                    piece.copy_(sent)
                    marks[-1].append(self._mark())
        for work in works:
            work.wait()
        result = {"kind": kind, "in_flight": in_flight, "wall_ns": (begin, self._mark()),
                  "cpu_ns": time.process_time_ns() - cpu, "ns": [(m[1], m[2]) for m in marks],
                  "bytes": [p.numel() * p.element_size() for p in (self.slots if kind == "zero1" else pieces)]}
        if kind == "bf16":
            result |= {"in_ns": [(m[0], m[1]) for m in marks], "out_ns": [(m[2], m[3]) for m in marks]}
        return result

    def _on_update(self, optimizer, *_):
        ours = any(p in self.ids for group in optimizer.param_groups for p in map(id, group["params"]))
        if not ours or self.updating is not None:
            return
        if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
            raise ValueError("gradsync does not record ZeroRedundancyOptimizer: use the optimizer that it distributes; what_if "
                             "predicts both")
        if self.step is None and self.taken > 0:
            raise ValueError("gradsync records steps that one optimizer ends; this model has several, or one that steps twice")
        if self.step is not None and "before_ns" in self.step:
            self.updating = optimizer, self._mark()  # others may be within it
            self.head |= {"optimizer": type(optimizer).__name__, "passes": self.passed}
            if self.taken == 0 and (self.world == 1 or dist.get_rank() == 0):
                check_kind(self.out, self.head)

    def _on_updated(self, optimizer, *_):
        if self.updating is None or self.updating[0] is not optimizer:
            return
        begin, end, self.updating = self.updating[1], self._mark(), None
        if self.cuda:
            torch.cuda.synchronize()
        self.step |= {"rest_ns": (self.rest, begin), "optimizer_ns": (begin, end), "step_ns": (self.begin, end)}
        if self.taken >= len(self.plan):  # the first round is warm-up
            self.steps.append(self._resolved(self.step))
        self.step, self.taken = None, self.taken + 1
        if self.taken == self.rounds * len(self.plan):
            self._finish()

    def _resolved(self, value):
        """With times for pairs of marks."""
        if isinstance(value, dict):
            return {key: self._resolved(v) for key, v in value.items()}
        if isinstance(value, list):
            return [self._resolved(v) for v in value]
        return self._ns(*value) if isinstance(value, tuple) else value

    def _finish(self):
        self.done, torch.autograd.backward = True, self.backward
        for handle in self.handles:
            handle.remove()
        if self.wrapper:
            self.head["rows"].insert(0, row_of(self.wrapper, passes=self.passed))
        ranks = gathered({"host": platform.node(), "steps": self.steps}, self.device)
        if self.world == 1 or dist.get_rank() == 0:
            line = self.head | {"hosts": [r["host"] for r in ranks], "ranks": [r["steps"] for r in ranks]}
            with open(self.out, "a") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


def hook_of(ddp):
    """The name of the hook that communicates for DDP, or an empty one."""
    return ddp._get_ddp_logging_data().get("comm_hook", "")


def row_of(ddp, name="as the script has it", **more):
    """What the file says of DDP's settings."""
    cap = ddp.bucket_bytes_cap
    first = dist._DEFAULT_FIRST_BUCKET_BYTES if getattr(ddp, "bucket_bytes_cap_default", cap == 25 * MIB) else cap
    sizes = ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
    return {"name": name, "bucket_bytes": cap, "first_bucket_bytes": first, "bf16": hook_of(ddp) == "bf16_compress_hook",
            "zero1": False, "passes": 1, "rebuilt_bucket_bytes": [int(b) for b in sizes.split(",") if b.strip()]} | more


def gathered(value, device):
    """The values of all ranks, in order. PyTorch's own way needs NumPy."""
    if not dist.is_initialized():
        return [value]
    data = bytearray(json.dumps(value).encode())
    longest = torch.tensor([len(data)], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    own = torch.frombuffer(data.ljust(int(longest), b" "), dtype=torch.uint8).to(device)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, own)
    return [json.loads(bytes(part.tolist())) for part in parts]


def record(model, optimizer, loss, batches, out="gradsync.jsonl", **options):
    """Records steps on batches of (input, target), over and over, until there are enough."""
    recorder, batches = Recorder(model, out, **options), itertools.cycle(batches)
    model.train()
    while not recorder.done:
        optimizer.zero_grad(set_to_none=True)
        for _ in range(recorder.passes):
            inputs, targets = next(batches)
            loss(model(inputs), targets).backward()
        optimizer.step()


def record_script(argv, out="gradsync.jsonl", finished=lambda out: None, **options):
    """Runs a script; the first model that it wraps in DDP is recorded. Then `finished(out)` runs on rank 0, and all end."""
    construct, recorders, said = DDP.__init__, [], set()

    def say(text):
        if text not in said and os.environ.get("RANK", "0") == "0":
            print(f"gradsync: {text}", file=sys.stderr)
        said.add(text)

    def on_update(*_):
        if not recorders:
            say(f"{argv[0]} trains without DistributedDataParallel, of which nothing is recorded. Was it started by torchrun?")

    class ScriptRecorder(Recorder):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.began = time.monotonic()
            say(f"records {self.rounds * len(self.plan)} steps; the first takes minutes if the model has to be compiled")

        def _on_updated(self, *arguments):
            before = self.taken
            super()._on_updated(*arguments)
            if before != self.taken == len(self.plan):
                took = time.monotonic() - self.began
                say(f"{self.taken} steps of warm-up took {took:.0f} s, {self.rounds - 1} times as many follow")

        def _finish(self):
            super()._finish()
            if dist.get_rank() == 0:
                finished(out)
            dist.barrier()
            sys.exit(0)

    def construct_recorded(self, *args, **kwargs):
        construct(self, *args, **kwargs)
        if not recorders:
            recorders.append(ScriptRecorder(self, out, **options))
        else:
            say("the first model in DistributedDataParallel is recorded; what others communicate counts as computation")

    DDP.__init__ = construct_recorded
    register_optimizer_step_post_hook(on_update)
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except KeyboardInterrupt:
        sys.exit(f"{argv[0]} was interrupted; nothing was recorded")
    if not recorders:
        sys.exit(f"{argv[0]} used no DistributedDataParallel; nothing was recorded")
    taken, needed = recorders[0].taken, recorders[0].rounds * len(recorders[0].plan)
    sys.exit(f"{argv[0]} took {taken} steps, which are too few: {needed} are needed")


def main(argv, finished=lambda out: None):
    parser = argparse.ArgumentParser(prog="record", description="Records a script that uses DistributedDataParallel.",
                                     epilog=NOT_RECORDED)
    parser.add_argument("--out", default="gradsync.jsonl", help="gets one more line")
    parser.add_argument("--rounds", type=int, default=16, help="how often each kind of step is taken; the first is warm-up")
    parser.add_argument("--no-ddp", action="store_true", help="takes no steps of DDP itself to compare with")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="train.py ARGS...")
    flags = parser.parse_args(argv)
    if not flags.script or not os.path.isfile(flags.script[0]):
        parser.error(f"no script {' '.join(flags.script[:1])}")
    if flags.rounds < 2:
        parser.error(f"--rounds={flags.rounds}: expected at least 2")
    flags.out = os.path.abspath(flags.out)  # the script may go elsewhere
    if not os.access(flags.out if os.path.exists(flags.out) else os.path.dirname(flags.out), os.W_OK):
        parser.error(f"--out={flags.out} cannot be written")
    try:
        check_kind(flags.out, {"command": flags.script}, ["command"])
    except ValueError as error:
        parser.error(str(error))
    record_script(flags.script, flags.out, finished, rounds=flags.rounds, ddp=not flags.no_ddp)


if __name__ == "__main__":
    main(sys.argv[1:])
