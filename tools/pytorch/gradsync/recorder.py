"""Records the steps of one model, from within the process that trains it.

Steps take turns. `none` does not synchronise. A `probe` does to memory what DistributedDataParallel (DDP) does and overlaps
nothing: it copies each gradient into a flat buffer as it is ready (and leaves a view of it, if DDP has
gradient_as_bucket_view), communicates the buffer in pieces after backward, and copies gradients back that are no views.
`ddp` is the script's own. The first step is left as it is, and shows what there is to record.

A step begins with a forward in training, behind a barrier, and ends with the optimizer's step(), or where that calls its
closure again. What else happens than this is refused:

    BETWEEN --forward--> OPEN --backward--> SYNCED --step()--> UPDATING --the end of step()--> BETWEEN
    BETWEEN --backward of a forward in eval mode, where steps begin from now on--> SKIPPED --the end of step()--> BETWEEN

A backward under no_sync leaves a step OPEN. DDP decides after forward whether it will synchronise, and then prepares its
reducer: steps that are not `ddp` keep it from that, and change nothing else that a script may look at, copy or save.
"""
import collections
import datetime
import functools
import json
import os
import pathlib
import platform
import re
import sys
import sysconfig
import time

import torch
import torch.distributed as dist
from gradsync import Refused
from gradsync.recording import KIND, kind_of
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

