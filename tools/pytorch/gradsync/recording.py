"""Reads what gradsync.record wrote, a line of JSON for each launch, and what was measured in it. record.py shows the fields;
times are nanoseconds there, and seconds in what functions return."""

import gzip
import json
import math
import zlib
from functools import cached_property
from statistics import median

from gradsync import Refused

NS = 1e-9
NOTABLE = 0.05  # the smallest part of a step that is printed

# The types of fields. Numbers have a minimum and a maximum. Fields with a default may be missing.
TIME, SIZE, COUNT, TEXT = (0, 1e18), (1, 1e18), (1, 10**4), str
COLLECTIVES = {
    "kind": TEXT,
    "in_flight": (0, 1),
    "bytes": [SIZE],
    "ns": [TIME],
    "in_ns": [TIME],
    "out_ns": [TIME],
    "wall_ns": TIME,
    "cpu_ns": TIME,
}
# Kinds that have times of three parts: casts before and behind ("in", "out"), or FSDP2's gather and reduction of a unit.
THREE_TIMES = ("bf16", "fully_shard")
STEP = {
    "mode": TEXT,
    "row": (0, 10**6),
    "begin_ns": (-1e18, 1e18),
    "between_ns": TIME,
    "before_ns": TIME,
    "backward_ns": TIME,
    "copy_back_ns": TIME,
    "rest_ns": TIME,
    "optimizer_ns": TIME,
    "step_ns": TIME,
    "ready_ns": [(-1, 1e18)],
    "collectives": COLLECTIVES,
    "units_ns": [[TIME]],
    "gather_ns": [TIME],
    "reduce_ns": [TIME],
}
MEMORY = {
    "weight_bytes": TIME,
    "buffer_bytes": TIME,
    "state_bytes": TIME,
    "keeps_gradients": bool,
    "forward_bytes": TIME,
    "order": [(0, 10**9)],
    "ready_bytes": [TIME],
    "held_bytes": [TIME],
    "optimizer_bytes": TIME,
}
UNIT = {"name": TEXT, "parameters": [(0, 10**9)], "reshards": bool}
ROW = {
    "name": TEXT,
    "bucket_bytes": SIZE,
    "first_bucket_bytes": SIZE,
    "bf16": bool,
    "zero1": bool,
    "fsdp": bool,
    "whole": bool,
    "passes": COUNT,
    "rebuilt_bucket_bytes": [TIME],
}
LAUNCH = {
    "gradsync_torch": (1, 1),
    "device": TEXT,
    "backend": TEXT,
    "optimizer": TEXT,
    "command": [TEXT],
    "world_size": (1, 16384),
    "threads": COUNT,
    "cores": COUNT,
    "passes": COUNT,
    "views": bool,
    "link_rate": TIME,
    "hosts": [TEXT],
    "parameters": [{"name": TEXT, "numel": SIZE, "bytes": SIZE, "dtype": TEXT}],
    "memory": MEMORY,
    "units": [UNIT],
    "rows": [ROW],
    "ranks": [[STEP]],
}
DEFAULTS = {
    "link_rate": 0,
    "collectives": {},
    "kind": "",
    "dtype": "",
    "in_flight": 1,
    "wall_ns": 0,
    "cpu_ns": 0,
    "row": 0,
    "command": [],
    "memory": {},
    "keeps_gradients": False,
    "units": [],
    "fsdp": False,
    "whole": False,
    **dict.fromkeys(
        (
            "bytes",
            "ns",
            "in_ns",
            "out_ns",
            "ready_ns",
            "order",
            "ready_bytes",
            "held_bytes",
            "units_ns",
            "gather_ns",
            "reduce_ns",
        ),
        [],
    ),
    **dict.fromkeys(
        (
            "between_ns",
            "before_ns",
            "backward_ns",
            "copy_back_ns",
            "rest_ns",
            "optimizer_ns",
            "weight_bytes",
            "buffer_bytes",
            "state_bytes",
            "forward_bytes",
            "optimizer_bytes",
        ),
        0,
    ),
}
# In what launches of one recording agree.
KIND = (
    "command",
    "device",
    "processor",
    "backend",
    "world_size",
    "hosts",
    "cores",
    "threads",
    "torch",
    "optimizer",
    "passes",
    "views",
    "link_rate",
)


