"""Predicts steps under FSDP2 (torch.distributed.fsdp.fully_shard).

A unit is a module for which the script calls fully_shard. For a script without fully_shard,
units_of() chooses the units. A gather collects the unit's parameters before they are needed, and a
reduction averages its gradients when they are ready. unit_schedule.py computes when ranks issue
these collectives, and when computation needs the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from gradsync.link import LinkCosts, Operation
from gradsync.processors import Processors, error_part
from gradsync.recording import begin_of, ready_of
from gradsync.refusing import require
from gradsync.replay import (
    SHARDED_ERROR,
    Collective,
    Prediction,
    RankStep,
    Scenario,
    Waits,
    predict,
)
from gradsync.schema import NS, Launch, Parameter, Step, StepMode, Unit
from gradsync.unit_schedule import Event, UnitCollective, collectives, events_of

# Of collectives of units in a script that has none: a standard deviation of the logarithm, which 10
# predictions were off by (docs/prediction.md).
UNITS_ERROR = 0.2
SENT = (Operation.ALL_GATHER, Operation.REDUCE_SCATTER)  # what units do


class Resharding(Enum):
    """Tells which units free their parameters after forward, and gather them again for backward.
    AS_RECORDED: units whose field `reshards` is True free their parameters. ALL: all units except
    the first (usually the root) free their parameters. NONE: no unit frees its parameters."""

    AS_RECORDED = "as_recorded"
    ALL = "all"
    NONE = "none"


def units_of(launch: Launch) -> list[Unit]:
    """Returns the units of the recorded script. If the script does not use fully_shard, returns the
    units that predictions assume: the root and the repeated blocks of its model (see
    repeated_blocks)."""
    if launch.units:
        return list(launch.units)
    return repeated_blocks([parameter.name for parameter in launch.parameters])


def repeated_blocks(names: Sequence[str]) -> list[Unit]:
    """Returns the repeated blocks of a model (such as its layers) as units, as torchtitan and
    Accelerate choose them.

    A block is a numbered module in a list of modules (the outermost list, if lists are nested). The
    first unit of the result is the root, which has the parameters that are in no block, possibly
    none. `names`: the names of parameters, such as "h.0.mlp.weight".
    """
    blocks: dict[str, list[int]] = {"": []}
    for i, name in enumerate(names):
        block = re.match(r"((?:[^.]+\.)*?\d+)\.", name)
        blocks.setdefault(block[1] if block else "", []).append(i)
    return [Unit(name, tuple(own), reshards=name != "") for name, own in blocks.items()]


def reshard(units: Sequence[Unit], resharding: Resharding) -> list[Unit]:
    """Returns a new list of the units, in which the field `reshards` (whether a unit frees its
    gathered parameters after forward) is set as `resharding` says."""
    if resharding is Resharding.AS_RECORDED:
        return list(units)
    return [
        replace(unit, reshards=resharding is Resharding.ALL and number > 0)
        for number, unit in enumerate(units)
    ]


def unit_bytes(
    parameters: Sequence[Parameter], units: Iterable[Unit], operation: Operation
) -> list[int]:
    """Returns, for each unit, the bytes of the whole vector that it gathers (if `operation` is
    ALL_GATHER) or reduces (REDUCE_SCATTER)."""
    sizes = [sent_bytes(parameter, operation) for parameter in parameters]
    return [sum(sizes[p] for p in unit.parameters) for unit in units]


def sent_bytes(parameter: Parameter, operation: Operation) -> int:
    """Returns the bytes of this whole parameter if `operation` is ALL_GATHER, else those of its
    whole gradient, in the dtype in which FSDP2 sends them."""
    if operation is Operation.ALL_GATHER:
        return parameter.gathered_bytes or parameter.bytes
    return parameter.reduced_bytes or parameter.bytes


def sharers(launch: Launch) -> int:
    """Returns the number of recorded ranks among which parameters and the optimizer's work are
    divided; 1 if the script does not use fully_shard."""
    if not launch.units:
        return 1
    return launch.sharing_ranks or launch.world_size


def waits_of(launch: Launch) -> Waits:
    """Returns how training waits for FSDP2's collectives on this launch's device. On CPUs, where
    FSDP2's streams do nothing, every rank waits at each collective; on GPUs, computation waits when
    it needs a result."""
    return Waits.ALL_RANKS if launch.device == "cpu" else Waits.COMPUTATION


@dataclass(frozen=True)
class PlannedStep:
    """One rank's step without synchronisation, and the collectives that it would have under FSDP2.
    `begin_s`: how many seconds after the first rank of the round this rank begins; 0 if ranks are
    on several hosts."""

    begin_s: float
    step: Step
    plan: Sequence[UnitCollective]

    def rank_step(self, pace: float, optimizer_part: float) -> RankStep:
        """Returns the times of this step as a RankStep, the form in which a simulation takes them.
        `pace`: a factor by which all times of computation are multiplied. `optimizer_part`: a
        second factor by which only the optimizer's time is multiplied, because the simulated rank
        may update more or fewer parameters than the recorded rank.

        In the result, `first_s` (when collectives can begin) is 0, because FSDP2's first gather
        runs at the beginning of the step and waits for no gradient.
        """
        step = self.step
        end = NS * (step.before_ns + step.backward_ns)
        needed = [end if one.needed_s is None else one.needed_s for one in self.plan]
        return RankStep(
            begin_s=self.begin_s,
            first_s=0,
            ready_s=[pace * one.issued_s for one in self.plan],
            backward_s=pace * end,
            after_s=pace * NS * (optimizer_part * step.optimizer_ns + step.rest_ns),
            needed_s=[pace * moment for moment in needed],
        )


def rounds_of(launch: Launch, units: Sequence[Unit], place: str) -> list[list[PlannedStep]]:
    """Returns the recorded steps without synchronisation, with the collectives that `fully_shard`
    would issue in them. Each inner list has the steps that all ranks took at the same time.

    The order of the collectives is the same on all ranks and in all steps; it is computed from rank
    0's first step without synchronisation. The moments at which a rank issues collectives are
    computed from the times of the rank's own step. Raises Refused, naming the launch's `place` (its
    file and line), if the launch has no steps without synchronisation."""
    rounds = [
        steps
        for steps in zip(*launch.ranks, strict=True)
        if steps[0].mode is StepMode.UNSYNCHRONISED
    ]
    require(rounds, place, ': no steps of mode "none"')
    order = _events(launch, units, rounds[0][0])
    return [_planned_round(launch, units, order, steps) for steps in rounds]


def plan_of(launch: Launch, units: Sequence[Unit], place: str) -> Sequence[UnitCollective]:
    """Returns, in their order, the collectives that fully_shard would issue in rank 0's first step
    of the mode UNSYNCHRONISED if it synchronised this step."""
    return rounds_of(launch, units, place)[0][0].plan


def _events(launch: Launch, units: Sequence[Unit], step: Step) -> list[Event]:
    return events_of(step, units, launch.passes, [NS * ns for ns in ready_of(step)])


def _planned_round(
    launch: Launch, units: Sequence[Unit], order: Sequence[Event], steps: Sequence[Step]
) -> list[PlannedStep]:
    """`order`: the calls of FSDP2's methods in rank 0's first step without synchronisation; the
    calls of every step are assumed to have this order."""
    empty = {number for number, unit in enumerate(units) if not unit.parameters}
    overlaps = waits_of(launch) is Waits.COMPUTATION
    begins = [begin_of(launch, step) for step in steps]
    planned = []
    for begin, step in zip(begins, steps, strict=True):
        moments = sorted(event.moment_s for event in _events(launch, units, step))
        events = [
            replace(event, moment_s=moment) for event, moment in zip(order, moments, strict=True)
        ]
        plan = collectives(events, units, overlaps, empty)
        planned.append(PlannedStep(begin - min(begins), step, plan))
    return planned


def predict_launch(
    launch: Launch,
    place: str,
    resharding: Resharding,
    costs: LinkCosts,
    world_size: int,
    log_error: float,
    pace: float = 1,
    sharing_ranks: int | None = None,
) -> Prediction:
    """Returns the predicted times of a step under FSDP2, from one recorded launch.

    `costs`: the times of collectives between `world_size` ranks. `sharing_ranks`: the number of
    ranks among which the optimizer's work is divided; by default `world_size`. `log_error`: the
    assumed standard deviation of the logarithm of a collective's real time divided by its predicted
    time. If the script does not use fully_shard, at least UNITS_ERROR (0.2) is used as `log_error`.
    `pace`: a factor by which all times of computation are multiplied. Raises Refused, naming the
    launch's `place` (its file and line), if the launch has no steps without synchronisation.
    """
    units = reshard(units_of(launch), resharding)
    sizes = {kind: unit_bytes(launch.parameters, units, kind) for kind in SENT}
    # Under fully_shard the optimizer was recorded with a rank's shards, and else with all.
    optimizer_part = sharers(launch) / (sharing_ranks or world_size)
    rounds = rounds_of(launch, units, place)
    by_rank = zip(*rounds, strict=True)
    measured_as = _measured_as(launch, costs)
    return predict(
        Scenario(
            ranks=[[one.rank_step(pace, optimizer_part) for one in steps] for steps in by_rank],
            collectives=[
                Collective(sizes[one.operation][one.unit], measured_as[one.operation])
                for one in rounds[0][0].plan
            ],
            world_size=world_size,
            costs=costs,
            processors=Processors.of(launch),
            log_error=log_error if launch.units else max(log_error, UNITS_ERROR),
            waits=waits_of(launch),
            model_error=SHARDED_ERROR * error_part(launch),
        )
    )


def _measured_as(launch: Launch, costs: LinkCosts) -> dict[Operation, Operation]:
    """Returns, for each of a unit's operations ALL_GATHER and REDUCE_SCATTER, the operation in
    `costs` whose times predictions use for it."""
    gather = Operation.ALL_GATHER
    # gloo's reduce-scatter is an all-reduce.
    reduction = Operation.ALL_REDUCE if launch.backend == "gloo" else Operation.ALL_GATHER
    if costs.has(Operation.REDUCE_SCATTER):
        reduction = Operation.REDUCE_SCATTER
    if costs.has(Operation.UNIT_GATHER):
        gather = Operation.UNIT_GATHER
    if costs.has(Operation.UNIT_REDUCE):
        reduction = Operation.UNIT_REDUCE
    return {Operation.ALL_GATHER: gather, Operation.REDUCE_SCATTER: reduction}
