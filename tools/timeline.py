"""The steps in traces (*.trace.json) of bench/ddp, and what each of them exposes; times are in ms.

bench/timing/trace_log.h describes the events. report.py draws the steps. Needs only the standard
library.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

# The phases of a step, in their order. A rank waits in all of sync_exposed, and in events `wait`.
FORWARD, BACKWARD, SYNC, UPDATE = "forward", "backward", "sync_exposed", "optimizer"
PHASES = (FORWARD, BACKWARD, SYNC, UPDATE)
# Rows of a rank: its phases, the operations of backward, what is queued, and the lanes in flight.
PHASE_ROW, QUEUE_ROW, FIRST_LANE_ROW = 1, 3, 4

Span = tuple[float, float]  # begin and end


@dataclasses.dataclass
class Wait:
    begin: float
    end: float
    # False in BeginStep and in the broadcast of buffers, of which the wait is a part.
    is_counted: bool


@dataclasses.dataclass
class Flight:
    """A collective of a step."""

    lane: int
    issued: float
    begin: float
    end: float
    bytes: int


@dataclasses.dataclass
class RankStep:
    """A step of one rank."""

    begin: float = math.nan  # NaN: the trace has no such event
    end: float = math.nan
    phases: dict[str, Span] = dataclasses.field(default_factory=dict)
    waits: list[Wait] = dataclasses.field(default_factory=list)
    flights: list[Flight] = dataclasses.field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not math.isnan(self.begin)

    @property
    def last_gradient(self) -> float:
        """When backward ends."""
        return self.phases[BACKWARD][1] if BACKWARD in self.phases else self.end

    def waiting(self) -> list[Span]:
        """When the rank waits, also where it does not count: spans in order, none touches another."""
        spans = [(wait.begin, wait.end) for wait in self.waits]
        if SYNC in self.phases:
            spans.append(self.phases[SYNC])
        return united(spans)

    def counted_in(self, phase: str) -> float:
        """The waits in a phase that count."""
        begin, end = self.phases[phase]
        return sum(
            min(end, wait.end) - max(begin, wait.begin)
            for wait in self.waits
            if wait.is_counted and wait.begin < end and wait.end > begin
        )

    def computed_at(self) -> float:
        """When the rank would have had its last gradient without waiting."""
        waits = self.counted_in(FORWARD) + self.counted_in(BACKWARD)
        return self.phases[BACKWARD][1] - waits

    def averaged_at(self) -> float:
        """When it has all averages, if the waits of the update come before the update."""
        return self.phases[SYNC][1] + self.counted_in(UPDATE)


Ranks = dict[int, RankStep]  # a step, by rank


@dataclasses.dataclass
class Timeline:
    """The step of median length of a strategy."""

    strategy: str
    ranks: Ranks

    @property
    def length(self) -> float:
        return length(self.ranks)

    @property
    def title(self) -> str:
        flights = next(iter(self.ranks.values())).flights
        parts = [self.strategy, f"step {self.length:.4g} ms"]
        exposed = exposed_in(self.ranks)
        if exposed is not None:
            parts.append(f"exposed {exposed:.3g} ms")
        elif flights:
            parts.append("optimizer includes its waits")
        if flights:
            mebibytes = sum(flight.bytes for flight in flights) / 2**20
            parts.append(f"{mebibytes:.3g} MiB in {len(flights)} collectives")
        return ", ".join(parts)


def united(spans: Iterable[Span]) -> list[Span]:
    """The union of the spans, in order."""
    union: list[Span] = []
    for begin, end in sorted(spans):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((begin, end))
    return union


def within(begin: float, end: float, spans: Iterable[Span]) -> list[Span]:
    """The parts of the spans between begin and end."""
    parts = [(max(begin, first), min(end, last)) for first, last in spans]
    return [(first, last) for first, last in parts if first < last]


def length(ranks: Ranks) -> float:
    return max(rank.end - rank.begin for rank in ranks.values())


def exposed_in(ranks: Ranks) -> float | None:
    """What the step exposes: how much later the last rank has averaged than the last rank has computed.

    This is the part `exposed` of the cost in tables (tools/analysis/pairs.cc). None if it is not known,
    because the trace has no times of single waits, as on a GPU, or if nothing waits.
    """
    if not any(rank.waits for rank in ranks.values()):
        return None
    return max(rank.averaged_at() for rank in ranks.values()) - max(
        rank.computed_at() for rank in ranks.values()
    )


class Traces:
    """The steps in the traces of one run, of which each rank has a file."""

    def __init__(self) -> None:
        # By place (what was run), strategy, number of the step, and rank.
        self.steps: dict[str, dict[str, dict[int, Ranks]]] = {}
        self.order: list[str] = []  # of the strategies on the command line

    def read(self, path: pathlib.Path) -> None:
        trace = json.loads(path.read_text("utf-8"))
        about = trace.get("otherData", {})
        origin = about.get("origin")
        self.order += about.get("strategies", [])
        issued: dict[int, float] = {}  # by sequence of the collective
        for event in trace["traceEvents"]:
            if event["ph"] not in ("X", "b"):  # a name, or the end of what is queued
                continue
            if event["tid"] == QUEUE_ROW:
                issued[event["args"]["sequence"]] = event["ts"] / 1e3
            else:
                self._add(origin, event, issued)

    def _add(self, origin: str | None, event: dict[str, Any], issued: dict[int, float]) -> None:
        args, row, name = event["args"], event["tid"], event["name"]
        begin, end = event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3
        rank = self._step_of(origin, args).setdefault(event["pid"], RankStep())
        if row >= FIRST_LANE_ROW:
            lane = row - FIRST_LANE_ROW
            issued_at = issued.get(args["sequence"], begin)
            rank.flights.append(Flight(lane, issued_at, begin, end, args["bytes"]))
        elif row == PHASE_ROW and name == "wait":
            rank.waits.append(Wait(begin, end, args["counted"]))
        elif row == PHASE_ROW and name in PHASES:
            rank.phases[name] = (begin, end)
        elif row == PHASE_ROW:
            rank.begin, rank.end = begin, end

    def _step_of(self, origin: str | None, args: dict[str, Any]) -> Ranks:
        place = [origin, f"batch {args['batch_size']}"]
        if args["seq_len"]:
            place.append(f"sequence {args['seq_len']}")
        strategies = self.steps.setdefault(", ".join(part for part in place if part), {})
        return strategies.setdefault(args["strategy"], {}).setdefault(args["step"], {})


def timelines(paths: Iterable[pathlib.Path]) -> dict[str, list[Timeline]]:
    """The timelines of one run's traces, by place."""
    traces = Traces()
    for path in paths:
        traces.read(path)
    found: dict[str, list[Timeline]] = {}
    for place, strategies in traces.steps.items():
        for strategy in sorted(strategies, key=(traces.order + list(strategies)).index):
            step = median_of(strategies[strategy].values())
            if step is not None:
                found.setdefault(place, []).append(Timeline(strategy, dict(sorted(step.items()))))
    return found


def median_of(steps: Iterable[Ranks]) -> Ranks | None:
    """The step of median length, of those that are whole on all ranks."""
    whole = [ranks for ranks in steps if all(rank.is_whole for rank in ranks.values())]
    return sorted(whole, key=length)[len(whole) // 2] if whole else None
