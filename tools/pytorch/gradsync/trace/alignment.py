"""Finds each collective in the traces of several ranks, and computes which rank began it last, and
how long the other ranks waited for this rank.

It is assumed that on each rank a collective lasts from the rank's own arrival (the moment at which
it begins the collective) until all ranks have arrived and the data has been exchanged, so all ranks
end together. If all ranks are on one host, they share a clock, so the latest beginning is the last
arrival. Clocks of different hosts differ, so beginnings on different hosts cannot show the last
arrival. With several hosts, the rank on which a collective takes the shortest time is assumed to
arrive last. The time by which the collective takes longer on another rank is assumed to be that
rank's waiting. To check that events of two hosts are one collective, the two hosts' clocks are
assumed to differ by a constant time. If one clock is corrected by this time, the two hosts' events
must end at almost the same time.
"""

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
    """Identifies a collective, so that the same collective is found in the traces of several ranks.
    `step`: the number of its step; None if the trace has no steps. `turn`: the index of the
    collective among those of its kind, group and size in this step. `is_numbered`: whether every
    collective in the traces has a sequence number: the number of its call in its process group. If
    so, `turn` is 2**20 times the sequence number, plus the index of the collective among those with
    this number."""

    step: int | None
    group: Group
    kind: str
    bytes: int | None
    turn: int
    is_numbered: bool


@dataclass(frozen=True)
class Aligned:
    """One collective, as it ran on all ranks that took part. Times are seconds. `parts`: for each
    rank that took part, the collective in its trace. `arrivals_s`: when each rank arrived, that is,
    began the collective. If all ranks that took part are on one host, an arrival is a time of their
    common clock. Otherwise, a rank's arrival is minus the seconds that the collective took on this
    rank. `pure_s`: the time from the last arrival to the latest end. Without a common clock,
    `pure_s` is the time on the rank on which the collective takes least time. `spread_s`: the time
    between the earliest and the latest end of the collective on the ranks that took part."""

    place: Place
    parts: Mapping[int, Collective]
    arrivals_s: Mapping[int, float]
    pure_s: float
    spread_s: float

    @property
    def last_rank(self) -> int:
        """Returns the rank that began the collective last, for which the other ranks wait."""
        return max(self.arrivals_s, key=self.arrivals_s.__getitem__)

    def waiting_s(self, rank: int) -> float:
        """Returns the seconds for which this rank waits in the collective for the last rank."""
        return max(self.arrivals_s.values()) - self.arrivals_s[rank]

    @property
    def is_sure(self) -> bool:
        """Returns whether the collective ends on all ranks at almost the same time, as it must if
        the traces' collectives were matched correctly. The ends may differ by up to 1 ms plus a
        quarter of `pure_s`, the collective's time without waiting."""
        return self.spread_s <= AGREEING_S + AGREEING_PART * self.pure_s


@dataclass(frozen=True)
class Alignment:
    """The result of align(): which collectives of several ranks' traces are the same. `sure`:
    collectives that end at almost the same time on all ranks that took part (Aligned.is_sure). The
    list begins with the collectives in which the first rank took part, in the order of its calls.
    `unsure`: the number of matched collectives that are not in `sure`, because their ends on
    different ranks lie too far apart. `unmatched`: the number of collectives that some ranks'
    traces have, but not the trace of every rank that belongs, or may belong, to the collective's
    process group. An unmatched collective is counted once for each trace that has it. `is_usable`:
    whether at least half of the matched collectives end at almost the same time on all ranks; else
    the matching is not credible. `offsets_s`: for each rank, the seconds to add to its times, to
    get times of the first rank's clock."""

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
    unknown. `origin_s`: the time of the host's clock at which this rank's times are 0, in seconds
    after the time at which those of the earliest rank are 0."""

    rank: int
    host: str
    origin_s: float
    collectives: Sequence[Collective]
    windows: Sequence[Window]


def step_of(called: float, windows: Sequence[Window]) -> int | None:
    """Returns the index in `windows` of the step in which the host made a call at the moment
    `called`; None if it was in no step."""
    i = bisect.bisect_right(windows, called, key=lambda window: window.host[0]) - 1
    return i if i >= 0 and called <= windows[i].host[1] else None


def align(ranks: Sequence[RankCollectives]) -> Alignment:
    """Matches collectives in the traces of several ranks: those with equal Places are one
    collective. Leaves out a collective that only one trace has. Also leaves out a collective that
    is missing in the trace of a rank that may be in the collective's process group."""
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
    """Returns a rank's collectives by the Place that identifies each one. Collectives that were
    called outside of steps are left out."""
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
    """Returns the seconds to add to each rank's times, to get times of the first rank's clock. For
    a rank on another host, returns the median, over the collectives of both ranks, of the end on
    the first rank minus the end on the other rank. For a rank on the first rank's host, or without
    a common collective, returns its `origin_s` minus the first rank's."""
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
