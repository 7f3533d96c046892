#!/usr/bin/env python3
"""tools/dev/published_predictions.py: figures that others have published of many GPUs, and what
gradsync predicts of them, as far as their figures allow. docs/prediction.md shows the table.

No constant is fitted to a figure that is predicted: computation comes from the figure of fewer
ranks, or from what a line names.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pytorch"))
from gradsync.link import SIZES, Cost, LinkCosts, Operation
from gradsync.network import Algorithm, Network, Wire, collective_seconds, costs_over
from gradsync.processors import Processors
from gradsync.replay import Collective, RankStep, Scenario, predict

GPUS_PER_HOST = 8
BETWEEN_HOSTS = Wire(400e9, 5e-6)  # 8 x 400 Gbit/s for each host
WITHIN_HOST = Wire(450e9, 3e-6)
UNITS = 32  # that FSDP gathers one by one
ROUNDS = 12  # the fewest that a prediction draws; here they are equal
CAUSES = (
    "Bytes alone predict no difference between DDP and ZeRO-1 or ZeRO-2: errors of those lines are "
    "what other causes make."
)


@dataclass(frozen=True)
class Figure:
    """A published figure. `what`: it is, and from what it is predicted."""

    source: str
    what: str
    unit: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        """As a part of the published figure."""
        return self.predicted / self.published - 1


@dataclass(frozen=True)
class Point:
    """A point of a published curve: tokens a second of each GPU."""

    gpus: int
    tokens_per_second: float


@dataclass(frozen=True)
class ShardedCurve:
    """A model under FSDP, from the fewest GPUs on. `tokens`: of a GPU in a step. Where
    communication is said to be hidden, the first point's figure counts, too."""

    source: str
    assumed: str
    parameters: int
    tokens: int
    points: tuple[Point, ...]


SHARDED_CURVES = (
    ShardedCurve(
        source="llm-foundry, MPT 1b, FULL_SHARD, H100",
        assumed="8 x 400 Gbit/s a host",
        parameters=1_315_950_592,
        tokens=20 * 2048,
        points=(Point(16, 46037), Point(32, 45130), Point(64, 44402)),
    ),
    ShardedCurve(
        source="llm-foundry, MPT 13b, FULL_SHARD, H100",
        assumed="8 x 400 Gbit/s a host",
        parameters=12_853_954_560,
        tokens=2 * 2048,
        points=(Point(8, 4792), Point(16, 4767), Point(32, 4811), Point(64, 4800)),
    ),
    ShardedCurve(
        source="llm-foundry, MPT 760m, FULL_SHARD, H100",
        assumed="8 x 400 Gbit/s a host",
        parameters=760_470_528,
        tokens=24 * 2048,
        points=(Point(16, 68551), Point(32, 67971)),
    ),
    ShardedCurve(
        source="torchtitan, Llama 3.1 8B, Float8, H200",
        assumed="sequences of 8192",
        parameters=8_030_261_248,
        tokens=2 * 8192,
        points=(Point(32, 10938), Point(64, 10753)),
    ),
)
PLAYBOOK = (
    Point(8, 40150),
    Point(16, 37610),
    Point(32, 35368),
    Point(64, 31112),
    Point(128, 26446),
    Point(256, 15700),
)


def sharded_tokens_per_second(parameters: int, tokens: int, gpus: int, compute_s: float) -> float:
    """Returns the tokens a second of one GPU that shards so many parameters in bf16 with others.

    A unit's gradients are reduced when they are ready, and its gather for backward takes as long;
    forward hides its own gathers. Two thirds of computation are backward.
    """
    network = Network(gpus, GPUS_PER_HOST, BETWEEN_HOSTS, WITHIN_HOST, Algorithm.BEST)
    over = costs_over(network, None)
    gathers = LinkCosts([Cost(size, over.seconds(size, Operation.ALL_GATHER)) for size in SIZES])
    ready = [compute_s * (1 + 2 * (unit + 1) / UNITS) / 3 for unit in range(UNITS)]
    twice = [moment for moment in ready for _ in range(2)]  # for the gather and the reduction
    step = RankStep(0, ready[0], twice, compute_s, 0)
    scenario = Scenario(
        ranks=[[step] * ROUNDS],
        collectives=[Collective(2 * parameters / UNITS)] * len(twice),
        world_size=gpus,
        costs=gathers,
        processors=Processors(1, 1),
        log_error=0,
    )
    return tokens / predict(scenario).step_s.value


def sharded_figures() -> Iterator[Figure]:
    """Returns the curves under FSDP. Computation is that of the fewest GPUs."""
    for curve in SHARDED_CURVES:
        fewest = curve.points[0]
        compute_s = curve.tokens / fewest.tokens_per_second
        for point in curve.points:
            yield Figure(
                curve.source,
                f"{point.gpus} GPUs; computation from {fewest.gpus}; assumed: {curve.assumed}",
                "tokens/s",
                point.tokens_per_second,
                sharded_tokens_per_second(curve.parameters, curve.tokens, point.gpus, compute_s),
            )


