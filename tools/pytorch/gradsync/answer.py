"""Predicts the steps of DistributedDataParallel: `gradsync what_if FILE`."""

import argparse
import difflib
import json
import os
import re
import sys
from collections import namedtuple
from dataclasses import asdict, replace
from functools import lru_cache
from statistics import fmean

from gradsync import BAD_ARGUMENTS, FAILED, Refused, sharding
from gradsync.link import Operation
from gradsync.link_file import read_link
from gradsync.memory import parse_bytes
from gradsync.network import (
    ASSUMED_ERROR,
    Network,
    costs_over,
    in_ring_of,
    parse_wire,
    with_units,
)
from gradsync.probes import Communication
from gradsync.recording import (
    NOTABLE,
    NS,
    Recording,
    begin_of,
    estimate,
    ranks_text,
    ready_of,
    require,
    trimmed_mean,
)
from gradsync.replay import Collective, Processors, RankStep, Scenario, Waits, predict
from gradsync.schema import Row, StepMode
from gradsync.sharding import Resharding
from gradsync.ways import Ways

MIB = 1 << 20
# Standard deviation of the logarithm of a collective's time over launches, whose memory addresses differ.
LAUNCH_ERROR = 0.03
CAPS = (1, 2, 5, 10, 25, 50, 100)  # sizes of buckets to compare, in MiB


def largest_zero1_share(numels, world_size):
    """Returns ZeroRedundancyOptimizer's largest share of a rank: largest elements first, each to the rank with the fewest."""
    held = [0] * world_size
    for numel in sorted(numels, reverse=True):
        held[held.index(min(held))] += numel
    return max(held) / sum(numels)


Predicted = namedtuple("Predicted", "step slowest exposed floor")


