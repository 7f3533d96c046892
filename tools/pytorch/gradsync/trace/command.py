"""Defines the command `gradsync trace`: its flags, output and exit statuses."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from gradsync import BAD_ARGUMENTS, Refused
from gradsync.standard_output import print_answer
from gradsync.trace.plan import Plan, write_recording
from gradsync.trace.report import as_json, read_ranks, report_of
from gradsync.trace.text import text_of
from gradsync.units_text import bytes_text

DESCRIPTION = """\
What traces of torch.profiler tell of steps and of their communication: .json or .json.gz, of one
rank or of several ranks of one job."""
LIMITS = """\
A trace of one rank tells no waiting. Ranks are aligned by the order of their collectives, or by
their numbers, and a collective whose ends differ is left out. Sums of times that overlap are shown
nowhere: each time is the length of a union. Kernels count as communication by their names, their
facts or the record that launched them. Without record_shapes=True sizes over gloo are unknown. Not
read: .pftrace, nsys, several GPUs of one process. --out refuses traces of comm hooks, batched
copies and FSDP, and steps that are not whole."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one line of error to stderr, and ends the process with the status BAD_ARGUMENTS.
        argparse calls this method if flags are wrong."""
        self.exit(BAD_ARGUMENTS, f"trace: {message}\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line, and returns its flags. If flags are wrong, prints why and ends the
    process."""
    parser = _Parser(prog="trace", allow_abbrev=False, description=DESCRIPTION, epilog=LIMITS)
    parser.add_argument("traces", nargs="+", help="Reads these files, one a rank.")
    parser.add_argument(
        "--out",
        help="Adds a recording of one process, of the first rank's steps of "
        "DistributedDataParallel, to this file: gradsync what_if FILE --link=... predicts from it.",
    )
    parser.add_argument(
        "--format",
        choices=("screen", "json"),
        default="screen",
        help="Prints in this format; times of json are seconds. Default: screen.",
    )
    return parser.parse_args(arguments)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Returns a context in which Python's garbage collector is off, because it is slow with
    millions of small objects that all stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def recorded_text(plan: Plan, path: str) -> str:
    """Returns a text that tells what is in the recording that was written to `path`, and what is
    unknown."""
    total = sum(gradient.bytes for gradient in plan.gradients)
    return (
        f"{path}: a recording of one process, {len(plan.gradients)} gradients, "
        f"{bytes_text(total)} in {len(plan.buckets)} buckets. Its computation contains what "
        "communication took from it; memory, threads and cores are unknown."
    )


def _output(flags: argparse.Namespace) -> str:
    with _without_collector():
        ranks = read_ranks(flags.traces)
        report = report_of(ranks)
        if flags.out:
            plan = write_recording(ranks[0], os.path.realpath(flags.out))
            report.notes.append(recorded_text(plan, flags.out))
    return json.dumps(as_json(report)) if flags.format == "json" else text_of(report)


def main(arguments: Sequence[str]) -> int:
    """Reads the traces that the arguments name, prints the report or an error, and returns the exit
    status. With --out=FILE, also adds a recording to FILE."""
    flags = parse(arguments)
    try:
        output = _output(flags)
    except Refused as error:
        print(f"trace: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    return print_answer("trace", output)
