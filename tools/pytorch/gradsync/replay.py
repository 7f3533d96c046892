"""Predicts the time of a training step by simulating it: the recorded computation of each rank runs
together with simulated collectives.

replay_step() simulates one step. Computation and collectives can run at the same time. If together
they need more processors (logical CPUs) than a rank has, both become slower. predict() simulates
the rounds that draw_rounds() returns; a round is one step of each rank. predict() resamples the
simulated rounds to compute a 95 % interval of the time of a step. Predictions do not use the times
of recorded SCRIPT steps, in which the script itself synchronises gradients. All times in this
module are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from random import Random
from statistics import fmean

from gradsync.drawing import DRAWING_SEED, deviations, resamples, row_deviations
from gradsync.estimates import Interval, trimmed_mean
from gradsync.link import LinkCosts, Operation
from gradsync.processors import Processors
from gradsync.rounds import RoundTimes, kept_rounds

# With more, thousands of ranks would take seconds.
MOST_RANK_ACTIONS = 20_000_000
FEWEST_DRAWS = 12
# How far this model is off where processors are shared (see error_part): standard deviations of the
# logarithm of what a step costs. They were fitted to steps of other launches than the recorded ones
# (docs/prediction.md).
REPLICATED_ERROR = 0.39  # of DistributedDataParallel, of all rows in common
ROW_ERROR = 0.13  # and of each row by itself
SHARDED_ERROR = 0.14  # of FSDP2
MOST_EQUAL_STEPS = 500  # that are replayed as if all ranks took them
INSTANT = 1e-12  # seconds that rounding may leave of a collective


@dataclass(frozen=True)
class RankStep:
    """The times of one rank's work in one step, without Scenario.collectives.

    `begin_s`: the beginning of the step in seconds, on a clock that all ranks share in one round.
    `first_s`: the seconds from `begin_s` until the first gradient is ready; 0 under FSDP2.
    `ready_s`: the seconds from `begin_s` until the rank can issue each collective. `backward_s`:
    the seconds from `begin_s` to the end of backward. `needed_s`: the seconds from `begin_s` until
    computation begins to wait for each collective; empty under DDP. `after_s`: the seconds after
    backward, such as the optimizer's and those of ZeroRedundancyOptimizer's broadcasts.
    """

    begin_s: float
    first_s: float
    ready_s: Sequence[float]
    backward_s: float
    after_s: float
    needed_s: Sequence[float] = ()


class Waits(Enum):
    """Tells which part of training waits until a collective is done.

    OPTIMIZER: the optimizer waits for all collectives, as with DistributedDataParallel.
    COMPUTATION: the computation that needs the result waits, as with FSDP2 on a GPU. ALL_RANKS:
    every rank waits, from when it issues the collective until the collective is done, as with FSDP2
    on a CPU.
    """

    OPTIMIZER = "optimizer"
    COMPUTATION = "computation"
    ALL_RANKS = "all_ranks"


@dataclass(frozen=True)
class Collective:
    """A collective that all ranks take part in: its operation, and the bytes of the whole vector
    that it reduces or gathers."""

    bytes: float
    operation: Operation = Operation.ALL_REDUCE


@dataclass(frozen=True)
class Scenario:
    """The inputs of a simulation of training steps.

    `ranks`: for each recorded rank, a list of steps, whose times do not include `collectives`.
    Steps of different ranks with the same index in these lists were taken together, and are called
    a round. `collectives`: the simulated collectives of a step, in the order in which ranks issue
    them. `costs`: computes how long a collective of a given size takes between `world_size` ranks.
    `log_error`: the assumed standard deviation of the logarithm of a collective's real time divided
    by its predicted time. The cost of synchronisation is how much longer a step takes with
    synchronisation than without. The simulated cost is assumed to be wrong by two random factors.
    `model_error`: the standard deviation of the logarithm of the factor that all settings of DDP,
    or all of FSDP2, share. `row_error`: the standard deviation of the logarithm of the factor that
    differs between steps with different `collectives`. `copies_s`: by how many seconds copies of
    gradients into and out of DDP's buckets lengthen a step in `ranks`; 0 under FSDP2. `copies_s`
    counts as a cost of synchronisation.
    """

    ranks: Sequence[Sequence[RankStep]]
    collectives: Sequence[Collective]
    world_size: int
    costs: LinkCosts
    processors: Processors
    log_error: float
    waits: Waits = Waits.OPTIMIZER
    model_error: float = 0
    copies_s: float = 0
    row_error: float = 0


@dataclass(frozen=True)
class Replay:
    """A Scenario (the input of a simulation of a step), and the times of the rounds that were
    simulated from it."""

    scenario: Scenario
    rounds: Sequence[RoundTimes]


@dataclass(frozen=True)
class Prediction:
    """The predicted times of a step, in seconds. With several recorded launches, each time is the
    mean of one prediction per launch. The interval of `step_s` reaches from the lowest to the
    highest limit of the launches' 95 % intervals.

    `step_s`: the trimmed mean time of the step, with a 95 % interval. `slowest_s`: the trimmed mean
    of RoundTimes.alone_s, the time of a round without Scenario.collectives. `exposed_s`: the mean
    of RoundTimes.exposed_s, the time of waiting for collectives, over kept_rounds(). `slowed_s`:
    how much longer backward takes because of concurrent communication; 0 under `fully_shard`.
    `floor_s`: an estimated lower limit of the step's time for any order of the collectives (see
    _floor_s()). `copies_s`: the seconds of copying gradients into and out of DDP's buckets, and of
    casting them to bf16. If one pass was recorded and several are predicted, `copies_s` includes
    the additions of gradients to those of earlier passes. Without a RecordedLink, `copies_s`
    includes the cast of the last bucket back from bf16. Other casts back are not included.
    `copies_s` is 0 under `fully_shard`. `broadcasts_s`: how many seconds of the step
    ZeroRedundancyOptimizer's broadcasts take; 0 without them. `slowest_s` includes `copies_s` and
    `broadcasts_s`. `replays`: for each recorded launch, a Replay with the times of its simulated
    rounds.
    """

    step_s: Interval
    slowest_s: float
    exposed_s: float
    slowed_s: float
    floor_s: float
    replays: Sequence[Replay] = field(compare=False, repr=False)
    copies_s: float = 0
    broadcasts_s: float = 0


@dataclass(frozen=True)
class Transfer:
    """How long a collective takes: `alone_s` seconds if no other collective runs. While k
    collectives run at the same time, this one runs at paces[k - 1] times its speed alone. This one
    collective then keeps processors[k - 1] processors (logical CPUs) of each rank busy."""

    alone_s: float
    paces: Sequence[float]
    processors: Sequence[float]


@dataclass(frozen=True)
class Schedule:
    """The moments of a simulated round (a step of all ranks) at which its collectives are issued
    and their results are needed. Each moment is in seconds after the earliest rank begins the step,
    as if each collective took no time.

    `issued_s`: when the last rank issues each collective, in the order of Scenario.collectives.
    `backward_s`: when the last rank's backward ends. `needed_s`: when the last rank's computation
    needs the result of each collective; empty if only the optimizer needs the results."""

    issued_s: Sequence[float]
    backward_s: float
    needed_s: Sequence[float] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of the simulation of one step. `backward_s`: when backward was done on all ranks.
    `done_s`: when all collectives were done. Both are in seconds after the earliest rank began.
    `computed_s`: the seconds of the Schedule's computation that are done at `done_s`; at most
    Schedule.backward_s."""

    backward_s: float
    done_s: float
    computed_s: float