def kind_of(launch, key):
    """Returns a value of KIND; for hosts, whose names may change, the ranks that share a host."""
    return [launch[key].index(host) for host in launch[key]] if key == "hosts" else launch.get(key)


def require(holds, *text):
    if not holds:
        raise Refused("".join(map(str, text)))


def read_bytes(path):
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read(1 << 31)  # the limit is for devices without an end
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def ranks_text(count):
    return f"{count} rank{'s' * (count != 1)}"


def check(value, kind, where):
    """Raises unless the value is of this kind. Adds defaults to objects."""

    def expect(holds, expected):
        require(holds, where or "line", " is ", json.dumps(value)[:40], ", expected ", expected)

    if isinstance(kind, type):
        expect(type(value) is kind, "a text" if kind is str else "true or false")
    elif isinstance(kind, tuple):
        types = (int,) if type(kind[1]) is int else (int, float)
        expect(type(value) in types and kind[0] <= value <= kind[1], "%g to %g" % kind)
    elif isinstance(kind, list):
        expect(type(value) is list, "a list")
        # Nearly all of a recording is lists of times.
        if (
            type(kind[0]) is tuple
            and value
            and set(map(type, value)) <= {int, float}
            and kind[0][0] <= min(value)
            and max(value) <= kind[0][1]
        ):
            return
        for i, one in enumerate(value):
            check(one, kind[0], f"{where}[{i}]")
    else:
        expect(type(value) is dict, "an object")
        for name, field in kind.items():
            inside = f"{where}.{name}".lstrip(".")
            require(name in value or name in DEFAULTS, "no ", inside)
            check(
                value.setdefault(
                    name,
                    DEFAULTS[name].copy() if isinstance(field, (list, dict)) else DEFAULTS[name],
                )
                if name not in value
                else value[name],
                field,
                inside,
            )


def check_launch(launch):
    check(launch, LAUNCH, "")
    world, ranks, hosts, parameters = (
        launch[name] for name in ("world_size", "ranks", "hosts", "parameters")
    )
    require(parameters, "no parameters")
    require(
        len(ranks) == world == len(hosts),
        len(ranks),
        " ranks on ",
        len(hosts),
        " hosts, expected ",
        world,
    )
    require(len(set(map(len, ranks))) == 1, "ranks have different numbers of steps")
    memory = launch["memory"]
    require(
        len(memory["ready_bytes"]) == len(memory["held_bytes"]) in (0, len(parameters))
        and len(memory["order"]) == len(set(memory["order"]))
        and max(memory["order"], default=-1) < len(memory["ready_bytes"]),
        "memory lacks parameters",
    )
    units = launch["units"]
    require(
        not units
        or sorted(p for unit in units for p in unit["parameters"]) == list(range(len(parameters))),
        "units do not hold each parameter once",
    )
    for i, steps in enumerate(zip(*ranks)):
        for step in steps:
            sent, first, mode = step["collectives"], steps[0]["collectives"], step["mode"]
            kind, ns, casts = (
                sent["kind"],
                sent["ns"],
                len(sent["ns"]) if sent["kind"] in THREE_TIMES else 0,
            )
            require(
                all(step[name] == steps[0][name] for name in ("mode", "row"))
                and kind == first["kind"]
                and sent["bytes"] == first["bytes"],
                "step ",
                i,
                " differs between ranks",
            )
            require(
                step["row"] < len(launch["rows"])
                if mode == "ddp"
                else len(step["ready_ns"]) == len(parameters),
                "step ",
                i,
                " lacks its row or ready times",
            )
            require(
                mode == "ddp"
                or len(step["units_ns"])
                == len(step["gather_ns"])
                == len(step["reduce_ns"])
                == len(units)
                and all(len(own) == 4 for own in step["units_ns"]),
                "step ",
                i,
                " lacks times of its units",
            )
            require(
                step["step_ns"] > 0 and (mode == "ddp" or step["backward_ns"] > 0),
                "step ",
                i,
                " takes no time",
            )
            require(
                not kind
                or sent["bytes"]
                and sent["wall_ns"] > 0
                and all(ns)
                and len(ns) == len(sent["bytes"]) * sent["in_flight"]
                and len(sent["in_ns"]) == len(sent["out_ns"]) == casts
                and sent["in_flight"]
                == {"bf16": 1, "fully_shard": 1, "zero1": 0}.get(kind, sent["in_flight"]),
                "step ",
                i,
                " lacks times of its collectives",
            )


