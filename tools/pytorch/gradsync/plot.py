"""Draws a picture of a Curve: predicted and measured times of a step, and speed-ups, with several
numbers of ranks. Needs matplotlib."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import pathlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gradsync import Refused
from gradsync.answer import as_json
from gradsync.curve import Curve, CurvePoint, MeasuredPoint
from gradsync.text import step_text

# They stay apart for the colour-blind (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9")
GREY = "#767676"
FORMATS = (".svg", ".png")
ONE_NUMBER = "--plot needs several numbers of ranks, such as --world_size=2,4,8"
# Bytes depend on nothing but what is drawn and matplotlib's release.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gradsync",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
}


class NoMatplotlib(Exception):
    """Raised if matplotlib, which draws the picture, is not installed."""


def check_can_draw(path: str | os.PathLike[str]) -> None:
    """Raises Refused if the name of the file does not end in .svg or .png, else NoMatplotlib if
    matplotlib is missing."""
    if pathlib.Path(path).suffix not in FORMATS:
        raise Refused(f"--plot={path}: expected a name that ends in {' or '.join(FORMATS)}")
    if not importlib.util.find_spec("matplotlib"):
        raise NoMatplotlib("no module matplotlib: --plot needs it (pip install 'gradsync[plot]')")


def save(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Draws the predicted and measured points of `curve`, and writes the picture to a file (.svg or
    .png).

    Raises NoMatplotlib if matplotlib is missing. Raises Refused if `curve.points` have fewer than
    two numbers of ranks, or if the file cannot be written. Also raises Refused if the file's name
    does not end in .svg or .png.
    """
    check_can_draw(path)
    if len({point.world_size for point in curve.points}) < 2:
        raise Refused(ONE_NUMBER)
    picture = _picture(curve, pathlib.Path(path).suffix[1:])
    try:
        pathlib.Path(path).write_bytes(picture)
    except OSError as error:
        raise Refused(f"--plot={path}: cannot be written: {error.strerror}") from None


def _picture(curve: Curve, form: str) -> bytes:
    """Returns the bytes of the picture in the format `form`, which is "svg" or "png". The picture's
    metadata have a digest of the drawn data, so that pictures of different releases of matplotlib
    can be compared.
    """
    import matplotlib
    from matplotlib.figure import Figure

    drawn = json.dumps(as_json([curve.none_s, curve.points, curve.measured]))
    rounded = json.loads(drawn, parse_float=lambda text: f"{float(text):.4g}")
    digest = hashlib.sha256(json.dumps(rounded).encode()).hexdigest()
    about: dict[str, str | None] = {
        "Title": "Predicted scaling",
        "Description": f"sha256 {digest}",
    }
    if form == "svg":
        about |= {"Date": None, "Creator": "gradsync"}
    out = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        _draw(figure, curve)
        figure.savefig(out, format=form, dpi=130, metadata=about)
    return out.getvalue()


def _draw(figure: Any, curve: Curve) -> None:
    """Draws the two panels of the picture, step times and speed-ups, and the legend. `figure` is a
    Figure of matplotlib."""
    what = step_text(curve, curve.units)
    figure.suptitle(f"Predicted: {what}", x=0.01, ha="left", fontsize=10, fontweight="bold")
    grid = figure.add_gridspec(2, 2, height_ratios=(5, 1))
    steps, speeds = (figure.add_subplot(grid[0, column]) for column in range(2))
    points, measured = curve.points, curve.measured
    sizes = sorted({one.world_size for one in points} | {one.world_size for one in measured})
    _prepare(steps, "time of a step (ms)", sizes)
    _prepare(speeds, "speed-up: samples a second, of one rank = 1", sizes)
    steps.axhline(
        1e3 * curve.none_s, color=GREY, linestyle="--", label="a step without synchronisation"
    )
    speeds.set_yscale("log", base=2)
    speeds.set_yticks(sizes, [str(size) for size in sizes])
    speeds.minorticks_off()
    speeds.plot(
        sizes, sizes, color="black", linewidth=0.8, label="ideal: speed-up = number of ranks"
    )
    for number, (link, own) in enumerate(groupby(points, key=lambda point: point.link)):
        _draw_link(steps, speeds, link, [*own], COLOURS[number % len(COLOURS)], curve.none_s)
    _draw_measured(steps, speeds, measured)
    steps.set_ylim(bottom=0)
    _draw_legend(figure.add_subplot(grid[1, :]), [steps, speeds])


def _prepare(axes: Any, title: str, sizes: Sequence[int]) -> None:
    axes.set_title(title)
    axes.set_xlabel("ranks")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()


def _draw_link(
    steps: Any, speeds: Any, link: str, points: Sequence[CurvePoint], colour: str, none_s: float
) -> None:
    """Draws, for one link, the predicted times of steps into the panel `steps` and their speed-ups
    into `speeds`, with their intervals. Dotted lines show the times and speed-ups that there would
    be if all ranks were equally fast."""
    points = sorted(points, key=lambda point: point.world_size)
    ranks = [point.world_size for point in points]
    name = f"predicted over {link or 'the recorded link'}"
    for axes, factor, values in (
        (steps, 1e3, [point.step_s for point in points]),
        (speeds, 1, [point.speed_up for point in points]),
    ):
        axes.plot(ranks, [factor * one.value for one in values], "o-", color=colour, label=name)
        low, high = ([factor * getattr(one, end) for one in values] for end in ("low", "high"))
        axes.fill_between(ranks, low, high, color=colour, alpha=0.2, linewidth=0)
    equal = [point.equal_step_s for point in points]
    steps.plot(ranks, [1e3 * step for step in equal], ":", color=colour)
    faster = [size * none_s / step for size, step in zip(ranks, equal, strict=True)]
    speeds.plot(ranks, faster, ":", color=colour)


def _draw_measured(steps: Any, speeds: Any, points: Sequence[MeasuredPoint]) -> None:
    for axes, factor, values in (
        (steps, 1e3, [(point.world_size, point.step_s) for point in points]),
        (speeds, 1, [(point.world_size, point.speed_up) for point in points]),
    ):
        for ranks, estimate in values:
            value, limits = factor * estimate.value, estimate.interval
            if limits:
                ends = [factor * limits.low, factor * limits.high]
                axes.plot([ranks, ranks], ends, color="black", linewidth=1)
            axes.plot([ranks], [value], "x", color="black", label="measured")


def _draw_legend(axes: Any, panels: Sequence[Any]) -> None:
    """Draws a legend with one mark for each name of a curve or point. Curves of different links
    have different colours, which repeat after six links. The legend's marks of intervals, and of
    the dotted lines for equally fast ranks, are grey, because they stand for all links."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: dict[str, Any] = {}
    for panel in panels:
        for mark, name in zip(*panel.get_legend_handles_labels(), strict=True):
            marks.setdefault(name, mark)
    marks["interval of 95 %"] = Patch(color=GREY, alpha=0.3, linewidth=0)
    marks["predicted, if all ranks were equally fast"] = Line2D([], [], color=GREY, linestyle=":")
    axes.axis("off")
    axes.legend([*marks.values()], [*marks], ncol=2, loc="center left", frameon=False)