def replay_step(
    schedule: Schedule, transfers: Sequence[Transfer], processors: Processors, link_pace: float = 1
) -> Outcome:
    """Simulates a step of at least one collective, and returns when its backward and its
    collectives are done. Begins the collectives in the order of `schedule`, each only after all
    ranks have issued it. At most as many collectives run at one time as Transfer.paces has
    elements. `link_pace`: a factor by which the time of each collective is multiplied.

    The moments of `schedule` count seconds of computation that no communication slows down or
    interrupts. If computation and communication together need n processors of a rank, both take
    max(1, n / Processors.available) times as long. While computation waits for a collective, and
    after the end of backward, computation does not advance.
    """
    backward = schedule.backward_s
    issued = [min(moment, backward) for moment in schedule.issued_s]
    needed = schedule.needed_s or [math.inf] * len(issued)
    # When the first of the collectives from this one on is needed.
    first_needed = [*reversed([*accumulate(reversed(needed), min)]), math.inf]
    time = work = issued[0]
    backward_done: float | None = None
    following = 0
    left: dict[int, float] = {}  # of collectives in flight, in seconds alone
    while left or following < len(issued):
        if backward_done is None and work >= backward:
            backward_done = time
        free = len(transfers[0].paces) - len(left)
        while free and following < len(issued) and issued[following] <= work:
            left[following] = link_pace * transfers[following].alone_s
            following += 1
            free -= 1
        if not left:  # computation goes on alone
            time += issued[following] - work
            work = issued[following]
            continue
        # Computation goes on until it ends, needs a collective, or issues one that begins at once.
        until = min(backward, first_needed[following], *[needed[i] for i in left])
        computes = work < until
        if free and following < len(issued):
            until = min(until, issued[following])
        used = sum([transfers[i].processors[len(left) - 1] for i in left])
        threads = processors.computing if computes else 0
        slowness = max(1, (threads + used) / processors.available)
        paces = {i: transfers[i].paces[len(left) - 1] / slowness for i in left}
        until_work_s = (until - work) * slowness if computes else math.inf
        until_done_s = min([seconds / paces[i] for i, seconds in left.items()])
        passed_s = min(until_work_s, until_done_s)
        time += passed_s
        if passed_s == until_work_s:
            work = until
        elif computes:
            work += passed_s / slowness
        left = {i: seconds - passed_s * paces[i] for i, seconds in left.items()}
        left = {i: seconds for i, seconds in left.items() if seconds > INSTANT}
    if backward_done is None:
        backward_done = time + max(0, backward - work)
    return Outcome(backward_done, time, work)


