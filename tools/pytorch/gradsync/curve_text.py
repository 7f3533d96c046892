"""Makes a text that describes a curve: the predicted steps for several numbers of ranks or
links."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.curve import Curve, CurvePoint, MeasuredPoint
from gradsync.estimates import Estimate, Interval
from gradsync.text import recorded_text, step_text
from gradsync.units_text import interval_text, ms_text

MEANINGS = (
    "speed-up: how many times the samples a second of one rank. cost: longer than without "
    "synchronisation.",
    "exposed: ranks only wait. equal ranks: the step if all ranks were equally fast.",
)


def curve_text(curve: Curve) -> str:
    """Returns the text of a curve, in lines, without a newline at the end."""
    what = step_text(curve, curve.units)
    lines = [
        recorded_text(curve),
        *curve.notes,
        "",
        f"A step without synchronisation takes {ms_text(curve.none_s)}.",
        f"Predicted, not measured [95 %]: steps of {what}.",
    ]
    lines += ["", *_table(curve.points)]
    lines += ["", *MEANINGS, *_measured(curve.measured)]
    return "\n".join(line.rstrip() for line in lines)


def _table(points: Sequence[CurvePoint]) -> list[str]:
    """Returns a heading, and a line of text for each predicted point. The link is the last column,
    because it may be a long path."""
    return [
        f"{'ranks':>5}  {'step (ms)':<22} {'speed-up':<18} {'cost (ms)':<22} "
        f"{'exposed (ms)':<22} {'equal ranks':<11}  link",
        *(
            f"{point.world_size:>5}  {interval_text(point.step_s):<22} "
            f"{speed_up_text(point.speed_up):<18} {interval_text(point.cost_s):<22} "
            f"{interval_text(point.exposed_s):<22} {ms_text(point.equal_step_s):<11}  "
            f"{point.link or 'as recorded'}"
            for point in points
        ),
    ]


def speed_up_text(speed_up: Interval) -> str:
    """Returns a text with a speed-up and its 95 % limits, such as "1.9 [1.8, 2]"."""
    return f"{speed_up.value:.3g} [{speed_up.low:.3g}, {speed_up.high:.3g}]"


def _measured(points: Sequence[MeasuredPoint]) -> list[str]:
    if not points:
        return []
    return [
        "",
        "Measured in other recordings:",
        f"{'ranks':>5}  {'step (ms)':<22} {'speed-up':<18} recording",
        *(
            f"{point.world_size:>5}  {_step(point.step_s):<22} {_speed_up(point.speed_up):<18} "
            f"{point.recording}"
            for point in points
        ),
    ]


def _step(step_s: Estimate) -> str:
    if step_s.interval:
        return interval_text(step_s.interval)
    return ms_text(step_s.value).removesuffix(" ms")


def _speed_up(speed_up: Estimate) -> str:
    if speed_up.interval:
        return speed_up_text(speed_up.interval)
    return f"{speed_up.value:.3g}"
