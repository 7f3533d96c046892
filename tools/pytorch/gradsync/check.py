"""Checks that a script trains with the mean of its ranks' gradients.

`check` copies each gradient when autograd delivers it, before anything can communicate it. When an
optimizer steps, `check` compares the gradient that the optimizer gets with the mean of all ranks'
copies, which a separate process group computes in f64. If a pass has one loss of cross_entropy,
nll_loss or mse_loss, `check` also compares the number that backward() gets with the mean loss over
all tokens.

Exit status: 0 the same, 1 a difference, 2 `check` cannot compare, 5 `check` itself has failed.
torchrun turns 2 and 5 into 1.

check_flags.py says what it cannot check.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import NoReturn

from gradsync.check_flags import parser
from gradsync.ending import end_rank
from gradsync.events import place
from gradsync.findings import Status
from gradsync.watching import Watch


def _arguments(argv: list[str]) -> argparse.Namespace:
    arguments = parser()
    flags = arguments.parse_args(argv)
    name = flags.script[0] if flags.script else ""
    if not os.path.isfile(name) or flags.groups < 1:
        arguments.error(f"no script {name}, or --groups={flags.groups} is less than 1")
    return flags


def _run_script(script: list[str]) -> None:
    """Runs the script as Python would. Ends this rank if the script fails."""
    sys.argv = script
    sys.path.insert(0, os.path.dirname(os.path.abspath(script[0])))
    try:
        runpy.run_path(script[0], run_name="__main__")
    except BaseException as end:
        if isinstance(end, SystemExit) and not end.code:
            return
        sys.excepthook(type(end), end, end.__traceback__)
        end_rank(f"{place(end)}: failed: {type(end).__name__}", Status.UNKNOWN)


def main(argv: list[str]) -> NoReturn:
    flags = _arguments(argv)

    def end_script(status: Status) -> None:
        if not flags.goes_on:
            os._exit(status)  # also if the script catches SystemExit

    watch = Watch(flags.groups, end_script)
    watch.start()
    _run_script(flags.script)
    if not watch.has_compared():
        end_rank(
            f"{watch.own_work.place or flags.script[0]}: no optimizer of PyTorch stepped with "
            "gradients of backward(): nothing was checked",
            Status.UNKNOWN,
        )
    if watch.status is None:
        watch.finish()
    sys.exit(watch.status)
