"""Makes all ranks wait for each other before each optimizer's step() whose gradients the command
`check` compares. No collective is used, so a rank that never comes can be named in an error."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

from gradsync import Refused
from gradsync.torch_private import default_store, store_within

PREFIX = "gradsync_check"
OVER = "over"  # the key that close() sets
LONGEST_PAUSE_S = 0.1  # between two looks at the store
GRACE_S = 2.0  # for a rank that has begun more passes, beside the time of a step
HEARING_S = 1.0  # that other ranks have to hear that the check is over
PRINTING_S = 60.0  # that the rank that speaks has to print what it has found


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a rank has done since it last waited for all ranks before an optimizer's step().
    `meetings`: the number of these waits since the script began. `calls` and `passes`: the numbers
    of forward passes with gradients enabled, and of backward passes, begun since the last wait.
    `skipped`: the number of calls of step() that a GradScaler has skipped since the last wait.
    `place`: FILE:LINE of the latest counted forward pass, backward pass or skipped step(); empty if
    none is counted. `ended`: a text about how the script has ended; empty while the script runs."""

    meetings: int = 0
    calls: int = 0
    passes: int = 0
    skipped: int = 0
    place: str = ""
    ended: str = ""


class Reason(enum.Enum):
    """Why the other ranks wait for a rank in vain."""

    SKIPPED = enum.auto()  # a GradScaler has left out the update
    WENT_ON = enum.auto()  # it has begun another pass, and gets no further
    ENDED = enum.auto()
    LATE = enum.auto()
    OVER = enum.auto()  # it has ended the check, and has said why


@dataclasses.dataclass(frozen=True)
class Absence:
    """A rank that does not come to an optimizer's step() or the script's end, or whose GradScaler
    skipped more calls of step() than another rank's. `text`: what the rank does instead of waiting,
    for the error message. `speaker`: the rank that prints the error: the lowest rank that is not
    known to be absent. For Reason.OVER, or if all ranks have come, `speaker` is 0."""

    rank: int
    reason: Reason
    text: str
    speaker: int = 0


class _Stalls:
    """Measures for how many seconds another rank's Progress has not changed while this rank
    waits."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[Progress, float]] = {}
        self.waited_s = 0.0

    def seconds(self, rank: int, now: Progress) -> float:
        before, since = self._since.get(rank, (None, 0.0))
        if before != now:
            since = self.waited_s
            self._since[rank] = (now, since)
        return self.waited_s - since


@contextlib.contextmanager
def _refusing_lost_store() -> Iterator[None]:
    """Raises Refused if the body of the `with` statement raises a RuntimeError, as the process
    group's key-value store does if it is lost."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise Refused(f"ranks do not meet: {type(error).__name__}: {reason}") from error