def draw_rounds(scenario: Scenario) -> list[list[RankStep]]:
    """Returns the rounds to simulate. A round is the list of the recorded steps that all simulated
    ranks take at the same time. If at most as many ranks are simulated as were recorded, returns
    all recorded rounds of the first `world_size` ranks. If more ranks are simulated than were
    recorded, each round also gets a recorded step for each further rank. The step of a further rank
    is drawn at random from all recorded ranks and rounds, the same in every run. If several ranks
    get the same step, the round's list has this step only once. If more ranks are simulated than
    were recorded, MOST_RANK_ACTIONS limits the number of rounds. At least 12 rounds (FEWEST_DRAWS),
    or all if fewer were recorded, are returned in any case."""
    ranks = scenario.ranks
    measured, count, world_size = len(ranks), len(ranks[0]), scenario.world_size
    if world_size <= measured:
        return [[rank[k] for rank in ranks[:world_size]] for k in range(count)]
    random = Random(DRAWING_SEED)
    affordable = MOST_RANK_ACTIONS // (world_size * (4 * len(scenario.collectives) + 4))
    draws = []
    for k in range(min(max(affordable, FEWEST_DRAWS), count)):
        # A set, because ranks of one round do equal work: what is drawn twice is as late as once.
        drawn = {(rank, k) for rank in range(measured)}
        for _ in range(world_size - measured):
            drawn.add((int(measured * random.random()), int(count * random.random())))
        draws.append([ranks[rank][number] for rank, number in sorted(drawn)])
    return draws


def predict(scenario: Scenario) -> Prediction:
    """Simulates the rounds that draw_rounds() returns, and returns the predicted times of the
    scenario's step."""
    transfers = _transfers(scenario)
    rounds = [_replay_round(scenario, transfers, ranks) for ranks in draw_rounds(scenario)]
    kept = kept_rounds(rounds)
    slowest_s = trimmed_mean([one.alone_s for one in rounds])
    first_s = trimmed_mean([one.first_s for one in rounds])
    return Prediction(
        step_s=_interval(scenario, rounds, slowest_s),
        slowest_s=slowest_s,
        exposed_s=fmean(one.exposed_s for one in kept),
        slowed_s=fmean(one.slowed_s for one in kept),
        floor_s=_floor_s(scenario, transfers, slowest_s, first_s),
        replays=[Replay(scenario, rounds)],
    )