DDP = torch.nn.parallel.DistributedDataParallel
MIB = 1 << 20
BETWEEN, OPEN, SYNCED, UPDATING, SKIPPED = "between", "open", "synced", "updating", "skipped"
AGREE = ("parameters", *KIND)  # launches of one file
PIECES = (MIB // 16, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
MOST_PIECES = 128  # of a probe: with the smallest pieces more say nothing new
WAIT = datetime.timedelta(seconds=30)  # for other ranks to begin with recording
LIBRARIES = tuple(os.path.realpath(path) + os.sep for path in (
    os.path.dirname(os.path.realpath(__file__)), os.path.join(torch.__file__, "../.."),
    *map(sysconfig.get_path, ("stdlib", "purelib"))))


def place():
    """The line that runs of the script, or of what else is in no library."""
    frame = sys._getframe(1)
    while frame:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not os.path.realpath(path).startswith(LIBRARIES):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return sys.argv[0]


def probes_of(total_bytes):
    """(kind, bytes of a piece, in flight) of each probe."""
    sizes = [p for p in PIECES if 2 * p <= total_bytes] + [total_bytes]
    return [*(("all_reduce", size, 1) for size in sizes), *(("all_reduce", size, 0) for size in sizes[1:-1]),
            ("bf16", min(MIB, total_bytes), 1), ("bf16", min(16 * MIB, total_bytes), 1), ("zero1", total_bytes, 0)]


def unusable(out, head, keys):
    """Why a launch cannot be added to a file, of which what_if takes all launches together; or nothing."""
    exists = os.path.exists(out)
    if not os.access(os.path.dirname(out), os.W_OK) or exists and not (os.path.isfile(out) and os.access(out, os.W_OK)):
        return f"--out={out} cannot be written, or is no file"
    try:
        with open(out if exists else os.devnull) as file:
            line = file.readline()
        differs = [key for key in keys if line and kind_of(json.loads(line), key) != kind_of(head, key)]
    except (ValueError, AttributeError, KeyError):
        return f"{out} is no recording, to which a launch could be added: name another file (--out)"
    return f"{out} holds launches that differ in {differs[0]}: record this one to another file (--out)" if differs else ""


# Who is told what the process calls, and how deep in backward it is (a checkpoint's is within another).
_recorders, _depth = [], 0


def _tell(event, *arguments):
    return [getattr(recorder, event)(*arguments) for recorder in list(_recorders) if recorder in _recorders]


@functools.lru_cache(None)
def listen():
    """From now on recorders are told what the process calls. Nothing is kept in the script's objects, which may be copied."""
    # torch.compile around DDP would trace what listens, and compile it anew for each kind of step.
    untraced = torch.compiler.disable(_tell)
    pre_forward, prepare, backward = DDP._pre_forward, dist.Reducer.prepare_for_backward, torch.autograd.backward

    def told_pre_forward(model, *args, **kwargs):
        untraced("on_forward", model)
        return pre_forward(model, *args, **kwargs)

    @torch.compiler.disable
    def told_prepare(reducer, outputs):
        if all(_tell("on_prepare", reducer)):
            prepare(reducer, outputs)

    @functools.wraps(backward)
    def told_backward(*args, **kwargs):
        global _depth
        _depth += 1
        try:
            if _depth == 1:
                _tell("on_backward")
            backward(*args, **kwargs)
            if _depth == 1:
                _tell("on_backward_end")
        finally:
            _depth -= 1

    def on_update(optimizer, args, kwargs):
        for recorder in list(_recorders):
            args, kwargs = recorder.on_update(optimizer, args, kwargs) or (args, kwargs)
        return args, kwargs

    DDP._pre_forward, dist.Reducer.prepare_for_backward, torch.autograd.backward = told_pre_forward, told_prepare, told_backward
    register_optimizer_step_pre_hook(on_update)
    register_optimizer_step_post_hook(lambda optimizer, *_: _tell("on_updated", optimizer))


class Recorder:
    """Records the steps of a module until it is `done`; then writes. `passes`: of backward in a step, if no DDP tells."""

    count = 0  # that have started in this process

    def __init__(self, model, out="gradsync.jsonl", rounds=16, ddp=True, passes=1, views=None, command=None, script=None):
        self.wrapper, self.script, self.place = model if isinstance(model, DDP) else None, script, place()
        module, ignored = (model.module, model.parameters_to_ignore) if self.wrapper else (model, ())
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad and p.numel() and name not in ignored]
        self.names, self.params, self.model = [name for name, _ in named], [p for _, p in named], model
        self.out, self.rounds, self.passes = os.path.realpath(out), rounds, passes
        self.views = bool(self.wrapper and self.wrapper.gradient_as_bucket_view) if views is None else views
        kinds = {(str(p.dtype), p.device) for p in self.params}
        if len(kinds) != 1 or self.params[0].device.type not in ("cpu", "cuda"):
            raise Refused(f"{self.place}: gradsync records modules of one dtype on one CPU or GPU; this one has {kinds}")
        self.device, self.world = self.params[0].device, dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if self.world > 1 else 0
        self.cuda, self.ids = self.device.type == "cuda", {id(p) for p in self.params}
        total = sum(p.nbytes for p in self.params)
        probes = [("probe", *p) for p in probes_of(total)] if self.world > 1 else [("probe",)]
        half = len(probes) // 2
        self.plan = [("none",), *probes[:half], ("none",), *probes[half:], *[("ddp",)] * bool(self.wrapper and ddp)]
        processor = (re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()) or [platform.machine()])[0]
        self.head = {"gradsync_torch": 1, "time": datetime.datetime.now().isoformat(timespec="seconds"),
                     "torch": torch.__version__, "command": command or list(sys.argv), "world_size": self.world,
                     "backend": dist.get_backend() if self.world > 1 else "none",
                     "device": torch.cuda.get_device_name(self.device) if self.cuda else "cpu", "processor": processor,
                     "threads": torch.get_num_threads(), "cores": len(os.sched_getaffinity(0)),
                     "views": self.views, "rows": [],
                     "parameters": [{"name": n, "numel": p.numel(), "bytes": p.nbytes} for n, p in named]}
        if "GRADSYNC_LINK_RATE" in os.environ:
            self.head["link_rate"] = int(os.environ["GRADSYNC_LINK_RATE"])
        self.steps, self.taken, self.done = [], -1, False  # without the first, which shows what there is
        self.state, self.mode, self.in_eval, self.seen_in_eval = BETWEEN, ("first",), False, False
        self.optimizer, self.owned, self.stepping = None, None, None  # ours and its parameters; within step()
        self.passed, self.counts, self.unlike = 0, collections.Counter(), 0  # passes of this step, and how many steps had which
        self.arrived, self.sparse = 0, None  # gradients since the last step, and one that cannot be recorded
        self.handles = [p.register_post_accumulate_grad_hook(lambda p, i=i: self._on_ready(p, i))
                        for i, p in enumerate(self.params)]
        if not self.wrapper:
            self.handles.append(model.register_forward_pre_hook(torch.compiler.disable(lambda model, _: self.on_forward(model))))
        listen()
        _recorders.append(self)

    def close(self):
        while self.handles:
            self.handles.pop().remove()
        if self in _recorders:
            _recorders.remove(self)

    def _refuse(self, text, at=None):
        self.close()
        if not self.script:
            raise Refused(f"{at or place()}: {text}")
        self.script.refuse(f"{at or place()}: {text}")

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

    def on_forward(self, model):
        if model is not self.model or not torch.is_grad_enabled() or not any(p.requires_grad for p in self.params):
            return
        if self.wrapper and self.wrapper._join_config.enable:
            return self._refuse("gradsync does not record steps within join(): give all ranks as many batches")
        if self.state in (BETWEEN, UPDATING):
            if not model.training and not self.in_eval:
                self.seen_in_eval = True
                return
            if self.state == UPDATING:  # the optimizer has called its closure again
                self._end()
            if not self.done:
                self._begin()
        if self.wrapper and self.mode[0] == "none":
            self.wrapper.require_forward_param_sync = False  # sends no buffers; DDP sets it again

    def _begin(self):
        if self.taken >= 0:
            self.mode = self.plan[(self.taken + self.taken // len(self.plan)) % len(self.plan)]
            for p in self.params:
                p.grad = None
            if self.wrapper and self.wrapper.find_unused_parameters:
                self.wrapper.reducer._reset_state()  # steps that do not synchronise mark parameters as used
            if self.world > 1:
                passed = torch.tensor([self.passed, -self.passed], device=self.device)
                dist.all_reduce(passed, op=dist.ReduceOp.MAX)
                if passed.sum() != 0:
                    self._refuse("ranks took different numbers of passes in a step, which gradsync does not record")
            self._meet()
        self.state, self.passed, self.prepared = OPEN, 0, False
        self.step = {"mode": self.mode[0], "begin_ns": time.monotonic_ns()} | ({"row": 0} if self.mode[0] == "ddp" else {})
        self.begin = self._mark()

    def on_prepare(self, reducer):
        """DDP is about to prepare for synchronising. Whether it may."""
        if not self.wrapper or reducer is not self.wrapper.reducer or self.state in (BETWEEN, SKIPPED):
            return True
        self.prepared = True
        return self.mode[0] in ("first", "ddp")

    def on_backward(self):
        self.before, self.ready = self.arrived, [None] * len(self.params)
        if not self.wrapper:
            self.prepared = self.passed + 1 == self.passes
        self.backward = self._mark()

    def _on_ready(self, p, i):
        self.arrived += 1
        if p.grad.layout is not torch.strided:
            self.sparse = self.names[i]
        elif self.state == OPEN and _depth:
            if self.mode[0] == "probe" and self.prepared:
                torch.mul(p.grad, self.share, out=self.slots[i])
                if self.views:
                    p.grad = self.slots[i]
            self.ready[i] = self._mark()

    def on_backward_end(self):
        end = self._mark()
        if self.arrived == self.before or self.state in (UPDATING, SKIPPED):
            return  # another model's
        if self.sparse:
            self._refuse(f"{self.sparse} gets a sparse gradient, which gradsync does not record: use Embedding(sparse=False)")
        elif self.state == OPEN:
            self.passed += 1
            if self.prepared:
                self._synchronise(end)
        elif self.state == SYNCED:
            self._refuse("gradients come again after those of this step were synchronised, and no optimizer of torch.optim has "
                         "stepped: use no_sync in all passes but the last, and GradScaler(enabled=False), which skips no step")
        elif self.seen_in_eval:
            self.in_eval, self.state = True, SKIPPED
        else:
            self._refuse("gradients come from no forward of the recorded model: call what DistributedDataParallel returned, not "
                         "its module")

    def _synchronise(self, end):
        begin, self.state = self.backward, SYNCED
        self.step |= {"before_ns": (self.begin, begin), "backward_ns": (begin, end),
                      "ready_ns": [(begin, ready) if ready else -1 for ready in self.ready]}
        if self.mode[0] == "probe" and self.world > 1:
            self._meet()
            self.step["collectives"] = self._communicate(*self.mode[1:])
        if self.mode[0] == "probe" and not self.views:
            begin = self._mark()
            for p, slot in zip(self.params, self.slots):
                if p.grad is not None:
                    p.grad.copy_(slot)
            self.step["copy_back_ns"] = (begin, self._mark())
        self.rest = self._mark()

    def _communicate(self, kind, piece_bytes, in_flight):
        """Of the flat buffer, in the words of the file."""
        pieces, marks, works = self.wire.split(max(1, piece_bytes // self.wire.element_size()))[:MOST_PIECES], [], []
        cpu, begin = time.process_time_ns(), self._mark()
        if kind == "zero1":
            works = [dist.broadcast(p, src=r, async_op=True) for r in range(self.world) for p in self.parts[r::self.world]]
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
                  "bytes": [p.nbytes for p in (self.parts if kind == "zero1" else pieces)]}
        if kind == "bf16":
            result |= {"in_ns": [(m[0], m[1]) for m in marks], "out_ns": [(m[2], m[3]) for m in marks]}
        return result

    def _own(self, optimizer):
        """Whether it may end steps."""
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]} & self.ids
        if not owned:
            return False
        if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
            self._refuse("gradsync does not record ZeroRedundancyOptimizer: use the optimizer that it distributes; what_if "
                         "predicts both")
        elif self.owned not in (None, owned):
            self._refuse("gradsync records steps that one optimizer ends; this model has several")
        self.optimizer, self.owned = optimizer, owned
        return True

    def on_update(self, optimizer, args, kwargs):
        """An optimizer's step() begins. What to call it with, if not with this."""
        if self.stepping not in (None, optimizer) or not (optimizer is self.optimizer or self._own(optimizer)):
            return None  # within another's, or of another model
        self.stepping = optimizer
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if self.state == SYNCED:
            self._update()
        elif self.arrived and self.state != SKIPPED and not callable(closure):
            self._refuse("an optimizer steps with gradients that no backward synchronised, which gradsync does not record")
        if not callable(closure):
            return None

        def evaluate(*arguments, **options):
            loss = closure(*arguments, **options)
            if self.state == SYNCED:
                self._update()
            return loss

        return ((args[0], evaluate, *args[2:]), kwargs) if len(args) > 1 else (args, kwargs | {"closure": evaluate})

    def _update(self):
        self.state, self.updating = UPDATING, self._mark()

    def on_updated(self, optimizer):
        if self.stepping is not optimizer:
            return
        self.stepping = None
        if self.state == UPDATING:
            self._end()
        elif self.state == SKIPPED:
            self.state = BETWEEN
        self.arrived, self.seen_in_eval = 0, False

    def _end(self):
        begin, end = self.updating, self._mark()
        self.state, self.arrived = BETWEEN, 0
        if self.taken < 0:
            return self._start()
        if self.cuda:
            torch.cuda.synchronize()
        self.step |= {"rest_ns": (self.rest, begin), "optimizer_ns": (begin, end), "step_ns": (self.begin, end)}
        if self.taken < len(self.plan):  # the first round is warm-up
            self.counts[self.passed] += 1
        elif self.passed == self.head["passes"]:
            self.steps.append(self._resolved(self.step))
            self.unlike = 0
        else:  # its turn comes again
            self.unlike += 1
            if self.unlike > len(self.plan):
                self._refuse(f"steps had {self.head['passes']} passes, which are recorded, and have {self.passed} now")
            return
        self.taken += 1
        if self.taken == len(self.plan):
            self.head["passes"] = max(self.counts, key=lambda passes: passes * self.counts[passes])  # most of the passes
            self._check_file("passes")
            if self.script:
                self.script.warmed_up(self)
        if self.taken == self.rounds * len(self.plan):
            self._finish()

    def _start(self):
        """After the first step: what recording needs."""
        ddp, world, numels = self.wrapper, self.world, [p.numel() for p in self.params]
        for found, text in () if not ddp else (
                (ddp.static_graph, "(static_graph=True), whose steps all synchronise"),
                (ddp.mixed_precision, "(mixed_precision=...): use torch.autocast"),
                (any(isinstance(m, DDP) for m in ddp.module.modules()), " within another"),
                (dist.get_world_size(ddp.process_group) != world, " of a part of the ranks"),
                (hook_of(ddp) not in ("", "bf16_compress_hook"), f" with {hook_of(ddp)}: leave it out")):
            if found:
                return self._refuse("gradsync does not record DistributedDataParallel" + text, self.place)
        if world > 1:
            Recorder.count += 1
            store = dist.distributed_c10d._get_default_store()
            try:
                dist.distributed_c10d._store_based_barrier(self.rank, store, f"gradsync{Recorder.count}", world, WAIT)
            except RuntimeError:
                return self._refuse("not all ranks are recorded: start every one by torchrun -m gradsync record")
        self.flat = torch.zeros(sum(numels), dtype=self.params[0].dtype, device=self.device)
        self.slots = [v.view_as(p) for v, p in zip(self.flat.split(numels), self.params)]
        self.wire = torch.view_as_real(self.flat).flatten() if self.flat.is_complex() else self.flat
        self.parts = self.wire.split([p.nbytes // self.wire.element_size() for p in self.params])
        self.share = torch.tensor(1 / world, dtype=self.flat.dtype)
        self.head |= {"hosts": gathered(platform.node(), self.device), "optimizer": type(self.optimizer).__name__}
        self._check_file(*(key for key in AGREE if key != "passes"))
        self.taken = 0
        if self.script:
            self.script.started(self)

    def _check_file(self, *keys):
        problem = self.rank == 0 and unusable(self.out, self.head, keys)
        if problem:
            self._refuse(problem)

    def _resolved(self, value):
        """With times for pairs of marks."""
        if isinstance(value, dict):
            return {key: self._resolved(v) for key, v in value.items()}
        if isinstance(value, list):
            return [self._resolved(v) for v in value]
        return self._ns(*value) if isinstance(value, tuple) else value

    def _finish(self):
        self.done = True
        self.close()
        if self.wrapper:
            self.head["rows"].insert(0, row_of(self.wrapper, passes=self.head["passes"]))
        ranks = gathered(self.steps, self.device)
        if self.rank == 0:
            self._append(json.dumps(self.head | {"ranks": ranks}, separators=(",", ":")) + "\n")
        if self.script:
            self.script.finished()

    def _append(self, line):
        """To the file, all of it or nothing."""
        out, whole = pathlib.Path(self.out), pathlib.Path(f"{self.out}.{os.getpid()}")
        try:
            whole.write_text((out.read_text() if out.exists() else "") + line)
            whole.replace(out)
        except OSError as error:
            whole.unlink(missing_ok=True)
            self._refuse(f"{out} was left as it was: {error.strerror}")


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
