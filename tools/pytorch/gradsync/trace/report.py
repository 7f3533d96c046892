"""Computes the result of `gradsync trace`: the times of steps and collectives of all ranks, in
seconds."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from gradsync import Refused
from gradsync.trace.alignment import Aligned, Alignment, RankCollectives, align, step_of
from gradsync.trace.collectives import (
    Collective,
    Group,
    bus_factor,
    collectives_of,
    unsent,
)
from gradsync.trace.events import Trace, read_trace
from gradsync.trace.spans import length, union
from gradsync.trace.steps import Accountant, StepTimes, Window, windows_of

LEAST_STEPS = 3  # with fewer, the first one counts, too
ALWAYS = 0.95  # of all waiting: more is for one rank
SHARED = 0.05  # of communication: more overlaps with other communication


@dataclass(frozen=True)
class RankReport:
    """The times of the steps in one rank's trace. `numbers`: the number N of each step, from the
    profiler's event ProfilerStep#N. A trace without steps counts as one step, and `numbers` is then
    [None]. `steps`: for each step, how long it and its parts, such as computation, take. `mean`:
    the means of these times over the steps that are not skipped (see Report.skipped)."""

    rank: int
    path: str
    device: str
    numbers: list[int | None]
    steps: list[StepTimes]
    mean: StepTimes


@dataclass(frozen=True)
class SizeReport:
    """The collectives of one kind, group and size, in the steps that are not skipped (see
    Report.skipped).

    `count`: the number of these collectives, in all these steps together, on the rank that has most
    of them. `mean_s`: the mean time that such a collective takes on a rank, including the time for
    which the rank waits in it for the rank that begins it last. `pure_s`: the mean time without
    this waiting, over those collectives that are also in Report.collectives. `is_limit`: whether
    none of these collectives is in Report.collectives; also True for kinds in alignment.UNEVEN of
    known size. If `is_limit` is True, `pure_s` is the shortest time that one of these collectives
    takes on a rank, which is an upper limit of the time without waiting. `pure_s` is None if
    `is_limit` is True and the size is unknown (`bytes` is None). `waiting_s`: a rank's mean wait
    for the last rank in the collectives of `pure_s` (the last waits 0 s); None if `is_limit` is
    True. `bus_bytes_per_s`: the bus bandwidth from `pure_s` as nccl-tests define it, a lower limit
    if `is_limit` is True; None if unknown."""

    kind: str
    group: str
    bytes: int | None
    count: int
    mean_s: float
    pure_s: float | None
    is_limit: bool
    waiting_s: float | None
    bus_bytes_per_s: float | None


@dataclass(frozen=True)
class CollectiveReport:
    """One collective, such as an all-reduce, and its times on those of its ranks whose traces were
    read. `step`: the profiler's number of the step; None for a trace without steps. `counts`:
    whether the report's mean times over steps include this step. `last_rank`: the rank that began
    the collective last; without a common clock, the rank on which the collective was shortest.
    `pure_s`: the time from the beginning on `last_rank` to the latest end on any rank; without a
    common clock, to the end on `last_rank`. `waiting_s`: for how long each rank waited for
    `last_rank`."""

    step: int | None
    counts: bool
    kind: str
    group: str
    bytes: int | None
    last_rank: int
    pure_s: float
    waiting_s: dict[int, float]


@dataclass(frozen=True)
class WaitingReport:
    """How long ranks wait for slower ranks, in those of Report.collectives whose steps are not
    skipped (see Report.skipped). `by_rank_s`: for each rank, how long it waits in a step, as a mean
    over the steps that are not skipped. `for_rank_s`: for each rank, how long all other ranks
    together wait for it in a step, as a mean over the same steps as `by_rank_s`. `last_counts`: for
    each rank, the number of collectives whose `last_rank` it is; ranks without any are missing.
    `collectives`: the number of those of Report.collectives whose steps are not skipped."""

    by_rank_s: dict[int, float]
    for_rank_s: dict[int, float]
    last_counts: dict[int, int]
    collectives: int

    @property
    def awaited(self) -> int:
        """Returns the rank for which the other ranks wait longest in total."""
        return max(self.for_rank_s, key=self.for_rank_s.__getitem__)

    @property
    def share(self) -> float:
        """Returns the fraction of all ranks' waiting time in which they wait for the rank
        `awaited`; 0 if no rank waits."""
        total = sum(self.for_rank_s.values())
        return self.for_rank_s[self.awaited] / total if total else 0.0

    @property
    def is_always_the_same(self) -> bool:
        return self.share >= ALWAYS


@dataclass(frozen=True)
class Report:
    """The result of `gradsync trace`. Times are in seconds. `skipped`: the number of the first step
    that all ranks' traces have. Means over steps leave out this step and the steps before it.
    `skipped` is None if a trace has no numbered steps, or fewer than 2 after the first step that
    all traces have. If `skipped` is None, means use all steps. `collectives`: the collectives that
    were matched between ranks' traces and end at almost the same time on all their ranks.
    `collectives` is empty if only one trace was read, or if fewer than half of the matched
    collectives end at almost the same time. `waiting`: how long ranks wait in those of
    `collectives` that are in steps after `skipped`; None if there are none. If `skipped` is None,
    `waiting` is for all steps."""

    ranks: list[RankReport]
    has_gpu: bool
    skipped: int | None
    sizes: list[SizeReport]
    waiting: WaitingReport | None
    collectives: list[CollectiveReport]
    notes: list[str]


def is_counted(number: int | None, skipped: int | None) -> bool:
    """Returns whether means over steps use the step with this number. Means leave out the step with
    the number `skipped`, and the steps before it, which some ranks' traces lack. If `skipped` is
    None, means use all steps. Means always use a step whose number is None."""
    return skipped is None or number is None or number > skipped


@dataclass(frozen=True)
class Rank:
    """The trace of one rank, with its steps (`windows`) and its collectives."""

    number: int
    trace: Trace
    windows: list[Window]
    collectives: list[Collective]

    def counted(self, skipped: int | None) -> list[int]:
        """Returns the indices in `windows`, this rank's steps, of the steps that are averaged.
        Leaves out the step with the number `skipped` and all steps before it, unless `skipped` is
        None."""
        return [i for i, one in enumerate(self.windows) if is_counted(one.number, skipped)]


def read_ranks(paths: Sequence[str]) -> list[Rank]:
    """Reads the trace of each rank, and returns the ranks in the order of their numbers. Raises
    Refused if a trace cannot be used, if traces have different world sizes, if two traces are of
    the same rank, or if only some traces tell their rank. If no trace tells its rank, a rank's
    number is the index of its trace in `paths`."""
    traces = [read_trace(path) for path in paths]
    for trace in traces[1:]:
        if trace.world_size != traces[0].world_size:
            raise Refused(
                f"{trace.path}: a world of {trace.world_size} ranks, but {traces[0].path} is "
                f"of one of {traces[0].world_size}"
            )
    known = [trace for trace in traces if trace.rank is not None]
    if known and len(known) < len(traces):
        unknown = next(trace for trace in traces if trace.rank is None)
        raise Refused(
            f"{unknown.path}: it does not say which rank it is of, as {known[0].path} does"
        )
    ranks: dict[int, Rank] = {}
    for i, trace in enumerate(traces):
        number = i if trace.rank is None else trace.rank
        if number in ranks:
            raise Refused(f"{trace.path}: rank {number} again, as {ranks[number].trace.path}")
        ranks[number] = Rank(number, trace, windows_of(trace), collectives_of(trace))
    return [ranks[number] for number in sorted(ranks)]


def report_of(ranks: Sequence[Rank]) -> Report:
    """Returns the times of these ranks' steps and collectives."""
    skipped = _skipped(ranks)
    alignment = _alignment(ranks) if len(ranks) > 1 else None
    sure = alignment.sure if alignment and alignment.is_usable else []
    counted = [one for one in sure if is_counted(one.place.step, skipped)]
    return Report(
        ranks=[_rank_report(rank, skipped) for rank in ranks],
        has_gpu=any(rank.trace.has_gpu for rank in ranks),
        skipped=skipped,
        sizes=_size_reports(ranks, counted, skipped),
        waiting=_waiting_report(ranks, counted, skipped) if counted else None,
        collectives=[_collective_report(one, skipped) for one in sure],
        notes=list(_notes(ranks, alignment, skipped)),
    )