class Question:
    """A recording, and the link and ranks for which the answer is computed: flags as parse() returns them."""

    def __init__(self, flags):
        self.recording, self.flags = Recording(flags.recording), flags
        self.launch = self.recording.launches[0]
        self.own = (
            self.launch.rows[0] if self.launch.rows else Row.by_default("DDP", self.launch.passes)
        )
        self.world_size = flags.world_size or self.launch["world_size"]
        # The link of another recording, or a link that was measured by other programs.
        linked = read_link(flags.link, self.world_size) if flags.link and not flags.wire else None
        self.link_of, self.link = (
            (linked, None) if isinstance(linked, Recording) else (None, linked)
        )
        self.at = Recording(flags.at) if flags.at else None
        require(
            not self.at
            or self.at.bytes == self.recording.bytes
            and self.at.launches[0]["passes"] == self.launch["passes"],
            "--at=",
            flags.at,
            ": a recording of other parameters or passes",
        )
        # The factor of the time of everything except communication at that place.
        self.pace = self.at.none_s / self.recording.none_s if self.at else 1
        self.log_error = max(LAUNCH_ERROR, ASSUMED_ERROR) if flags.wire else LAUNCH_ERROR

    @lru_cache(maxsize=None)
    def communication(self, i):
        return Communication.of(
            self.link_of.launches if self.link_of else self.recording.launches[i : i + 1]
        )

    def link_costs(self, recorded):
        """Returns costs of collectives between the ranks. `recorded`: costs where steps were recorded, if they communicated."""
        flags, costs = self.flags, self.link or recorded
        require(
            flags.wire or costs,
            "nothing was communicated: name a link and how many ranks, such as "
            "--link=25Gbit,5us --world_size=8",
        )
        require(
            self.world_size > 1, "one rank communicates with nobody: --world_size takes 2 or more"
        )
        if flags.wire:
            network = Network(
                self.world_size, flags.ranks_per_host, flags.wire, flags.within, flags.algorithm
            )
            costs = costs_over(network, recorded)
        else:
            costs = in_ring_of(costs, self.world_size)
        if recorded and costs is not recorded.costs:
            costs = with_units(costs, recorded.costs, self.launch.backend == "gloo")
        return (
            costs
            if flags.processor_percent is None
            else costs.changed(processor=flags.processor_percent / 100)
        )

    @lru_cache(maxsize=None)
    def ready_times(self, i, buckets):
        """Of launch i, by rank and by step that did to memory what DDP does: when it began, itself, and when its first
        gradient and its buckets were ready in backward."""
        launch, total = self.recording.launches[i], sum(self.recording.bytes)
        ranks = [[] for _ in launch["ranks"]]
        for steps in zip(*launch["ranks"]):
            sent = steps[0]["collectives"]
            if (
                steps[0]["mode"] != "probe"
                or sent["kind"]
                and (sent["kind"] != "all_reduce" or sum(sent["bytes"]) < total)
            ):
                continue
            begins = [begin_of(launch, step) for step in steps]
            for own, step, begin in zip(ranks, steps, begins):
                ready, times, latest = ready_of(step), [], 0
                for bucket in buckets:
                    latest = max(latest, max(map(ready.__getitem__, bucket)))
                    times.append(NS * latest)
                # Each step begins with its first rank, so that ranks of different steps can be combined.
                own.append((begin - min(begins), step, NS * min(ready), times))
        return ranks

    @lru_cache(maxsize=None)
    def predict_launch(self, i, buckets, bf16, zero1, passes, pace_of_link):
        launch, communication = (
            self.recording.launches[i],
            self.communication(0 if self.link_of else i),
        )
        is_named, total = bool(self.flags.wire or self.link), sum(self.recording.bytes)
        costs = self.link_costs(
            communication.bf16 if bf16 and not is_named else communication.link
        ).changed(pace_of_link)
        sent = [sum(self.recording.bytes[p] for p in bucket) for bucket in buckets]
        # Seconds more, and the optimizer's part of what was recorded, which FSDP2's is of a rank's shards.
        backward_s, after_s, share = 0, 0, launch["world_size"] if launch["units"] else 1
        # To add to a gradient moves as many bytes as a cast to bf16 and back, or else as a probe's copy.
        if passes != launch["passes"] == 1:
            backward_s = (
                communication.cast_in_s_per_byte + communication.cast_out_s_per_byte
            ) * total
            if not communication.bf16:
                probe, none = (
                    trimmed_mean(
                        [
                            NS * step["backward_ns"]
                            for steps in launch["ranks"]
                            for step in steps
                            if step["mode"] == mode
                        ]
                    )
                    for mode in ("probe", "none")
                )
                backward_s = max(0, probe - none)
        if bf16:
            backward_s += communication.cast_in_s_per_byte * total
            if is_named:  # casts back of earlier buckets overlap with communication
                after_s += self.pace * communication.cast_out_s_per_byte * sent[-1]
            sent = [size * communication.bf16_part for size in sent]
        if zero1:
            share *= self.zero1_share()
            # Its broadcasts follow each other, where in an all-gather all ranks send at once. gloo's trees of more than two
            # ranks take longer.
            is_known = not is_named and self.world_size == launch["world_size"]
            after_s += (
                pace_of_link * communication.zero1_s_per_byte * total
                if is_known
                else (
                    costs.seconds(total, Operation.ALL_GATHER)
                    * self.world_size
                    / (self.world_size - 1)
                )
            )
        ranks = []
        for steps, own in zip(launch["ranks"], self.ready_times(i, buckets)):
            alone = [NS * (s["before_ns"] + s["backward_ns"]) for s in steps if s["mode"] == "none"]
            require(
                alone and own,
                self.recording.path,
                ", line ",
                i + 1,
                ": no steps of mode ",
                '"probe"' if alone else '"none"',
            )
            ranks.append([])
            for number, (begin, step, first, ready) in enumerate(own, 1):
                longer = self.pace * (
                    1 + backward_s / (NS * step["backward_ns"])
                )  # distributed over backward
                # Ranks do not wait for each other after unsynchronised passes, so each may be the last rank of this round.
                more = sum(
                    alone[(number + k) % len(alone)] for k in range(1, passes // launch["passes"])
                )
                forward = self.pace * (NS * step["before_ns"] + more)
                after = NS * (share * step["optimizer_ns"] + step["rest_ns"] + step["copy_back_ns"])
                ranks[-1].append(
                    RankStep(
                        begin,
                        forward + longer * first,
                        [forward + longer * t for t in ready],
                        forward + longer * NS * step["backward_ns"],
                        self.pace * after + after_s,
                    )
                )
        return predict(
            Scenario(
                ranks,
                [Collective(size) for size in sent],
                self.world_size,
                costs,
                Processors.of(launch),
                self.log_error,
            )
        )

    def predict(self, row, pace_of_link=1):
        """What a step with these settings should take, of row.passes passes. No step of DDP enters."""
        if row.fsdp:
            resharding = Resharding.NONE if row.whole else Resharding.AS_RECORDED
            return self.predict_sharded(resharding, pace_of_link=pace_of_link)
        settings = (
            self.recording.buckets(row),
            row.bf16,
            row.zero1,
            row.passes,
            pace_of_link,
        )
        return self.mean(
            [self.predict_launch(i, *settings) for i in range(len(self.recording.launches))]
        )

    @lru_cache(maxsize=None)
    def predict_sharded(self, resharding, costs=None, pace_of_link=1):
        """The same of FSDP2."""
        links = [
            costs or self.link_costs(self.communication(0 if self.link_of else i).link)
            for i in range(len(self.recording.launches))
        ]
        return self.mean(
            [
                sharding.predict_launch(
                    launch,
                    f"{self.recording.path}, line {number}",
                    resharding,
                    link.changed(pace_of_link),
                    self.world_size,
                    self.log_error,
                    self.pace,
                )
                for number, (launch, link) in enumerate(zip(self.recording.launches, links), 1)
            ]
        )

    def zero1_share(self):
        return largest_zero1_share([p["numel"] for p in self.launch["parameters"]], self.world_size)

    def mean(self, predictions):
        steps = [one.step_s for one in predictions]
        return Predicted(
            (
                fmean(step.value for step in steps),
                min(step.low for step in steps),  # another launch may be as any of these
                max(step.high for step in steps),
            ),
            fmean(one.slowest_s for one in predictions),
            fmean(one.exposed_s for one in predictions),
            fmean(one.floor_s for one in predictions),
        )


def sizes_of(mib):
    return {"bucket_bytes": mib * MIB, "first_bucket_bytes": mib * MIB}


def tuple_of(estimate):
    interval = estimate.interval
    return (
        (estimate.value, interval.low, interval.high) if interval else (estimate.value, None, None)
    )


def overlap(a, b):
    return a[1] <= b[2] and b[1] <= a[2]


def ask(question):
    """Returns the answer of --format=json: times in seconds, and predicted times as (value, low, high) of 95 %."""
    recording, launch, own, prediction = (
        question.recording,
        question.launch,
        question.own,
        question.predict(question.own),
    )
    none_s = question.pace * recording.none_s
    answer = {
        "recording": recording.path,
        "parameters": len(launch["parameters"]),
        "gradient_bytes": sum(recording.bytes),
        "recorded_world_size": launch["world_size"],
        "world_size": question.world_size,
        "launches": len(recording.launches),
        **{name: launch[name] for name in ("optimizer", "device", "backend", "threads")},
        "notes": notes_of(question),
        "none_s": none_s,
        "ranks": [asdict(rank) for rank in recording.ranks],
        "slowest_s": prediction.slowest if question.world_size > launch["world_size"] else None,
        "units": len(sharding.units_of(launch)),
        "schedule": schedule_of(launch),
        "ddp": {
            "bucket_bytes": own.bucket_bytes,
            "first_bucket_bytes": own.first_bucket_bytes,
            "is_sharded": own.fsdp,
            **{f"{name}_s": getattr(prediction, name) for name in ("step", "exposed", "floor")},
        },
        "sizes": [],
        "links": [],
        "measured": [],
    }
    last = None
    for mib in CAPS:
        row = replace(own, **sizes_of(mib), fsdp=False)
        held = recording.bucket_bytes(row)
        if held == last:
            continue
        last, one = held, question.predict(row)
        answer["sizes"].append(
            {
                "bucket_cap_mb": mib,
                "buckets": len(held),
                "step_s": one.step,
                "exposed_s": one.exposed,
                "cost_s": one.step[0] - none_s * own.passes / launch["passes"],
            }
        )
    best = min(answer["sizes"], key=lambda size: size["step_s"][0])
    answer["best_bucket_cap_mb"] = [
        size["bucket_cap_mb"] for size in answer["sizes"] if overlap(size["step_s"], best["step_s"])
    ]
    for name, pace in (
        ("a link that takes twice as long", 2),
        ("a link that takes half as long", 0.5),
    ):
        step = question.predict(own, pace).step
        answer["links"].append(
            {
                "name": name,
                "step_s": step,
                "change": step[0] / prediction.step[0] - 1,
                "is_told": not overlap(step, prediction.step),
            }
        )
    limit = question.flags.memory
    ways = Ways(
        question,
        replace(own, **sizes_of(best["bucket_cap_mb"]), fsdp=False, bf16=False, zero1=False),
    )
    rows = ways.all()
    answer.update(
        advice=ways.advice(rows, limit),
        batches=ways.batches(rows, limit) if limit else {},
        memory_limit_bytes=limit,
        ways=[
            {name: value for name, value in row.items() if name != "memory_by_batch"}
            for row in rows
        ],
    )
    if question.at or not (question.flags.world_size or question.flags.link):
        answer.update(measured_of(question))
    return answer


def notes_of(question):
    """Returns lines about the question, and about the assumptions of the answer."""
    flags, launch, wire, link, notes = (
        question.flags,
        question.launch,
        question.flags.wire,
        question.link,
        [],
    )
    if flags.world_size or wire:
        notes.append(
            f"Asked for {ranks_text(question.world_size)}"
            + (
                " (%d on a host), %.4g Gbit/s and %.4g us between hosts."
                % (flags.ranks_per_host, 8e-9 * wire.bytes_per_second, 1e6 * wire.latency_s)
                if wire
                else "."
            )
        )
    if wire:
        within = "; ranks of a host exchange %.4g Gbit/s (--within)" % (
            8e-9 * flags.within.bytes_per_second
        )
        notes.append(
            "Assumed: the link is within %g %% of its data sheet%s."
            % (100 * ASSUMED_ERROR, within if flags.ranks_per_host > 1 else "")
        )
    if link:
        measured = link.costs.sizes()
        sent = [
            size
            for caps in ({}, sizes_of(CAPS[0]), sizes_of(CAPS[-1]))
            for size in question.recording.bucket_bytes(replace(question.own, **caps))
        ]
        notes.append(
            f"The link: {flags.link}, measured by {ranks_text(link.world_size)}, {sizes_text(measured)}."
        )
        notes += [f"Beware of it: {line}." for line in link.says]
        if min(sent) < min(measured) or max(sent) > max(measured):
            notes.append(
                f"Beware of it: not all sizes of buckets, {sizes_text(sent)}, were measured."
            )
    linked = (question.link_of or question.recording).launches[0]["world_size"]
    if not wire and question.world_size != (link.world_size if link else linked):
        notes.append("Assumed: collectives go around a ring.")
    is_gpu = launch["device"] != "cpu"
    is_known = (
        link.costs.uses_processors() if link else launch["backend"] != "none" or question.link_of
    )
    if flags.processor_percent is None and (is_gpu or not is_known):
        notes.append(
            f"Assumed: communication takes nothing from computation{' on the GPU' if is_gpu else ''}."
        )
    return notes


def schedule_of(launch):
    """What fully_shard's lines of the table assume."""
    units = "the script's units" if launch["units"] else "repeated blocks as units"
    if not launch["units"] and not any(
        step["collectives"]["kind"] == "fully_shard" for step in launch["ranks"][0]
    ):
        units += ", without copies"
    return f"fully_shard: {units}; " + (
        "over gloo all wait for each collective, so its step is a sum."
        if sharding.waits_of(launch) is Waits.ALL_RANKS
        else "its schedule on a GPU is not validated on one."
    )


def measured_of(question):
    """DDP's own steps beside their predictions. `pairs`: of settings that differ in sizes of buckets alone, and whose
    measured steps differ by more than their intervals; of how many the faster one is predicted."""
    measured, sizes, there = [], [], question.at or question.recording
    for row in there.launches[0]["rows"]:
        launches = there.steps(StepMode.SCRIPT, row.name)
        if not launches:
            continue
        none_s = there.none_s * row.passes / question.launch["passes"]
        step, prediction, rebuilt = (
            tuple_of(estimate(launches)),
            question.predict(row).step,
            sorted(row.rebuilt_bucket_bytes),
        )
        measured.append(
            {
                "name": row.name,
                "predicted_s": prediction,
                "measured_s": step,
                "error": prediction[0] / step[0] - 1,
                "cost_error": (prediction[0] - none_s) / (step[0] - none_s) - 1
                if step[0] > none_s
                else None,
                "second_run_error": there.second_run_error(row.name),
                "is_as_planned": rebuilt in ([], sorted(question.recording.bucket_bytes(row))),
            }
        )
        if (
            not (row.bf16 or row.zero1 or row.fsdp)
            and row.passes == question.own.passes
            and None not in step
        ):
            sizes.append((prediction[0], step))
    pairs = [fast < slow for fast, a in sizes for slow, b in sizes if a[2] < b[1] and fast != slow]
    return {"measured": measured, "pairs": len(pairs), "pairs_right": sum(pairs)}


def sizes_text(sizes):
    return " to ".join(
        "%.4g %s" % ((size / MIB, "MiB") if size >= MIB else (size / 1024, "KiB"))
        for size in sorted({min(sizes), max(sizes)})
    )


def ms(seconds):
    return "%.4g ms" % (1e3 * seconds)


def size_text(size):
    """In decimal units, as data sheets have them."""
    unit = next((u for u in ("T", "G", "M", "k") if (size or 0) >= parse_bytes(f"1{u}B")), "")
    return "unknown" if size is None else "%.4g %sB" % (size / parse_bytes(f"1{unit}B"), unit)


def told(change):
    return (
        f"{'gains' if change['change'] < 0 else 'loses'} ({percent(change['change'])})"
        if change["is_told"]
        else ("no difference that can be told")
    )


def range_text(step):
    return "%.4g to %s" % (1e3 * step[1], ms(step[2]))


def percent(part):
    return "" if part is None else "%+.1f %%" % (100 * part)


def waiting_text(ddp):
    """Returns how long ranks wait. The floor is told where it is below all that the step may take; elsewhere it decides nothing."""
    waits = "weights or gradients" if ddp["is_sharded"] else "gradients after backward"
    text = f"For {ms(ddp['exposed_s'])} of it ranks wait for {waits}."
    _, low, _ = ddp["step_s"]
    if ddp["floor_s"] >= low:
        return text
    return f"{text} No order of sending takes less than {ms(ddp['floor_s'])} over this link."


def slow_ranks(ranks):
    """Returns lines about ranks for which other ranks wait."""
    parts = ("forward_s", "backward_s", "optimizer_s")
    least = min(sum(rank[part] for part in parts) for rank in ranks)
    return [
        "Rank %d is slow: forward %s, backward %s, optimizer %s; the fastest rank takes %s for all."
        % (r, *(ms(rank[part]) for part in parts), ms(least))
        for r, rank in enumerate(ranks)
        if rank["is_slow"]
    ]


def screen(answer):
    """Returns the answer on one screen."""
    ddp, first = answer["ddp"], answer["ddp"]["first_bucket_bytes"]
    cap = "%.4g MiB" % (ddp["bucket_bytes"] / MIB) + (" (the first: %.4g MiB)" % (first / MIB)) * (
        first != ddp["bucket_bytes"]
    )
    slowest = (
        ""
        if answer["slowest_s"] is None
        else ", and %s on the slowest of %d ranks" % (ms(answer["slowest_s"]), answer["world_size"])
    )
    lines = [
        "%d parameters, %.4g MB of gradients, %s; %s over %s on %s, threads each: %d; launches: %d"
        % (
            answer["parameters"],
            answer["gradient_bytes"] / 1e6,
            answer["optimizer"],
            ranks_text(answer["recorded_world_size"]),
            answer["backend"],
            answer["device"],
            answer["threads"],
            answer["launches"],
        )
    ]
    between_s = max(rank["between_s"] for rank in answer["ranks"])
    if between_s > NOTABLE * answer["none_s"]:
        lines.insert(
            0,
            "%s pass before each step, in which scripts load data: %.0f %% of the time without synchronisation, "
            "which no link changes."
            % (ms(between_s), 100 * between_s / (between_s + answer["none_s"])),
        )
    what = (
        f"fully_shard with {answer['units']} units"
        if ddp["is_sharded"]
        else f"DistributedDataParallel with buckets of {cap}"
    )
    lines += [
        *answer["notes"],
        "",
        f"A step without synchronisation takes {ms(answer['none_s'])}{slowest}.",
        *slow_ranks(answer["ranks"]),
        f"A step of {what} will take {range_text(ddp['step_s'])} (95 %).",
        waiting_text(ddp),
        "",
        "%-16s %8s  %-20s %10s %10s" % ("bucket_cap_mb", "buckets", "step", "cost", "exposed"),
    ]
    for size in answer["sizes"]:
        lines.append(
            "%-16g %8d  %-20s %10s %10s"
            % (
                size["bucket_cap_mb"],
                size["buckets"],
                range_text(size["step_s"]),
                ms(size["cost_s"]),
                ms(size["exposed_s"]),
            )
        )
    *some, last = map(str, answer["best_bucket_cap_mb"])
    lines += [
        f"The best bucket sizes are {', '.join(some)} and {last} MiB, which differ by less than can be told."
        if some
        else f"The best bucket size is {last} MiB.",
        "",
    ]
    for link in answer["links"]:
        lines.append("%-46s %-20s %s" % (link["name"], range_text(link["step_s"]), told(link)))
    lines += [
        "",
        "%-30s %-20s %11s %10s %9s %9s  %s"
        % ("way", "step", "cost", "exposed", "memory", "sent", "against the first"),
    ]
    for way in answer["ways"]:
        lines.append(
            "%-30s %s" % (way["way"], way["why"])
            if way["why"]
            else "%-30s %-20s %11s %10s %9s %9s  %s"
            % (
                way["way"],
                range_text(way["step_s"]),
                ms(way["cost_s"]),
                ms(way["exposed_s"]),
                size_text(way["memory_bytes"]),
                size_text(way["sent_bytes"]),
                "" if way is answer["ways"][0] else told(way),
            )
        )
    lines += [answer["schedule"], answer["advice"]]
    if answer["batches"]:
        lines.append(
            "The largest batch in %s, of the recorded one: %s."
            % (
                size_text(answer["memory_limit_bytes"]),
                ", ".join("%s %.3g" % item for item in answer["batches"].items()),
            )
        )
    if answer["measured"]:
        lines += [
            "",
            "%-31s %-20s %-22s %-8s %-11s %s"
            % ("DDP", "predicted", "measured", "error", "of the cost", "second run"),
        ]
    for row in answer["measured"]:
        value, low, high = row["measured_s"]
        half = "" if low is None else " +- %.1f %%" % (100 * (high - low) / 2 / value)
        again = percent(row["second_run_error"]) + "  DDP made other buckets" * (
            not row["is_as_planned"]
        )
        lines.append(
            "%-31s %-20s %-22s %-8s %-11s %s"
            % (
                row["name"],
                range_text(row["predicted_s"]),
                ms(value) + half,
                percent(row["error"]),
                percent(row["cost_error"]),
                again,
            )
        )
    if answer.get("pairs"):
        lines.append(
            "Sizes of buckets that differ by more than intervals: %d pairs, the faster one predicted: %d"
            % (answer["pairs"], answer["pairs_right"])
        )
    return "\n".join(line.rstrip() for line in lines)


def whole(least, most):
    def convert(text):
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} to {most}")
        return int(text)

    return convert


