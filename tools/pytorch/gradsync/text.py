"""Formats an answer of `gradsync what_if` as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.answer import Answer, BucketSize, MeasuredStep, OtherLink, ScriptStep, Way
from gradsync.curve import Curve
from gradsync.recording import NOTABLE, RankTimes
from gradsync.schema import MIB, HostLoad
from gradsync.units_text import (
    bytes_text,
    estimate_text,
    limits_text,
    ms_text,
    percent_text,
    ranks_text,
    sum_texts,
)

TOGETHER = 0.5  # the smallest correlation of ranks that is told
TOLD = 0.01  # the smallest part of a step, lost to slower ranks, of which something is told


def text_of(answer: Answer) -> str:
    """Returns the text of an answer, in lines, without a newline at the end."""
    lines = [
        *_waiting_for_data(answer),
        recorded_text(answer),
        *answer.notes,
        "",
        _alone(answer),
        *_slow_ranks(answer.ranks),
        *_step(answer),
        *_variation(answer),
        "",
        *_sizes(answer.sizes),
        _best_sizes(answer.best_bucket_cap_mb),
        *_other_links(answer.links),
        "",
        *_ways(answer.ways),
        answer.schedule,
        answer.advice,
        *_batches(answer),
        *_measured(answer),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _waiting_for_data(answer: Answer) -> list[str]:
    between_s = max(rank.between_s for rank in answer.ranks)
    if between_s <= NOTABLE * answer.none_s:
        return []
    percent = 100 * between_s / (between_s + answer.none_s)
    return [
        f"{ms_text(between_s)} pass before each step, in which scripts load data: {percent:.0f} % "
        "of the time without synchronisation, which no link changes."
    ]


def recorded_text(answer: Answer | Curve) -> str:
    """Returns a line that describes the recording: its parameters, optimizer, ranks, backend,
    device, threads and launches."""
    return (
        f"{answer.parameters} parameters, {answer.gradient_bytes / 1e6:.4g} MB of gradients, "
        f"{answer.optimizer}; {ranks_text(answer.recorded_world_size)} over {answer.backend} on "
        f"{answer.device}, threads each: {answer.threads}; launches: {answer.launches}"
    )


def _alone(answer: Answer) -> str:
    """Returns the line that tells the time of a step without synchronisation. If `floor_s`, an
    estimated lower limit of the time of a step with synchronisation, is below that step's predicted
    interval, the line also tells `floor_s`."""
    text = f"A step without synchronisation takes {ms_text(answer.none_s)}."
    if answer.ddp.floor_s >= answer.ddp.step_s.low:
        return text
    floor = ms_text(answer.ddp.floor_s)
    return f"{text} No order of sending takes less than {floor} over this link."


def _slow_ranks(ranks: Sequence[RankTimes]) -> list[str]:
    """Returns one line for each slow rank, for which other ranks wait."""
    least = ms_text(min(rank.step_s for rank in ranks))
    return [
        f"Rank {number} is slow: forward {ms_text(rank.forward_s)}, "
        f"backward {ms_text(rank.backward_s)}, optimizer {ms_text(rank.optimizer_s)}; "
        f"the fastest rank takes {least} for all."
        for number, rank in enumerate(ranks)
        if rank.is_slow
    ]


def step_text(step: ScriptStep | Curve, units: int) -> str:
    """Returns a text that names what synchronises gradients in the predicted step: fully_shard, or
    DistributedDataParallel with its bucket sizes. `units`: the number of units of fully_shard;
    ignored for DistributedDataParallel."""
    if step.is_sharded:
        return f"fully_shard with {units} units"
    cap = f"{step.bucket_bytes / MIB:.4g} MiB"
    if step.first_bucket_bytes != step.bucket_bytes:
        cap += f" (the first: {step.first_bucket_bytes / MIB:.4g} MiB)"
    return f"DistributedDataParallel with buckets of {cap}"


def _step(answer: Answer) -> list[str]:
    """Returns one line about the predicted step, and one about each of its parts that is not
    printed as 0."""
    step = answer.ddp.step_s
    parts = answer.ddp.parts
    waits = "weights or gradients" if answer.ddp.is_sharded else "gradients after backward"
    used = "CPUs" if answer.device == "cpu" else "GPU"
    named = (
        (parts.computation_s, "computation of the slowest rank"),
        (parts.copies_s, "copies of gradients into buckets and out of them"),
        (parts.slowed_s, f"communication slows computation down, because both use the {used}"),
        (parts.exposed_s, f"ranks only wait for {waits} (exposed)"),
        (parts.broadcasts_s, "broadcasts of ZeroRedundancyOptimizer"),
    )
    total, *texts = sum_texts(step.value, [seconds for seconds, _ in named])
    what = step_text(answer.ddp, answer.units)
    return [
        f"A step of {what} will take {total} {limits_text(step)} ms (95 %):",
        *(
            _part(text, name)
            for text, (_, name) in zip(texts, named, strict=True)
            if float(text) != 0
        ),
    ]


def _part(ms: str, name: str) -> str:
    return f"{ms:>8} ms  {name}"


def _variation(answer: Answer) -> list[str]:
    """Returns lines that tell how much longer communication, and waiting for slower ranks, make a
    step. Returns an empty list if the time of waiting is unknown, or below 1 % of the step (the
    constant TOLD)."""
    variation = answer.variation
    step_s, rank_s = variation.varying_step_s, variation.rank_s
    waiting_s = step_s - variation.equal_step_s
    if variation.waiting_part is None or waiting_s < TOLD * step_s:
        return []
    _, rank, communication, waiting = sum_texts(
        step_s, [rank_s, variation.equal_step_s - rank_s, waiting_s]
    )
    percent = round(100 * variation.waiting_part)
    decimals = len(rank.partition(".")[2])
    equal = f"{float(rank) + float(communication):.{decimals}f}"
    ranks = ranks_text(answer.world_size)
    return [
        f"Estimated, not measured: an average rank computes for {rank} ms. What makes the step "
        "longer:",
        _part(
            communication,
            f"({100 - percent} %) communication and copies: {ranks} of equal speed would take "
            f"{equal} ms",
        ),
        _part(waiting, f"({percent} %) waiting for slower ranks: {_assumed(answer)}"),
        *_shared_noise(answer),
        _load(answer.load),
    ]


def _assumed(answer: Answer) -> str:
    """Returns a text that says that the predicted ranks' speeds vary as they did in the recording.
    If more ranks are predicted than were recorded, the text says that all predicted ranks are
    assumed to vary like the recorded ones."""
    asked, recorded = ranks_text(answer.world_size), ranks_text(answer.recorded_world_size)
    if answer.world_size <= answer.recorded_world_size:
        return f"the {asked} vary as they did while recorded"
    verb = "was" if answer.recorded_world_size == 1 else "were"
    return f"{asked} are assumed to vary like the {recorded} that {verb} recorded"


def _shared_noise(answer: Answer) -> list[str]:
    """Returns a line that says that the recorded ranks were slow in the same steps (correlation of
    0.5 or more). Returns no line if the correlation is smaller or unknown, or if the user asks
    about no more ranks than were recorded."""
    correlation = answer.variation.correlation
    is_larger = answer.world_size > answer.recorded_world_size
    if not is_larger or correlation is None or correlation < TOGETHER:
        return []
    return [
        f"The recorded ranks were slow in the same steps (correlation {correlation:.2f}), which "
        "points to their host. Quieter hosts vary less."
    ]


def _load(load: HostLoad | None) -> str:
    if load is None:
        return "Whether the recorded machine was busy with other work (steal, load) is unknown."
    return (
        f"While it was recorded, other virtual machines took {100 * load.steal_part:.1f} % of the "
        f"machine's CPU time (steal); load average {load.load_average:.1f}."
    )


def _sizes(sizes: Sequence[BucketSize]) -> list[str]:
    return [
        f"{'bucket_cap_mb':<16} {'buckets':>8}  {'step':<24} {'cost':>10} {'exposed':>10}",
        *(
            f"{size.bucket_cap_mb:<16} {size.buckets:>8}  {estimate_text(size.step_s):<24} "
            f"{ms_text(size.cost_s):>10} {ms_text(size.exposed_s):>10}"
            for size in sizes
        ),
    ]


def _best_sizes(sizes: Sequence[int]) -> str:
    *others, last = map(str, sizes)
    if not others:
        return f"The best bucket size is {last} MiB."
    return (
        f"The best bucket sizes are {', '.join(others)} and {last} MiB, which differ by less than "
        "can be told."
    )


def _other_links(links: Sequence[OtherLink]) -> list[str]:
    return [f"{link.name:<46} {estimate_text(link.step_s):<24} {_told(link)}" for link in links]


def _told(one: OtherLink | Way) -> str:
    if not one.is_told or one.change is None:
        return "no difference that can be told"
    verb = "gains" if one.change < 0 else "loses"
    return f"{verb} ({percent_text(one.change)})"


def _ways(ways: Sequence[Way]) -> list[str]:
    title = (
        f"{'way':<28} {'step':<24} {'cost':>9} {'exposed':>9} {'memory':>8} {'sent':>8}  "
        "against the first"
    )
    first, *others = ways
    return [title, _way(first, ""), *(_way(way, _told(way)) for way in others)]


def _way(way: Way, told: str) -> str:
    if way.step_s is None or way.cost_s is None or way.exposed_s is None:
        return f"{way.way:<28} {way.why}"
    return (
        f"{way.way:<28} {estimate_text(way.step_s):<24} {ms_text(way.cost_s):>9} "
        f"{ms_text(way.exposed_s):>9} {bytes_text(way.memory_bytes):>8} "
        f"{bytes_text(way.sent_bytes):>8}  {told}"
    )


def _batches(answer: Answer) -> list[str]:
    if not answer.batches:
        return []
    limit = bytes_text(answer.memory_limit_bytes)
    batches = ", ".join(f"{way} {batch:.3g}" for way, batch in answer.batches.items())
    return [f"The largest batch in {limit}, of the recorded one: {batches}."]


def _measured(answer: Answer) -> list[str]:
    if not answer.measured:
        return []
    lines = [
        f"{'DDP':<31} {'predicted':<24} {'measured':<22} {'error':<8} {'of the cost':<11} "
        "second run",
        *map(_measured_step, answer.measured),
    ]
    if answer.pairs:
        lines.append(
            f"Sizes of buckets that differ by more than intervals: {answer.pairs} pairs, the "
            f"faster one predicted: {answer.pairs_right}"
        )
    return lines


def _measured_step(step: MeasuredStep) -> str:
    measured = ms_text(step.measured_s.value)
    interval = step.measured_s.interval
    if interval:
        half = (interval.high - interval.low) / 2 / interval.value
        measured += f" +- {100 * half:.1f} %"
    again = percent_text(step.second_run_error)
    if not step.is_as_planned:
        again += "  DDP made other buckets"
    return (
        f"{step.name:<31} {estimate_text(step.predicted_s):<24} {measured:<22} "
        f"{percent_text(step.error):<8} {percent_text(step.cost_error):<11} {again}"
    )
