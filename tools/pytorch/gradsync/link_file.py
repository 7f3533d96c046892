"""Reads links that somebody has measured: what nccl-tests, rccl-tests or osu_allreduce printed or wrote, records of gradsync's
all_reduce, or a recording. What a file says is checked before it is believed: size, time and bandwidth of each row have to
agree within the digits that are printed, and bus bandwidth has to be that of the collective between so many ranks."""

import json
import math
import os
import re
from collections import Counter, defaultdict

from gradsync import Refused
from gradsync.link import KINDS, Cost, LinkCosts, MeasuredLink
from gradsync.network import sent_part
from gradsync.recording import NS, Recording, ranks_text, read_bytes, require, trimmed_mean

EXPECTED = "expected what nccl-tests, rccl-tests or osu_allreduce printed, records of all_reduce, or a recording"
SCHEMA = "gradsync.record/5"
# Before a line may stand what launchers and collectors of logs put there, so nothing is looked for at its begin.
PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf\b")
BEGIN = re.compile(r"\bnThreads?:? +\d+ +nGpus")
RANK = re.compile(r"\bRank +(\d+) +(?:Group +(\d+) +)?(?:Pid +\d+ +on +(\S+)|uses) +device")
HEADER = re.compile(r"\b(?:size|bytes)\s+(?:count|N)\s.*\balgbw\s+busbw\b.*")
UNITS = re.compile(r"\((s|ms|us)\)\s+\((\w+/s)\)")
ROW = re.compile(
    r"(\d+)\s+(\d+)\s+(u?int\d*|u?char|half|float|double|(?:bf|bfloat|fp?)\d\w*)\s+(.*)"
)
REST = re.compile(
    r"\s*(?:(?:[\d.,]+(?:e[+-]?\d+)?|N/A)\s+){3,}[\d.,e+/NA-]*\s*"
)  # of a row that another line interrupted
COLUMNS = (
    "size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split()
)  # used if there is no header
OSU = re.compile(r"OSU .*?(\w+) Latency Test")
OSU_ROW = re.compile(r"(?:^|[^\d.])(\d+)((?:\s+\d+\.\d+)+)(?:\s+\d+)?\s*$")
OSU_COMMAND = re.compile(r"\s-(?:np?|-ntasks)[ =](\d+)\s.*osu_allreduce")
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}
BYTES = {"GB/s": 1e9, "MB/s": 1e6, "KB/s": 1e3, "B/s": 1}
LEAST_DIGITS = 0.1  # a less precise time or bandwidth proves nothing


def bounds(text):
    """Returns the bounds of a printed number; None for another text."""
    match = re.fullmatch(r"(\d+)(?:[.,](\d*))?(?:e([+-]?\d{1,2}))?", text)
    if not match:
        return None
    unit = 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
    value = float(text.replace(",", "."))
    return max(0, value - 0.51 * unit), value + 0.51 * unit


def is_known(interval):
    return interval[1] - interval[0] < LEAST_DIGITS * interval[1]


