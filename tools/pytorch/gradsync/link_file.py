"""This module reads files with measured times of collectives: output of nccl-tests, rccl-tests or
osu_allreduce, records of gradsync's all_reduce, or a recording.

Rows of nccl-tests and rccl-tests whose size, time and bandwidths contradict each other are not used
(nccl_run.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from gradsync import Refused, all_reduce_records, osu_output
from gradsync.json_logs import log_of
from gradsync.link import KINDS, LinkCosts, MeasuredLink, Operation
from gradsync.log_text import read_text
from gradsync.nccl_json import is_measurement, runs_of_documents
from gradsync.nccl_output import is_header, runs_of
from gradsync.nccl_run import Run
from gradsync.recording import Recording
from gradsync.refusing import require
from gradsync.repeats import refuse_differing

EXPECTED = (
    "expected what nccl-tests, rccl-tests or osu_allreduce printed, records of all_reduce, "
    "or a recording"
)
LONGEST_LINE = 4096  # characters; what is longer is no measurement
HEAD = 200  # characters in which a file of records tells what it is
NO_NAME = "a collective that is not named, with redop none or a root"
BRACES = ("{", "[")


def read_link(path: str, world_size: int) -> Recording | MeasuredLink:
    """Returns the link that `path` (a file, or a directory of records) describes: a Recording if
    the file is a recording, else a MeasuredLink. `world_size`: the number of ranks that ran
    osu_allreduce, used if the output of osu_allreduce does not tell it.

    Raises Refused, with one line that begins with `path`, if `path` cannot be read or describes no
    link.
    """
    try:
        return _read(path, world_size)
    except json.JSONDecodeError as error:
        reason = f"JSON that is cut off or none at all, error at byte {error.pos + 1}"
        raise Refused(f"{path}: {reason}") from None
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise Refused(f"{path}: lacks what such a file has ({error}): {EXPECTED}") from None
    except (ValueError, OSError, RecursionError) as error:
        text = str(error)
        raise Refused(text if text.startswith(path) else f"{path}: {text}") from None


def _read(path: str, world_size: int) -> Recording | MeasuredLink:
    if os.path.isdir(path):
        return all_reduce_records.link_of(path)
    text = read_text(path).strip()
    if all_reduce_records.MARK in text[:HEAD]:
        return all_reduce_records.link_of(path)
    if '"gradsync_torch"' in text.partition("\n")[0]:
        return Recording(path)
    log = log_of(text, is_measurement)
    lines = [line for line in log.lines if len(line) < LONGEST_LINE]
    has_header = any(map(is_header, lines))
    if any(map(osu_output.is_title, lines)) and not has_header:
        return osu_output.link_of(lines, world_size)
    runs = [*runs_of_documents(log.documents, lines), *runs_of(lines)]
    if not runs and text.startswith(BRACES):
        json.loads(text)  # tells where it is cut off
    return _link_of_runs(runs, is_of_nccl_tests=has_header or bool(log.documents))


def _link_of_runs(runs: Sequence[Run], is_of_nccl_tests: bool) -> MeasuredLink:
    """Returns the link that these runs of nccl-tests or rccl-tests measured by all-reduces and, if
    there are any, by all-gathers. Raises Refused if the runs cannot be used, for example if there
    is no all-reduce, or if their numbers of ranks differ."""
    begins = (
        "begins as nccl-tests do and has no rows"
        if is_of_nccl_tests
        else "none of its lines is a measurement"
    )
    require(runs, f"{begins}: {EXPECTED}")
    names = {run.collective() or NO_NAME for run in runs}
    measured = ", ".join(sorted(names))
    all_reduce = Operation.ALL_REDUCE.value
    require(all_reduce in names, f"measured {measured}: expected all_reduce")
    operations = {kind.value: kind for kind in KINDS}
    checked = [
        run.checked(operations[name])
        for run in runs
        if (name := run.collective()) is not None and name in operations
    ]
    worlds = sorted({one.ranks for one in checked})
    require(
        len(worlds) == 1,
        f"measured by {' and by '.join(map(str, worlds))} ranks, expected as many",
    )
    costs = [cost for one in checked for cost in one.costs]
    refuse_differing(costs)
    says = sorted({line for one in checked for line in one.says})
    return MeasuredLink(LinkCosts(costs), worlds[0], says)
