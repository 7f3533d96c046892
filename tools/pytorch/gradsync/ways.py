"""One table of the ways to train one model on several ranks: what a step takes, costs and sends, and what memory it needs."""

import math
from dataclasses import replace
from statistics import fmean

from gradsync.link import Operation
from gradsync.memory import Need
from gradsync.network import Network, hybrid_costs, sent_part
from gradsync.recording import estimate
from gradsync.schema import StepMode
from gradsync.replay import Waits
from gradsync.sharding import Resharding, plan_of, reshard, unit_bytes, units_of, waits_of

AVERAGES = (8, 64)  # steps of local SGD between two averages of the weights
LARGEST_BATCH = 1 << 20  # of the recorded one


class Ways:
    """Of a Question. `base`: DDP's row that others are compared with."""

    def __init__(self, question, base):
        self.question, self.base, self.launch, self.world = (
            question,
            base,
            question.launch,
            question.world_size,
        )
        self.units = units_of(self.launch)
        self.total = sum(question.recording.bytes)
        self.need = Need(question.recording) if self.launch.memory else None
        self.keeps = self.launch.passes > 1
        flags = question.flags
        self.on_host = (
            flags.ranks_per_host if flags.wire and 1 < flags.ranks_per_host < self.world else 0
        )

    def replicated(self, name, changes={}, more=0, batch=1, is_same=True, **memory):
        """A row of DDP with these changes."""
        row, own = replace(self.base, **changes), self.base.passes
        prediction, part = self.question.predict(row), own / row.passes
        sent = (
            self.total
            * sent_part(Operation.ALL_REDUCE, self.world)
            * (self.question.communication(0).bf16_part if row.bf16 else 1)
        )
        sent += self.total * sent_part(Operation.ALL_GATHER, self.world) * row.zero1
        return self.row(
            name,
            [s * part for s in prediction.step],
            prediction.exposed * part,
            part * sent,
            is_same,
            lambda batch: self.need.replicated(
                keeps=self.keeps or row.passes > 1, batch=batch, more=more, **memory
            ),
        )

    def row(self, name, step, exposed, sent, is_same, memory):
        return {
            "way": name,
            "step_s": step,
            "exposed_s": exposed,
            "sent_bytes": sent,
            "is_same": is_same,
            "why": "",
            "memory_bytes": sum(memory(1)) if self.need else None,
            "memory_by_batch": memory if self.need else None,
        }

    def unknown(self, name, why):
        return {
            "way": name,
            "step_s": None,
            "exposed_s": None,
            "sent_bytes": None,
            "is_same": True,
            "why": why,
            "memory_bytes": None,
            "memory_by_batch": None,
        }

    def plan(self, units):
        recording = self.question.recording
        return plan_of(recording.first, units, f"{recording.path}, line 1")

    def sharded(self, name, resharding):
        prediction = self.question.predict_sharded(resharding)
        units = reshard(self.units, resharding)
        sizes = unit_bytes(self.launch.parameters, units)
        # Over gloo a reduce-scatter is an all-reduce of the whole.
        parts = {
            Operation.ALL_GATHER: Operation.ALL_GATHER,
            Operation.REDUCE_SCATTER: Operation.ALL_REDUCE
            if waits_of(self.launch) is Waits.ALL_RANKS
            else Operation.ALL_GATHER,
        }
        sent = sum(
            sizes[c.unit] * sent_part(parts[c.operation], self.world) for c in self.plan(units)
        )
        return self.row(
            name,
            prediction.step,
            prediction.exposed,
            sent,
            True,
            lambda batch: self.need.sharded(units, self.world, batch, self.keeps),
        )

    def hybrid(self):
        name = "HSDP"
        flags = self.question.flags
        if self.world < 4:
            return self.unknown(name, "needs four ranks, two on each of two hosts")
        if not flags.wire:
            return self.unknown(
                name, "name a rate as --link, and hosts of more ranks (--ranks_per_host)"
            )
        if flags.ranks_per_host == 1:
            return self.unknown(name, "needs --ranks_per_host of 2 or more")
        if not self.on_host or self.world % self.on_host:
            return self.unknown(
                name,
                f"needs --ranks_per_host that divides {self.world} ranks into two or more hosts",
            )
        network = Network(self.world, self.on_host, flags.wire, flags.within, flags.algorithm)
        prediction = self.question.predict_sharded(Resharding.AS_RECORDED, hybrid_costs(network))
        sizes = unit_bytes(self.launch.parameters, self.units)
        hosts = self.world // self.on_host
        sent = sum(
            sizes[c.unit]
            * (
                sent_part(Operation.ALL_GATHER, self.on_host)
                + (c.operation is Operation.REDUCE_SCATTER)
                * sent_part(Operation.ALL_REDUCE, hosts)
                / self.on_host
            )
            for c in self.plan(self.units)
        )
        return self.row(
            f"{name}, {self.on_host} ranks share",
            prediction.step,
            prediction.exposed,
            sent,
            True,
            lambda batch: self.need.sharded(self.units, self.on_host, batch, self.keeps),
        )

    def local(self, steps):
        """Local SGD: the mean of all ranks' weights after so many steps, of which the slowest rank's sum counts."""
        question, recording = self.question, self.question.recording
        costs = [
            question.link_costs(question.communication(i).link)
            for i in range(len(recording.launches))
        ]
        seconds = fmean(cost.seconds(self.total) for cost in costs) / steps
        none = estimate(recording.steps(StepMode.UNSYNCHRONISED))
        value = question.pace * none.value
        low, high = (
            (question.pace * none.interval.low, question.pace * none.interval.high)
            if none.interval
            else (value, value)
        )
        far = math.exp(1.96 * question.log_error)
        step = [value + seconds, low + seconds / far, high + seconds * far]
        return self.row(
            f"local SGD, H={steps}",
            step,
            seconds,
            self.total * sent_part(Operation.ALL_REDUCE, self.world) / steps,
            False,
            lambda batch: self.need.replicated(buckets=False, keeps=self.keeps, batch=batch),
        )

    def all(self):
        share = self.question.zero1_share()
        cap = self.base.bucket_bytes / (1 << 20)
        bucket = max(self.question.recording.bucket_bytes(self.base))
        communication, flags = self.question.communication(0), self.question.flags
        named, unmeasured = (
            flags.wire or self.question.link,
            "this recording has no probe of it: name a link",
        )
        rows = [
            self.replicated(f"DDP, bucket_cap_mb={cap:g}"),
            self.replicated("ZeroRedundancyOptimizer", {"zero1": True}, states=share)
            if named or communication.zero1_s_per_byte
            else self.unknown("ZeroRedundancyOptimizer", unmeasured),
            self.sharded("fully_shard", Resharding.ALL),
            self.sharded("fully_shard, no reshard", Resharding.NONE),
            self.hybrid(),
            self.replicated(
                "bf16_compress_hook",
                {"bf16": True},
                communication.bf16_part * bucket,
                is_same=False,
            )
            if named or communication.bf16
            else self.unknown("bf16_compress_hook", unmeasured),
            self.replicated(
                "no_sync: 4 times the passes", {"passes": 4 * self.base.passes}, is_same=False
            ),
            *map(self.local, AVERAGES),
        ]
        none_s = (
            self.question.pace
            * self.question.recording.none_s
            * self.base.passes
            / self.launch.passes
        )
        first = rows[0]["step_s"]
        for row in rows:
            step = row["step_s"]
            row.update(
                cost_s=step and step[0] - none_s,
                change=step and step[0] / first[0] - 1,
                is_told=bool(step) and (step[1] > first[2] or first[1] > step[2]),
            )
        return rows

    def advice(self, rows, limit):
        """Which of the ways that train as DDP does is the fastest that fits into so many bytes, or is undecided. No limit: of all."""
        same = [row for row in rows if row["is_same"] and row["step_s"]]
        where = "" if limit is None else " that fits"
        if limit is not None and not self.need:
            return "What fits is unknown: this recording holds no memory."
        fits = [row for row in same if limit is None or row["memory_bytes"] <= limit]
        if not fits:
            least = min(same, key=lambda row: row["memory_bytes"])
            return f"No way fits: {least['way']} needs the least."
        best = min(fits, key=lambda row: row["step_s"][0])
        others = [
            row["way"] for row in fits if row is not best and row["step_s"][1] <= best["step_s"][2]
        ]
        if others:
            return f"The fastest way{where} is undecided: {best['way']}, or {', or '.join(others)}."
        return f"The fastest way{where} is {best['way']}."

    def batches(self, rows, limit):
        """How many times the recorded batch fits, by way; without those of which less than one does."""
        found = {}
        for row in rows:
            if row["memory_by_batch"] and row["memory_bytes"] <= limit:
                low, high = 1.0, float(LARGEST_BATCH)
                while high - low > 0.001 * low:
                    middle = math.sqrt(low * high)
                    low, high = (
                        (middle, high)
                        if sum(row["memory_by_batch"](middle)) <= limit
                        else (low, middle)
                    )
                found[row["way"]] = low
        return found
