"""Records what a step of a PyTorch model costs, so that `what_if` can predict what it takes on several ranks.

    torchrun --nproc_per_node=2 -m gradsync record [--out=FILE] [--rounds=N] [--no-ddp] [--continue] [--model=N] train.py ARGS...
    python -m gradsync record train.py ARGS...

runs a script (or, with -m, a module), as it is, and ends it after enough steps, or lets it train on (--continue). With several
processes the model is the first that the script wraps in DDP, or that has fully_shard; in one process the outermost module that
is called and holds the parameters of the first optimizer that steps. In one's own loop: make a Recorder(model, FILE) of any module
or DDP, or sharded.recorder_of(model, FILE) under fully_shard, and loop until it is `done`. Needs PyTorch 2.3 (fully_shard: 2.15) and
nothing else. Without a process group nothing is communicated: what_if then has to be told a link. recorder.py says how it records,
NOT_RECORDED below what this is not for. A compiled model compiles in the warm-up round.

FILE gets a line of JSON for each launch; record several, because memory lies elsewhere in each. Times are nanoseconds of
the host's monotonic clock, on a GPU of events. recording.py reads the fields:

    {"gradsync_torch": 1, "time", "torch", "command": [], "device", "processor", "backend", "world_size", "hosts": [by rank],
     "threads", "cores", "optimizer", "passes", "views", "link_rate", "parameters": [{"name", "numel", "bytes", "dtype"}],
     "memory": {"weight_bytes", "buffer_bytes", "state_bytes", "keeps_gradients", "forward_bytes", "order", "ready_bytes",
        "held_bytes", "optimizer_bytes"}, "units": [{"name", "parameters", "reshards"}],
     "rows": [{"name", "bucket_bytes", "first_bucket_bytes", "bf16", "zero1", "fsdp", "whole", "passes", "rebuilt_bucket_bytes"}],
     "ranks": [rank: [step: {"mode", "row", "begin_ns", "between_ns", "before_ns", "backward_ns", "ready_ns", "copy_back_ns",
        "rest_ns", "optimizer_ns", "step_ns",
        "collectives": {"kind", "bytes", "in_flight", "ns", "in_ns", "out_ns", "wall_ns", "cpu_ns"},
        "units_ns": [[begin and end of forward, of backward]], "gather_ns", "reduce_ns"}]]}

`memory` is of one step without synchronisation: what tensors take beside weights, gradients and the optimizer's state, at most in
forward, at most until each gradient is ready, and then (live.py). Nothing of it is known of compiled code.
"""

import argparse
import functools
import importlib.util
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist

from gradsync import BAD_ARGUMENTS, FAILED, Refused
from gradsync.events import Listener, listen, place, stop_listening, watch_calls
from gradsync.launch_file import unusable
from gradsync.patches import Patches
from gradsync.recorder import Recorder
from gradsync.sharded import recorder_of
from gradsync.torch_private import DDP
from gradsync.units import is_sharded

TRIED = (2, 3), (2, 15)  # the first and the last tested version of PyTorch
PATIENCE = 20  # backward passes before the first step of an optimizer of torch.optim
NOT_RECORDED = """Not for join(), sparse gradients, parameters on several devices, hooks of communication but bf16_compress_hook,
ZeroRedundancyOptimizer, FullyShardedDataParallel and what else communicates without DistributedDataParallel or fully_shard,
fully_shard with torch.compile, HSDP, an mp_policy or offload_policy, or explicit prefetching, passes that all synchronise, or
processes that the script starts itself (mp.spawn): start those by torchrun. Of steps with different numbers of passes those are
recorded that have most of the passes. Each call of an optimizer's closure is a step. Of several models one is recorded (--model)."""


def say(text):
    if os.environ.get("RANK", "0") == "0":
        print(f"gradsync: {text}", file=sys.stderr, flush=True)