class Run:
    """The output of one program."""

    def __init__(self):
        self.program, self.ranks, self.is_elided, self.failed = None, {}, False, False
        # `in_place`: whether the second half of a row is used.
        self.columns, self.in_place, self.units, self.unread = COLUMNS, True, None, 0
        self.rows = []  # (size, type, redop, time, algbw, busbw)

    def add(self, words):
        """Adds a row. Returns False if it lacks numbers."""
        halves = [i for i, name in enumerate(self.columns) if name == "time"]
        for i in sorted(halves, key=lambda i: (i != halves[0]) != self.in_place):
            where = [i] + [self.columns.index(name, i) for name in ("algbw", "busbw")]
            if len(words) > max(where) and all(bounds(words[k]) for k in where):
                named = dict(zip(self.columns, words))
                redop = named.get("redop", named.get("op", "none"))
                self.rows.append((int(words[0]), words[2], redop, *(words[k] for k in where)))
                wrong = dict(zip(self.columns[i:], words[i:])).get("#wrong", "0")
                self.failed |= wrong not in ("0", "N/A") and bounds(wrong) not in (
                    None,
                    bounds("0"),
                )
                return True
        return False

    def kind(self):
        """Of its collective; those that do not name themselves tell what they reduce by."""
        reduces = self.rows[0][2] != "none"
        return self.program or ("all_reduce" if reduces else None)

    def checked(self):
        """Returns (number of ranks, costs, lines to print), after all rows agree."""
        kind = self.kind()
        require(
            kind != "all_reduce" or self.rows[0][2] != "none",
            "says all_reduce and redop none: expected one such as sum",
        )
        rows = [
            row
            for row in self.rows
            if row[1] == ("float" if "float" in (row[1] for row in self.rows) else self.rows[0][1])
        ]
        rows = [
            row
            for row in rows
            if row[2] == ("sum" if "sum" in (row[2] for row in rows) else rows[0][2])
        ]
        units = [self.units] if self.units else [(unit, "GB/s") for unit in SECONDS]
        good, bad = max((agreeing(rows, *unit) for unit in units), key=lambda both: len(both[0]))
        known = [row for row in good if is_known(row[2])]
        require(
            known and len(good) >= len(bad),
            bad[0] if bad else "no bandwidth has two digits or more: measure up to -e 128M",
        )
        ranks, says, told = self.num_ranks(
            kind, min(known, key=lambda row: row[3][1] / row[3][0] if row[3][0] else math.inf)
        )
        require(
            ranks > 1,
            "measured by 1 rank, expected 2 or more: nccl-tests that are built without MPI measure each by itself",
        )
        factor = sent_part(kind, ranks)
        kept = [
            row
            for row in good
            if row[3][0] <= factor * row[2][1] and factor * row[2][0] <= row[3][1]
        ]
        require(
            2 * len(kept) > len(good),
            f"lists {ranks} ranks, but {told}; {kind} of {ranks} has {factor:.3g}",
        )
        left_out = len(good) - len(kept) + len(bad) + self.unread
        says += [
            f"rows that are left out, because they do not agree with themselves: {left_out}"
        ] * bool(left_out)
        says += ["its own check of results FAILED"] * self.failed
        return (
            ranks,
            [Cost(size, sum(time) / 2, kind=kind) for size, time, _, _ in kept if is_known(time)],
            says,
        )

    def num_ranks(self, kind, row):
        """Adds lines to print, and the facts that the bandwidths of this row show."""
        low, high = row[3][0] / row[2][1], row[3][1] / row[2][0]
        fitting = [n for n in range(1, 16385) if low <= sent_part(kind, n) <= high]
        told = f"busbw / algbw is {low:.3g} to {high:.3g}" + (
            f", as of {ranks_text(fitting[0])}" if len(fitting) == 1 else ""
        )
        groups, hosts = (
            Counter(group for group, _ in self.ranks.values()),
            {host for _, host in self.ranks.values()} - {None},
        )
        if not self.ranks or self.is_elided or sorted(self.ranks) != list(range(len(self.ranks))):
            require(
                len(fitting) == 1,
                "lists ",
                len(self.ranks) or "no",
                " ranks, not all of them, and ",
                told,
                ": that does not tell how many there are",
            )
            return fitting[0], [f"it does not list all ranks, but {told}"], told
        ranks = max(groups.values())
        require(
            min(groups.values()) == ranks,
            f"groups of different numbers of ranks: {sorted(groups.values())}",
        )
        return (
            ranks,
            [f"{len(groups)} groups of {ranks} ranks at the same time"] * (len(groups) > 1)
            + ["all ranks on one host: it does not tell what a link between hosts takes"]
            * (len(hosts) == 1),
            told,
        )


def agreeing(rows, time_unit, rate_unit):
    """(size, time, algbw, busbw) of the rows that agree with themselves, each as bounds, and why the others do not. Those that
    print 0.00 tell nothing."""
    good, bad = [], []
    for size, _, _, *texts in rows:
        units = SECONDS[time_unit], BYTES.get(rate_unit, 1e9), BYTES.get(rate_unit, 1e9)
        time, algbw, busbw = (
            tuple(unit * end for end in bounds(text)) for text, unit in zip(texts, units)
        )
        if not time[0] * algbw[0] <= size <= time[1] * algbw[1]:
            bad.append(
                f"size {size} in a time of {texts[0]} is not an algbw of {texts[1]}: columns or units are not understood"
            )
        elif size > 0 and algbw[0] > 0:
            good.append((size, time, algbw, busbw))
    return good, bad


