"""A launch of gradsync.record in round numbers, and questions about it."""

import json
import os
import tempfile
from dataclasses import replace

from gradsync.answering import answer_of
from gradsync.prediction import Predictor
from gradsync.schema import Row
from gradsync.text import text_of
from gradsync.what_if_command import parse, question_from

MS, MIB = 1_000_000, 1 << 20


def timed(mode, before, backward, optimizer, **more):
    """A step of which forward and the passes before, backward and the optimizer take so many ms."""
    return {
        "mode": mode,
        "begin_ns": 0,
        "before_ns": before * MS,
        "backward_ns": backward * MS,
        "ready_ns": [backward * MS, 30 * MS, 10 * MS],
        "rest_ns": MS,
        "optimizer_ns": optimizer * MS,
        "step_ns": (before + backward + 1 + optimizer) * MS,
        **more,
    }


def probe(kind, in_flight, sizes, each_ms, wall_ms, **casts):
    """A step after which collectives of these sizes take so long each, and all of them."""
    sent = {
        "kind": kind,
        "in_flight": in_flight,
        "bytes": sizes,
        "ns": [each_ms * MS] * len(sizes) * in_flight,
        "wall_ns": wall_ms * MS,
        "cpu_ns": 0,
        **casts,
    }
    return timed("probe", 20, 40, 6, collectives=sent)


def turn():
    """One step of each kind."""
    return [
        timed("none", 19, 38, 5),
        probe("all_reduce", 1, 4 * [MIB], 10, 40),
        probe("all_reduce", 1, [4 * MIB], 40, 40),
        probe("all_reduce", 0, 4 * [MIB], 0, 32),
        probe("bf16", 1, 4 * [MIB], 12, 56, in_ns=4 * [MS], out_ns=4 * [MS]),
        probe("zero1", 0, [MIB, 2 * MIB, MIB], 0, 30),
        {"mode": "ddp", "row": 0, "begin_ns": 0, "step_ns": 90 * MS},
    ]


def launch():
    """Two ranks, parameters of 1, 2 and 1 MiB that are ready in reverse order, after 10, 30 and 40
    ms of a backward of 40 ms; forward 20 ms, optimizer 6, clipping 1 (`none`: 19, 38, 5, 1). An
    all-reduce takes 10 ms a MiB alone and 8 as one of two, and no processor's time; in bf16 12 ms
    for each MiB that it computes with, 1 to cast and 1 to cast back. ZeroRedundancyOptimizer's
    broadcasts take 30 ms. DDP itself takes 90 ms.
    """
    row = {
        "name": "as the script has it",
        "bucket_bytes": 25 * MIB,
        "first_bucket_bytes": MIB,
        "bf16": False,
        "zero1": False,
        "passes": 1,
        "rebuilt_bucket_bytes": [MIB, 3 * MIB],
    }
    # Nothing is shared, so that tests can change it.
    return {
        "gradsync_torch": 1,
        "torch": "2.15.0",
        "device": "cpu",
        "backend": "gloo",
        "world_size": 2,
        "hosts": ["a", "a"],
        "threads": 1,
        "cores": 2,
        "optimizer": "SGD",
        "passes": 1,
        "views": True,
        "parameters": [
            {"name": name, "numel": mib * MIB // 4, "bytes": mib * MIB}
            for name, mib in (("a", 1), ("b", 2), ("c", 1))
        ],
        "rows": [row],
        "ranks": [[step for _ in range(12) for step in turn()] for _ in range(2)],
    }


def alone():
    """One rank, which communicates with nobody."""
    one = launch()
    one.update(world_size=1, hosts=["a"], cores=1, backend="none", ranks=one["ranks"][:1])
    for step in steps_of(one, "probe"):
        del step["collectives"]
    return one


def steps_of(one, mode):
    return [step for steps in one["ranks"] for step in steps if step["mode"] == mode]


def sent_by(one, kind=None):
    return [
        step["collectives"]
        for step in steps_of(one, "probe")
        if kind in (None, step["collectives"]["kind"])
    ]


def sharded(**changes):
    """The launch under FSDP2: a unit of `b` and the root. A unit is gathered in 3 ms a MiB, and
    reduced in 5.
    """
    one = launch()
    one["units"] = [
        {"name": "", "parameters": [0, 2], "reshards": False},
        {"name": "h.0", "parameters": [1], "reshards": True},
    ]
    for step in steps_of(one, "none") + steps_of(one, "probe"):
        step.update(
            units_ns=[[0, 19 * MS, 19 * MS, 57 * MS], [5 * MS, 15 * MS, 25 * MS, 45 * MS]],
            gather_ns=[6 * MS, 6 * MS],
            reduce_ns=[10 * MS, 10 * MS],
        )
    one["rows"] = [{**one["rows"][0], "fsdp": True, "rebuilt_bucket_bytes": []}]
    return {**one, **changes}


def with_units(one):
    """A probe of FSDP2's gathers and reductions of two blocks."""
    sent = {
        "kind": "fully_shard",
        "in_flight": 1,
        "bytes": [3 * MIB, MIB],
        "ns": [MS] * 2,
        "in_ns": [26 * MS, 9 * MS],
        "out_ns": [47 * MS, 15 * MS],
        "wall_ns": 99 * MS,
        "cpu_ns": 0,
    }
    for steps in one["ranks"]:
        steps += [
            {**step, "collectives": {**sent}}
            for step in steps
            if step.get("collectives", {}).get("kind") == "zero1"
        ]
    return json.loads(json.dumps(one))


def changed(**fields):
    return {**launch(), **fields}


def written(*launches):
    """The path of a recording of these launches, or of this text."""
    with tempfile.NamedTemporaryFile(
        "w", suffix=".jsonl", dir=os.environ.get("TEST_TMPDIR"), delete=False
    ) as file:
        file.writelines(one if isinstance(one, str) else json.dumps(one) + "\n" for one in launches)
    return file.name


def question(launches, **flags):
    """What the command asks with these flags about a recording of these launches."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    return question_from(parse([written(*launches), *arguments]))


def predictor(*launches, **flags):
    return Predictor(question(launches or [launch()], **flags))


def predict(*launches, pace=1, flags=None, **changes):
    """What a step should take, of one bucket of all unless the settings are changed."""
    one_bucket = Row(
        name="",
        bucket_bytes=100 * MIB,
        first_bucket_bytes=100 * MIB,
        bf16=False,
        zero1=False,
        passes=1,
        rebuilt_bucket_bytes=(),
    )
    return predictor(*launches, **(flags or {})).step(replace(one_bucket, **changes), pace)


def ask(*launches, **flags):
    """The answer."""
    return answer_of(question(launches or [launch()], **flags))


def screen(*launches, **flags):
    """The answer as the command prints it."""
    return text_of(ask(*launches, **flags))
