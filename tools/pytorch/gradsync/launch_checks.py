"""Checks whether the parts of a recorded launch (one run of the script) agree with each other, and
whether the launches in one recording agree in fields such as their command and machine."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync import Refused
from gradsync.schema import CollectiveKind, Collectives, Launch, Memory, Step, StepMode

# In what launches of one recording agree, beside their parameters.
AGREEING_FIELDS = (
    "command",
    "device",
    "processor",
    "backend",
    "world_size",
    "hosts",
    "cores",
    "threads",
    "torch",
    "optimizer",
    "passes",
    "views",
    "link_rate",
    "sharing_ranks",
)


def differing_field(
    one: Launch, other: Launch, names: Sequence[str] = AGREEING_FIELDS
) -> str | None:
    """Returns the first of the fields `names` in which two launches differ; None if they agree in
    all of these. Host names themselves may differ between launches: this function compares only
    which ranks have the same host name."""
    for name in names:
        if _comparable(one, name) != _comparable(other, name):
            return name
    return None


def _comparable(launch: Launch, name: str) -> object:
    if name == "hosts":
        return [launch.hosts.index(host) for host in launch.hosts]
    return getattr(launch, name)


def check_launch(launch: Launch) -> None:
    """Raises Refused if parts of a launch contradict each other, or if it lacks something, such as
    parameters or a required time of a step."""
    counts = len(launch.ranks), len(launch.hosts)
    _require(bool(launch.parameters), "no parameters")
    _require(
        counts == (launch.world_size, launch.world_size),
        f"{counts[0]} ranks on {counts[1]} hosts, expected {launch.world_size}",
    )
    _require(
        len({len(steps) for steps in launch.ranks}) == 1, "ranks have different numbers of steps"
    )
    _require(
        len(launch.loads) in (0, launch.world_size),
        f"loads of {len(launch.loads)} ranks, expected {launch.world_size}",
    )
    if launch.memory:
        _check_memory(launch.memory, len(launch.parameters))
    if launch.units:
        held = sorted(p for unit in launch.units for p in unit.parameters)
        _require(
            held == list(range(len(launch.parameters))), "units do not hold each parameter once"
        )
    for i, steps in enumerate(zip(*launch.ranks, strict=True)):
        for step in steps:
            _check_step(launch, f"step {i}", step, steps[0])


def _check_memory(memory: Memory, parameters: int) -> None:
    _require(
        len(memory.ready_bytes) == parameters and max(memory.order, default=-1) < parameters,
        "memory lacks parameters",
    )
    _require(
        len(memory.order) == len(set(memory.order)),
        "memory has a gradient twice in its order: record again",
    )


def _check_step(launch: Launch, name: str, step: Step, first: Step) -> None:
    """Raises Refused if `step` lacks a time or a row of settings that a step of its StepMode must
    have. Also raises Refused if the StepMode, the settings, or the kind or bytes of the collectives
    of `step` are not those of `first`, which is rank 0's step with the same index."""
    sent, first_sent = step.collectives, first.collectives
    _require(
        (step.mode, step.row, sent and sent.kind, sent and sent.bytes)
        == (first.mode, first.row, first_sent and first_sent.kind, first_sent and first_sent.bytes),
        f"{name} differs between ranks",
    )
    _require(step.step_ns > 0, f"{name} takes no time")
    if step.mode is StepMode.SCRIPT:
        _require(step.row < len(launch.rows), f"{name} lacks its row or ready times")
    else:
        _require(
            len(step.ready_ns) == len(launch.parameters), f"{name} lacks its row or ready times"
        )
        _check_units_times(step, name, len(launch.units))
        _require(step.backward_ns > 0, f"{name} takes no time")
    if sent:
        _check_collectives(sent, name)


def _check_units_times(step: Step, name: str, units: int) -> None:
    lengths = {len(step.units_ns), len(step.gather_ns), len(step.reduce_ns)}
    _require(
        lengths == {units} and all(len(marks) == 4 for marks in step.units_ns),
        f"{name} lacks times of its units",
    )


def _check_collectives(sent: Collectives, name: str) -> None:
    parts = len(sent.ns) if sent.kind.has_parts else 0
    in_flight = {
        CollectiveKind.BF16: 1,
        CollectiveKind.FULLY_SHARD: 1,
        CollectiveKind.ZERO1: 0,
    }.get(sent.kind, sent.in_flight)
    _require(
        bool(sent.bytes)
        and sent.wall_ns > 0
        and all(sent.ns)
        and len(sent.ns) == len(sent.bytes) * sent.in_flight
        and len(sent.in_ns) == len(sent.out_ns) == parts
        and sent.in_flight == in_flight,
        f"{name} lacks times of its collectives",
    )


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise Refused(problem)