def runs_of(lines):
    """Reads the output of programs of nccl-tests and rccl-tests, one after the other."""
    runs, pending = [Run()], None  # of a row: the part before its times
    for line in lines:
        row, rank, header, program = (
            ROW.search(line),
            RANK.search(line),
            HEADER.search(line),
            PROGRAM.search(line),
        )
        if (
            runs[-1].rows
            and "concluded" not in line
            and not row
            and (rank or header or program or BEGIN.search(line))
        ):
            runs.append(Run())
        run = runs[-1]
        if row:
            words = [*row.groups()[:3], *row[4].split()]
            pending = None if run.add(words) else words[: run.columns.index("time")]
            run.unread += bool(pending)
        elif pending and REST.fullmatch(line + " "):
            run.unread -= run.add(pending + line.split())
            pending = None
        elif header:
            run.columns = header[0].split()
            require(
                {"time", "type"} <= set(run.columns),
                "its columns are ",
                " ".join(run.columns),
                ": expected ",
                " ".join(COLUMNS),
            )
        elif rank:
            run.ranks[int(rank[1])] = (rank[2], rank[3])
        elif program:
            run.program = program[1] if "concluded" not in line else run.program or program[1]
        elif "out-of-place" in line and "in-place" in line:
            run.in_place = line.index("in-place") > line.index("out-of-place")
        elif UNITS.search(line) and not run.rows:
            run.units = UNITS.search(line).groups()
        elif re.search(r"(^|\s)\.\.\.\s*$", line):
            run.is_elided = True
        elif re.search(r"Out of bounds values\s*:.*FAILED", line):
            run.failed = True
    return [run for run in runs if run.rows]


def runs_of_json(text):
    """Reads the JSON of nccl-tests -J, one document per program. Numbers remain texts, which show their digits."""
    decoder, runs = json.JSONDecoder(parse_float=str, parse_int=str), []
    while text:
        document, end = decoder.raw_decode(text)
        text = text[end:].strip()
        run, config = Run(), document["config"]
        named = PROGRAM.search(document["args"][0])
        run.program, run.units = named[1] if named else document["args"][0], ("us", "GB/s")
        each = int(config["nthreads"]) * int(
            config["ngpus"]
        )  # GPUs of a process; processes are listed
        for i, device in enumerate(config["devices"]):
            run.ranks.update(
                {
                    each * i + k: (device.get("group"), device.get("hostname"))
                    for k in range(min(each, 16384))
                }
            )
        run.failed = document.get("out_of_bounds", {}).get("okay") in (False, "false")
        for result in document["results"]:
            times = result["in_place"] or result["out_of_place"]
            require(
                "time" in times,
                "its results have ",
                ", ".join(times),
                ": expected time, which nccl-tests write without -C",
            )
            words = [str(result[name]) for name in COLUMNS[:5]] + [
                str(times[name]) for name in ("time", "alg_bw", "bus_bw")
            ]
            run.unread += not run.add(words)
        runs += [run] * bool(run.rows)
    return runs


def link_of_osu(lines, world_size):
    """Reads osu_allreduce, whose output lacks the number of ranks; a command line in the file may have it."""
    costs, is_all_reduce, told = [], False, set()
    for line in lines:
        title, row, command = OSU.search(line), OSU_ROW.search(line), OSU_COMMAND.search(line)
        if title:
            is_all_reduce = title[1] == "Allreduce"
        elif command:
            told.add(int(command[1]))
        elif is_all_reduce and "Size" in line:
            is_known = re.search(r"Size\s+(Avg )?Latency ?\(us\)", line)
            require(
                is_known, "its columns are ", line.strip(), ": expected Size and Avg Latency(us)"
            )
        elif is_all_reduce and row:
            average, *others = map(float, row[2].split())
            require(
                not others[1:] or others[0] <= average <= others[1],
                "an average of ",
                average,
                " is not between ",
                others[:2],
                ": its columns are not understood",
            )
            costs.append(Cost(int(row[1]), 1e-6 * average))
    require(costs, "no rows of osu_allreduce")
    require(len(told) < 2, "osu_allreduce of several numbers of ranks, expected one")
    (ranks,) = told or {world_size}
    require(
        ranks > 1, "osu_allreduce does not tell how many ranks measured: say so with --world_size"
    )
    return MeasuredLink(
        LinkCosts(costs),
        ranks,
        []
        if told
        else [
            f"taken to be measured by {ranks} ranks, as many as are asked for, which it does not tell"
        ],
    )


