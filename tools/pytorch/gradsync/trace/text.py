"""Formats the result of `gradsync trace` as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.trace.report import RankReport, Report, SizeReport, WaitingReport
from gradsync.trace.steps import StepTimes
from gradsync.units_text import bytes_text, ms_text

MOST_STEPS = 16  # lines of a table; --format=json has all
MOST_SIZES = 12
PARTS = ("step", "computation", "communication", "uncovered", "lengthens", "between", "idle")


def text_of(report: Report) -> str:
    """Returns the text of a report, in lines, without a newline at the end."""
    lines = [
        *report.notes,
        "",
        *_steps(report),
        "",
        *(_sentence(rank, report) for rank in report.ranks[:MOST_STEPS]),
        *_sizes(report),
        *_waiting(report.waiting),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _steps(report: Report) -> list[str]:
    names = [*PARTS, "rest"] if report.has_gpu else [*PARTS[:-1], "rest"]
    lines = [f"{'ms':<11}" + "".join(f"{name:>14}" for name in names)]
    rows = sum(len(rank.steps) + 1 for rank in report.ranks)
    for rank in report.ranks[:MOST_STEPS]:
        if rows <= MOST_STEPS:
            lines += _each_step(rank, report)
        lines.append(_row(f"rank {rank.rank}", rank.mean, report))
    left = len(report.ranks) - MOST_STEPS
    if left > 0:
        lines.append(f"and {left} other ranks; these are means; all ranks and steps: --format=json")
    elif rows > MOST_STEPS:
        lines.append("These are means; each step of each rank: --format=json")
    return lines


def _each_step(rank: RankReport, report: Report) -> list[str]:
    if rank.numbers == [None]:
        return []
    return [
        _row(f"  step {number}", times, report)
        for number, times in zip(rank.numbers, rank.steps, strict=True)
    ]


def _row(name: str, times: StepTimes, report: Report) -> str:
    values = [
        times.step_s,
        times.computation_s,
        times.communication_s,
        times.uncovered_s,
        times.lengthens_s,
        times.between_s,
        *([times.idle_s] if report.has_gpu else []),
        times.rest_s,
    ]
    return f"{name:<11}" + "".join(f"{1e3 * value:>14.2f}" for value in values)


def _sentence(rank: RankReport, report: Report) -> str:
    mean = rank.mean
    text = (
        f"Rank {rank.rank} ({rank.device}): of {ms_text(mean.communication_s)} communication "
        f"{ms_text(mean.uncovered_s)} are not under computation, and {ms_text(mean.lengthens_s)} "
        f"lengthen the step; copies and what launches them take {ms_text(mean.between_s)}"
    )
    if report.has_gpu:
        text += f"; for {ms_text(mean.idle_s)} the GPU waits for the host"
    return f"{text}."


def _sizes(report: Report) -> list[str]:
    if not report.sizes:
        return []
    lines = [
        "",
        f"{'collective':<16}{'group':<14}{'bytes':>10}{'count':>7}{'mean':>12}{'pure':>14}"
        f"{'waiting':>12}{'bus GB/s':>13}",
        *(_size(one) for one in report.sizes[:MOST_SIZES]),
    ]
    left = len(report.sizes) - MOST_SIZES
    if left > 0:
        lines.append(f"and {left} other sizes: --format=json")
    return lines


def _size(one: SizeReport) -> str:
    pure = "unknown" if one.pure_s is None else ms_text(one.pure_s)
    if one.is_limit and one.pure_s is not None:
        pure = f"<= {pure}"
    waiting = "unknown" if one.waiting_s is None else ms_text(one.waiting_s)
    bandwidth = "" if one.bus_bytes_per_s is None else f"{1e-9 * one.bus_bytes_per_s:.4g}"
    if one.is_limit and bandwidth:
        bandwidth = f">= {bandwidth}"
    group = one.group if len(one.group) < 14 else f"{one.group[:10]}.."
    return (
        f"{one.kind:<16}{group:<14}{bytes_text(one.bytes):>10}{one.count:>7}"
        f"{ms_text(one.mean_s):>13}{pure:>16}{waiting:>13}{bandwidth:>13}"
    )


def _waiting(waiting: WaitingReport | None) -> Sequence[str]:
    if waiting is None:
        return []
    told = ", ".join(
        f"rank {rank} {ms_text(seconds)}"
        for rank, seconds in list(waiting.by_rank_s.items())[:MOST_STEPS]
    )
    left = len(waiting.by_rank_s) - MOST_STEPS
    if left > 0:
        told += f", and {left} others"
    lines = ["", f"Waiting for the last arrival, in a step: {told}."]
    if waiting.share:
        count = waiting.last_counts.get(waiting.awaited, 0)
        same = "it is always the same" if waiting.is_always_the_same else "not always the same"
        percent = 100 * waiting.share
        lines.append(
            f"The others wait for rank {waiting.awaited}: last in {count} of "
            f"{waiting.collectives} collectives, {percent:.0f} % of all waiting; {same}."
        )
    return lines