def _skipped(ranks: Sequence[Rank]) -> int | None:
    """Returns the number of the first step that all traces have. Means over steps must leave this
    step out: the profiler starts at different times on different ranks, so the step may contain
    seconds of waiting that training does not have. Returns None if a trace has no numbered steps,
    or fewer than 2 after the first step that all traces have."""
    numbers = [[window.number for window in rank.windows] for rank in ranks]
    known = [[number for number in own if number is not None] for own in numbers]
    if not all(known):
        return None
    first = max(min(own) for own in known)
    left = min(sum(number > first for number in own) for own in known)
    return first if left >= LEAST_STEPS - 1 else None


def _rank_report(rank: Rank, skipped: int | None) -> RankReport:
    accountant = Accountant(rank.trace, rank.collectives)
    steps = [accountant.times(window) for window in rank.windows]
    return RankReport(
        rank=rank.number,
        path=rank.trace.path,
        device=(rank.trace.device_name or "GPU") if rank.trace.has_gpu else "cpu",
        numbers=[window.number for window in rank.windows],
        steps=steps,
        mean=StepTimes.mean([steps[i] for i in rank.counted(skipped)]),
    )


def _alignment(ranks: Sequence[Rank]) -> Alignment:
    first_ns = min(rank.trace.origin_ns for rank in ranks)
    return align(
        [
            RankCollectives(
                rank.number,
                rank.trace.host,
                1e-9 * (rank.trace.origin_ns - first_ns),
                rank.collectives,
                rank.windows,
            )
            for rank in ranks
        ]
    )