def link_of_records(path):
    """Reads records of //bench:all_reduce: one per rank for each collective and size."""
    paths = [path]
    if os.path.isdir(path):
        paths = sorted(
            os.path.join(path, name)
            for name in os.listdir(path)
            if name.endswith((".jsonl", ".jsonl.gz"))
        )
    collectives = defaultdict(list)
    for line in (line for one in paths for line in read_text(one).splitlines()):
        record = json.loads(line)
        require(
            record["schema"] == SCHEMA,
            "schema ",
            record["schema"],
            ", expected ",
            SCHEMA,
            ": measure again with this version",
        )
        if record["experiment"] == "all_reduce" and "communication_cpu_ns" in record["samples"]:
            cell, backend = record["cell"], record["variant"]["backend"]
            of = (
                backend,
                record["world_size"],
                record["run_id"],
                cell["collective"],
                cell["size_bytes"],
                cell.get("in_flight", 1),
            )
            collectives[of].append((record["samples"], record["facts"]))
    kinds = sorted({of[:2] for of in collectives})
    found = (
        " and ".join(f"{backend} of {ranks_text(count)}" for backend, count in kinds) or "nothing"
    )
    require(
        len(kinds) == 1,
        "records of all_reduce over ",
        found,
        ": expected one backend and number of ranks",
    )
    (backend, world_size), costs = *kinds, []
    require(world_size > 1, "measured by 1 rank, expected 2 or more")
    for (*_, kind, size, in_flight), ranks in collectives.items():
        times = [samples["time_ns"] for samples, _ in ranks]
        used = sum(trimmed_mean(samples["communication_cpu_ns"]) for samples, _ in ranks) / sum(
            map(trimmed_mean, times)
        )
        if kind in KINDS:  # the last rank to arrive waited least
            costs.append(
                Cost(size, NS * trimmed_mean(list(map(min, zip(*times)))), used, kind, in_flight)
            )
    return MeasuredLink(LinkCosts(costs, ranks[0][1]["channels"]), world_size)


def read_text(path):
    data = read_bytes(path)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data.decode("utf-8-sig", errors="replace"))


def read_link(path, world_size):
    """Returns a Recording or a MeasuredLink; `world_size` is used if the file lacks the number of ranks."""
    try:
        text = "" if os.path.isdir(path) else read_text(path).strip()
        if os.path.isdir(path) or '"gradsync.record/' in text[:200]:
            return link_of_records(path)
        if '"gradsync_torch"' in text.partition("\n")[0]:
            return Recording(path)
        lines = [line for line in text.splitlines() if len(line) < 4096]
        if any(map(OSU.search, lines)) and not any(map(HEADER.search, lines)):
            return link_of_osu(lines, world_size)
        runs = runs_of_json(text) if text[:1] == "{" else runs_of(lines)
        begins = text[:1] == "{" or any(map(HEADER.search, lines))
        require(
            runs,
            "begins as nccl-tests do and has no rows: "
            if begins
            else "none of its lines is a measurement: ",
            EXPECTED,
        )
        ours = [run for run in runs if run.kind() in KINDS]
        require(
            any(run.kind() == "all_reduce" for run in ours),
            "measured ",
            ", ".join(
                sorted(
                    {
                        run.kind() or "a collective that is not named, with redop none"
                        for run in runs
                    }
                )
            ),
            ": expected all_reduce",
        )
        ranks, costs, says = zip(*(run.checked() for run in ours))
        require(
            len(set(ranks)) == 1,
            "measured by ",
            " and by ".join(map(str, sorted(set(ranks)))),
            " ranks, expected as many",
        )
        return MeasuredLink(LinkCosts(sum(costs, [])), ranks[0], sorted(set(sum(says, []))))
    except json.JSONDecodeError as error:
        raise Refused(
            f"{path}: JSON that is cut off or none at all, error at byte {error.pos + 1}"
        ) from None
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise Refused(f"{path}: lacks what such a file has ({error}): {EXPECTED}") from None
    except (ValueError, OSError, RecursionError) as error:
        raise Refused(str(error) if str(error).startswith(path) else f"{path}: {error}") from None
