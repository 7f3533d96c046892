"""Records what a step of a PyTorch model costs, so that `what_if` can predict DistributedDataParallel (DDP) for it.

    torchrun --nproc_per_node=2 -m gradsync record [--out=FILE] [--rounds=N] [--no-ddp] train.py ARGS...

runs a script (or, with -m, a module) that uses DDP, as it is, and ends it after enough steps. In one's own loop: make a
Recorder(model, FILE) of any module or DDP, and loop until it is `done`. Needs PyTorch 2.1 and nothing else. Without a process
group nothing is communicated: what_if then has to be told a link. recorder.py says how it records, NOT_RECORDED below what this
is not for. A compiled model compiles in the warm-up round. Of several models in DDP the first that an optimizer steps is recorded.

FILE gets a line of JSON for each launch; record several, because memory lies elsewhere in each. Times are nanoseconds of
the host's monotonic clock, on a GPU of events. recording.py reads the fields:

    {"gradsync_torch": 1, "time", "torch", "command": [], "device", "processor", "backend", "world_size", "hosts": [by rank],
     "threads", "cores", "optimizer", "passes", "views", "link_rate", "parameters": [{"name", "numel", "bytes"}],
     "rows": [{"name", "bucket_bytes", "first_bucket_bytes", "bf16", "zero1", "passes", "rebuilt_bucket_bytes"}],
     "ranks": [rank: [step: {"mode", "row", "begin_ns", "before_ns", "backward_ns", "ready_ns", "copy_back_ns", "rest_ns",
        "optimizer_ns", "step_ns", "collectives": {"kind", "bytes", "in_flight", "ns", "in_ns", "out_ns", "wall_ns", "cpu_ns"}}]]}
"""
import argparse
import importlib.util
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist
from gradsync import Refused
from gradsync.recorder import DDP, Recorder, listen, place, unusable
from torch.optim.optimizer import register_optimizer_step_pre_hook

TRIED = (2, 3), (2, 15)  # the first and the last PyTorch that this was tried with
NOT_RECORDED = """Not for a GradScaler that skips steps (ranks that do not synchronise would skip different ones), join(),
sparse gradients, parameters of several dtypes or devices, static_graph, hooks of communication but bf16_compress_hook,
ZeroRedundancyOptimizer, several optimizers of one model or one that is not of torch.optim, FSDP, or processes that the script
starts itself (mp.spawn): start those by torchrun. Of steps with different numbers of passes those are recorded that have most of
the passes. Each call of an optimizer's closure is a step."""


def say(text):
    if os.environ.get("RANK", "0") == "0":
        print(f"gradsync: {text}", file=sys.stderr, flush=True)