def ring_s(gpus: int, seconds_per_byte: float, latency_s: float) -> float:
    """Returns what a ring of hosts takes to reduce one byte, so that a rate is that of the whole
    vector; nothing on a single host."""
    if gpus <= GPUS_PER_HOST:
        return 0
    between = Wire(1 / seconds_per_byte, latency_s)
    network = Network(gpus, GPUS_PER_HOST, between, Wire(1, 1), Algorithm.RING)
    return collective_seconds(network, Operation.ALL_REDUCE, 1)


def playbook_figures() -> Iterator[Figure]:
    """Returns the curve of the Ultra-Scale Playbook, which tells neither model nor batch nor link.

    What nothing hides of a ring's bandwidth and latency is computed from its first three points.
    """
    first, second, third, *others = PLAYBOOK
    # Two equations: bandwidth x bytes of the ring + latency x its hops is what a token takes more.
    bytes_2, hops_2 = ring_s(second.gpus, 1, 0), ring_s(second.gpus, 1e-30, 1)
    bytes_3, hops_3 = ring_s(third.gpus, 1, 0), ring_s(third.gpus, 1e-30, 1)
    more_2 = 1 / second.tokens_per_second - 1 / first.tokens_per_second
    more_3 = 1 / third.tokens_per_second - 1 / first.tokens_per_second
    determinant = bytes_2 * hops_3 - hops_2 * bytes_3
    bandwidth = (more_2 * hops_3 - more_3 * hops_2) / determinant
    latency_s = (bytes_2 * more_3 - bytes_3 * more_2) / determinant
    for point in others:
        token_s = 1 / first.tokens_per_second + ring_s(point.gpus, bandwidth, latency_s)
        yield Figure(
            "Ultra-Scale Playbook, data parallel",
            f"{point.gpus} GPUs; bandwidth and latency of a ring from 8, 16 and 32",
            "tokens/s",
            point.tokens_per_second,
            1 / token_s,
        )


def on_line(first: tuple[float, float], second: tuple[float, float], at: float) -> float:
    """Returns the value at a place of the line through two points."""
    slope = (second[1] - first[1]) / (second[0] - first[0])
    return first[1] + slope * (at - first[0])


def nvlink_gain_ms() -> float:
    """Returns what 0.498 GB between two GPUs take more over PCIe than over NVLink."""
    fast, slow = (
        collective_seconds(Network(2, 2, wire, wire, Algorithm.RING), Operation.ALL_REDUCE, 0.498e9)
        for wire in (Wire(50e9, 5e-6), Wire(50e9 / 8, 10e-6))
    )
    return 1e3 * (slow - fast)


def measured_figures() -> list[Figure]:
    """Returns figures that are predicted from others of the same source by proportion alone."""
    return [
        Figure(
            "transformers, GPT-2, two TITAN RTX",
            "what NVLink gains; assumed: 400 for 50 Gbit/s, nothing hidden",
            "ms",
            657.2 - 509.5,
            nvlink_gain_ms(),
        ),
        Figure(
            "modded-nanogpt 97, 8 H100",
            "step, if the 5.3 ms that are hidden cost nothing",
            "ms",
            114.94,
            116.85 - 5.3,
        ),
        Figure(
            "OpenTau 273, FSDP", "step, batch 12 in proportion from 8", "ms", 5831, 3917 * 12 / 8
        ),
        Figure(
            "OpenTau 273, ZeRO-2",
            "step, batch 40 from 8 and 24",
            "ms",
            11979,
            on_line((8, 4416), (24, 8134), at=40),
        ),
        Figure(
            "OpenTau 273, ZeRO-2",
            "memory, batch 40 from 8 and 24",
            "GB",
            78.4,
            on_line((8, 36.2), (24, 56.3), at=40),
        ),
    ]


def zero_figures() -> list[Figure]:
    """Returns figures of ZeRO, which are predicted to be DDP's: a reduction and a gather of parts
    are as many bytes as an all-reduce."""
    batches = "samples/s are DDP's; batches of 14 and 11"
    samples = "samples/s"
    return [
        Figure("OpenTau 177, ZeRO-1, 8 GPUs", batches, samples, 29.5, 75.8),
        Figure("OpenTau 177, ZeRO-2, 8 GPUs", batches, samples, 28.7, 75.8),
        Figure("bigscience 48, 181B, 384 A100, ZeRO-1", "step is ZeRO-0's", "s", 120.3, 137.3),
        Figure("DeepSpeed, GPT-2, 16 V100, ZeRO-1", "samples/s are DDP's", samples, 397.8, 284.1),
        Figure(
            "DeepSpeed, BERT-large, 16 V100, ZeRO-1", "samples/s are DDP's", samples, 766.9, 742.7
        ),
    ]


def figures() -> list[Figure]:
    """Returns all of them, in the order of the table."""
    return [*sharded_figures(), *playbook_figures(), *measured_figures(), *zero_figures()]


def table() -> str:
    """Returns a line for each figure, and what their errors tell."""
    heading = ("source", "what, from what", "published", "predicted", "error")
    lines = ["{:40} {:74} {:>10} {:>10} {:>8}".format(*heading)]
    for one in figures():
        what = f"{one.what} ({one.unit})"
        numbers = f"{one.published:10.5g} {one.predicted:10.5g} {100 * one.error:+6.1f} %"
        lines.append(f"{one.source:40} {what:74} {numbers}")
    return "\n".join([*lines, CAUSES])


if __name__ == "__main__":
    print(table())
