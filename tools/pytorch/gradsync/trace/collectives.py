"""Finds the collectives in the trace of one rank: kind, size and time of each."""

from __future__ import annotations

import bisect
import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.trace.events import TRANSPORT, Device, Host, Trace, Work
from gradsync.trace.spans import Span

KINDS = {  # by letters of a name, the first that fits
    "reducescatter": "reduce_scatter",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
    "barrier": "barrier",
    "gather": "gather",
    "scatter": "scatter",
    "reduce": "reduce",
    "dispatch": "dispatch",
    "combine": "combine",
    "send": "send",
    "recv": "recv",
}
OTHER = "other"
DTYPE_BYTES = {
    **dict.fromkeys(("double", "long", "long int", "int64", "complexfloat"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "short int", "uint16"), 2),
    **dict.fromkeys(("byte", "char", "unsigned char", "signed char", "bool"), 1),
}
# Of a vector's bytes, what a rank sends, for n ranks: bus bandwidth as nccl-tests define it.
BUS_HALVES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}


@dataclass(frozen=True)
class Group:
    """The ranks that take part in a collective, as far as the trace tells. `ranks`: the list of
    ranks as text, as the trace has it; empty if the trace has none. The profiler shortens long
    lists by "..."."""

    name: str = ""
    ranks: str = ""
    size: int = 0

    @property
    def text(self) -> str:
        if not self.name and not self.ranks:
            return "all"
        return f"{self.name} {self.ranks}".strip()

    def may_hold(self, rank: int) -> bool:
        """Returns whether a rank belongs to the group, or may belong to it because the trace has no
        whole list of ranks."""
        if not self.ranks or "..." in self.ranks:
            return True
        return rank in [int(number) for number in re.findall(r"\d+", self.ranks)]


@dataclass(slots=True)
class Collective:
    """One collective, such as an all-reduce, as one rank ran it. `called`: when the host called the
    collective or launched its kernel; when the collective began if the trace does not tell this.
    `bytes`: the bytes of the collective's input or output, whichever is larger, as far as the trace
    tells them; None if unknown. `sequence`: the number that the process group has given the
    collective; -1 if unknown. `dtype`: the dtype's name in the trace; empty if unknown, and always
    empty for collectives of gloo."""

    kind: str
    group: Group
    bytes: int | None
    dtype: str
    sequence: int
    called: float
    begin: float
    end: float

    @property
    def span(self) -> Span:
        return self.begin, self.end

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def kind_of(*names: object) -> str:
    """Looks for a kind of collective, such as "all_reduce", in these names, one after the other,
    and returns the first kind that it finds; "other" if no name contains one."""
    for name in names:
        letters = re.sub(r"[^a-z]", "", str(name or "").lower())
        for part, kind in KINDS.items():
            if part in letters:
                return kind
    return OTHER


def dtype_bytes(name: object) -> int:
    """Returns the size in bytes of an element of the dtype with this name; 0 if the dtype is not
    known."""
    text = str(name).lower().removeprefix("c10::")
    return 1 if text.startswith("float8") else DTYPE_BYTES.get(text, 0)


def bus_factor(kind: str, ranks: int) -> float:
    """Returns how many bytes each rank sends for each byte of the collective's vector, as
    nccl-tests count them in the bus bandwidth. For kinds without an entry in BUS_HALVES, such as a
    broadcast, returns 1."""
    return BUS_HALVES[kind] * (ranks - 1) / ranks if kind in BUS_HALVES else 1.0


def input_bytes(facts: Mapping[str, Any]) -> int | None:
    """Returns the total bytes of an event's input tensors of known dtypes; None if this total is 0,
    or if the trace lacks the tensors' shapes or dtypes."""
    dims, types = facts.get("Input Dims"), facts.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    total = 0
    for shape, dtype in zip(dims, types, strict=False):
        is_shape = isinstance(shape, list) and all(type(one) is int for one in shape)
        if is_shape and dtype_bytes(dtype):
            total += math.prod(shape) * dtype_bytes(dtype)
    return total or None


def collectives_of(trace: Trace) -> list[Collective]:
    """Returns the collectives that a rank has run, in the order of their calls."""
    kernels = [one for one in trace.device if one.work is Work.COMMUNICATION]
    found = _Calls(trace)
    result = [_of_kernel(one, found, trace.world_size) for one in kernels]
    result += _of_threads(trace)
    return sorted(result, key=lambda one: (one.called, one.begin))


