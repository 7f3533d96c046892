"""Records the steps of one model, from within the process that trains it.

Steps take turns. `none` does not synchronise. A `probe` does to memory what DistributedDataParallel (DDP) does and overlaps
nothing: it copies each gradient into a flat buffer as it is ready (and leaves a view of it, if DDP has
gradient_as_bucket_view), communicates the buffer in pieces after backward, and copies gradients back that are no views. One
probe gathers and reduces as FSDP2 would, if blocks of the model were its units.
`ddp` is the script's own. The first step is left as it is, and shows what there is to record. After what is timed, and before
the optimizer, steps of `none` and probes get the gradients that DDP would have made: training goes on as without the recorder.

A step begins with a forward in training, behind a barrier, and ends with the step() of the last of the model's optimizers, with
a forward of the next step, or where an optimizer calls its closure again. What else happens than this is refused:

    BETWEEN --forward--> OPEN --backward--> SYNCED --step()--> UPDATED --the last step(), or forward--> BETWEEN
    BETWEEN --backward of a forward in eval mode, where steps begin from now on--> SKIPPED --the end of step()--> BETWEEN

A backward under no_sync leaves a step OPEN. DDP decides after forward whether it will synchronise, and then prepares its
reducer: steps that are not `ddp` keep it from that. Without DDP a step has as many passes as most before it, and those that have
others are not recorded. Steps that a GradScaler skips are not recorded either.
"""

import collections
import datetime
import itertools
import json
import os
import platform
import sys
import time

import torch
import torch.distributed as dist

from gradsync import BAD_ARGUMENTS, Refused
from gradsync.events import Listener, in_backward, listen, place, stop_listening, watch_calls
from gradsync.host import processor_name, usable_cores
from gradsync.launch_file import append, unusable
from gradsync.live import UNKNOWN, Memory, is_compiled
from gradsync.patches import Patches
from gradsync.recording import KIND, THREE_TIMES
from gradsync.settings import MIB, flat_of, gathered, hook_of, row_of
from gradsync.sharding import repeated_blocks
from gradsync.torch_private import DDP
from gradsync.units import can_be_tried, gather, group_like, reduce

