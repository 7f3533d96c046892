"""Finds each collective in the traces of several ranks. Computes which rank began the collective
last, and how long the other ranks waited for this rank.

On one host, ranks share a clock, so the rank with the latest beginning began last. Without a common
clock, the rank on which the collective takes the shortest time is assumed to have begun last."""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gradsync.trace.collectives import Collective, Group
from gradsync.trace.steps import Window

# Ends agree within this part of the shortest part, and a time that no clock or scheduler exceeds
# often.
AGREEING_PART = 0.25
AGREEING_S = 1e-3
# Each rank has its own bytes of these.
UNEVEN = ("all_to_all", "gather", "scatter", "send_recv", "send", "recv", "dispatch", "combine")
LEAST_AGREEING = 0.5  # of all collectives: with fewer, order says nothing


@dataclass(frozen=True)
class Place:
    """Identifies a collective: parts of several ranks' traces with equal Places are one collective.
    `step`: the number of its step; None if the trace has no steps. `turn`: a number that tells
    apart collectives of one step, group, kind and size."""

    step: int | None
    group: Group
    kind: str
    bytes: int | None
    turn: int
    is_numbered: bool


@dataclass(frozen=True)
class Aligned:
    """One collective, as it ran on all of align()'s ranks that took part. `parts`: the collective
    in each rank's trace, by rank number. `arrivals_s`: the time at which each rank began the
    collective, in seconds of a common clock. Without a common clock, the value is minus the seconds
    that the collective took on the rank. `pure_s`: the seconds of the collective after the last
    rank has begun. `spread_s`: the seconds between the earliest and the latest end on any rank."""

    place: Place
    parts: Mapping[int, Collective]
    arrivals_s: Mapping[int, float]
    pure_s: float
    spread_s: float

    @property
    def last_rank(self) -> int:
        """Returns the number of the rank that began the collective last."""
        return max(self.arrivals_s, key=self.arrivals_s.__getitem__)

    def waiting_s(self, rank: int) -> float:
        """Returns the seconds between this rank's beginning of the collective and that of the last
        rank."""
        return max(self.arrivals_s.values()) - self.arrivals_s[rank]

    @property
    def is_sure(self) -> bool:
        """Returns whether all ranks end the collective at almost the same time: within 1 ms plus a
        quarter of `pure_s`. `pure_s` is the collective's time without waiting for the last rank."""
        return self.spread_s <= AGREEING_S + AGREEING_PART * self.pure_s


@dataclass(frozen=True)
class Alignment:
    """The collectives that align() has found in several ranks' traces. `sure`: collectives that end
    at almost the same time on all of align()'s ranks that took part. `unsure`: the number of
    collectives whose ends lie too far apart. `unmatched`: the number of collectives that are
    missing on another of align()'s ranks that may belong to their process group. A collective
    counts once for each trace that has it. Collectives outside of steps are not counted.
    `is_usable`: whether at least half of the matched collectives, and at least one, end at almost
    the same time on all ranks. `offsets_s`: the seconds to add to each rank's times to get times of
    the clock of `ranks[0]`, align()'s first rank."""

    sure: list[Aligned]
    unsure: int
    unmatched: int
    offsets_s: Mapping[int, float]

    @property
    def is_usable(self) -> bool:
        return bool(self.sure) and len(self.sure) >= LEAST_AGREEING * (len(self.sure) + self.unsure)


@dataclass(frozen=True)
class RankCollectives:
    """The collectives and steps in one rank's trace. `host`: the name of the rank's host; empty if
    unknown. `origin_s`: by how many seconds this trace's time 0 is later than that of the earliest
    trace."""

    rank: int
    host: str
    origin_s: float
    collectives: Sequence[Collective]
    windows: Sequence[Window]


def step_of(called: float, windows: Sequence[Window]) -> int | None:
    """Returns the index in `windows` of the step in which the host was at the moment `called`; None
    outside of all steps."""
    i = bisect.bisect_right(windows, called, key=lambda window: window.host[0]) - 1
    return i if i >= 0 and called <= windows[i].host[1] else None


