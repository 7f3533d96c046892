"""The flags of `check`, and what it cannot check. Needs no PyTorch, so that everybody can read the
help."""

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
group computes in f64. If a pass has one loss of cross_entropy, nll_loss or
mse_loss, check also compares the gradient with the mean over all tokens."""
LIMITS = """\
Exit status: 0 the same, 1 a difference, 2 check cannot compare, 5 check itself
has failed. torchrun turns 2 and 5 into 1.

What check cannot check:
- sparse gradients, and gradients that no backward() computes
- tensor parallelism, FullyShardedDataParallel (the older FSDP)
- optimizers of copies of parameters, except DeepSpeed's
- optimizers that average gradients themselves and have attributes
- processes that the script starts itself"""


class Parser(argparse.ArgumentParser):
    """Refuses wrong arguments in one line, as everything else is refused."""

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