def refuse(text, status=FAILED):
    """Ends this rank, also if the script catches exceptions. Rank 0 prints the reason, if there is one."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(10)  # torchrun ends this rank when rank 0 has ended
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(status)


class Script(Listener):
    """A running script. `number`: the recorded model, from 1; None: the first model that is trained."""

    refuse = staticmethod(refuse)

    def __init__(self, finished, goes_on, number, options):
        self.answer, self.goes_on, self.number, self.options = finished, goes_on, number, options
        self.pid, self.ended, self.is_found, self.recorders = (
            os.getpid(),
            False,
            False,
            [],
        )  # of all models until one is found
        self.wrapped, self.called, self.optimizers, self.backwards = (
            0,
            {},
            [],
            0,
        )  # models in DDP; outermost modules by id

    def record(self, model, **more):
        try:
            self.recorders.append(recorder_of(model, script=self, **self.options, **more))
        except Refused as error:
            refuse(str(error))

    def on_wrapped(self, model):
        again = [
            recorder
            for recorder in self.recorders
            if not recorder.ids.isdisjoint(map(id, model.parameters()))
        ]
        for recorder in again:
            recorder.close()
            self.recorders.remove(recorder)
            if recorder.taken >= 0:
                say(f"{place()}: the model of {recorder.place} is wrapped again, and recorded anew")
        self.wrapped += not again
        if again or self.number in (None, self.wrapped) and not self.is_found:
            self.record(model)

    def on_forward(self, model):
        if not self.recorders and torch.is_grad_enabled():
            self.called.setdefault(id(model), model)

    def on_update(self, optimizer, args, kwargs):
        """The first optimizer that takes a step shows which model is trained."""
        trained = {
            id(p) for group in optimizer.param_groups for p in group["params"] if p.grad is not None
        }
        if not trained:
            return
        for recorder in [r for r in self.recorders if not r.ids.isdisjoint(trained)][:1]:
            self._choose(recorder)
        if not any(optimizer is other for other in self.optimizers):
            self.optimizers.append(optimizer)
        if self.optimizers.index(optimizer) + 1 == (self.number or 1):
            self._find(trained)

    def _choose(self, recorder):
        for other in self.recorders:
            if other is not recorder:
                other.close()
        self.recorders = [recorder]
        if not self.is_found:  # listening takes time
            self.watched.undo()
            stop_listening(self)
            self.is_found = True

    def on_backward_end(self):
        """An object with step() need not be an optimizer of torch.optim."""
        self.backwards += 1
        if self.backwards == PATIENCE and not self.optimizers:
            self._find(
                {
                    id(p)
                    for module in self.called.values()
                    for p in module.parameters()
                    if p.grad is not None
                }
            )

    def _find(self, trained):
        if self.recorders or self.wrapped or os.getpid() != self.pid:
            return
        holds = {
            id(m): {id(p) for p in m.parameters() if p.grad is not None}
            for m in self.called.values()
        }
        roots = [m for m in self.called.values() if trained <= holds[id(m)]][:1] or [
            m for m in self.called.values() if trained & holds[id(m)]
        ]
        if not roots:
            refuse(f"{place()}: no module that was called holds what is updated here")
        if dist.is_initialized() and dist.get_world_size() > 1:
            if not is_sharded(roots[0]):
                refuse(
                    f"{place()}: trains without DistributedDataParallel or fully_shard, which are what gradsync records of "
                    "several processes; start one: python -m gradsync record"
                )
            self.record(roots[0])
            return self._choose(self.recorders[0])
        self.record(
            roots[0] if len(roots) == 1 else torch.nn.ModuleList(roots),
            roots=roots,
            only=set().union(*(holds[id(m)] for m in roots)),
        )
        self._choose(self.recorders[0])

    def started(self, recorder):
        self._choose(recorder)
        if self.wrapped > 1:
            say(
                f"{recorder.place}: this one of {self.wrapped} models in DistributedDataParallel is recorded (--model); what "
                "others communicate counts as computation"
            )
        self.began = time.monotonic()
        say(
            f"records {recorder.rounds * len(recorder.plan)} steps; the first takes minutes if the model has to be compiled"
        )

    def warmed_up(self, recorder):
        took = time.monotonic() - self.began
        say(
            f"{recorder.taken} steps of warm-up took {took:.0f} s, {recorder.rounds - 1} times as many follow"
        )

    def finished(self):
        """Rank 0 prints the answer, and all ranks end or continue. A script that catches SystemExit does not train further."""
        if self.recorders[0].world == 1:
            say(
                f"recorded; ask: gradsync what_if {self.options['out']} --link=25Gbit,5us --world_size=8"
            )
        elif dist.get_rank() == 0:
            self.answer(self.options["out"])
        if dist.is_initialized():
            dist.barrier()
        sys.stdout.flush()
        self.ended = True
        if not self.goes_on:
            DDP._pre_forward = torch.autograd.backward = lambda *_, **__: (
                sys.stdout.flush(),
                os._exit(0),
            )
            sys.exit(0)

    def run(self, argv):
        def construct_watched(construct, model, *args, **kwargs):
            if os.getpid() != self.pid:
                refuse(
                    f"{place()}: trains in a process that the script started: let torchrun start those that train"
                )
            construct(model, *args, **kwargs)
            self.on_wrapped(model)

        def spawn(*_, **__):
            refuse(
                f"{place()}: starts processes, in which nothing is recorded: let torchrun start those that train"
            )

        patches = Patches()
        patches.replace(DDP, "__init__", construct_watched)
        patches.replace(torch.multiprocessing, "spawn", spawn)
        patches.replace(torch.multiprocessing, "start_processes", spawn)
        self.watched = Patches()
        watch_calls(torch.nn.Module, self.watched)
        listen(self)
        module = argv[1:2] if argv[0] == "-m" else []
        sys.argv = argv[len(module) :]
        try:
            if module:
                runpy.run_module(*module, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(os.path.abspath(argv[0]), run_name="__main__")
        except KeyboardInterrupt:
            refuse(f"{' '.join(argv)} was interrupted; nothing was recorded")
        except BaseException as end:
            if (
                self.goes_on
                or not self.ended
                and not (isinstance(end, SystemExit) and end.code in (None, 0))
            ):
                raise
        if self.ended:
            sys.exit(0)
        if not self.recorders:
            refuse(
                f"{' '.join(argv)} trained no model, or too few steps to tell which (--model={self.number or 1}); "
                "nothing was recorded"
            )
        steps, needed = (
            self.recorders[0].taken + 1,
            self.recorders[0].rounds * len(self.recorders[0].plan) + 1,
        )
        refuse(f"{' '.join(argv)} took {steps} steps, which are too few: {needed} are needed")


def main(argv, finished=lambda out: None):
    parser = argparse.ArgumentParser(
        prog="record", description="Records a script that trains with PyTorch.", epilog=NOT_RECORDED
    )
    parser.error = wrong = functools.partial(refuse, status=BAD_ARGUMENTS)
    parser.add_argument("--out", default="gradsync.jsonl", help="adds a line to this file")
    parser.add_argument(
        "--rounds",
        type=int,
        default=16,
        help="takes each kind of step this number of times; the first is warm-up",
    )
    parser.add_argument(
        "--no-ddp", action="store_true", help="takes no steps of DDP itself to compare with"
    )
    parser.add_argument(
        "--continue",
        action="store_true",
        dest="goes_on",
        help="lets the script train on when it is recorded",
    )
    parser.add_argument(
        "--model",
        type=int,
        help="records this one of several models, from 1: in the order in which they are wrapped in "
        "DistributedDataParallel, or, without it, in which their optimizers step first; by default the first that "
        "steps",
    )
    parser.add_argument("-m", action="store_true", help="runs a module, as python -m does")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    flags = parser.parse_args(argv)
    script = flags.script[flags.script[:1] == ["--"] :]
    out = os.path.realpath(flags.out)  # the script may change the directory
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if not TRIED[0] <= version <= TRIED[1]:
        say(
            "PyTorch {} was never tried; {}.{} to {}.{} were".format(
                torch.__version__, *TRIED[0], *TRIED[1]
            )
        )
    name = "".join(script[:1])
    sys.path.insert(0, os.getcwd() if flags.m else os.path.dirname(os.path.abspath(name)))
    try:
        found = importlib.util.find_spec(name) if flags.m and name else os.path.isfile(name)
    except ModuleNotFoundError as error:
        found = not name.startswith(error.name)  # else a module that the script imports is missing
    if not found:
        wrong(f"no {'module' if flags.m else 'script'} {name}")
    if flags.rounds < 2:
        wrong(f"--rounds={flags.rounds}: expected at least 2")
    command = ["-m"] * flags.m + script
    if unusable(out, {"command": command}, ["command"]):
        wrong(unusable(out, {"command": command}, ["command"]))
    options = {"out": out, "command": command, "rounds": flags.rounds, "ddp": not flags.no_ddp}
    Script(finished, flags.goes_on, flags.model, options).run(command)


if __name__ == "__main__":
    main(sys.argv[1:])