def _collective_report(one: Aligned, skipped: int | None) -> CollectiveReport:
    return CollectiveReport(
        step=one.place.step,
        counts=is_counted(one.place.step, skipped),
        kind=one.place.kind,
        group=one.place.group.text,
        bytes=one.place.bytes,
        last_rank=one.last_rank,
        pure_s=one.pure_s,
        waiting_s={rank: one.waiting_s(rank) for rank in sorted(one.parts)},
    )


Key = tuple[str, Group, int | None]


def _parts(rank: Rank, skipped: int | None) -> dict[Key, list[Collective]]:
    """Returns, by kind, group and size, the collectives of a rank in all steps after `skipped`, or
    in all steps if `skipped` is None."""
    counts = set(rank.counted(skipped))
    result: defaultdict[Key, list[Collective]] = defaultdict(list)
    for part in rank.collectives:
        if step_of(part.called, rank.windows) in counts:
            result[part.kind, part.group, part.bytes].append(part)
    return result


def _size_reports(
    ranks: Sequence[Rank], counted: Sequence[Aligned], skipped: int | None
) -> list[SizeReport]:
    aligned: defaultdict[Key, list[Aligned]] = defaultdict(list)
    for one in counted:
        aligned[one.place.kind, one.place.group, one.place.bytes].append(one)
    by_rank = [_parts(rank, skipped) for rank in ranks]
    keys = {key: None for parts in by_rank for key in parts}  # in their first order
    reports = [
        _size_report(key, [parts[key] for parts in by_rank if key in parts], aligned.get(key, []))
        for key in keys
    ]
    return sorted(reports, key=lambda one: -one.count * one.mean_s)


