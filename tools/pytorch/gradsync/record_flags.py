"""Defines the flags of the command `record`, and the text that lists what `record` cannot record.
This module does not import PyTorch, so that `record --help` also works where PyTorch is not
installed."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gradsync import BAD_ARGUMENTS
from gradsync.ending import end_rank

LIMITS = """\
What record cannot record; it then prints one line at the first step, and ends:
- join(), sparse gradients, parameters on several devices
- gradients of another dtype than their parameters (grad_dtype)
- communication hooks other than bf16_compress_hook
- ZeroRedundancyOptimizer, FullyShardedDataParallel (the older FSDP), and other
  synchronisation without DistributedDataParallel or fully_shard
- fully_shard with an offload_policy or explicit prefetching, and backward
  passes that the script finalises itself
- optimizers that step within backward
- a whole training step that torch.compile compiles: compile the model instead
- bucket_cap_mb_list; several passes of a step of which each synchronises
- training in processes that the script starts itself (mp.spawn,
  multiprocessing): start them by torchrun

What it records in part:
- Of several models, one (--model).
- Of steps with different numbers of passes, the kind that has most of all
  passes. Each call of an optimizer's closure is a step.
- DDP's lazy_bucket_allocation and batched_grad_copy: predictions ignore them.
- Of compiled code, everything except its memory.
- Collectives of the script itself count as computation; the answer has their
  number.

fully_shard needs PyTorch 2.7 or newer: 2.7.1, 2.9.1, 2.12.1 and 2.15 were
tried. HSDP over gloo works with 2.9.1 and newer; PyTorch 2.7 cannot run it."""


class Parser(argparse.ArgumentParser):
    """A parser that, if arguments are wrong, prints one line of error and ends the process with the
    exit status BAD_ARGUMENTS."""

    def error(self, message: str) -> NoReturn:
        end_rank(message, BAD_ARGUMENTS)


def parser() -> Parser:
    """Returns a parser of the arguments that follow the word `record` in a command line."""
    result = Parser(
        prog="record",
        description="Records a script that trains with PyTorch.",
        epilog=LIMITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--out",
        default="gradsync.jsonl",
        help="adds a line to this file, in the current directory of rank 0; the file is compressed "
        "if its name ends in .gz",
    )
    result.add_argument(
        "--rounds",
        type=int,
        default=16,
        help="takes each kind of step this number of times; the first time is warm-up",
    )
    result.add_argument(
        "--no-ddp", action="store_true", help="takes no steps of DDP itself to compare with"
    )
    result.add_argument(
        "--continue",
        action="store_true",
        dest="goes_on",
        help="lets the script go on training when it is recorded",
    )
    result.add_argument(
        "--model",
        type=int,
        help="records this one of several models, counted from 1, in the order in which the script "
        "wraps them in DistributedDataParallel or, without it, in which their optimizers step "
        "first; by default the first model that steps",
    )
    result.add_argument("-m", action="store_true", help="runs a module, as python -m does")
    result.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    return result