def unsent(trace: Trace) -> list[str]:
    """Returns, for each collective in the trace that sends nothing because its process group has
    only one rank, the collective's kind. Leaves out the kind "other"."""
    alone = [record for record in trace.records if _whole(record.facts, "Group size") == 1]
    kinds = [kind_of(record.facts.get("Collective name")) for record in alone]
    return [kind for kind in kinds if kind != OTHER]  # such as the setting up of a group


class _Calls:
    """Finds the events on the host during which a collective's kernel was launched, such as the
    c10d operator that called the collective."""

    def __init__(self, trace: Trace) -> None:
        self._own = [_by_thread(own) for own in (trace.records, trace.transports, trace.calls)]

    def around(self, kernel: Device) -> list[Host]:
        """Returns the host's events that enclose the launch of the kernel: PyTorch's record of the
        collective (record_param_comms), the annotation such as nccl:all_reduce, and the c10d
        operator. Any of the three may be missing; the list is empty if the trace lacks the launch.
        """
        if not kernel.launch_known:
            return []
        found = (_last(own.get(kernel.launcher, []), kernel.launched) for own in self._own)
        return [one for one in found if one is not None]


def _by_thread(events: Iterable[Host]) -> dict[Hashable, list[Host]]:
    result: defaultdict[Hashable, list[Host]] = defaultdict(list)
    for event in sorted(events, key=lambda one: one.begin):
        result[event.thread].append(event)
    return result


def _last(events: Sequence[Host], moment: float) -> Host | None:
    """Of these events, finds the last one that began by this moment; returns it, or None if it had
    ended before this moment, or if there is none."""
    i = bisect.bisect_right(events, moment, key=lambda one: one.begin) - 1
    return events[i] if i >= 0 and events[i].end >= moment else None


def _of_kernel(kernel: Device, calls: _Calls, world_size: int) -> Collective:
    around = calls.around(kernel)
    facts: dict[str, Any] = {}
    for event in reversed(around):
        facts.update(event.facts)
    facts.update({name: value for name, value in kernel.facts.items() if value is not None})
    names = [facts.get("Collective name"), *(event.name for event in around), kernel.name]
    kind = kind_of(*names)
    group = _group(facts, world_size)
    return Collective(
        kind=kind,
        group=group,
        bytes=_bytes(facts, kind, group),
        dtype=str(facts.get("dtype", "")),
        sequence=_whole(facts, "Seq"),
        called=kernel.launched,
        begin=kernel.begin,
        end=kernel.end,
    )


def _of_threads(trace: Trace) -> list[Collective]:
    """Returns the collectives that threads of the host run, as with gloo. A collective is assumed
    to belong to the earliest unused c10d call of its kind (such as all-reduce), unless that call
    begins after the collective."""
    waiting: defaultdict[str, list[float]] = defaultdict(list)
    for call in reversed(trace.calls):
        waiting[kind_of(call.name)].append(call.begin)
    result = []
    for event in trace.transports:
        match = TRANSPORT.match(event.name)
        assert match
        if match[1] in ("nccl", "xccl", "hccl"):
            continue
        kind = kind_of(match[2])
        own = waiting[kind]
        called = own.pop() if own and own[-1] <= event.begin else event.begin
        group = _group(event.facts, trace.world_size)
        size = _bytes(event.facts, kind, group)
        result.append(Collective(kind, group, size, "", -1, called, event.begin, event.end))
    return result


def _group(facts: Mapping[str, Any], world_size: int) -> Group:
    size = _whole(facts, "Group size")
    return Group(
        name=str(facts.get("Process Group Name", "")),
        ranks=str(facts.get("Process Group Ranks", "")),
        size=size if size > 0 else world_size,
    )


def _bytes(facts: Mapping[str, Any], kind: str, group: Group) -> int | None:
    element = dtype_bytes(facts.get("dtype"))
    elements = max(_whole(facts, "In msg nelems"), _whole(facts, "Out msg nelems"))
    if element and elements >= 0:
        return element * elements
    size = input_bytes(facts)
    if size is not None and kind == "all_gather":
        return size * group.size if group.size else None
    return size


def _whole(facts: Mapping[str, Any], name: str) -> int:
    value = facts.get(name)
    return value if type(value) is int else -1