def wire(text):
    if not parse_wire(text):
        raise argparse.ArgumentTypeError(
            f"{text}: expected a rate and a latency such as 25Gbit,5us"
        )
    return parse_wire(text)


def size(text):
    if not parse_bytes(text):
        raise argparse.ArgumentTypeError(f"{text}: expected bytes such as 80GB")
    return parse_bytes(text)


def meant_by(link):
    """What --link would take for a rate that is written otherwise, such as 25Gbps or 3GB/s, or for a file's name; or ""."""
    match = re.fullmatch(
        r"([\d.]+) *([mgt])i?(b(?:it)?s?)?(?:/s|ps)?(?:[, ]+([\d.]+) *(us|ms)?)?",
        link,
        re.IGNORECASE,
    )
    try:
        gbit = (
            float(match[1])
            * {"m": 1e-3, "g": 1, "t": 1e3}[match[2].lower()]
            * (8 if match[3] in ("B", "Bs") else 1)  # GB/s, but not GBit/s
        )
        meant = f"{gbit:g}Gbit,{match[4] or 5}{(match[5] or 'us').lower()}"
        return meant if parse_wire(meant) else ""
    except (TypeError, ValueError):
        folder, slash, name = link.rpartition("/")
        names = os.listdir(folder + slash or ".") if os.path.isdir(folder + slash or ".") else []
        return "".join(
            folder + slash + close for close in difflib.get_close_matches(name, names, 1)
        )


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="what_if",
        allow_abbrev=False,
        description="What a step of DistributedDataParallel "
        "would take with other buckets, links and numbers of ranks.",
    )
    parser.error = lambda message: parser.exit(BAD_ARGUMENTS, f"what_if: {message}\n")
    parser.add_argument("recording", help="Reads this file, which gradsync record wrote.")
    parser.add_argument(
        "--world_size",
        type=whole(0, 16384),
        default=0,
        help="Predicts for this number of ranks, 2 or more. 0: as recorded.",
    )
    parser.add_argument(
        "--link",
        help="Sets the link between hosts: a rate and a latency such as 25Gbit,5us; a rate alone has 5us. "
        "Or a file: another recording, what nccl-tests or osu_allreduce printed, what nccl-tests wrote with -J, or "
        "records of //bench:all_reduce. Default: as recorded.",
    )
    parser.add_argument(
        "--ranks_per_host",
        type=whole(1, 16384),
        default=1,
        help="Lets this number of ranks share a host's link. Default: 1.",
    )
    parser.add_argument(
        "--within",
        type=wire,
        default=parse_wire("200Gbit,3us"),
        help="Sets the link between the ranks of one host. "
        "PCIe 4 moves about 200Gbit, NVLink of an H100 3600Gbit. Default: 200Gbit,3us.",
    )
    parser.add_argument(
        "--algorithm",
        choices=("best", "ring", "tree", "hierarchical"),
        default="best",
        help="Exchanges data in collectives with this algorithm. Default: best.",
    )
    parser.add_argument(
        "--processor_percent",
        type=whole(0, 1000),
        help="Sets how much of a rank's processors communication uses. "
        "Default: as measured, or assumed.",
    )
    parser.add_argument(
        "--at",
        help="Reads a recording of the model where the answer is to hold. Computation is scaled to its step "
        "without synchronisation; what else it measured is only compared.",
    )
    parser.add_argument(
        "--memory",
        type=size,
        help="Shows which ways fit, and how large a batch, if a rank has this memory for "
        "tensors, such as 80GB.",
    )
    parser.add_argument(
        "--format",
        choices=("screen", "json"),
        default="screen",
        help="Prints in this format. Default: screen.",
    )
    flags = parser.parse_args(argv)
    flags.wire = parse_wire(flags.link or "")
    if flags.link and not flags.wire and not os.path.exists(flags.link):
        parser.error(
            f"--link={flags.link}: neither a rate and a latency such as 25Gbit,5us nor a file"
            + (meant_by(flags.link) and f"; did you mean {meant_by(flags.link)}?")
        )
    for name in ("ranks_per_host", "within", "algorithm"):
        if getattr(flags, name) != parser.get_default(name) and not flags.wire:
            parser.error(
                f"--{name} is for a --link that is a rate and a latency, such as 100Gbit,5us (any, if all ranks share "
                "a host)"
            )
    if flags.within != parser.get_default("within") and flags.ranks_per_host == 1:
        parser.error("--within is for ranks that share a host: --ranks_per_host is 1")
    return flags


def main(argv):
    flags = parse(argv)
    try:
        answer = ask(Question(flags))
    except Refused as error:
        print(f"what_if: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    try:
        print(
            json.dumps(answer) if flags.format == "json" else screen(answer),
            flush=True,
        )
    except OSError as error:  # a full disk, or a reader who has left
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # which Python would try again at its end
        print(f"what_if: cannot write to stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    return 0
