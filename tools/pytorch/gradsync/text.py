"""An answer as one screen of text."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.answer import Answer, BucketSize, MeasuredStep, OtherLink, ScriptStep, Way
from gradsync.recording import NOTABLE, RankTimes
from gradsync.schema import MIB
from gradsync.units_text import bytes_text, ms_text, percent_text, range_text, ranks_text


def text_of(answer: Answer) -> str:
    """Returns the lines of an answer, without a newline at the end."""
    lines = [
        *_waiting_for_data(answer),
        _recorded(answer),
        *answer.notes,
        "",
        _alone(answer),
        *_slow_ranks(answer.ranks),
        f"A step of {_what(answer)} will take {range_text(answer.ddp.step_s)} (95 %).",
        _waiting(answer.ddp),
        "",
        *_sizes(answer.sizes),
        _best_sizes(answer.best_bucket_cap_mb),
        "",
        *(_other_link(link) for link in answer.links),
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


def _recorded(answer: Answer) -> str:
    return (
        f"{answer.parameters} parameters, {answer.gradient_bytes / 1e6:.4g} MB of gradients, "
        f"{answer.optimizer}; {ranks_text(answer.recorded_world_size)} over {answer.backend} on "
        f"{answer.device}, threads each: {answer.threads}; launches: {answer.launches}"
    )


def _alone(answer: Answer) -> str:
    slowest = ""
    if answer.slowest_s is not None:
        ranks = answer.world_size
        slowest = f", and {ms_text(answer.slowest_s)} on the slowest of {ranks} ranks"
    return f"A step without synchronisation takes {ms_text(answer.none_s)}{slowest}."


def _slow_ranks(ranks: Sequence[RankTimes]) -> list[str]:
    """Ranks for which other ranks wait."""
    least = ms_text(min(rank.step_s for rank in ranks))
    return [
        f"Rank {number} is slow: forward {ms_text(rank.forward_s)}, "
        f"backward {ms_text(rank.backward_s)}, optimizer {ms_text(rank.optimizer_s)}; "
        f"the fastest rank takes {least} for all."
        for number, rank in enumerate(ranks)
        if rank.is_slow
    ]


def _what(answer: Answer) -> str:
    ddp = answer.ddp
    if ddp.is_sharded:
        return f"fully_shard with {answer.units} units"
    cap = f"{ddp.bucket_bytes / MIB:.4g} MiB"
    if ddp.first_bucket_bytes != ddp.bucket_bytes:
        cap += f" (the first: {ddp.first_bucket_bytes / MIB:.4g} MiB)"
    return f"DistributedDataParallel with buckets of {cap}"


def _waiting(ddp: ScriptStep) -> str:
    """The floor is told where it is below all that the step may take; elsewhere it decides
    nothing.
    """
    waits = "weights or gradients" if ddp.is_sharded else "gradients after backward"
    text = f"For {ms_text(ddp.exposed_s)} of it ranks wait for {waits}."
    if ddp.floor_s >= ddp.step_s.low:
        return text
    floor = ms_text(ddp.floor_s)
    return f"{text} No order of sending takes less than {floor} over this link."


def _sizes(sizes: Sequence[BucketSize]) -> list[str]:
    return [
        f"{'bucket_cap_mb':<16} {'buckets':>8}  {'step':<20} {'cost':>10} {'exposed':>10}",
        *(
            f"{size.bucket_cap_mb:<16} {size.buckets:>8}  {range_text(size.step_s):<20} "
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


def _other_link(link: OtherLink) -> str:
    return f"{link.name:<46} {range_text(link.step_s):<20} {_told(link)}"


def _told(one: OtherLink | Way) -> str:
    if not one.is_told or one.change is None:
        return "no difference that can be told"
    verb = "gains" if one.change < 0 else "loses"
    return f"{verb} ({percent_text(one.change)})"


def _ways(ways: Sequence[Way]) -> list[str]:
    title = (
        f"{'way':<30} {'step':<20} {'cost':>11} {'exposed':>10} {'memory':>9} {'sent':>9}  "
        "against the first"
    )
    first, *others = ways
    return [title, _way(first, ""), *(_way(way, _told(way)) for way in others)]


def _way(way: Way, told: str) -> str:
    if way.step_s is None or way.cost_s is None or way.exposed_s is None:
        return f"{way.way:<30} {way.why}"
    return (
        f"{way.way:<30} {range_text(way.step_s):<20} {ms_text(way.cost_s):>11} "
        f"{ms_text(way.exposed_s):>10} {bytes_text(way.memory_bytes):>9} "
        f"{bytes_text(way.sent_bytes):>9}  {told}"
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
        "",
        f"{'DDP':<31} {'predicted':<20} {'measured':<22} {'error':<8} {'of the cost':<11} "
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
        f"{step.name:<31} {range_text(step.predicted_s):<20} {measured:<22} "
        f"{percent_text(step.error):<8} {percent_text(step.cost_error):<11} {again}"
    )
