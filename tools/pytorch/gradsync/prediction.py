"""Predicts the time of a recorded script's step with other settings, links and numbers of ranks.

No prediction uses the times of recorded steps in which the script itself synchronised gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gradsync import Refused, sharding
from gradsync.estimates import Interval, trimmed_mean
from gradsync.link import LinkCosts, MeasuredLink, Operation
from gradsync.local_sgd import local_step
from gradsync.network import Network, costs_over, hybrid_costs, in_ring_of, with_units
from gradsync.probes import Communication
from gradsync.processors import Processors, error_part
from gradsync.question import FileLink, NamedLink, Question, RecordedLink
from gradsync.recording import begin_of, ready_of
from gradsync.replay import (
    REPLICATED_ERROR,
    ROW_ERROR,
    Collective,
    Prediction,
    RankStep,
    Scenario,
    predict,
)
from gradsync.schema import NS, CollectiveKind, Launch, Row, Step, StepMode
from gradsync.sharding import Resharding

Buckets = tuple[tuple[int, ...], ...]  # parameters of each, in the order in which they are sent


@dataclass(frozen=True)
class _Settings:
    """Settings of DistributedDataParallel. `link_pace`: a factor for the time of each collective,
    above 1 for a slower link."""

    buckets: Buckets
    bf16: bool
    zero1: bool
    passes: int
    link_pace: float


@dataclass(frozen=True)
class _ReadyStep:
    """One rank's probe: a recorded step in which the recorder copied gradients into a buffer as
    DistributedDataParallel copies them into buckets. Times, except those in `step`, are in seconds.

    `begin_s`: how long after the first rank of its round this step began; 0 with several hosts. A
    round is one step of every rank, taken at the same time. `first_s`: the time from the beginning
    of the last backward until the first gradient is ready. `ready_s`: for each bucket, the time
    from the last backward's beginning until its gradients and those of all earlier buckets are
    ready."""

    begin_s: float
    step: Step
    first_s: float
    ready_s: Sequence[float]


@dataclass
class _Changes:
    """How the settings of a predicted step, such as bf16, change the times of a recorded step.

    `backward_s`: how many seconds longer backward takes, before multiplication by Question.pace,
    because of casts to bf16 and additions of gradients. `casts_s`: the seconds of casts back from
    bf16 after the last collective; 0 if the costs of collectives include these casts.
    `broadcasts_s`: the seconds of ZeroRedundancyOptimizer's broadcasts. `optimizer_part`: the
    factor by which a rank's recorded optimizer time is multiplied. `sent_bytes`: for each bucket,
    the bytes of its all-reduce."""

    sent_bytes: list[float]
    optimizer_part: float
    backward_s: float = 0
    casts_s: float = 0
    broadcasts_s: float = 0

    @property
    def after_s(self) -> float:
        return self.casts_s + self.broadcasts_s


class Predictor:
    """Predicts the times of steps for one question to `what_if`, and keeps results for later
    calls."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.recording = question.recording
        self._communications: dict[int, Communication] = {}
        self._ready_steps: dict[tuple[int, Buckets], list[list[_ReadyStep]]] = {}
        self._launches: dict[tuple[int, _Settings], Prediction] = {}
        self._sharded: dict[tuple[Resharding, float], Prediction] = {}

    def step(self, row: Row, link_pace: float = 1) -> Prediction:
        """Predicts a step with the settings `row`: under fully_shard if row.fsdp, else under
        DistributedDataParallel with row.passes backward passes.

        `link_pace`: a factor for the time of each collective, above 1 for a slower link."""
        if row.fsdp:
            if self.question.launch.sharing_ranks:
                return self.own_hybrid_step(link_pace)
            resharding = Resharding.NONE if row.whole else Resharding.AS_RECORDED
            return self.sharded_step(resharding, link_pace)
        settings = _Settings(
            self.recording.buckets(row), row.bf16, row.zero1, row.passes, link_pace
        )
        return _mean([self._launch(i, settings) for i in range(len(self.recording.launches))])

    def sharded_step(self, resharding: Resharding, link_pace: float = 1) -> Prediction:
        """Predicts a step under fully_shard that shards parameters over all ranks (no HSDP)."""
        key = (resharding, link_pace)
        if key not in self._sharded:
            link = self.question.link
            there = link.recording if isinstance(link, RecordedLink) else self.recording
            costs = self._costs_by_launch(link_pace)
            if there.first.sharing_ranks:  # HSDP's units were timed
                costs = [own.without_units() for own in costs]
            self._sharded[key] = self._sharded_over(resharding, costs)
        return self._sharded[key]

    def _costs_by_launch(self, link_pace: float) -> list[LinkCosts]:
        return [
            self.link_costs(self.communication(i).link).changed(link_pace)
            for i in range(len(self.recording.launches))
        ]

    def own_hybrid_step(self, link_pace: float = 1) -> Prediction:
        """Predicts a step under the script's HSDP, which shards parameters over groups as large as
        those in the recording. If one group has all ranks, predicts sharded_step(). Raises Refused
        if question.world_size is no multiple of a group's ranks. With several groups, also raises
        Refused unless question.link is a NamedLink or question.is_as_recorded is True."""
        question = self.question
        sharing = question.launch.sharing_ranks
        if question.world_size == sharing:
            return self.sharded_step(Resharding.AS_RECORDED, link_pace)
        if question.world_size % sharing:
            raise Refused(
                f"--world_size={question.world_size}: {sharing} ranks share parameters in this "
                f"script's HSDP: expected a multiple of {sharing}"
            )
        if isinstance(question.link, NamedLink):
            return self.hybrid_step(question.link.network, sharing, link_pace)
        if not question.is_as_recorded:
            raise Refused(
                "the script uses HSDP, whose collectives are between parts of the ranks: name a "
                "rate as --link, such as --link=25Gbit,5us"
            )
        return self._sharded_over(Resharding.AS_RECORDED, self._costs_by_launch(link_pace), sharing)

    def local_step(self, steps: int) -> tuple[Interval, float]:
        """Predicts a step of local SGD, which averages all weights over ranks after every `steps`
        steps. Returns the predicted seconds of a step, and the seconds of one averaging divided by
        `steps`. The seconds of a step include these seconds of averaging."""
        question = self.question
        by_launch, averages_s = [], []
        for i, launch in enumerate(self.recording.launches):
            costs = self.link_costs(self.communication(i).link)
            averages_s.append(costs.seconds(self.recording.total_bytes) / steps)
            alone = [
                [
                    question.pace * NS * step.step_ns
                    for step in own
                    if step.mode is StepMode.UNSYNCHRONISED
                ]
                for own in launch.ranks
            ]
            by_launch.append(
                local_step(alone, question.world_size, steps, averages_s[-1], question.log_error)
            )
        return _mean_interval(by_launch), fmean(averages_s)

    def hybrid_step(self, network: Network, sharing: int, link_pace: float = 1) -> Prediction:
        """Predicts a step over `network` under HSDP, which shards parameters over groups of
        `sharing` ranks."""
        costs = [
            hybrid_costs(network, sharing, self.communication(i).link).changed(
                link_pace, self.question.processor_share
            )
            for i in range(len(self.recording.launches))
        ]
        return self._sharded_over(Resharding.AS_RECORDED, costs, sharing)

    def communication(self, i: int) -> Communication:
        """Returns the costs of collectives, from the probes in the recording that --link names. If
        --link names none, the probes are those of launch `i` of the question's recording."""
        link = self.question.link
        if isinstance(link, RecordedLink) and link.recording is not self.recording:
            i, launches = 0, link.recording.launches
        else:
            launches = self.recording.launches[i : i + 1]
        if i not in self._communications:
            self._communications[i] = Communication.of(launches)
        return self._communications[i]

    def link_costs(self, recorded: MeasuredLink | None) -> LinkCosts:
        """Returns the costs of collectives over the question's link between `question.world_size`
        ranks.

        `recorded`: the costs that a recording's probes measured; None if they measured none. Raises
        Refused if no costs are known, or if `question.world_size` is 1."""
        question = self.question
        costs = self._costs_of_link(recorded)
        if recorded and costs is not recorded.costs:
            is_gloo = question.launch.backend == "gloo"
            costs = with_units(costs, recorded.costs, is_gloo)
        if question.processor_share is None:
            return costs
        return costs.changed(processor=question.processor_share)

    def _costs_of_link(self, recorded: MeasuredLink | None) -> LinkCosts:
        link, world_size = self.question.link, self.question.world_size
        measured = link.measured if isinstance(link, FileLink) else recorded
        if not measured and not isinstance(link, NamedLink):
            raise Refused(
                "nothing was communicated: name a link and how many ranks, such as "
                "--link=25Gbit,5us --world_size=8"
            )
        if world_size < 2:
            raise Refused("one rank communicates with nobody: --world_size takes 2 or more")
        if isinstance(link, NamedLink):
            return costs_over(link.network, recorded)
        assert measured
        return in_ring_of(measured, world_size)

    def zero1_part(self) -> float:
        """Returns the fraction of the optimizer's work that the rank with most work has under
        ZeroRedundancyOptimizer."""
        numels = [parameter.numel for parameter in self.question.launch.parameters]
        return largest_zero1_part(numels, self.question.world_size)

    def _sharded_over(
        self,
        resharding: Resharding,
        costs: Sequence[LinkCosts],
        sharing_ranks: int | None = None,
    ) -> Prediction:
        """Predicts a step under fully_shard; `costs`: the costs of collectives for each recorded
        launch. `sharing_ranks`: the number of ranks among which parameters and the optimizer's work
        are divided; by default all."""
        question = self.question
        return _mean(
            [
                sharding.predict_launch(
                    launch,
                    self._place(i),
                    resharding,
                    own,
                    question.world_size,
                    question.log_error,
                    question.pace,
                    sharing_ranks,
                )
                for i, (launch, own) in enumerate(zip(self.recording.launches, costs, strict=True))
            ]
        )

    def _place(self, i: int) -> str:
        return f"{self.recording.path}, line {i + 1}"

    def _launch(self, i: int, settings: _Settings) -> Prediction:
        """Predicts a step under DistributedDataParallel from launch `i` (a start of the script) of
        the recording."""
        key = (i, settings)
        if key not in self._launches:
            communication = self.communication(i)
            uses_bf16 = settings.bf16 and isinstance(self.question.link, RecordedLink)
            costs = self.link_costs(communication.bf16 if uses_bf16 else communication.link)
            costs = costs.changed(settings.link_pace)
            changes = self._changes(i, settings, costs)
            used = costs.processor(self.recording.total_bytes, 1)
            part = error_part(self.recording.launches[i], used)
            prediction = predict(
                Scenario(
                    ranks=self._rank_steps(i, settings, changes),
                    collectives=[Collective(size) for size in changes.sent_bytes],
                    world_size=self.question.world_size,
                    costs=costs,
                    processors=Processors.of(self.recording.launches[i]),
                    log_error=self.question.log_error,
                    model_error=REPLICATED_ERROR * part,
                    row_error=ROW_ERROR * part,
                    copies_s=self._bucket_copies_s(i),
                )
            )
            copies_s = self._bucket_copies_s(i) + self.question.pace * changes.backward_s
            self._launches[key] = replace(
                prediction,
                copies_s=copies_s + changes.casts_s,
                broadcasts_s=changes.broadcasts_s,
            )
        return self._launches[key]

    def _bucket_copies_s(self, i: int) -> float:
        """Returns by how many seconds copies of gradients into and out of buckets lengthen a
        predicted step, computed from launch `i`."""
        copies_s = _bucket_copies_s(self.recording.launches[i], self.recording.total_bytes)
        return self.question.pace * copies_s

    def _changes(self, i: int, settings: _Settings, costs: LinkCosts) -> _Changes:
        launch, communication = self.recording.launches[i], self.communication(i)
        sizes = self.recording.gradient_bytes
        total = self.recording.total_bytes
        changes = _Changes(
            sent_bytes=[sum(sizes[p] for p in bucket) for bucket in settings.buckets],
            # Under fully_shard the optimizer was recorded with a rank's shards.
            optimizer_part=sharding.sharers(launch),
        )
        if settings.passes != launch.passes == 1:
            changes.backward_s = _addition_s(launch, communication, total)
        if settings.bf16:
            changes.backward_s += communication.cast_in_s_per_byte * total
            if not isinstance(self.question.link, RecordedLink):
                # Casts back of earlier buckets overlap with communication.
                cast_s = communication.cast_out_s_per_byte * changes.sent_bytes[-1]
                changes.casts_s = self.question.pace * cast_s
            changes.sent_bytes = [communication.bf16_part * size for size in changes.sent_bytes]
        if settings.zero1:
            changes.optimizer_part *= self.zero1_part()
            changes.broadcasts_s = self._broadcasts_s(launch, communication, settings, costs)
        return changes

    def _broadcasts_s(
        self, launch: Launch, communication: Communication, settings: _Settings, costs: LinkCosts
    ) -> float:
        """Returns the seconds that ZeroRedundancyOptimizer's broadcasts of weights take in a step.

        If question.link is a RecordedLink between question.world_size ranks, the measured time is
        used, multiplied by settings.link_pace. Otherwise, the time of an all-gather of all weights
        is multiplied by world_size / (world_size - 1). Over gloo, the product is also multiplied by
        ceil(log2(world_size)), because a broadcast's root sends all bytes that many times (gloo's
        broadcast.cc)."""
        total, world_size = self.recording.total_bytes, self.question.world_size
        is_recorded = isinstance(self.question.link, RecordedLink)
        is_known = is_recorded and self.question.measured_ranks == world_size
        if is_known:
            return settings.link_pace * communication.zero1_s_per_byte * total
        gather_s = costs.seconds(total, Operation.ALL_GATHER)
        sent_by_root = math.ceil(math.log2(world_size)) if launch.backend == "gloo" else 1
        return sent_by_root * gather_s * world_size / (world_size - 1)

    def _rank_steps(self, i: int, settings: _Settings, changes: _Changes) -> list[list[RankStep]]:
        launch = self.recording.launches[i]
        ranks = []
        for steps, ready in zip(
            launch.ranks, self._ready_steps_of(i, settings.buckets), strict=True
        ):
            alone_s = [
                NS * (step.before_ns + step.backward_ns)
                for step in steps
                if step.mode is StepMode.UNSYNCHRONISED
            ]
            if not alone_s or not ready:
                missing = "probe" if alone_s else "none"
                raise Refused(f'{self._place(i)}: no steps of mode "{missing}"')
            own = []
            for number, one in enumerate(ready, 1):
                # Ranks do not wait for each other after unsynchronised passes, so each may be the
                # last rank of this round.
                earlier_s = sum(
                    alone_s[(number + k) % len(alone_s)]
                    for k in range(1, settings.passes // launch.passes)
                )
                own.append(self._rank_step(one, earlier_s, changes))
            ranks.append(own)
        return ranks

    def _rank_step(self, ready: _ReadyStep, earlier_s: float, changes: _Changes) -> RankStep:
        """Returns the recorded step `ready` as a RankStep, with its times changed by `changes` and
        by the question's `pace`. `earlier_s`: the seconds of further passes, which gradient
        accumulation adds before the recorded ones."""
        pace, step = self.question.pace, ready.step
        backward_s = NS * step.backward_ns
        # What backward takes longer is distributed over it.
        longer = pace * (1 + changes.backward_s / backward_s)
        forward_s = pace * (NS * step.before_ns + earlier_s)
        optimizer_ns = changes.optimizer_part * step.optimizer_ns
        after_s = NS * (optimizer_ns + step.rest_ns + step.copy_back_ns)
        return RankStep(
            begin_s=ready.begin_s,
            first_s=forward_s + longer * ready.first_s,
            ready_s=[forward_s + longer * moment for moment in ready.ready_s],
            backward_s=forward_s + longer * backward_s,
            after_s=pace * after_s + changes.after_s,
        )

    def _ready_steps_of(self, i: int, buckets: Buckets) -> list[list[_ReadyStep]]:
        key = (i, buckets)
        if key not in self._ready_steps:
            launch = self.recording.launches[i]
            total = self.recording.total_bytes
            self._ready_steps[key] = _ready_steps(launch, buckets, total)
        return self._ready_steps[key]


def _ready_steps(launch: Launch, buckets: Buckets, total_bytes: int) -> list[list[_ReadyStep]]:
    """Returns one list for each rank, with a _ReadyStep for each step of the rank. A step is left
    out if _is_like_ddp() is False for rank 0's step with the same index."""
    ranks: list[list[_ReadyStep]] = [[] for _ in launch.ranks]
    for steps in zip(*launch.ranks, strict=True):
        if not _is_like_ddp(steps[0], total_bytes):
            continue
        begins = [begin_of(launch, step) for step in steps]
        for own, step, begin in zip(ranks, steps, begins, strict=True):
            ready_ns = ready_of(step)
            ready_s, latest_ns = [], 0.0
            for bucket in buckets:  # each is sent after those before
                latest_ns = max(latest_ns, max(ready_ns[p] for p in bucket))
                ready_s.append(NS * latest_ns)
            # Each step begins with its first rank, so that ranks of different steps can be
            # combined.
            own.append(_ReadyStep(begin - min(begins), step, NS * min(ready_ns), ready_s))
    return ranks


def _is_like_ddp(step: Step, total_bytes: int) -> bool:
    """Returns whether the step copied gradients into a buffer and, if there are several ranks, then
    all-reduced all gradients in their own dtypes."""
    if step.mode is not StepMode.PROBE:
        return False
    sent = step.collectives
    if not sent:
        return True
    return sent.kind is CollectiveKind.ALL_REDUCE and sum(sent.bytes) >= total_bytes


def _bucket_copies_s(launch: Launch, total_bytes: int) -> float:
    """Returns the seconds by which a rank's step becomes longer if gradients are copied into
    buckets as in DistributedDataParallel. The copies take time, and the optimizer may take longer
    to read gradients in buckets. Returns 0 if recorded steps with copies into a buffer took no
    longer than steps without copies."""
    rounds = [*zip(*launch.ranks, strict=True)]
    like_ddp = [steps for steps in rounds if _is_like_ddp(steps[0], total_bytes)]
    alone = [steps for steps in rounds if steps[0].mode is StepMode.UNSYNCHRONISED]
    like_ddp_s, alone_s = (
        trimmed_mean([fmean(map(_own_s, steps)) for steps in own]) for own in (like_ddp, alone)
    )
    return max(0, like_ddp_s - alone_s)


def _own_s(step: Step) -> float:
    """Returns the seconds of a rank's recorded step, without the time of a probe's collectives."""
    parts_ns = (step.before_ns, step.backward_ns, step.copy_back_ns, step.rest_ns)
    return NS * (sum(parts_ns) + step.optimizer_ns)


def _addition_s(launch: Launch, communication: Communication, total_bytes: int) -> float:
    """Returns the seconds that it takes to add all gradients of a pass to those of earlier passes.
    Adding gradients is assumed to take as long as casting them to bf16 and back. If no casts were
    recorded, adding gradients is assumed to take as long as copying them to a buffer."""
    if communication.bf16:
        casts_s = communication.cast_in_s_per_byte + communication.cast_out_s_per_byte
        return casts_s * total_bytes
    probe_s, alone_s = (
        trimmed_mean(
            [NS * step.backward_ns for steps in launch.ranks for step in steps if step.mode is mode]
        )
        for mode in (StepMode.PROBE, StepMode.UNSYNCHRONISED)
    )
    return max(0, probe_s - alone_s)


def _mean(launches: Sequence[Prediction]) -> Prediction:
    """Returns the mean of predictions, each of which was made from one recorded launch. The
    interval of `step_s` reaches from the lowest to the highest limit of the launches' intervals."""
    return Prediction(
        step_s=_mean_interval([one.step_s for one in launches]),
        slowest_s=fmean(one.slowest_s for one in launches),
        exposed_s=fmean(one.exposed_s for one in launches),
        slowed_s=fmean(one.slowed_s for one in launches),
        floor_s=fmean(one.floor_s for one in launches),
        replays=[replay for one in launches for replay in one.replays],
        copies_s=fmean(one.copies_s for one in launches),
        broadcasts_s=fmean(one.broadcasts_s for one in launches),
    )


def _mean_interval(launches: Sequence[Interval]) -> Interval:
    mean = fmean(one.value for one in launches)
    return Interval.of(mean, [own for one in launches for own in one.draws])


def largest_zero1_part(numels: Sequence[int], world_size: int) -> float:
    """Returns the largest fraction of all elements that one rank updates under
    ZeroRedundancyOptimizer. `numels`: the number of elements of each parameter.

    In each parameter group, ZeroRedundancyOptimizer assigns the largest parameters first, each to
    the rank that has the fewest elements so far (PyTorch's zero_redundancy_optimizer.py). All
    parameters are assumed to be in one group."""
    held = [0] * world_size
    for numel in sorted(numels, reverse=True):
        held[held.index(min(held))] += numel
    return max(held) / sum(numels)
