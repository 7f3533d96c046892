"""Defines the flags of the command `check`, and its help text, which lists what `check` cannot
check. This module works without PyTorch, so that `check --help` always works."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gradsync.ending import end_rank
from gradsync.findings import Status

DESCRIPTION = """\
Checks that a script trains with the mean of its ranks' gradients.

check copies each gradient when autograd delivers it, before anything can
communicate it. When an optimizer steps, check compares the gradient that the
optimizer gets with the mean of all ranks' copies, which a separate process
group computes in f64. If the script has a loss of cross_entropy, nll_loss or
mse_loss, or reduces its loss before backward(), check also measures how often
backward() counts that loss.

check compares two steps of each optimizer that the script has made. It compares
only the first step of an optimizer that averages gradients itself and divides
its state among the ranks. Then the script ends. It also ends when an optimizer
has taken 50 steps (2 N, if N of --groups=N is above 25)."""
LIMITS = """\
Exit status: 0 the same, 1 a difference, also if the script fails later, 2 check
cannot compare, 5 check itself has failed. torchrun turns 2 and 5 into 1.

What check cannot check:
- sparse gradients, and gradients that no backward() computes
- tensor parallelism, FullyShardedDataParallel (the older FSDP)
- optimizers of copies of parameters, except DeepSpeed's
- optimizers that average gradients themselves and have attributes
- processes that the script starts itself

What check does not see:
- gradients that a collective within a forward should bring back, and does not:
  those of gathered embeddings, or of synchronised statistics
- parameters that an optimizer with shared updates forgets on all ranks
- coefficients of losses that you do not mean"""


class Parser(argparse.ArgumentParser):
    """A parser that ends the process with one line of error if arguments are wrong."""

    def error(self, message: str) -> NoReturn:
        end_rank(message, Status.UNKNOWN)


def parser() -> Parser:
    """Returns the parser of the command line after the word `check`."""
    result = Parser(
        prog="check",
        description=DESCRIPTION,
        epilog=LIMITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--groups",
        type=int,
        default=1,
        help="checks parameters in this number of groups, one after the other, which needs less "
        "memory",
    )
    result.add_argument(
        "--continue",
        action="store_true",
        dest="goes_on",
        help="lets the script go on training when it is checked",
    )
    result.add_argument("script", nargs=argparse.REMAINDER, help="runs train.py ARGS...")
    return result