def trimmed_mean(values):
    """Returns the mean without a fifth at each end, which a few disturbed steps do not change much."""
    cut = int(0.2 * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def estimate(values, launches):
    """(trimmed mean, low, high) with an interval of 95 %; None: unknown. `launches`: how many values each has.

    Yuen's t (The two-sample trimmed t for unequal population variances, 1974). Where launches differ by more than values
    explain, and than chance does in one case of ten, launches are the samples."""
    n, cut, value = len(values), int(0.2 * len(values)), trimmed_mean(values)
    kept = sorted(values)[cut : n - cut]
    if len(kept) < 2:
        return value, None, None
    launches = launches if n >= 2 * len(launches) else [n]
    influence = iter([n / len(kept) * (min(max(v, kept[0]), kept[-1]) - value) for v in values])
    samples = [[next(influence) for _ in range(size)] for size in launches]
    means = [sum(own) / len(own) for own in samples]
    mean = sum(map(sum, samples)) / n
    between = sum(len(own) * (m - mean) ** 2 for own, m in zip(samples, means))
    within = sum((v - m) ** 2 for own, m in zip(samples, means) for v in own)
    more, degrees, inflation = len(launches) - 1, len(kept) - 1, 1
    if more and within > 0:
        part = 2 / (9 * more)  # Wilson and Hilferty, The distribution of chi-square, 1931
        ratio = between / more / (within / (n - len(launches)))
        if ratio > max(1, (1 - part + 1.2816 * math.sqrt(part)) ** 3):
            inflation, degrees = ratio, min(degrees, more)
    # Student's t: Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959.
    u = 1.959963984540054 * (8 * degrees + 3) / (8 * degrees + 1)
    margin = math.sqrt(
        within / (n - len(launches)) / n * inflation * degrees * math.expm1(u * u / degrees)
    )
    return value, value - margin, value + margin


class Recording:
    """The launches of one model."""

    def __init__(self, path):
        self.launches, self.path = [], path
        for number, line in enumerate(
            read_bytes(path).decode("utf-8-sig", errors="replace").splitlines(), 1
        ):
            try:
                self.add(line)
            except json.JSONDecodeError as error:
                why = f"no launch, or cut off (one is a line), error at byte {error.pos + 1}"
                raise Refused(f"{path}, line {number}: {why}") from None
            except (ValueError, RecursionError) as error:
                raise Refused(f"{path}, line {number}: {error}") from None
        require(self.launches, path, ": no launch of gradsync record")

    def add(self, line):
        launch = json.loads(line, parse_constant=str)  # NaN is read as a text
        check_launch(launch)
        self.launches.append(launch)
        require(
            [p["bytes"] for p in launch["parameters"]] == self.bytes
            and all(kind_of(launch, key) == kind_of(self.launches[0], key) for key in KIND),
            "another script, model, world or machine, PyTorch or optimizer than line 1's: move this line to another file",
        )

    @cached_property
    def bytes(self):
        """Returns the bytes of each parameter's gradient."""
        return [p["bytes"] for p in self.launches[0]["parameters"]]

    @cached_property
    def ready_order(self):
        """Returns the order in which gradients are ready on rank 0, which DDP uses."""
        ready = [ready_of(step) for step in self.launches[0]["ranks"][0] if step["mode"] == "probe"]
        require(ready, self.path, ', line 1: no steps of mode "probe"')
        medians = list(map(median, zip(*ready)))
        return sorted(range(len(medians)), key=medians.__getitem__)

    def buckets(self, row):
        """The parameters of each of DDP's buckets, in the order of issue: in the order in which they are ready, each is added
        to a bucket of its dtype, which is closed when it has reached its size."""
        buckets, held, sizes = [], {}, {}
        for parameter in self.ready_order:
            dtype = self.launches[0]["parameters"][parameter]["dtype"]
            held.setdefault(dtype, []).append(parameter)
            if sum(self.bytes[p] for p in held[dtype]) >= sizes.get(
                dtype, row["first_bucket_bytes"]
            ):
                buckets.append(held.pop(dtype))
                sizes[dtype] = row["bucket_bytes"]
        return tuple(map(tuple, [*buckets, *held.values()]))

    def bucket_bytes(self, row):
        return [sum(self.bytes[p] for p in bucket) for bucket in self.buckets(row)]

    def steps(self, mode, row=None):
        """Seconds of the mode's steps, of DDP with this row's settings, and how many each launch has."""
        values, launches = [], []
        for launch in self.launches:
            own = [
                step_seconds(launch, i)
                for i, step in enumerate(launch["ranks"][0])
                if step["mode"] == mode
                and (mode != "ddp" or launch["rows"][step["row"]]["name"] == row)
            ]
            values += own
            launches += [len(own)] * bool(own)
        return values, launches

    @cached_property
    def ranks(self):
        """Of each rank, in seconds: what forward, backward and the optimizer take in steps without synchronisation, in which no
        rank waits for another, and what lies between steps: loading, mostly."""
        names = {
            "before": "forward",
            "backward": "backward",
            "optimizer": "optimizer",
            "between": "between",
        }
        steps = [
            steps
            for launch in self.launches
            for steps in zip(*launch["ranks"])
            if steps[0]["mode"] == "none"
        ]
        alone = [
            [
                sum(step[f"{name}_ns"] for name in ("before", "backward", "optimizer"))
                for step in one
            ]
            for one in steps
        ]
        return [
            {
                **{
                    f"{name}_s": NS * trimmed_mean([one[r][f"{field}_ns"] for one in steps])
                    for field, name in names.items()
                },
                # Whether the rank is this much slower than the fastest rank in three of four steps.
                "is_slow": 4 * sum(one[r] > (1 + NOTABLE) * min(one) for one in alone)
                >= 3 * len(alone),
            }
            for r in range(self.launches[0]["world_size"])
        ]

    @cached_property
    def none_s(self):
        """Returns the step without synchronisation."""
        values, launches = self.steps("none")
        require(values, self.path, ': no steps of mode "none"')
        return estimate(values, launches)[0]

    def second_run_error(self, row):
        """How far the second half of the launches is from the first, in parts of it: what a prediction that is a measurement
        would be off by. None of one launch."""
        values, launches = self.steps("ddp", row)
        first = sum(launches[: len(launches) // 2])
        return trimmed_mean(values[first:]) / trimmed_mean(values[:first]) - 1 if first else None


def ready_of(step):
    """DDP treats a parameter without a gradient as ready when backward has ended."""
    return [step["backward_ns"] if ns < 0 else ns for ns in step["ready_ns"]]


def begin_of(launch, step):
    """Clocks of several hosts cannot be compared, so ranks of several hosts are assumed to begin together."""
    return (
        NS * (step["begin_ns"] - launch["ranks"][0][0]["begin_ns"])
        if len(set(launch["hosts"])) == 1
        else 0
    )


def step_seconds(launch, i):
    """Returns the time from the last rank's beginning to the last rank's end."""
    begins = [begin_of(launch, steps[i]) for steps in launch["ranks"]]
    return max(b + NS * steps[i]["step_ns"] for b, steps in zip(begins, launch["ranks"])) - max(
        begins
    )