def align(ranks: Sequence[RankCollectives]) -> Alignment:
    """Matches the collectives in the traces of several ranks. Leaves out collectives outside of
    steps, in one trace only, or missing on another of `ranks` that may belong to their process
    group."""
    found: dict[Place, dict[int, Collective]] = {}
    for own in ranks:
        for place, part in _places(own, _are_numbered(ranks)).items():
            found.setdefault(place, {})[own.rank] = part
    whole = {}
    unmatched = 0
    for place, parts in found.items():
        members = [own.rank for own in ranks if place.group.may_hold(own.rank)]
        if len(parts) < 2 or len(parts) < len(members):
            unmatched += len(parts) if len(members) > 1 else 0
        else:
            whole[place] = parts
    by_clocks = _aligned_by(ranks, whole, unmatched)
    if by_clocks.is_usable:
        return by_clocks
    # Hosts may have the same name, such as localhost.
    nameless = [dataclasses.replace(own, host="") for own in ranks]
    by_ends = _aligned_by(nameless, whole, unmatched)
    return by_ends if by_ends.is_usable else by_clocks


def _aligned_by(
    ranks: Sequence[RankCollectives],
    whole: Mapping[Place, Mapping[int, Collective]],
    unmatched: int,
) -> Alignment:
    offsets = _offsets(ranks, list(whole.values()))
    hosts = {own.rank: own.host for own in ranks}
    aligned = [_aligned(place, parts, offsets, hosts) for place, parts in whole.items()]
    sure = [one for one in aligned if one.is_sure]
    return Alignment(sure, len(aligned) - len(sure), unmatched, offsets)


def _are_numbered(ranks: Sequence[RankCollectives]) -> bool:
    return all(part.sequence >= 0 for own in ranks for part in own.collectives)


def _places(own: RankCollectives, are_numbered: bool) -> dict[Place, Collective]:
    """Returns a rank's collectives by Place, the key that identifies a collective in all ranks'
    traces. Leaves out collectives that were called outside of steps."""
    turns: defaultdict[tuple[object, ...], int] = defaultdict(int)
    result: dict[Place, Collective] = {}
    for part in own.collectives:
        i = step_of(part.called, own.windows)
        if i is None:
            continue
        number = own.windows[i].number
        size = None if part.kind in UNEVEN else part.bytes
        key = (number, part.group, part.kind, size, part.sequence if are_numbered else None)
        # Several kernels of one number are of one group of calls.
        turn = turns[key]
        turns[key] += 1
        if are_numbered:
            turn += part.sequence << 20
        result[Place(number, part.group, part.kind, size, turn, are_numbered)] = part
    return result


def _offsets(
    ranks: Sequence[RankCollectives], found: Sequence[Mapping[int, Collective]]
) -> dict[int, float]:
    """Returns the seconds to add to each rank's times, to get times of the clock of `ranks[0]`."""
    first = ranks[0]
    offsets = {first.rank: 0.0}
    for own in ranks[1:]:
        if own.host and own.host == first.host:
            offsets[own.rank] = own.origin_s - first.origin_s
            continue
        apart = [
            parts[first.rank].end - parts[own.rank].end
            for parts in found
            if first.rank in parts and own.rank in parts
        ]
        # Ranks that share no collective with the first one keep their host's clock.
        offsets[own.rank] = median(apart) if apart else own.origin_s - first.origin_s
    return offsets


def _aligned(
    place: Place,
    parts: Mapping[int, Collective],
    offsets: Mapping[int, float],
    hosts: Mapping[int, str],
) -> Aligned:
    ends = [part.end + offsets[rank] for rank, part in parts.items()]
    own_hosts = {hosts[rank] for rank in parts}
    if len(own_hosts) == 1 and "" not in own_hosts:
        arrivals = {rank: part.begin + offsets[rank] for rank, part in parts.items()}
        pure_s = max(ends) - max(arrivals.values())
    else:
        arrivals = {rank: -part.seconds for rank, part in parts.items()}
        pure_s = min(part.seconds for part in parts.values())
    return Aligned(place, parts, arrivals, pure_s, max(ends) - min(ends))
