"""What others have published of many GPUs, predicted as far as their figures allow: `gradsync what_if --published`.

No constant is fitted to a figure that is predicted: computation comes from the figure of fewer ranks, or what a line names."""

from collections import namedtuple

from gradsync.link import SIZES, Cost, LinkCosts, Operation
from gradsync.network import Network, Wire, collective_seconds, costs_over
from gradsync.replay import Collective, Processors, RankStep, Scenario, predict

Figure = namedtuple("Figure", "source what unit published predicted")


def tokens_of_sharded(parameters, tokens, ranks, compute_s, units=32, within=Wire(450e9, 3e-6)):
    """Tokens a second of a GPU, of 8 on a host with 8 x 400 Gbit/s: a reduce-scatter when a unit's gradients are ready, and the
    gather for backward, which takes as long; forward hides its own. Two thirds of computation are backward."""
    over = costs_over(Network(ranks, 8, Wire(400e9, 5e-6), within, "best"), None)
    gathers = LinkCosts([Cost(size, over.seconds(size, Operation.ALL_GATHER)) for size in SIZES])
    ready = [
        compute_s * (1 + 2 * (unit + 1) / units) / 3 for unit in range(units) for _ in range(2)
    ]
    rounds = [RankStep(0, ready[0], ready, compute_s, 0)] * 12
    return (
        tokens
        / predict(
            Scenario(
                [rounds],
                [Collective(2 * parameters / units)] * len(ready),
                ranks,
                gathers,
                Processors(1, 1),
                0,
            )
        ).step_s.value
    )


def sharded():
    """Computation is that of the fewest GPUs, whose own figure counts too where communication is said to be hidden."""
    foundry, host = (
        "llm-foundry, MPT {}, FULL_SHARD, H100",
        "computation from {}; assumed: 8 x 400 Gbit/s a host",
    )
    for source, what, parameters, tokens, points in (
        (
            foundry.format("1b"),
            host,
            1_315_950_592,
            20 * 2048,
            ((16, 46037), (32, 45130), (64, 44402)),
        ),
        (
            foundry.format("13b"),
            host,
            12_853_954_560,
            2 * 2048,
            ((8, 4792), (16, 4767), (32, 4811), (64, 4800)),
        ),
        (foundry.format("760m"), host, 760_470_528, 24 * 2048, ((16, 68551), (32, 67971))),
        (
            "torchtitan, Llama 3.1 8B, Float8, H200",
            "computation from {}; assumed: sequences of 8192",
            8_030_261_248,
            2 * 8192,
            ((32, 10938), (64, 10753)),
        ),
    ):
        for ranks, rate in points:
            yield Figure(
                source,
                f"{ranks} GPUs; " + what.format(points[0][0]),
                "tokens/s",
                rate,
                tokens_of_sharded(parameters, tokens, ranks, tokens / points[0][1]),
            )


def playbook():
    """The curve tells neither model nor batch nor link: what nothing hides of a ring's bandwidth and latency is the second and
    the third point's."""
    points = ((8, 40150), (16, 37610), (32, 35368), (64, 31112), (128, 26446), (256, 15700))

    def ring(ranks, seconds_per_byte, latency_s):
        # One byte, so that the rate is that of the whole vector.
        return (
            collective_seconds(
                Network(ranks, 8, Wire(1 / seconds_per_byte, latency_s), Wire(1, 1), "ring"),
                Operation.ALL_REDUCE,
                1,
            )
            if ranks > 8
            else 0
        )

    # Two equations: bandwidth x ring of bytes + latency x ring of hops is what a token takes more.
    a, b, c, d = ring(16, 1, 0), ring(16, 1e-30, 1), ring(32, 1, 0), ring(32, 1e-30, 1)
    more16, more32 = (1 / points[i][1] - 1 / points[0][1] for i in (1, 2))
    bandwidth, latency = (
        (more16 * d - more32 * b) / (a * d - b * c),
        (a * more32 - c * more16) / (a * d - b * c),
    )
    for ranks, rate in points[3:]:
        yield Figure(
            "Ultra-Scale Playbook, data parallel",
            f"{ranks} GPUs; bandwidth and latency of a ring from 8, 16 and 32",
            "tokens/s",
            rate,
            1 / (1 / points[0][1] + ring(ranks, bandwidth, latency)),
        )


def others():
    def line(points, at):  # through two of them
        (a, b), (c, d) = points
        return b + (d - b) * (at - a) / (c - a)

    ring = [
        collective_seconds(Network(2, 2, wire, wire, "ring"), Operation.ALL_REDUCE, 0.498e9)
        for wire in (Wire(50e9, 5e-6), Wire(50e9 / 8, 10e-6))
    ]
    yield Figure(
        "transformers, GPT-2, two TITAN RTX",
        "what NVLink gains; assumed: 400 for 50 Gbit/s, nothing hidden",
        "ms",
        657.2 - 509.5,
        1e3 * (ring[1] - ring[0]),
    )
    yield Figure(
        "modded-nanogpt 97, 8 H100",
        "step, if the 5.3 ms that are hidden cost nothing",
        "ms",
        114.94,
        116.85 - 5.3,
    )
    yield Figure(
        "OpenTau 273, FSDP", "step, batch 12 in proportion from 8", "ms", 5831, 3917 * 12 / 8
    )
    yield Figure(
        "OpenTau 273, ZeRO-2",
        "step, batch 40 from 8 and 24",
        "ms",
        11979,
        line(((8, 4416), (24, 8134)), 40),
    )
    yield Figure(
        "OpenTau 273, ZeRO-2",
        "memory, batch 40 from 8 and 24",
        "GB",
        78.4,
        line(((8, 36.2), (24, 56.3)), 40),
    )
    # A reduction and a gather of parts are as many bytes as an all-reduce.
    for source, what, unit, published, predicted in (
        (
            "OpenTau 177, ZeRO-1, 8 GPUs",
            "samples/s are DDP's; batches of 14 and 11",
            "samples/s",
            29.5,
            75.8,
        ),
        (
            "OpenTau 177, ZeRO-2, 8 GPUs",
            "samples/s are DDP's; batches of 14 and 11",
            "samples/s",
            28.7,
            75.8,
        ),
        ("bigscience 48, 181B, 384 A100, ZeRO-1", "step is ZeRO-0's", "s", 120.3, 137.3),
        ("DeepSpeed, GPT-2, 16 V100, ZeRO-1", "samples/s are DDP's", "samples/s", 397.8, 284.1),
        (
            "DeepSpeed, BERT-large, 16 V100, ZeRO-1",
            "samples/s are DDP's",
            "samples/s",
            766.9,
            742.7,
        ),
    ):
        yield Figure(source, what, unit, published, predicted)


def figures():
    return [*sharded(), *playbook(), *others()]


def screen():
    lines = [
        "%-40s %-74s %10s %10s %8s"
        % ("source", "what, from what", "published", "predicted", "error")
    ]
    for one in figures():
        lines.append(
            "%-40s %-74s %10.5g %10.5g %+6.1f %%"
            % (
                one.source,
                f"{one.what} ({one.unit})",
                one.published,
                one.predicted,
                100 * (one.predicted / one.published - 1),
            )
        )
    return "\n".join(
        [
            *lines,
            "Bytes alone predict no difference between DDP and ZeRO-1 or ZeRO-2: errors of those lines are what "
            "other causes make.",
        ]
    )