BETWEEN, OPEN, SYNCED, UPDATED, SKIPPED = "between", "open", "synced", "updated", "skipped"
AGREE = ("parameters", *KIND)  # fields that agree in all launches of one file
PIECES = (MIB // 16, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
MOST_PIECES = 128  # pieces of a probe; with the smallest pieces, more add nothing
WAIT = datetime.timedelta(seconds=30)  # time for other ranks to begin recording


def probes_of(total_bytes):
    """Returns (kind, bytes of a piece, number in flight) of each probe."""
    sizes = [p for p in PIECES if 2 * p <= total_bytes] + [total_bytes]
    return [
        *(("all_reduce", size, 1) for size in sizes),
        *(("all_reduce", size, 0) for size in sizes[1:-1]),
        ("bf16", min(MIB, total_bytes), 1),
        ("bf16", min(16 * MIB, total_bytes), 1),
        ("zero1", total_bytes, 0),
    ]


class Recorder(Listener):
    """Records the steps of a module until it is `done`; then writes. `roots`: modules of it whose call begins a step, if it is
    not called itself. `only`: ids of the parameters that train, by default all that require a gradient."""

    count = 0  # recorders that have started in this process

    def __init__(
        self,
        model,
        out="gradsync.jsonl",
        rounds=16,
        ddp=True,
        views=None,
        command=None,
        script=None,
        roots=None,
        only=None,
    ):
        self.wrapper, self.script, self.place = (
            model if isinstance(model, DDP) else None,
            script,
            place(),
        )
        module, ignored = (
            (model.module, model.parameters_to_ignore) if self.wrapper else (model, ())
        )
        named = [
            (name, p)
            for name, p in self._named(module)
            if p.requires_grad
            and p.numel()
            and name not in ignored
            and (only is None or id(p) in only)
        ]
        self.names, self.params, self.roots = (
            [name for name, _ in named],
            [p for _, p in named],
            roots or [model],
        )
        self.out, self.rounds = os.path.realpath(out), rounds
        self.views = (
            bool(self.wrapper and self.wrapper.gradient_as_bucket_view) if views is None else views
        )
        devices = {p.device for p in self.params}
        if len(devices) != 1 or not {device.type for device in devices} <= {"cpu", "cuda"}:
            raise Refused(
                f"{self.place}: gradsync records modules on one CPU or GPU; this one is on {devices or 'none'}"
            )
        self.device, self.world = (
            self.params[0].device,
            dist.get_world_size() if dist.is_initialized() else 1,
        )
        self.rank = dist.get_rank() if self.world > 1 else 0
        self.cuda, self.ids = self.device.type == "cuda", {id(p) for p in self.params}
        total = sum(p.nbytes for p in self.params)
        probes = [("probe", *p) for p in probes_of(total)] if self.world > 1 else [("probe",)]
        if self.world > 1 and self._can_try_units():
            probes.append(("probe", "fully_shard", total, 1))
        half = len(probes) // 2
        self.plan = [
            ("none",),
            *probes[:half],
            ("none",),
            *probes[half:],
            *[("ddp",)] * bool(self.wrapper and ddp),
        ]
        self.head = {
            "gradsync_torch": 1,
            "time": datetime.datetime.now().isoformat(timespec="seconds"),
            "torch": torch.__version__,
            "command": command or list(sys.argv),
            "world_size": self.world,
            "backend": dist.get_backend() if self.world > 1 else "none",
            "device": torch.cuda.get_device_name(self.device) if self.cuda else "cpu",
            "processor": processor_name(),
            "threads": torch.get_num_threads(),
            "cores": usable_cores(),
            "views": self.views,
            "rows": [],
            "parameters": [
                {
                    "name": n,
                    "numel": p.numel(),
                    "bytes": p.nbytes,
                    "dtype": str(p.dtype)[len("torch.") :],
                }
                for n, p in named
            ],
        }
        if "GRADSYNC_LINK_RATE" in os.environ:
            self.head["link_rate"] = int(os.environ["GRADSYNC_LINK_RATE"])
        self.steps, self.taken, self.done = (
            [],
            -1,
            False,
        )  # without the first step, which shows the model
        self.state, self.mode, self.in_eval, self.seen_in_eval = BETWEEN, ("first",), False, False
        self.optimizers, self.stepping, self.stepped = (
            [],
            None,
            0,
        )  # ours; the one within step(); how many did in this step
        self.silent, self.kept = (
            False,
            None,
        )  # whether what updates is no optimizer of torch.optim; a copy that tells
        self.module, self.memory = module, None  # of a step
        self.tried = None  # FSDP2's groups, like blocks of the model
        self.updated = None
        # Passes of this step, how many steps had which, and how many others came since the last that was recorded. How many
        # there will be, if DDP does not tell.
        self.passed, self.counts, self.unlike, self.expected = 0, collections.Counter(), 0, None
        self.arrived, self.sparse = (
            0,
            None,
        )  # gradients since the last step, and one that cannot be recorded
        self.patches = Patches()
        for i, p in enumerate(self.params):
            handle = p.register_post_accumulate_grad_hook(lambda p, i=i: self._on_ready(p, i))
            self.patches.keep(handle)
        if not self.wrapper:
            for kind in {type(root) for root in self.roots}:
                watch_calls(kind, self.patches)
        listen(self)

    def close(self):
        if self.memory:
            self.memory.end()
        self.patches.undo()
        stop_listening(self)
        self.tried = None

    def _named(self, module):
        return module.named_parameters()

    def _can_try_units(self):
        """Whether FSDP2's collectives can be timed, of which the script has none."""
        return can_be_tried(self.params)

    def _refuse(self, text, at=None, **status):
        self.close()
        if not self.script:
            raise Refused(f"{at or place()}: {text}")
        self.script.refuse(f"{at or place()}: {text}", **status)

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
        if (
            not any(model is root for root in self.roots)
            or not torch.is_grad_enabled()
            or not any(p.requires_grad for p in self.params)
        ):
            return
        mark = self._mark()
        if self.wrapper and self.wrapper._join_config.enable:
            return self._refuse(
                "gradsync does not record steps within join(): give all ranks as many batches"
            )
        if self.state == SYNCED and self.silent:
            self.state, self.updating, self.updated = UPDATED, self.rest, mark
        if self.state in (BETWEEN, UPDATED):
            if not model.training and not self.in_eval:
                self.seen_in_eval = True
                return
            if self.state == UPDATED:
                self._end()
            if not self.done:
                self._begin(mark)
        if self.wrapper and self.mode[0] == "none":
            self.wrapper.require_forward_param_sync = False  # sends no buffers; DDP sets it again

    def _begin(self, called):
        if self.taken < 0:
            self._check_wrapper()
        else:
            self.mode = self.plan[(self.taken + self.taken // len(self.plan)) % len(self.plan)]
            self._forget_used()
            if self.world > 1:
                passed = torch.tensor([self.passed, -self.passed], device=self.device)
                dist.all_reduce(passed, op=dist.ReduceOp.MAX)
                if passed.sum() != 0:
                    self._refuse(
                        "ranks took different numbers of passes in a step, which gradsync does not record"
                    )
            self._prepare()
            self._meet()
        self.state, self.passed, self.prepared, self.stepped = OPEN, 0, False, 0
        self.step = {"mode": self.mode[0], "begin_ns": time.monotonic_ns()} | (
            {"row": 0} if self.mode[0] == "ddp" else {}
        )
        if self.updated is not None:
            self.step["between_ns"] = (self.updated, called)
        if self.taken == 0 and not is_compiled():  # `none`, which warms up
            self.memory = Memory(self.params, self.module, self.optimizers, [self.flat])
        self.begin, self.untimed = self._mark(), None

    def _prepare(self):
        """What a step needs before it begins."""
        if self.wrapper and self.mode[0] == "none" and self.wrapper.will_sync_module_buffers():
            self.wrapper._sync_buffers()

    def _forget_used(self):
        """Steps that do not synchronise mark parameters as used."""
        if self.wrapper and self.wrapper.find_unused_parameters:
            self.wrapper.reducer._reset_state()

    def _check_wrapper(self):
        """Rejects a DDP that cannot be recorded, before its first step."""
        ddp = self.wrapper
        for found, text in (
            ()
            if not ddp
            else (
                (ddp.mixed_precision, "(mixed_precision=...): use torch.autocast"),
                (any(isinstance(m, DDP) for m in ddp.module.modules()), " within another"),
                (dist.get_world_size(ddp.process_group) != self.world, " of a part of the ranks"),
                (
                    hook_of(ddp) not in ("", "bf16_compress_hook"),
                    f" with {hook_of(ddp)}: leave it out",
                ),
            )
        ):
            if found:
                self._refuse("gradsync does not record DistributedDataParallel" + text, self.place)

    def on_prepare(self, reducer):
        if (
            not self.wrapper
            or reducer is not self.wrapper.reducer
            or self.state in (BETWEEN, SKIPPED)
        ):
            return True
        self.prepared = True
        return self.mode[0] in ("first", "ddp")

    def on_backward(self):
        if self.memory:
            self.memory.on_backward()
        self.before, self.ready = self.arrived, [None] * len(self.params)
        if not self.wrapper:
            self.prepared = self.passed + 1 == self.expected
        self.backward = self._mark()

    def _on_ready(self, p, i):
        self.arrived += 1
        if self.memory and in_backward():
            self.memory.on_ready(i)
        if p.grad.layout is not torch.strided:
            self.sparse = self.names[i]
        elif self.state == OPEN and in_backward():
            if self.mode[0] == "probe" and self.prepared:
                torch.mul(p.grad, self.share, out=self.slots[i])
                if self.views:
                    p.grad = self.slots[i]
            self.ready[i] = self._mark()

    def on_backward_end(self):
        end = self._mark()
        if self.arrived == self.before or self.state in (UPDATED, SKIPPED):
            self.updated = (
                None if self.state == BETWEEN else self.updated
            )  # updates between steps belong to another model
            return
        if self.sparse:
            self._refuse(
                f"{self.sparse} gets a sparse gradient, which gradsync does not record: use Embedding(sparse=False)"
            )
        elif self.taken < 0 and self._is_updated():
            self.silent, self.state, self.rest = True, SYNCED, end
            if self.passed > 1:
                self._refuse(
                    "several passes and no optimizer of torch.optim that ends them: gradsync does not record that"
                )
        elif self.state == OPEN:
            self.passed += 1
            if self.prepared:
                self._synchronise(end)
        elif self.state == SYNCED and self.wrapper:
            self._refuse(
                "gradients come again after those of this step were synchronised, and nothing has updated the model: use "
                "no_sync in all passes but the last"
            )
        elif self.state == SYNCED:
            self.passed += 1
        elif self.seen_in_eval:
            self.in_eval, self.state = True, SKIPPED
        else:
            self._refuse(
                "gradients come from no forward of the recorded model: call what DistributedDataParallel returned, not "
                "its module"
            )

    def _is_updated(self):
        """Returns whether parameters have changed since the last backward."""
        trained = [p for p in self.params if p.grad is not None]
        smallest = min(trained, key=torch.numel).detach() if trained else None
        kept, self.kept = self.kept, None if smallest is None else smallest.clone()
        return (
            kept is not None
            and smallest is not None
            and kept.shape == smallest.shape
            and not torch.equal(kept, smallest)
        )

    def _synchronise(self, end):
        begin, self.state = self.backward, SYNCED
        self.step |= {
            "before_ns": (self.begin, begin),
            "backward_ns": (begin, end),
            "ready_ns": [(begin, ready) if ready else -1 for ready in self.ready],
        }
        local = None
        if self.mode[0] == "probe" and self.world > 1:
            self._fill(self.ready)
            local = self.flat.clone()
            self._meet()
            self.step["collectives"] = self._communicate(*self.mode[1:])
        if self.mode[0] == "probe" and not self.views:
            begin = self._mark()
            for p, slot in zip(self.params, self.slots):
                if p.grad is not None:
                    p.grad.copy_(slot)
            self.step["copy_back_ns"] = (begin, self._mark())
        if self.mode[0] in ("none", "probe") and self.world > 1:
            end = self._mark()
            self._average(local)
            del local  # which takes milliseconds
            self.untimed = (end, self._mark())
        self.rest = self._mark()

    def _fill(self, there):
        """Returns the flat buffer with this rank's parts of the averages, except parts that it already has."""
        for p, slot, is_there in zip(self.params, self.slots, there):
            if p.grad is None:
                slot.zero_()
            elif not is_there:
                torch.mul(p.grad, self.share, out=slot)

    def _average(self, local):
        """Gives each rank the gradients that DDP would. `local`: this rank's parts of them in the flat buffer, if they are there
        no more."""
        used = torch.tensor(
            [p.grad is not None for p in self.params], dtype=torch.uint8, device=self.device
        )
        dist.all_reduce(used, op=dist.ReduceOp.MAX)
        if local is None:
            self._fill([None] * len(self.params))
        else:
            self.flat.copy_(local)
        for part in self.parts:
            sent = part.to(torch.bfloat16) if self.wrapper and hook_of(self.wrapper) else part
            dist.all_reduce(sent)
            part.copy_(sent)
        for p, slot, is_used in zip(self.params, self.slots, used.tolist()):
            if is_used and p.grad is None:
                p.grad = slot.clone()
            elif is_used:
                p.grad.copy_(slot)

    def _communicate(self, kind, piece_bytes, in_flight):
        """Returns the flat buffer's values for the file."""
        pieces, marks, works = (
            self.wire.split(max(1, piece_bytes // self.wire.element_size()))[:MOST_PIECES],
            [],
            [],
        )
        cpu, begin = time.process_time_ns(), self._mark()
        if kind == "fully_shard":
            pieces = [
                [self.params[i] for i in unit.parameters]
                for unit in repeated_blocks([p["name"] for p in self.head["parameters"]])
                if unit.parameters
            ]
            self.tried = self.tried or [*map(group_like, pieces)]
            marks = [*map(self._try_unit, self.tried)]
        elif kind == "zero1":
            pieces = self.slots
            works = [
                dist.broadcast(flat_of(p), src=r, async_op=True)
                for r in range(self.world)
                for p in pieces[r :: self.world]
            ]
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
        result = {
            "kind": kind,
            "in_flight": in_flight,
            "wall_ns": (begin, self._mark()),
            "cpu_ns": time.process_time_ns() - cpu,
            "ns": [(m[1], m[2]) for m in marks],
            "bytes": [
                sum(t.nbytes for t in p) if kind == "fully_shard" else p.nbytes for p in pieces
            ],
        }
        if kind in THREE_TIMES:
            result |= {
                "in_ns": [(m[0], m[1]) for m in marks],
                "out_ns": [(m[2], m[3]) for m in marks],
            }
        return result

    def _try_unit(self, group):
        """Marks around FSDP2's gather and reduction of a unit, which ranks begin together."""
        marks = []
        for call in (gather, reduce):
            self._meet()
            marks.append(self._mark())
            call(group)
            marks.append(self._mark())
            if call is gather:
                for p in group.fsdp_params:
                    p.unsharded_param.grad = torch.ones_like(p.unsharded_param)
        for p in group.fsdp_params:
            p.sharded_param.grad = None
        return marks

    def _owns(self, optimizer):
        """Returns whether the optimizer updates the model."""
        if any(optimizer is own for own in self.optimizers):
            return True
        if self.ids.isdisjoint(id(p) for group in optimizer.param_groups for p in group["params"]):
            return False
        if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
            self._refuse(
                "gradsync does not record ZeroRedundancyOptimizer: use the optimizer that it distributes; what_if "
                "predicts both"
            )
        self.optimizers.append(optimizer)
        return True

    def on_update(self, optimizer, args, kwargs):
        if self.stepping not in (None, optimizer) or not self._owns(optimizer):
            return None  # within the step of another optimizer, or of another model
        self.stepping = optimizer
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if (
            not self._update()
            and self.arrived
            and self.state in (BETWEEN, OPEN)
            and not callable(closure)
        ):
            self._refuse(
                "an optimizer steps with gradients that no backward synchronised, which gradsync does not record"
            )
        if not callable(closure):
            return None

        def evaluate(*arguments, **options):
            loss = closure(*arguments, **options)
            self._update()
            return loss

        return (
            ((args[0], evaluate, *args[2:]), kwargs)
            if len(args) > 1
            else (args, kwargs | {"closure": evaluate})
        )

    def _update(self):
        """Begins the update of the model, if this can be the update, and returns whether it is."""
        if self.state == SYNCED or self.state == OPEN and self.passed and not self.wrapper:
            self.state, self.updating, self.updated = UPDATED, self._mark(), None
            if self.memory:
                self.memory.on_update()
            return True
        return False

    def on_updated(self, optimizer):
        if self.stepping is not optimizer:
            return
        self.stepping, self.arrived, self.seen_in_eval, self.kept = None, 0, False, None
        if self.state == UPDATED:
            self.updated = self._mark()
            self.stepped += 1
            if self.taken >= 0 and self.stepped >= len(self.optimizers):
                self._end()
        elif self.state == SKIPPED:
            self.state = BETWEEN

    def on_scaled(self, optimizer):
        if (
            self.state in (OPEN, SYNCED) and self.passed and self._owns(optimizer)
        ):  # skipped, because gradients are infinite
            self.state, self.arrived, self.updated = BETWEEN, 0, None

    def _end(self):
        if self.updated is None:  # the optimizer has called its closure again
            self.updated = self._mark()
        begin, end = self.updating, self.updated
        self.state, self.arrived = BETWEEN, 0
        if self.memory:
            self.memory.end()
        if self.taken < 0:
            return self._start()
        if self.cuda:
            torch.cuda.synchronize()
        is_whole = "ready_ns" in self.step and (self.wrapper or self.passed == self.expected)
        if is_whole:
            self.step |= {
                "rest_ns": (self.rest, begin),
                "optimizer_ns": (begin, end),
                "step_ns": (self.begin, end),
            }
        if self.taken < len(self.plan):  # the first round is warm-up
            self.counts[self.passed] += 1
        elif is_whole and self.passed == self.head["passes"]:
            step = self._resolved(self.step)
            step["step_ns"] -= self._ns(*self.untimed) if self.untimed else 0
            self.steps.append(step)
            self.unlike = 0
        else:  # the step is repeated
            self.unlike += 1
            if self.unlike > len(self.plan):
                self._refuse(
                    f"steps had {self.head['passes']} passes, which are recorded, and have {self.passed} now"
                )
            return
        self.taken += 1
        if self.taken == len(self.plan):
            self.expected = self.head["passes"] = max(
                self.counts, key=lambda passes: passes * self.counts[passes]
            )  # most passes
            self._check_file("passes")
            if self.script:
                self.script.warmed_up(self)
        if self.taken == self.rounds * len(self.plan):
            self._finish()

    def _start(self):
        """Prepares recording, after the first step."""
        world, order = (
            self.world,
            sorted(
                range(len(self.params)),
                key=lambda i: (-self.params[i].element_size(), str(self.params[i].dtype)),
            ),
        )
        if world > 1:
            Recorder.count += 1
            store = dist.distributed_c10d._get_default_store()
            try:
                dist.distributed_c10d._store_based_barrier(
                    self.rank, store, f"gradsync{Recorder.count}", world, WAIT
                )
            except RuntimeError:
                return self._refuse(
                    "not all ranks are recorded: start every one by torchrun -m gradsync record"
                )
        # One buffer for all gradients: the largest elements first, so that gradients of one dtype are adjacent and aligned.
        self.parts, self.slots = [], [None] * len(order)
        sizes, total = [p.nbytes for p in self.params], sum(p.nbytes for p in self.params)
        widest = self.params[order[0]].element_size()
        self.flat, offset = (
            torch.zeros(-(-total // widest) * widest, dtype=torch.uint8, device=self.device),
            0,
        )
        for dtype, same in itertools.groupby(order, key=lambda i: self.params[i].dtype):
            begin = offset
            for i in same:
                self.slots[i] = (
                    self.flat[offset : offset + sizes[i]].view(dtype).view(self.params[i].shape)
                )
                offset += sizes[i]
            self.parts.append(
                self.flat[begin:offset].view(dtype.to_real() if dtype.is_complex else dtype)
            )
        self.wire = self.flat.view(max(self.parts, key=lambda part: part.nbytes).dtype)
        self.share, self.expected = 1 / world, self.passed
        names = " and ".join(sorted(type(optimizer).__name__ for optimizer in self.optimizers))
        self.head |= {
            "hosts": gathered(platform.node(), self.device),
            "optimizer": names or "no optimizer of torch.optim",
        }
        self._check_file(*(key for key in AGREE if key != "passes"))
        self.taken = 0
        if self.script:
            self.script.started(self)

    def _check_file(self, *keys):
        problem = self.rank == 0 and unusable(self.out, self.head, keys)
        if problem:
            self._refuse(problem, status=BAD_ARGUMENTS)

    def _resolved(self, value):
        """Replaces pairs of marks by times."""
        if isinstance(value, dict):
            return {key: self._resolved(v) for key, v in value.items()}
        if isinstance(value, list):
            return [self._resolved(v) for v in value]
        return self._ns(*value) if isinstance(value, tuple) else value

    def _rows(self):
        """What the script itself does."""
        return [row_of(self.wrapper, passes=self.head["passes"])] if self.wrapper else []

    def _memory(self):
        return self.memory.result if self.memory else UNKNOWN

    def _finish(self):
        self.done = True
        self.close()
        self._forget_used()
        self.head["rows"][:0] = self._rows()
        self.head["memory"] = self._memory()
        ranks = gathered(self.steps, self.device)
        if self.rank == 0:
            try:
                append(
                    self.out, json.dumps(self.head | {"ranks": ranks}, separators=(",", ":")) + "\n"
                )
            except OSError as error:
                self._refuse(f"{self.out} was left as it was: {error.strerror}")
        if self.script:
            self.script.finished()
