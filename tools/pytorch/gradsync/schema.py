"""Defines the fields of a recording, a file with the measured times of a training script's steps.
`gradsync record` writes recordings, and `gradsync what_if` reads them.

A recording is a file of JSON lines. Each line has one `Launch`: the data of one start of the
script. All launches of a file have the same command line, and ran on machines with the same
processors and GPUs. A recording that is created under a name ending in .gz is compressed by gzip.
In the JSON, fields have the same names as in the classes below; a Launch also has `gradsync_torch`,
the version of the file format (VERSION). Times are in nanoseconds, of the host's monotonic clock
or, if the model is on a GPU, between events of the GPU. `begin_ns` is always of the host's clock.
Step and Collectives say what `cpu_ns` counts. Sizes are in bytes.

A field with a default value may be missing in a file: it is not written if it has this value. If
you change a field such that older versions of gradsync would misread it, increase VERSION. You need
not increase VERSION for a new field, because older versions refuse fields that they do not know.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gradsync import Refused
from gradsync.json_fields import JsonObject, list_of, numbers_of

VERSION = 1
NS = 1e-9  # seconds
MIB = 1 << 20
DEFAULT_BUCKET_BYTES = 25 * MIB  # of DistributedDataParallel and of its first bucket
DEFAULT_FIRST_BUCKET_BYTES = MIB

# Limits of what a file may say.
MOST = 1e18  # nanoseconds and bytes
MOST_PARAMETERS = 10**9
MOST_THREADS = 10**4
MOST_RANKS = 16384


class StepMode(str, Enum):
    """The kind of a recorded step: what happens to its gradients.

    UNSYNCHRONISED: the recorder averages gradients over ranks between backward and the optimizer;
    the step's time excludes this averaging. PROBE: gradients are copied to a buffer as by
    DistributedDataParallel. After a probe's backward, while nothing is computed, ranks run the
    collectives of one CollectiveKind, unless there is only one rank. SCRIPT: the script itself
    synchronises gradients, by DistributedDataParallel or fully_shard.
    """

    UNSYNCHRONISED = "none"
    PROBE = "probe"
    SCRIPT = "ddp"


class CollectiveKind(str, Enum):
    """Which collectives ranks run in a probe, a step in which the recorder times collectives after
    backward, while nothing is computed.

    ALL_REDUCE: all-reduces of pieces of the gradients. All pieces have the same size, except that
    the last may be smaller; pieces after the first 128 are not sent. BF16: the same all-reduces,
    with a cast of each piece to bf16 before its all-reduce and back after it. ZERO1: one broadcast
    for each parameter, as ZeroRedundancyOptimizer sends updated parameters to all ranks.
    FULLY_SHARD: FSDP2's all-gather and reduce-scatter for each repeated block of the model, and for
    its other parameters together.
    """

    ALL_REDUCE = "all_reduce"
    BF16 = "bf16"
    ZERO1 = "zero1"
    FULLY_SHARD = "fully_shard"

    @property
    def has_parts(self) -> bool:
        """Returns whether Collectives of this kind have times in `in_ns` and `out_ns`: True for
        BF16 and FULLY_SHARD."""
        return self in (CollectiveKind.BF16, CollectiveKind.FULLY_SHARD)


@dataclass(frozen=True)
class Parameter:
    """One parameter that requires a gradient. `numel`: its number of elements. `dtype`: the dtype,
    such as "float32", in which optimizers hold it. `bytes`: the bytes of the whole parameter in
    `dtype`.

    `gathered_bytes`: the bytes of the whole parameter as fully_shard gathers it. `reduced_bytes`:
    the bytes of its whole gradient as fully_shard reduces it. Both are 0 without fully_shard, and
    each is 0 if equal to `bytes`.
    """

    name: str
    numel: int
    bytes: int
    dtype: str = ""
    gathered_bytes: int = 0
    reduced_bytes: int = 0

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Parameter:
        with JsonObject(value, place) as fields:
            return cls(
                name=fields.text("name"),
                numel=fields.integer("numel", 1, MOST),
                bytes=fields.integer("bytes", 1, MOST),
                dtype=fields.text("dtype", ""),
                gathered_bytes=fields.integer("gathered_bytes", 0, MOST, 0),
                reduced_bytes=fields.integer("reduced_bytes", 0, MOST, 0),
            )


@dataclass(frozen=True)
class Unit:
    """A module that the script passes to fully_shard: its name, and the indices in
    Launch.parameters of the parameters that are gathered together. For a script without
    fully_shard, predictions take as Units the repeated blocks of the model, and the root with all
    other parameters. The first unit in Launch.units is the root module, unless all of the root's
    parameters are in other units.

    `reshards`: whether the unit's parameters are freed after forward, and gathered again for
    backward.
    """

    name: str
    parameters: tuple[int, ...]
    reshards: bool

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Unit:
        with JsonObject(value, place) as fields:
            return cls(
                name=fields.text("name"),
                parameters=fields.integers("parameters", 0, MOST_PARAMETERS),
                reshards=fields.flag("reshards"),
            )


@dataclass(frozen=True)
class Row:
    """Settings with which DDP or fully_shard synchronises gradients, recorded (Launch.rows) or to
    be predicted.

    `bucket_bytes`: the size in bytes from which on DistributedDataParallel adds no more parameters
    to a bucket. `first_bucket_bytes`: the size in bytes from which on DistributedDataParallel adds
    no more parameters to the first bucket of a dtype. `bf16`: whether the communication hook of
    DistributedDataParallel is bf16_compress_hook. `zero1`: whether the optimizer is a
    ZeroRedundancyOptimizer. `fsdp`: whether fully_shard synchronises gradients, not
    DistributedDataParallel. `whole`: whether fully_shard is predicted to keep the gathered
    parameters of all units after forward; False: as recorded. `passes`: the number of backward
    passes in a step. `rebuilt_bucket_bytes`: the sizes in bytes of the buckets that
    DistributedDataParallel made after its first step; empty if unknown.
    """

    name: str
    bucket_bytes: int
    first_bucket_bytes: int
    bf16: bool
    zero1: bool
    passes: int
    rebuilt_bucket_bytes: tuple[int, ...]
    fsdp: bool = False
    whole: bool = False

    @classmethod
    def by_default(cls, name: str, passes: int, fsdp: bool = False) -> Row:
        """Returns a Row with this name, number of passes and `fsdp`, and otherwise the default
        settings of DistributedDataParallel."""
        return cls(
            name=name,
            bucket_bytes=DEFAULT_BUCKET_BYTES,
            first_bucket_bytes=DEFAULT_FIRST_BUCKET_BYTES,
            bf16=False,
            zero1=False,
            passes=passes,
            rebuilt_bucket_bytes=(),
            fsdp=fsdp,
        )

    def with_bucket_cap(self, mib: int) -> Row:
        """Returns a copy of this Row for DistributedDataParallel, in which all buckets, also the
        first, have a bucket_cap_mb of `mib` (in MiB)."""
        return dataclasses.replace(
            self, bucket_bytes=mib * MIB, first_bucket_bytes=mib * MIB, fsdp=False
        )

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Row:
        with JsonObject(value, place) as fields:
            return cls(
                name=fields.text("name"),
                bucket_bytes=fields.integer("bucket_bytes", 1, MOST),
                first_bucket_bytes=fields.integer("first_bucket_bytes", 1, MOST),
                bf16=fields.flag("bf16"),
                zero1=fields.flag("zero1"),
                passes=fields.integer("passes", 1, MOST_THREADS),
                rebuilt_bucket_bytes=fields.integers("rebuilt_bucket_bytes", 0, MOST),
                fsdp=fields.flag("fsdp", False),
                whole=fields.flag("whole", False),
            )


@dataclass(frozen=True)
class Memory:
    """The memory of rank 0's tensors in one step without synchronisation, in bytes.

    Weights, the model's buffers and the optimizer's state exist during the whole step. Under
    fully_shard, a rank holds only shards, but `weight_bytes` has the bytes of the whole weights.
    `keeps_gradients`: whether at least one parameter still has a gradient when the step begins.
    Activations and temporary tensors need together at most `forward_bytes` in forward, and at most
    `optimizer_bytes` in the update. Under fully_shard, `state_bytes` (the optimizer's state) and
    `optimizer_bytes` are one rank's bytes times the number of ranks that share the parameters.
    While backward computes the gradient of parameter p, activations and temporary tensors need
    together at most `ready_bytes[p]`. When the gradient of p is ready, activations and temporary
    tensors need `held_bytes[p]`. `order`: the indices in Launch.parameters, in the order in which
    gradients became ready in the last backward; parameters without a gradient are left out."""

    weight_bytes: int
    buffer_bytes: int
    state_bytes: int
    keeps_gradients: bool
    forward_bytes: int
    order: tuple[int, ...]
    ready_bytes: tuple[int, ...]
    held_bytes: tuple[int, ...]
    optimizer_bytes: int

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Memory:
        with JsonObject(value, place) as fields:
            return cls(
                weight_bytes=fields.integer("weight_bytes", 0, MOST, 0),
                buffer_bytes=fields.integer("buffer_bytes", 0, MOST, 0),
                state_bytes=fields.integer("state_bytes", 0, MOST, 0),
                keeps_gradients=fields.flag("keeps_gradients", False),
                forward_bytes=fields.integer("forward_bytes", 0, MOST, 0),
                order=fields.integers("order", 0, MOST_PARAMETERS, is_optional=True),
                ready_bytes=fields.integers("ready_bytes", 0, MOST, is_optional=True),
                held_bytes=fields.integers("held_bytes", 0, MOST, is_optional=True),
                optimizer_bytes=fields.integer("optimizer_bytes", 0, MOST, 0),
            )


@dataclass(frozen=True)
class HostLoad:
    """How busy the CPUs of a rank's host were from the beginning to the end of the recording.

    `steal_part`: the fraction of all CPU time that a hypervisor gave to other virtual machines.
    `busy_part`: the fraction of all CPU time in which the host ran any process, including the
    recorded ranks. `load_average`: Linux's load average of the last minute, at the end of the
    recording.
    """

    steal_part: float
    busy_part: float
    load_average: float

    @classmethod
    def from_json(cls, value: object, place: str = "") -> HostLoad:
        with JsonObject(value, place) as fields:
            return cls(
                steal_part=fields.number("steal_part", 0, 1),
                busy_part=fields.number("busy_part", 0, 1),
                load_average=fields.number("load_average", 0, MOST),
            )


@dataclass(frozen=True)
class Collectives:
    """The measured times of the collectives of one rank in one probe.

    `in_flight`: 1 if each collective ends before the next begins, 0 if all are issued at once.
    `bytes`: the bytes of each collective; in a FULLY_SHARD probe, the bytes of each unit's
    parameters. `ns`: the time of each collective; empty if all are issued at once. In a FULLY_SHARD
    probe, `ns` instead has the time between each unit's gather and its reduction. `in_ns` and
    `out_ns` are empty in ALL_REDUCE and ZERO1 probes. In a BF16 probe, `in_ns` and `out_ns` have
    the durations of the casts before and after each collective. In a FULLY_SHARD probe, `in_ns` has
    the duration of each unit's gather, and `out_ns` that of its reduction. `wall_ns`: the time from
    the beginning of the first collective to the end of the last, with a BF16 probe's casts.
    `cpu_ns`: the process's CPU time during `wall_ns`.
    """

    kind: CollectiveKind
    in_flight: int
    bytes: tuple[int, ...]
    ns: tuple[float, ...]
    wall_ns: float
    cpu_ns: float
    in_ns: tuple[float, ...] = ()
    out_ns: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Collectives:
        with JsonObject(value, place) as fields:
            return cls(
                kind=fields.choice("kind", CollectiveKind),
                in_flight=fields.integer("in_flight", 0, 1, 1),
                bytes=fields.integers("bytes", 1, MOST, is_optional=True),
                ns=fields.numbers("ns", 0, MOST, is_optional=True),
                wall_ns=fields.number("wall_ns", 0, MOST, 0),
                cpu_ns=fields.number("cpu_ns", 0, MOST, 0),
                in_ns=fields.numbers("in_ns", 0, MOST, is_optional=True),
                out_ns=fields.numbers("out_ns", 0, MOST, is_optional=True),
            )


@dataclass(frozen=True)
class Step:
    """The measured times of one step of one rank.

    `row`: in a step of the mode SCRIPT, the index of its settings in Launch.rows; else 0.
    `begin_ns`: when the step begins, on the host's monotonic clock. `before_ns`: everything before
    the last backward, such as forward. `backward_ns`: the last backward. In a probe of several
    ranks, the collectives (Collectives.wall_ns) run after the last backward. `copy_back_ns`:
    copying gradients back out of a probe's buffer; 0 for views of the buffer and under fully_shard.
    `rest_ns`: the script's own work between backward and the optimizer, such as clipping.
    `optimizer_ns`: from the beginning of the first optimizer's update to the end of the last
    optimizer's. `step_ns`: the whole step, without the time in which the recorder averages
    gradients. `cpu_ns`: the process's CPU time in the step, plus the time for which its main thread
    waited for a CPU. `cpu_ns` is 0 on a GPU, and in steps of other modes than UNSYNCHRONISED.
    `between_ns`: the time from the end of the previous step to the call of forward that begins this
    step; 0 if unknown. `ready_ns`: for each parameter, the time from the last backward's beginning
    until its gradient is ready; -1 without a gradient.

    If the script uses fully_shard, steps of the modes UNSYNCHRONISED and PROBE also have the times
    of each of its units. For each unit, `units_ns` has four times in the last pass, counted from
    the step's beginning. These times are the beginning and end of the unit's forward, and the
    beginning and end of its backward. `gather_ns`: the duration of each unit's gather, which the
    recorder runs before the step. `reduce_ns`: the duration of each unit's reduction, which the
    recorder runs before the optimizer.
    """

    mode: StepMode
    begin_ns: float
    step_ns: float
    row: int = 0
    between_ns: float = 0
    before_ns: float = 0
    backward_ns: float = 0
    copy_back_ns: float = 0
    rest_ns: float = 0
    optimizer_ns: float = 0
    ready_ns: tuple[float, ...] = ()
    collectives: Collectives | None = None
    units_ns: tuple[tuple[float, ...], ...] = ()
    gather_ns: tuple[float, ...] = ()
    reduce_ns: tuple[float, ...] = ()
    own_collectives: int = 0
    own_bytes: int = 0
    cpu_ns: float = 0

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Step:
        with JsonObject(value, place) as fields:
            return cls(
                mode=fields.choice("mode", StepMode),
                begin_ns=fields.number("begin_ns", -MOST, MOST),
                step_ns=fields.number("step_ns", 0, MOST),
                row=fields.integer("row", 0, 10**6, 0),
                between_ns=fields.number("between_ns", 0, MOST, 0),
                before_ns=fields.number("before_ns", 0, MOST, 0),
                backward_ns=fields.number("backward_ns", 0, MOST, 0),
                copy_back_ns=fields.number("copy_back_ns", 0, MOST, 0),
                rest_ns=fields.number("rest_ns", 0, MOST, 0),
                optimizer_ns=fields.number("optimizer_ns", 0, MOST, 0),
                ready_ns=fields.numbers("ready_ns", -1, MOST, is_optional=True),
                collectives=fields.optional("collectives", Collectives.from_json),
                units_ns=fields.each("units_ns", _times, is_optional=True),
                gather_ns=fields.numbers("gather_ns", 0, MOST, is_optional=True),
                reduce_ns=fields.numbers("reduce_ns", 0, MOST, is_optional=True),
                own_collectives=fields.integer("own_collectives", 0, MOST, 0),
                own_bytes=fields.integer("own_bytes", 0, MOST, 0),
                cpu_ns=fields.number("cpu_ns", 0, MOST, 0),
            )


@dataclass(frozen=True)
class Launch:
    """One start of a script, with the recorded steps of all ranks.

    `device`: "cpu", or the name of rank 0's GPU. `backend`: the backend of the process group;
    "none" with one rank. `hosts`: the name of each rank's host. `threads`: torch.get_num_threads()
    on rank 0. `cores`: the number of logical CPUs that rank 0 may use. `passes`: the number of
    backward passes in a recorded step. `views`: whether a probe replaces the parameters' gradients
    by views of its buffer, as DDP does with gradient_as_bucket_view. `link_rate`: the link's rate
    between hosts in bits per second, from rank 0's environment variable GRADSYNC_LINK_RATE; 0
    without it. `memory`: the bytes of rank 0's tensors in a step; None if not measured. `units`:
    the units of fully_shard; empty if the script does not use it. `sharing_ranks`: under HSDP, the
    number of ranks among which each copy of the parameters is divided; else 0. `loads`: a HostLoad
    for each rank; empty if a rank's is unknown. `rows`: the settings of the steps that the script
    itself synchronises; empty if the script uses neither DDP nor fully_shard. The first row has the
    settings of the unchanged script; each later row has changed ones. `ranks`: for each rank, a
    list of its steps. All ranks took steps with the same index in these lists together.
    """

    device: str
    backend: str
    optimizer: str
    world_size: int
    threads: int
    cores: int
    passes: int
    views: bool
    hosts: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    rows: tuple[Row, ...]
    ranks: tuple[tuple[Step, ...], ...]
    time: str = ""
    torch: str = ""
    processor: str = ""
    command: tuple[str, ...] = ()
    link_rate: int = 0
    memory: Memory | None = None
    units: tuple[Unit, ...] = ()
    sharing_ranks: int = 0
    loads: tuple[HostLoad, ...] = ()

    @classmethod
    def from_json(cls, value: object, place: str = "") -> Launch:
        """Makes a Launch from a value that to_json() has returned in this or an older gradsync with
        the same VERSION.

        Raises Refused if the value is not a launch. Most contradictions between fields are found
        only by check_launch().
        """
        with JsonObject(value, place) as fields:
            fields.integer("gradsync_torch", VERSION, VERSION)
            return cls(
                device=fields.text("device"),
                backend=fields.text("backend"),
                optimizer=fields.text("optimizer"),
                world_size=fields.integer("world_size", 1, MOST_RANKS),
                threads=fields.integer("threads", 1, MOST_THREADS),
                cores=fields.integer("cores", 1, MOST_THREADS),
                passes=fields.integer("passes", 1, MOST_THREADS),
                views=fields.flag("views"),
                hosts=fields.texts("hosts"),
                parameters=fields.each("parameters", Parameter.from_json),
                rows=fields.each("rows", Row.from_json),
                ranks=fields.each("ranks", _steps),
                time=fields.text("time", ""),
                torch=fields.text("torch", ""),
                processor=fields.text("processor", ""),
                command=fields.texts("command", is_optional=True),
                link_rate=fields.integer("link_rate", 0, MOST, 0),
                memory=fields.optional("memory", _memory),
                units=fields.each("units", Unit.from_json, is_optional=True),
                sharing_ranks=fields.integer("sharing_ranks", 0, MOST_RANKS, 0),
                loads=fields.each("loads", HostLoad.from_json, is_optional=True),
            )

    def to_json(self) -> dict[str, Any]:
        """Returns this launch as a dictionary that json.dumps() can write as one line of a
        recording."""
        return {"gradsync_torch": VERSION, **json_of(self)}


def json_of(value: Any) -> Any:
    """Returns an object of one of this module's dataclasses as a dictionary for json.dumps(),
    without the fields that have their default value."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: json_of(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [json_of(one) for one in value]
    return value


def _times(value: object, place: str) -> tuple[float, ...]:
    return numbers_of(value, place, 0, MOST)


def _steps(value: object, place: str) -> tuple[Step, ...]:
    return tuple(
        Step.from_json(step, f"{place}[{i}]") for i, step in enumerate(list_of(value, place))
    )


def _memory(value: object, place: str) -> Memory | None:
    """Makes a Memory from `value`, the field `memory` of a launch in JSON. Returns None if the
    lists `ready_bytes` and `held_bytes` in `value` are empty or missing. Raises Refused if these
    two lists have different lengths, or if `value` is no Memory."""
    memory = Memory.from_json(value, place)
    if len(memory.ready_bytes) != len(memory.held_bytes):
        raise Refused("memory lacks parameters")
    return memory if memory.ready_bytes else None
