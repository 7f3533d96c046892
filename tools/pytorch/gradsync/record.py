"""Records what a step of a PyTorch model costs, so that `what_if` can predict what it takes on
several ranks.

    torchrun --nproc_per_node=2 -m gradsync record [--out=FILE] [--rounds=N] [--no-ddp] [--continue]
        [--model=N] train.py ARGS...
    python -m gradsync record train.py ARGS...

runs a script (or, with -m, a module), as it is, and ends it after enough steps, or lets it train on
(--continue). With several processes the model is the first that the script wraps in DDP, or that
has fully_shard; in one process the outermost module that is called and holds the parameters of the
first optimizer that steps. In one's own loop, as in a notebook: make a Recorder(model, FILE) of any
module, also one in DDP or under fully_shard, and loop until it is `done`. Needs PyTorch 2.3
(fully_shard: 2.15) and nothing else. Without a process group nothing is communicated: what_if then
has to be told a link. recorder.py says how it records, NOT_RECORDED below what this is not for. A
compiled model compiles in the warm-up round.

FILE gets a line of JSON for each launch; record several, because memory lies elsewhere in each. If
its name ends in .gz it is compressed. schema.py says what a line holds. Its `memory` is of one step
without synchronisation (live.py); nothing of it is known of compiled code.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch

from gradsync import BAD_ARGUMENTS
from gradsync.launch_file import UnusableFile, check_usable
from gradsync.recorder import Recorder
from gradsync.script import Options, Script, refuse, say

__all__ = ["Recorder", "main"]

TRIED = (2, 3), (2, 15)  # the first and the last tested version of PyTorch
NOT_RECORDED = """\
Not for join(), sparse gradients, parameters on several devices, hooks of communication but
bf16_compress_hook, ZeroRedundancyOptimizer, FullyShardedDataParallel and what else communicates
without DistributedDataParallel or fully_shard, fully_shard with an offload_policy or explicit
prefetching, bucket_cap_mb_list, backward passes that the script finalises itself, gradients of
another dtype than their parameters (grad_dtype), passes that all synchronise, optimizers that step
within backward, training steps that are compiled as one function (compile the model instead), or
training in processes that the script starts itself (mp.spawn): start those by torchrun. Other
collectives of the script count as computation; the answer says how many there are. DDP's
lazy_bucket_allocation and batched_grad_copy are recorded, but what_if counts buckets as if they
were there all the time, and copies as if they were made one by one. Of steps with different numbers
of passes those are recorded that have most of the passes. Each call of an optimizer's closure is a
step. Of several models one is recorded (--model)."""


class Parser(argparse.ArgumentParser):
    """Refuses wrong arguments in one line, as everything else is refused."""

    def error(self, message: str) -> NoReturn:
        refuse(message, BAD_ARGUMENTS)


def parser() -> Parser:
    result = Parser(
        prog="record", description="Records a script that trains with PyTorch.", epilog=NOT_RECORDED
    )
    result.add_argument(
        "--out",
        default="gradsync.jsonl",
        help="adds a line to this file, which is compressed if its name ends in .gz",
    )
    result.add_argument(
        "--rounds",
        type=int,
        default=16,
        help="takes each kind of step this number of times; the first is warm-up",
    )
    result.add_argument(
        "--no-ddp", action="store_true", help="takes no steps of DDP itself to compare with"
    )
    result.add_argument(
        "--continue",
        action="store_true",
        dest="goes_on",
        help="lets the script train on when it is recorded",
    )
    result.add_argument(
        "--model",
        type=int,
        help="records this one of several models, from 1: in the order in which they are wrapped "
        "in DistributedDataParallel, or, without it, in which their optimizers step first; by "
        "default the first that steps",
    )
    result.add_argument("-m", action="store_true", help="runs a module, as python -m does")
    result.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    return result


def is_there(name: str, is_module: bool) -> bool:
    """Whether there is a script, or a module, of this name."""
    if not name or not is_module:
        return os.path.isfile(name)
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        # Another module that a package imports may be missing: then running it says so.
        return not name.startswith(error.name or "")


def warn_of_version() -> None:
    first, last = TRIED
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if not first <= version <= last:
        say(
            f"PyTorch {torch.__version__} was never tried; {first[0]}.{first[1]} to "
            f"{last[0]}.{last[1]} were"
        )


def main(argv: Sequence[str], finished: Callable[[str], None] = lambda out: None) -> NoReturn:
    """Runs a script and ends this process. `finished` is called in rank 0 with the name of the file
    to which a launch of several processes was added.
    """
    arguments = parser()
    flags = arguments.parse_args(argv)
    script = flags.script[1:] if flags.script[:1] == ["--"] else flags.script
    out = os.path.realpath(flags.out)  # the script may change the directory
    warn_of_version()
    name = script[0] if script else ""
    sys.path.insert(0, os.getcwd() if flags.m else os.path.dirname(os.path.abspath(name)))
    if not is_there(name, flags.m):
        arguments.error(f"no {'module' if flags.m else 'script'} {name}")
    if flags.rounds < 2:
        arguments.error(f"--rounds={flags.rounds}: expected at least 2")
    command = ["-m", *script] if flags.m else script
    try:
        check_usable(out, command=tuple(command))
    except UnusableFile as error:
        arguments.error(str(error))
    options = Options(
        out=out,
        command=command,
        rounds=flags.rounds,
        ddp=not flags.no_ddp,
        goes_on=flags.goes_on,
        number=flags.model,
    )
    Script(options, finished).run()


if __name__ == "__main__":
    main(sys.argv[1:])
