"""Runs the command `check`, which checks that the optimizers of a script get the mean of all ranks'
gradients.

`check` copies each gradient that it will compare when autograd delivers it, before anything can
communicate it. In a checked step of an optimizer, `check` compares the gradient that the optimizer
gets for a parameter with the mean over ranks of what autograd has delivered. A process group that
`check` has made computes this mean in f64. If the optimizer itself averages gradients over ranks,
`check` compares the updated weights with those that a copy of the optimizer computes from the mean.

The exit status is the first of these numbers that applies. 1: `check` has found a difference, even
if the script or `check` fails later. 5: `check` itself has failed. 2: `check` cannot compare, or
the script fails. 0: `check` has found no difference. torchrun itself ends with 1 if a rank ends
with 2 or 5.

check_flags.py lists what `check` cannot compare, and which mistakes it does not see.
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


def _run_script(script: list[str], watch: Watch) -> None:
    """Runs the script as `python SCRIPT` would. Ends this rank's process if the script raises an
    exception or exits with a status other than 0."""
    sys.argv = script
    sys.path.insert(0, os.path.dirname(os.path.abspath(script[0])))
    try:
        runpy.run_path(script[0], run_name="__main__")
    except BaseException as end:
        if isinstance(end, SystemExit) and not end.code:
            return
        sys.excepthook(type(end), end, end.__traceback__)
        how = f"failed: {type(end).__name__}"
        status = watch.fail_script(f"has {how}, at {place(end)}")
        end_rank(f"{place(end)}: {how}", status)


def _refuse_idle(script: str, watch: Watch) -> NoReturn:
    """Ends this rank with an error, because the script has ended without an optimizer's update that
    `check` could compare."""
    text = (
        f"{watch.own_work.place or script}: no optimizer of PyTorch stepped with gradients of "
        "backward(): nothing was checked"
    )
    if watch.elsewhere.starts_at:
        text += (
            f"; {watch.elsewhere.starts_at} starts processes, which check does not see: let "
            "torchrun start those that train"
        )
    end_rank(text, watch.fail_script("has ended"))


def main(argv: list[str]) -> NoReturn:
    flags = _arguments(argv)

    def end_script(status: Status) -> None:
        if not flags.goes_on:
            os._exit(status)  # also if the script catches SystemExit

    watch = Watch(flags.groups, end_script)
    watch.start()
    _run_script(flags.script, watch)
    if watch.status is None and not watch.has_compared():
        _refuse_idle(flags.script[0], watch)
    if watch.status is None:
        watch.end_script("has ended")
    sys.exit(watch.status)