def _size_report(
    key: Key, parts: Sequence[Sequence[Collective]], aligned: Sequence[Aligned]
) -> SizeReport:
    kind, group, size = key
    seconds = [part.seconds for own in parts for part in own]
    pure_s: float | None = None if size is None else min(seconds)
    waiting_s = None
    if aligned:
        pure_s = fmean(one.pure_s for one in aligned)
        waiting_s = fmean(one.waiting_s(rank) for one in aligned for rank in one.parts)
    bandwidth = None
    if size and group.size > 1 and pure_s:
        bandwidth = bus_factor(kind, group.size) * size / pure_s
    return SizeReport(
        kind=kind,
        group=group.text,
        bytes=size,
        count=max(len(own) for own in parts),
        mean_s=fmean(seconds),
        pure_s=pure_s,
        is_limit=not aligned,
        waiting_s=waiting_s,
        bus_bytes_per_s=bandwidth,
    )


def _waiting_report(
    ranks: Sequence[Rank], counted: Sequence[Aligned], skipped: int | None
) -> WaitingReport:
    # A collective is counted if all its ranks have it, so in the steps that all traces have.
    steps = max(1, min(len(rank.counted(skipped)) for rank in ranks))
    by_rank = {rank.number: 0.0 for rank in ranks}
    for_rank = {rank.number: 0.0 for rank in ranks}
    last = Counter(one.last_rank for one in counted)
    for one in counted:
        for rank in one.parts:
            by_rank[rank] += one.waiting_s(rank) / steps
            for_rank[one.last_rank] += one.waiting_s(rank) / steps
    return WaitingReport(by_rank, for_rank, dict(sorted(last.items())), len(counted))


def _notes(
    ranks: Sequence[Rank], alignment: Alignment | None, skipped: int | None
) -> Iterable[str]:
    if skipped is not None:
        yield f"Means are without step {skipped}, the first, in which the profiler starts."
    if any(window.number is None for rank in ranks for window in rank.windows):
        yield "No ProfilerStep: all of a trace counts as one step; call step() of the profiler."
    if not any(rank.collectives for rank in ranks):
        yield "No communication was found."
        yield from _unsent_notes(ranks)
        return
    if not any(rank.trace.has_gpu for rank in ranks):
        yield "Computation contains what communication takes of the processors."
    if any(_is_shared(rank) for rank in ranks):
        yield "Collectives run at the same time: their times contain what they take of each other."
    if alignment is None:
        yield "One rank: waiting is unknown, and the shortest time of a size limits its pure time."
    else:
        yield from _alignment_notes(alignment)
    yield from _unsent_notes(ranks)


def _unsent_notes(ranks: Sequence[Rank]) -> Iterable[str]:
    counts = Counter(kind for rank in ranks for kind in unsent(rank.trace))
    if counts:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        yield f"Of groups of one rank, for which nothing is sent: {told}."


def _alignment_notes(alignment: Alignment) -> Iterable[str]:
    total = len(alignment.sure) + alignment.unsure
    if not total:
        yield "Ranks have no collective in common: waiting is unknown."
    elif not alignment.is_usable:
        yield (
            f"Ranks cannot be aligned: of {total} collectives that order pairs, the ends of "
            f"{alignment.unsure} differ: waiting is unknown."
        )
    elif alignment.unsure:
        yield f"Of {total} collectives {alignment.unsure} are left out: their ends differ."
    if alignment.unmatched:
        yield f"Collectives that some rank's trace lacks: {alignment.unmatched}."


def _is_shared(rank: Rank) -> bool:
    spans = [part.span for part in rank.collectives]
    total = sum(end - begin for begin, end in spans)
    return total > (1 + SHARED) * length(union(spans))


def as_json(report: Report) -> Mapping[str, Any]:
    """Returns the report as dictionaries and lists for json.dumps()."""
    fields = dataclasses.asdict(report)
    if report.waiting:
        fields["waiting"].update(
            awaited=report.waiting.awaited,
            share=report.waiting.share,
            is_always_the_same=report.waiting.is_always_the_same,
        )
    return fields
