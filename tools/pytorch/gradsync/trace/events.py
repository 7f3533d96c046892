"""Reads one rank's trace, and keeps the events about steps, computation and communication."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from gradsync import Refused
from gradsync.trace.json_stream import Event, read_events
from gradsync.trace.spans import Span

# A kernel that communicates, by the name before its arguments. NCCL's are ncclKernel_ until 2.18
# and ncclDevKernel_ since; RCCL's are named like either; others have no nccl in their names.
COMMUNICATION = re.compile(
    r"nccl|rccl|mscclpp|nvshmem|deep_?ep|::ep::|(one|two)_?shot_?all|multimem_|cross_device_reduce",
    re.IGNORECASE,
)
TRANSPORT = re.compile(r"(gloo|nccl|mpi|ucc|xccl|hccl):(\w+)")
STEP = re.compile(r"ProfilerStep#?\s*(\d+)")
OPTIMIZER = re.compile(r"Optimizer\.step#(.*?)(?:\.step)?")
NODE = "autograd::engine::evaluate_function: "
ACCUMULATION = "torch::autograd::AccumulateGrad"
INTO_BUCKET = "torch::distributed::reducer::"
DIVISION = INTO_BUCKET + "mul_out"  # DDP's copy into a bucket, if no hook communicates
SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"
OUT_OF_BUCKET = re.compile(r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad")
CALL = "c10d::"
RECORD = "record_param_comms"
SHARDED = re.compile(r"FSDP::|FullyShardedDataParallel|fsdp::")
FORWARD = "DistributedDataParallel.forward"
OLD_CATEGORIES = {  # of PyTorch before 1.12
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
}
SECONDS = 1e-6  # of the unit of a trace's times


class Work(Enum):
    """What a GPU does in an event: computation, communication, or copying or filling memory."""

    COMPUTATION = auto()
    COMMUNICATION = auto()
    MEMORY = auto()  # copies and fills that are no kernels


@dataclass(slots=True)
class Host:
    """An event in a thread of the host. `facts`: the event's "args" in the trace, such as the
    shapes of its inputs; empty for events whose args are not needed."""

    name: str
    thread: Hashable
    begin: float
    end: float
    external_id: int = -1
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def span(self) -> Span:
        return self.begin, self.end


@dataclass(slots=True)
class Device:
    """An event in a stream of a GPU, such as a kernel. `correlation`: the number that the trace
    gives the host's call that launched this work; -1 if the trace has none. `launched`: when the
    host launched this work; the event's own beginning if the trace lacks the call. `launcher`: the
    thread that launched this work; None if the trace lacks the call."""

    work: Work
    name: str
    stream: Hashable
    begin: float
    end: float
    correlation: int
    external_id: int
    facts: Mapping[str, Any]
    launched: float = math.nan
    launcher: Hashable = None
    launch_known: bool = False

    @property
    def span(self) -> Span:
        return self.begin, self.end


@dataclass(slots=True)
class Trace:
    """One rank's trace. Times are seconds after `origin_ns`, which is a time of the host's clock in
    nanoseconds.

    `world_size` is 0 and `host`, `backend` and `device_name` are empty if the trace does not tell
    them. `operators`: for each thread, when PyTorch's operators ran in it. `synchronisations`: when
    calls of the host waited for the GPU. `transports`: named ranges in the trace, each of which
    marks a collective. Those of gloo, such as gloo:..., are in gloo's own threads, where the
    collective runs; those of NCCL, such as nccl:..., are in the thread of the host that launches
    the collective. `nodes`: events of autograd's nodes in backward.
    """

    path: str
    rank: int | None = None
    world_size: int = 0
    host: str = ""
    backend: str = ""
    device_name: str = ""
    origin_ns: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf
    device: list[Device] = field(default_factory=list)
    operators: dict[Hashable, list[Span]] = field(default_factory=dict)
    synchronisations: list[Span] = field(default_factory=list)
    steps: list[Host] = field(default_factory=list)
    optimizers: list[Host] = field(default_factory=list)
    forwards: list[Host] = field(default_factory=list)
    calls: list[Host] = field(default_factory=list)
    records: list[Host] = field(default_factory=list)
    transports: list[Host] = field(default_factory=list)
    nodes: list[Host] = field(default_factory=list)
    accumulations: list[Host] = field(default_factory=list)
    into_buckets: list[Host] = field(default_factory=list)
    out_of_buckets: list[Host] = field(default_factory=list)
    sharded: str = ""  # the first name that says so

    @property
    def has_gpu(self) -> bool:
        return bool(self.device)

    def main_thread(self) -> Hashable:
        """Returns the thread of the profiler's step events (ProfilerStep#N). If the trace has none,
        returns the thread of the optimizers' steps or, without these, that of DDP's forwards. If
        the trace has no events of these three kinds, returns the thread with most operators; None
        if the trace has no operators."""
        for own in (self.steps, self.optimizers, self.forwards):
            if own:
                return own[0].thread
        busy = {thread: len(spans) for thread, spans in self.operators.items()}
        return max(busy, key=busy.__getitem__) if busy else None


def is_communication(name: str) -> bool:
    """Returns whether a kernel with this name communicates. Template arguments and function
    arguments in the name are ignored.
    """
    return bool(COMMUNICATION.search(re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0]))


class _Reader:
    """Puts the events of one file into the lists of a Trace, by their categories and names."""

    def __init__(self, path: str) -> None:
        self.trace = Trace(path)
        self._origin_us: float | None = None
        self._names: dict[str, str] = {}
        self._launches: dict[int, Host] = {}
        self._communicates: dict[str, bool] = {}
        self._count = 0
        self._kinds: dict[str, Callable[[Host, Mapping[str, Any]], None]] = {
            "kernel": self._on_kernel,
            "gpu_memcpy": self._on_memory,
            "gpu_memset": self._on_memory,
            "cpu_op": self._on_operator,
            "user_annotation": self._on_annotation,
            "cuda_runtime": self._on_launch,
            "cuda_driver": self._on_launch,
            "hip_runtime": self._on_launch,
        }

    def read(self) -> Trace:
        facts: dict[str, Any] = {}
        for event in read_events(self.trace.path, facts):
            self._count += 1
            if event.get("ph") == "X":
                self._on_event(event)
        if not self.trace.device and not self.trace.operators:
            raise Refused(f"{self.trace.path}: no operators and no kernels: nothing was profiled")
        self._read_facts(facts)
        self._join_launches()
        return self.trace

    def _on_event(self, event: Event) -> None:
        category = event.get("cat")
        if not isinstance(category, str):
            return
        category = category.lower()
        on_kind = self._kinds.get(OLD_CATEGORIES.get(category, category))
        if on_kind is None:
            return
        begin, lasts = self._number(event, "ts"), self._number(event, "dur")
        if self._origin_us is None:
            self._origin_us = begin
        begin_s = (begin - self._origin_us) * SECONDS
        end_s = begin_s + max(0.0, lasts) * SECONDS
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        name = str(event.get("name", ""))
        name = self._names.setdefault(name, name)
        thread = (event.get("pid"), event.get("tid"))
        self.trace.first_s = min(self.trace.first_s, begin_s)
        self.trace.last_s = max(self.trace.last_s, end_s)
        on_kind(Host(name, thread, begin_s, end_s, _integer(args, "External id"), {}), args)

    def _number(self, event: Event, name: str) -> float:
        value = event.get(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not -1e18 < value < 1e18
        ):
            raise Refused(
                f"{self.trace.path}: event {self._count}: {name} is {str(value)[:40]}, expected "
                "microseconds"
            )
        return value

    def _on_kernel(self, event: Host, args: Mapping[str, Any]) -> None:
        name = event.name
        if name not in self._communicates:
            self._communicates[name] = is_communication(name)
        communicates = self._communicates[name] or "Collective name" in args
        work = Work.COMMUNICATION if communicates else Work.COMPUTATION
        self._add_device(work, event, args, args if communicates else {})

    def _on_memory(self, event: Host, args: Mapping[str, Any]) -> None:
        self._add_device(Work.MEMORY, event, args, {"bytes": args.get("bytes")})

    def _add_device(
        self, work: Work, event: Host, args: Mapping[str, Any], facts: Mapping[str, Any]
    ) -> None:
        self.trace.device.append(
            Device(
                work,
                event.name,
                event.thread,
                event.begin,
                event.end,
                _integer(args, "correlation"),
                event.external_id,
                facts,
            )
        )

    def _on_launch(self, event: Host, args: Mapping[str, Any]) -> None:
        correlation = _integer(args, "correlation")
        if correlation >= 0:
            self._launches[correlation] = event
        if "Synchronize" in event.name:
            self.trace.synchronisations.append(event.span)

    def _on_operator(self, event: Host, args: Mapping[str, Any]) -> None:
        trace, name = self.trace, event.name
        trace.operators.setdefault(event.thread, []).append(event.span)
        if "::" not in name or name.startswith("aten::"):
            if name == RECORD:
                event.facts = args
                trace.records.append(event)
            return
        own: list[Host] | None = None
        if name.startswith(CALL):
            own = trace.calls
        elif name == ACCUMULATION:
            own = trace.accumulations
        elif name.startswith(NODE):
            own, args = trace.nodes, {}
        elif name.startswith(INTO_BUCKET) or name == SEARCH:
            own = trace.into_buckets
        elif OUT_OF_BUCKET.match(name):
            own = trace.out_of_buckets
        if own is not None:
            event.facts = args
            own.append(event)
        elif not trace.sharded and SHARDED.match(name):
            trace.sharded = name

    def _on_annotation(self, event: Host, args: Mapping[str, Any]) -> None:
        trace, name = self.trace, event.name
        own: list[Host] | None = None
        if STEP.match(name):
            own = trace.steps
        elif OPTIMIZER.match(name):
            own = trace.optimizers
        elif TRANSPORT.match(name):
            own = trace.transports
        elif name == FORWARD:
            own = trace.forwards
        elif not trace.sharded and SHARDED.match(name):
            trace.sharded = name
        if own is not None:
            event.facts = args
            own.append(event)

    def _read_facts(self, facts: Mapping[str, Any]) -> None:
        trace = self.trace
        world = facts.get("distributedInfo")
        if isinstance(world, dict):
            rank = _integer(world, "rank")
            trace.rank = rank if rank >= 0 else None
            trace.world_size = max(0, _integer(world, "world_size"))
            trace.backend = str(world.get("backend", ""))
        trace.host = str(facts.get("host_name", ""))
        devices = facts.get("deviceProperties")
        if isinstance(devices, list) and devices and isinstance(devices[0], dict):
            trace.device_name = str(devices[0].get("name", ""))
        base_ns = max(0, _integer(facts, "baseTimeNanoseconds"))
        trace.origin_ns = base_ns + round(1e3 * (self._origin_us or 0))

    def _join_launches(self) -> None:
        """Finds out for each event of the GPU when and by which thread it was launched, and for
        each kernel whether it belongs to a collective. Then sorts the GPU's events by the times of
        their launches. Also sorts the trace's lists of Host objects, except `forwards` and
        `records`, by when the Host objects begin."""
        trace = self.trace
        records = {one.external_id: one for one in trace.records if one.external_id >= 0}
        for one in trace.device:
            launch = self._launches.get(one.correlation)
            one.launch_known = launch is not None
            one.launched = launch.begin if launch else one.begin
            one.launcher = launch.thread if launch else None
            record = records.get(one.external_id)
            if one.work is Work.MEMORY or record is None:
                continue
            # Old traces have the correlation as External id, which is another event's by chance.
            is_within = launch is not None and record.begin <= launch.begin <= record.end
            if is_within or (launch is None and one.external_id != one.correlation):
                one.work = Work.COMMUNICATION
                one.facts = {**record.facts, **one.facts}
        for own in (trace.steps, trace.optimizers, trace.calls, trace.transports):
            own.sort(key=lambda event: event.begin)
        for own in (trace.nodes, trace.accumulations, trace.into_buckets, trace.out_of_buckets):
            own.sort(key=lambda event: event.begin)
        trace.device.sort(key=lambda event: event.launched)


def _integer(facts: Mapping[str, Any], name: str) -> int:
    """Returns the whole number in the field `name`, where it may be written as text; -1 if there is
    none."""
    value = facts.get(name)
    if isinstance(value, bool):
        return -1
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() else -1
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) else -1


def read_trace(path: str) -> Trace:
    """Reads the trace in a file. Raises Refused, in one line with the file's path, if the file
    cannot be used."""
    return _Reader(path).read()