class Meetings:
    """Makes this rank wait for all other ranks before each optimizer's step() that `check`
    compares. All methods raise Refused if the key-value store of the script's process group cannot
    be reached. Without a process group of several ranks, no method waits, and is_closed() returns
    False."""

    def __init__(self) -> None:
        self._own = Progress()
        self._began_s = 0.0  # the first pass since the last meeting
        self._step_s = 0.0  # from then on to the meeting
        self._store: Any = None
        self._timeout_s = 0.0  # of the script's process group
        self._rank = 0
        self._size = 1

    def begin_call(self, place: str) -> None:
        """Called when a forward pass of the script begins at `place` (FILE:LINE) with gradients
        enabled."""
        self._begin()
        self._say(calls=self._own.calls + 1, place=place)

    def begin_pass(self, place: str) -> None:
        """Called when a backward pass of the script begins at `place` (FILE:LINE), outside of any
        other backward pass."""
        self._begin()
        self._say(passes=self._own.passes + 1, place=place)

    def _begin(self) -> None:
        if self._own.calls == self._own.passes == 0:
            self._began_s = time.monotonic()

    def skip(self, place: str) -> None:
        """Called when a GradScaler skips an optimizer's step() at `place` (FILE:LINE)."""
        self._say(skipped=self._own.skipped + 1, place=place)

    def end(self, how: str) -> None:
        """Tells the other ranks that the script of this rank has ended. `how`: what other ranks
        print about this end, such as "has ended"."""
        self._say(ended=how)

    def meet(self) -> Absence | None:
        """Waits until all ranks have called meet() before the same step() of an optimizer, and
        returns None. Returns an Absence if a rank does not come, has called close(), or has skipped
        more calls of step() than another rank."""
        if not self._join():
            return None
        self._set(self._place_of(self._rank), self._own.skipped)
        absence = self._wait(self._missing, self._why_absent) or self._who_skipped()
        self._own = Progress(meetings=self._own.meetings + 1)
        return absence

    def meet_at_end(self) -> Absence | None:
        """Waits, after end(), until the scripts of all ranks have ended, and returns None. Returns
        an Absence if another rank trains on, does not end in time, or has called close()."""
        return self._wait(self._running, self._why_running) if self._join() else None

    def close(self) -> None:
        """Tells all ranks that this rank has printed the result of the check. Waits for about one
        second at most until all other ranks have called is_closed()."""
        if not self._join():
            return
        self._set(OVER, "")
        others = [f"heard/{rank}" for rank in range(self._size) if rank != self._rank]
        _wait_for(lambda: self._has(*others), HEARING_S)

    def is_closed(self) -> bool:
        """Waits for about 60 seconds at most until the rank that prints the result calls close().
        Returns whether that rank has called close()."""
        if not self._join() or not _wait_for(lambda: self._has(OVER), PRINTING_S):
            return False
        self._set(f"heard/{self._rank}", "")
        return True

    # Who is missing, and why

    def _wait(
        self,
        missing: Callable[[], list[int]],
        why: Callable[[int, _Stalls], tuple[Reason, str] | None],
    ) -> Absence | None:
        """Waits until missing() returns no ranks, and returns None. Returns an Absence if why()
        says why a rank will not come, if a rank has called close(), or after the process group's
        timeout."""
        has_begun = self._own.calls + self._own.passes > 0
        self._step_s = time.monotonic() - self._began_s if has_begun else 0.0
        stalls = _Stalls()
        for waited_s in _looks():
            stalls.waited_s = waited_s
            ranks = missing()
            if not ranks:
                break
            if self._has(OVER):
                return Absence(ranks[0], Reason.OVER, "has ended the check")
            reasons = {rank: reason for rank in ranks if (reason := why(rank, stalls))}
            if waited_s > self._timeout_s and not reasons:
                text = f"does not come within {self._timeout_s:.0f} s"
                reasons = dict.fromkeys(ranks, (Reason.LATE, text))
            if reasons:
                rank = min(reasons)
                speaker = min(set(range(self._size)) - set(reasons))
                return Absence(rank, *reasons[rank], speaker)
        return None

    def _missing(self) -> list[int]:
        """Returns the other ranks that have not yet called meet() before the step() at which this
        rank waits."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        if self._has(*map(self._place_of, others)):
            return []
        return [rank for rank in others if not self._has(self._place_of(rank))]

    def _why_absent(self, rank: int, stalls: _Stalls) -> tuple[Reason, str] | None:
        other = self._progress_of(rank)
        if other.ended:
            return Reason.ENDED, other.ended
        if other.meetings < self._own.meetings:
            return None
        if other.skipped > self._own.skipped:
            return Reason.SKIPPED, f"left out a step (GradScaler at {other.place})"
        return self._why_stalled(rank, other, stalls)

    def _who_skipped(self) -> Absence | None:
        """Returns an Absence for the rank whose GradScaler has skipped the most calls of step()
        since the last meeting. Returns None if all ranks skipped equally many."""
        keys = [self._place_of(rank) for rank in range(self._size)]
        skipped = [self._get(key) for key in keys]
        if min(skipped) == max(skipped):
            return None
        rank = skipped.index(max(skipped))
        return Absence(rank, Reason.SKIPPED, "has left out a step before, by its GradScaler")

    def _running(self) -> list[int]:
        """Returns the ranks whose scripts have not ended."""
        return [rank for rank in range(self._size) if not self._progress_of(rank).ended]

    def _why_running(self, rank: int, stalls: _Stalls) -> tuple[Reason, str] | None:
        if self._has(self._place_of(rank)):
            return Reason.WENT_ON, "comes to another step of an optimizer"
        return self._why_stalled(rank, self._progress_of(rank), stalls)

    def _why_stalled(
        self, rank: int, other: Progress, stalls: _Stalls
    ) -> tuple[Reason, str] | None:
        """Returns why waiting for rank `rank` is useless, or None if the rank may still come.
        Waiting is useless if, since its last wait, the rank has begun more forward or backward
        passes than this rank, and stands still. A rank that has waited fewer times than this rank
        may still come. A rank stands still if it makes no progress for 2 seconds plus the time of
        this rank's step."""
        own = self._own
        has_more = other.calls > own.calls or other.passes > own.passes
        if other.meetings < own.meetings or not has_more:
            return None
        if stalls.seconds(rank, other) < GRACE_S + self._step_s:
            return None
        return Reason.WENT_ON, f"has begun its next pass at {other.place}"

    # The store

    def _join(self) -> bool:
        """Connects to the store of the script's process group. Returns whether this call or an
        earlier call has found a process group of several ranks."""
        if self._store is None and dist.is_initialized() and dist.get_world_size() > 1:
            store = default_store()
            self._store = store_within(store, PREFIX)
            self._timeout_s = store.timeout.total_seconds()
            self._rank, self._size = dist.get_rank(), dist.get_world_size()
        return self._store is not None

    def _say(self, **changes: Any) -> None:
        self._own = dataclasses.replace(self._own, **changes)
        if self._join():
            self._set(f"progress/{self._rank}", dataclasses.asdict(self._own))

    def _progress_of(self, rank: int) -> Progress:
        key = f"progress/{rank}"
        return Progress(**self._get(key)) if self._has(key) else Progress()

    def _place_of(self, rank: int) -> str:
        """Returns the store's key that meet() sets on rank `rank` for the meeting whose number is
        this rank's Progress.meetings."""
        return f"{self._own.meetings}/{rank}"

    def _set(self, key: str, value: Any) -> None:
        with _refusing_lost_store():
            self._store.set(key, json.dumps(value))

    def _get(self, key: str) -> Any:
        with _refusing_lost_store():
            return json.loads(self._store.get(key))

    def _has(self, *keys: str) -> bool:
        with _refusing_lost_store():
            return bool(self._store.check(list(keys)))


def _wait_for(is_so: Callable[[], bool], seconds: float) -> bool:
    """Waits until is_so() returns True, but for about `seconds` seconds at most. Returns the last
    result of is_so()."""
    for waited_s in _looks():
        if is_so():
            return True
        if waited_s > seconds:
            break
    return False


def _looks() -> Iterator[float]:
    """Yields the number of seconds slept so far, without end, and sleeps for 0.1 s at most between
    two values. Time in which the whole process was stopped is not counted."""
    pause_s = 0.001
    waited_s = 0.0
    while True:
        yield waited_s
        time.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
