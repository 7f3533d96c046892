"""A curve as one screen of text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gradsync.curve import Curve, CurvePoint, MeasuredPoint
from gradsync.estimates import Estimate, Interval
from gradsync.text import recorded_text, step_text
from gradsync.units_text import estimate_text, ms_text

MEANINGS = (
    "speed-up: how many times the samples a second of one rank. cost: longer than without "
    "synchronisation.",
    "exposed: ranks only wait for gradients. equal ranks: the step if all ranks were equally fast.",
)


def curve_text(curve: Curve) -> str:
    """Returns the lines of a curve, without a newline at the end."""
    what = step_text(curve, curve.units)
    lines = [
        recorded_text(curve),
        *curve.notes,
        "",
        f"A step without synchronisation takes {ms_text(curve.none_s)}.",
        f"Predicted, not measured [95 %]: steps of {what}.",
    ]
    for link, points in groupby(curve.points, key=lambda point: point.link):
        lines += ["", *_link(link, [*points])]
    lines += ["", *MEANINGS, *_measured(curve.measured)]
    return "\n".join(line.rstrip() for line in lines)


def _link(link: str, points: Sequence[CurvePoint]) -> list[str]:
    return [
        f"Over {f'--link={link}' if link else 'the recorded link'}:",
        f"{'ranks':>5}  {'step':<24} {'speed-up':<20} {'cost':<25} {'exposed':<25} equal ranks",
        *(
            f"{point.world_size:>5}  {estimate_text(point.step_s):<24} "
            f"{speed_up_text(point.speed_up):<20} {estimate_text(point.cost_s):<25} "
            f"{estimate_text(point.exposed_s):<25} {ms_text(point.equal_step_s)}"
            for point in points
        ),
    ]


def speed_up_text(speed_up: Interval) -> str:
    """Returns a speed-up with its limits."""
    return f"{speed_up.value:.3g} [{speed_up.low:.3g}, {speed_up.high:.3g}]"


def _measured(points: Sequence[MeasuredPoint]) -> list[str]:
    if not points:
        return []
    return [
        "",
        "Measured in other recordings:",
        f"{'ranks':>5}  {'step':<24} {'speed-up':<20} recording",
        *(
            f"{point.world_size:>5}  {_step(point.step_s):<24} {_speed_up(point.speed_up):<20} "
            f"{point.recording}"
            for point in points
        ),
    ]


def _step(step_s: Estimate) -> str:
    return estimate_text(step_s.interval) if step_s.interval else ms_text(step_s.value)


def _speed_up(speed_up: Estimate) -> str:
    if speed_up.interval:
        return speed_up_text(speed_up.interval)
    return f"{speed_up.value:.3g}"