def refuse(text):
    """Ends this rank whatever the script does with exceptions. Rank 0 says why, unless it has no reason to end."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(10)  # torchrun ends this rank when rank 0 has ended
    print(f"gradsync: {text}", file=sys.stderr)
    sys.stdout.flush()
    os._exit(1)


class Script:
    """A script that runs."""

    refuse = staticmethod(refuse)

    def __init__(self, finished, options):
        self.answer, self.options, self.pid, self.ended = finished, options, os.getpid(), False
        self.recorders = []  # of all models until one of them has started

    def watch(self, model):
        """A model was wrapped."""
        ids = {id(p) for p in model.parameters()}
        for recorder in [r for r in self.recorders if r.ids & ids]:
            recorder.close()
            self.recorders.remove(recorder)
            if recorder.taken >= 0:
                say(f"{place()}: the model of {recorder.place} is wrapped again, and recorded anew")
        if any(recorder.taken >= 0 for recorder in self.recorders):
            return
        try:
            self.recorders.append(Recorder(model, script=self, **self.options))
        except Refused as error:
            refuse(str(error))

    def started(self, recorder):
        if len(self.recorders) > 1:
            say(f"{recorder.place}: this one of {len(self.recorders)} models in DistributedDataParallel is recorded; what "
                "others communicate counts as computation")
        for other in self.recorders:
            if other is not recorder:
                other.close()
        self.recorders, self.began = [recorder], time.monotonic()
        say(f"records {recorder.rounds * len(recorder.plan)} steps; the first takes minutes if the model has to be compiled")

    def warmed_up(self, recorder):
        took = time.monotonic() - self.began
        say(f"{recorder.taken} steps of warm-up took {took:.0f} s, {recorder.rounds - 1} times as many follow")

    def finished(self):
        """Rank 0 answers, and all end. A script that catches SystemExit trains no further."""
        if dist.get_rank() == 0:
            self.answer(self.options["out"])
        dist.barrier()
        self.ended = True
        sys.stdout.flush()
        DDP._pre_forward = torch.autograd.backward = lambda *_, **__: (sys.stdout.flush(), os._exit(0))
        sys.exit(0)

    def on_update(self, optimizer, *_):
        if not self.recorders and self.pid == os.getpid() and any(
                p.grad is not None for group in optimizer.param_groups for p in group["params"]):
            refuse(f"{place()}: trains without DistributedDataParallel, so nothing is recorded; was it started by torchrun?")

    def run(self, argv):
        construct = DDP.__init__

        def construct_watched(model, *args, **kwargs):
            if os.getpid() != self.pid:
                refuse(f"{place()}: trains in a process that the script started: let torchrun start those that train")
            construct(model, *args, **kwargs)
            self.watch(model)

        def spawn(*_, **__):
            refuse(f"{place()}: starts processes, in which nothing is recorded: let torchrun start those that train")

        DDP.__init__, torch.multiprocessing.spawn = construct_watched, spawn
        listen()
        register_optimizer_step_pre_hook(self.on_update)
        module = argv[1:2] if argv[0] == "-m" else []
        sys.argv = argv[len(module):]
        try:
            if module:
                runpy.run_module(*module, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(os.path.abspath(argv[0]), run_name="__main__")
        except KeyboardInterrupt:
            refuse(f"{' '.join(argv)} was interrupted; nothing was recorded")
        except BaseException as end:
            if not self.ended and not (isinstance(end, SystemExit) and end.code in (None, 0)):
                raise
        if self.ended:
            sys.exit(0)
        if not self.recorders:
            refuse(f"{' '.join(argv)} used no DistributedDataParallel; nothing was recorded")
        steps, needed = self.recorders[0].taken + 1, self.recorders[0].rounds * len(self.recorders[0].plan) + 1
        refuse(f"{' '.join(argv)} took {steps} steps, which are too few: {needed} are needed")


def main(argv, finished=lambda out: None):
    parser = argparse.ArgumentParser(prog="record", description="Records a script that uses DistributedDataParallel.",
                                     epilog=NOT_RECORDED)
    parser.error = refuse
    parser.add_argument("--out", default="gradsync.jsonl", help="gets one more line")
    parser.add_argument("--rounds", type=int, default=16, help="how often each kind of step is taken; the first is warm-up")
    parser.add_argument("--no-ddp", action="store_true", help="takes no steps of DDP itself to compare with")
    parser.add_argument("-m", action="store_true", help="runs a module, as python -m does")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="train.py ARGS...")
    flags = parser.parse_args(argv)
    script = flags.script[flags.script[:1] == ["--"]:]
    out = os.path.realpath(flags.out)  # the script may go elsewhere
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if not TRIED[0] <= version <= TRIED[1]:
        say("PyTorch {} was never tried; {}.{} to {}.{} were".format(torch.__version__, *TRIED[0], *TRIED[1]))
    name = "".join(script[:1])
    sys.path.insert(0, os.getcwd() if flags.m else os.path.dirname(os.path.abspath(name)))
    try:
        found = importlib.util.find_spec(name) if flags.m and name else os.path.isfile(name)
    except ModuleNotFoundError as error:
        found = not name.startswith(error.name)  # else what it imports
    if not found:
        refuse(f"no {'module' if flags.m else 'script'} {name}")
    if flags.rounds < 2:
        refuse(f"--rounds={flags.rounds}: expected at least 2")
    command = ["-m"] * flags.m + script
    if unusable(out, {"command": command}, ["command"]):
        refuse(unusable(out, {"command": command}, ["command"]))
    Script(finished, {"out": out, "command": command, "rounds": flags.rounds, "ddp": not flags.no_ddp}).run(command)


if __name__ == "__main__":
    main(sys.argv[1:])