def equal_rounds(scenario: Scenario) -> list[list[tuple[float, float]]]:
    """Simulates each recorded step of the first `world_size` ranks as if every rank took this step.
    Simulates only so many of the first rounds as have at most 500 steps (MOST_EQUAL_STEPS)
    together. At least 12 rounds (FEWEST_DRAWS), or all if there are fewer, are simulated in any
    case. Returns, for each round and rank, the seconds of the simulated step, and the step's
    seconds without collectives."""
    transfers = _transfers(scenario)
    ranks = scenario.ranks[: scenario.world_size]
    count = min(len(ranks[0]), max(FEWEST_DRAWS, MOST_EQUAL_STEPS // len(ranks)))
    return [
        [_equal_step(scenario, transfers, step) for step in steps]
        for steps in [*zip(*ranks, strict=True)][:count]
    ]


def _equal_step(
    scenario: Scenario, transfers: Sequence[Transfer], step: RankStep
) -> tuple[float, float]:
    alone = replace(step, begin_s=0)
    replay = _pacer(scenario, transfers, [alone])
    return replay(1).step_s, step.backward_s + step.after_s


def _transfers(scenario: Scenario) -> list[Transfer]:
    """Returns, for each collective of the scenario, a Transfer, which tells how long it takes. If
    computation waits for collectives, as in FSDP2, each runs alone; else at most LinkCosts.channels
    run at a time."""
    costs = scenario.costs
    channels = costs.channels if scenario.waits is Waits.OPTIMIZER else 1
    return [
        Transfer(
            costs.seconds(one.bytes, one.operation),
            [costs.gain(one.bytes, k) / k for k in range(1, channels + 1)],
            [costs.processor(one.bytes, k, one.operation) / k for k in range(1, channels + 1)],
        )
        for one in scenario.collectives
    ]


@dataclass(frozen=True)
class _Paced:
    """The times of a round that was simulated with the times of all collectives multiplied by one
    factor. `step_s`: the whole step. `exposed_s` and `slowed_s`: as in RoundTimes."""

    step_s: float
    exposed_s: float
    slowed_s: float


def _replay_round(
    scenario: Scenario, transfers: Sequence[Transfer], ranks: Sequence[RankStep]
) -> RoundTimes:
    """Simulates one step of all ranks. `ranks`: the recorded steps of one round of draw_rounds().
    The simulated step lasts from the last rank's beginning to the last rank's end."""
    begin = min(rank.begin_s for rank in ranks)
    late = max(rank.begin_s for rank in ranks) - begin
    replay = _pacer(scenario, transfers, ranks)
    own = replay(1)
    faster = replay(math.exp(-scenario.log_error))
    slower = replay(math.exp(scenario.log_error))
    return RoundTimes(
        step_s=own.step_s,
        faster_link_s=faster.step_s,
        slower_link_s=slower.step_s,
        exposed_s=own.exposed_s,
        faster_exposed_s=faster.exposed_s,
        slower_exposed_s=slower.exposed_s,
        slowed_s=own.slowed_s,
        alone_s=max(rank.begin_s - begin + rank.backward_s + rank.after_s for rank in ranks) - late,
        first_s=max(rank.first_s for rank in ranks),
    )


def _pacer(
    scenario: Scenario, transfers: Sequence[Transfer], ranks: Sequence[RankStep]
) -> Callable[[float], _Paced]:
    """Returns a function that simulates one step of all ranks. `ranks`: the recorded steps that
    ranks take; equal ones of several ranks may be given once. The returned function's argument is a
    factor by which the times of all collectives are multiplied."""
    begin = min(rank.begin_s for rank in ranks)
    late = max(rank.begin_s for rank in ranks) - begin
    blocks = scenario.waits is Waits.ALL_RANKS
    schedule = _blocking_schedule(ranks, late) if blocks else _schedule(ranks, begin)
    ends = [
        (schedule.backward_s if blocks else rank.begin_s - begin + rank.backward_s, rank.after_s)
        for rank in ranks
    ]

    def at_pace(link_pace: float) -> _Paced:
        outcome = replay_step(schedule, transfers, scenario.processors, link_pace)
        end = max(max(backward, outcome.computed_s) + after for backward, after in ends)
        step_s = outcome.done_s + end - outcome.computed_s - late
        if scenario.waits is Waits.OPTIMIZER:
            exposed_s = max(0, outcome.done_s - outcome.backward_s)
            return _Paced(step_s, exposed_s, outcome.backward_s - schedule.backward_s)
        rest = max(0, schedule.backward_s - outcome.computed_s)
        return _Paced(step_s, outcome.done_s + rest - schedule.backward_s, 0)

    return at_pace


def _schedule(ranks: Sequence[RankStep], begin: float) -> Schedule:
    """Returns the Schedule of a round in which a collective can begin when the last rank issues it.
    Ranks that issued the collective earlier go on computing. `begin`: the earliest rank's
    RankStep.begin_s."""

    def latest(moments: Sequence[Sequence[float]]) -> list[float]:
        from_begin = [
            [rank.begin_s - begin + moment for moment in own]
            for rank, own in zip(ranks, moments, strict=True)
        ]
        return [max(own) for own in zip(*from_begin, strict=True)]

    return Schedule(
        issued_s=latest([rank.ready_s for rank in ranks]),
        backward_s=max(rank.begin_s - begin + rank.backward_s for rank in ranks),
        needed_s=latest([rank.needed_s for rank in ranks]),
    )


def _blocking_schedule(ranks: Sequence[RankStep], late: float) -> Schedule:
    """Returns the Schedule of a step in which every rank waits at each collective until the slowest
    rank has issued it, too. `late`: how many seconds after the earliest rank the last rank begins
    the step."""
    parts = [
        [
            end - start
            for start, end in zip([0, *rank.ready_s], [*rank.ready_s, rank.backward_s], strict=True)
        ]
        for rank in ranks
    ]
    slowest = map(max, zip(*parts, strict=True))
    *issued, backward = [*accumulate(slowest, initial=late)][1:]
    return Schedule(issued_s=issued, backward_s=backward, needed_s=issued)


def _interval(scenario: Scenario, rounds: Sequence[RoundTimes], slowest_s: float) -> Interval:
    """Returns the 95 % interval of the step's time, by a bootstrap over the simulated `rounds`.
    Each repetition of the bootstrap changes the times of collectives and the simulated cost of
    synchronisation by random errors."""
    value = trimmed_mean([one.step_s for one in rounds])
    cost_s = max(0, value - slowest_s + scenario.copies_s)
    means = []
    sent = repr([(one.bytes, one.operation.value) for one in scenario.collectives])
    for one, row, positions in zip(
        deviations(), row_deviations(sent), resamples(len(rounds)), strict=True
    ):
        steps = [times.at(one.link) for times in rounds]
        model = one.replicated if scenario.waits is Waits.OPTIMIZER else one.sharded
        error = math.expm1(scenario.model_error * model + scenario.row_error * row)
        means.append(trimmed_mean([steps[i] for i in positions]) + error * cost_s)
    return Interval.of(value, [means])


def _floor_s(
    scenario: Scenario, transfers: Sequence[Transfer], slowest_s: float, first_s: float
) -> float:
    """Returns the largest of three estimated lower limits of the step's time, in seconds. The first
    limit is `slowest_s`, the time of a round without Scenario.collectives. The second limit is
    `first_s`, the time until the first gradient is ready, plus the sum of the times of all
    collectives. Under DDP, the second and the third limit count one all-reduce of all gradients in
    place of the collectives. The third limit is one rank's CPU time for computation and
    collectives, divided by the number of the rank's processors."""
    if scenario.waits is Waits.OPTIMIZER:  # at the pace of one large collective
        total = sum(one.bytes for one in scenario.collectives)
        link_s = scenario.costs.seconds(total)
        processor_s = link_s * scenario.costs.processor(total, 1)
    else:
        link_s = sum(one.alone_s for one in transfers)
        processor_s = sum(one.alone_s * one.processors[0] for one in transfers)
    processors = scenario.processors
    return max(
        slowest_s,
        first_s + link_s,
        (slowest_s * processors.computing + processor_s) / processors.available,
    )
