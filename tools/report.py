#!/usr/bin/python3
"""Makes one HTML page of benchmark records and traces, or one figure of them.

    ./bazelw run //tools:report -- DIR... --out=report.html
    ./bazelw run //tools:report -- DIR... --figure=cost --out=cost.svg

`summarize`, which lies beside this program, makes the advice (--format=screen) and all numbers (--format=json). Timelines show
the traces (*.trace.json) in DIR and DIR/traces. Exit status: 0 done; 1 not made; 2 bad arguments, or nothing to show; 4 there is
no matplotlib.
"""
import argparse
import base64
import dataclasses
import hashlib
import html
import io
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import typing

sys.dont_write_bytecode = True  # beside the sources
import timeline

try:
    import matplotlib.figure
except ImportError:
    matplotlib = None

SUMMARIZE = pathlib.Path(sys.argv[0]).absolute().with_name("summarize")

# They stay apart for the colour-blind (Okabe and Ito).
BLUE, SKY, GREEN, YELLOW, ORANGE, PINK, GREY, SILVER, PALE = (
    "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#767676", "#b4b4b4", "#e0e0e0")
VERDICTS = {"faster": (BLUE, "o"), "slower": (ORANGE, "s"), "better": (BLUE, "o"), "worse": (ORANGE, "s"), "open": (GREY, "x"),
            "equal": (GREEN, "D"), "no verdict": ("#a0a0a0", "|")}
PARTS = {"exposed": ORANGE, "tax": YELLOW, "own": SKY, "rest": PINK}
SERIES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "D"), (YELLOW, "^"), (PINK, "v"), (SKY, "P"), ("black", "X"), (GREY, "*"))
PHASES = {"forward": SKY, "backward": BLUE, "sync_exposed": PALE, "optimizer": GREEN}


def rows_of(data, name):
    return [dict(zip(table["columns"], row)) for table in data["tables"] if table["name"] == name for row in table["rows"]]


def grouped(items, key):  # a function or a column
    groups = {}
    for item in items:
        groups.setdefault(key(item) if callable(key) else item[key], []).append(item)
    return groups


def joined(*parts):
    return ", ".join(str(part) for part in parts if part)


def label(row, variant="variant"):
    return row[variant].rpartition("@")[0] or row[variant]


def estimate(row, name, unit="", scale=1):
    """The value and the ends of its interval; None for what is unknown."""
    values = [row[name + end + unit] for end in ("", "_low", "_high")]
    return [None if value is None else scale * value for value in values]


def by_model(rows, key):
    """For each model: a title, what names a row, and its rows, by setting, backend and a column.

    A name is the variant, with the backend and with parts of the setting, such as the batch, if these differ between rows."""
    for model, members in grouped(rows, "model_size").items():
        settings = {row["setting"]: row["setting"].split(", ") for row in members}
        common = [part for part in next(iter(settings.values())) if all(part in parts for parts in settings.values())]
        backends = list(dict.fromkeys(row["backend"] for row in members))
        title = joined(model if model not in common else "", *common, f"over {backends[0]}" if len(backends) == 1 else "")

        def name(row, common=common, backends=backends):
            own = joined(*(part for part in row["setting"].split(", ") if part not in common))
            return f"{own}: {named(row, backends)}" if own else named(row, backends)

        order = list(settings)
        yield title, name, sorted(
            members, key=lambda row: (order.index(row["setting"]), backends.index(row["backend"]), row[key]))


def named(row, backends):
    return row["variant"] if len(backends) > 1 else label(row)


def verdict(row, name="verdict"):
    return row[name] if row[name] in VERDICTS else "no verdict"


def forest(title, x, rows, scale=None, name=label):
    """A row for each of `rows`, in their order."""
    return {"kind": "rows", "title": title, "x": x, "scale": scale,
            "rows": [[name(row), *estimate(row, "delta", " (%)"), verdict(row)] for row in rows]}


# Each of these returns the panels of a figure: lists and dictionaries of all that is drawn, none without data.
def differences(data):
    panels, known = [], [row for row in rows_of(data, "ddp") if row["delta_low (%)"] is not None]
    for title, name, rows in by_model(known, "delta (%)"):
        bases = {label(row, "baseline") for row in rows}
        strategies = {base.partition(":")[0] for base in bases}
        # Bases of one strategy differ in the size of their buckets.
        base = bases.pop() if len(bases) == 1 else f"{'/'.join(sorted(strategies))} with the row's bucket size"
        over = ", over the same backend" if len({row["backend"] for row in rows}) > 1 else ""
        panels.append(forest(title, f"% of the step of {base}{over}", rows, title, name))
    return panels


def cost(data):
    known = [row for row in rows_of(data, "ddp") if row["sync_cost_low (s)"] is not None]
    unit, scale = ("s", 1) if any(row["sync_cost_high (s)"] >= 1 for row in known) else ("ms", 1e3)
    return [{"kind": "rows", "title": title, "x": f"{unit} longer than a step without synchronisation", "scale": title, "rows": [
        [name(row), *estimate(row, "sync_cost", " (s)", scale),
         {part: scale * row[f"{part} (s)"] for part in PARTS if row[f"{part} (s)"] is not None}] for row in rows]}
            for title, name, rows in by_model(known, "sync_cost (s)")]


def tokens(data):
    rows = [row for row in rows_of(data, "ddp") if row["fraction_cost_low"] is not None and row["tokens"] is not None]
    places = grouped(rows, lambda row: f"{row['model_size']}, {row['world_size']} ranks, over {row['backend']}")
    return [{"kind": "lines", "title": title, "x": "tokens a step, all ranks", "y": "% of the step", "series": {
        name: sorted([row["tokens"], *estimate(row, "fraction_cost", "", 100)] for row in members)
        for name, members in grouped(own, label).items()}}
            for title, own in places.items() if len({row["tokens"] for row in own}) > 1]


def links(data):
    rows = rows_of(data, "links")
    names = [name.removeprefix("verdict ") for name in (rows or [{}])[0] if name.startswith("verdict ")]
    return [{"kind": "map", "title": f"% of the step of {rows[0]['baseline']}", "columns": names, "rows": [
        [row["variant"], *([*estimate(row, f"delta {name}", " (%)"), verdict(row, f"verdict {name}")] for name in names)]
        for row in rows]}] if rows else []


def bandwidth(data):
    rows = [row for row in rows_of(data, "all_reduce") if row["busbw (GB/s)"] is not None and not row["wrong elements"]]
    series = {name: sorted([row["data_size (MB)"], *estimate(row, "busbw", " (GB/s)")] for row in own) for name, own in grouped(
        rows, lambda row: f"{row['backend']} {row['collective']}".removesuffix(" all_reduce")).items()}
    panel = {"kind": "lines", "title": "", "x": "size of the vector", "y": "GB/s", "series": series}
    return [panel] if any(len(points) > 1 for points in series.values()) else []


def convergence(data):
    panels, losses = [], [row for row in rows_of(data, "losses") if row["delta (%)"] is not None]
    for ranks, members in grouped(rows_of(data, "convergence"), "world_size").items():
        x, base = f"% above the loss of {label(members[0], 'baseline')}", members[0]["baseline"]
        lines = grouped((row for row in losses if row["world_size"] == ranks and row["variant"] != base), label)
        ends = sorted((row for row in members if row["delta_low (%)"] is not None), key=lambda row: row["delta (%)"])
        panels += [{"kind": "seeds", "title": f"{ranks} ranks, by step: {x}", "lines": {
            name: [sorted([row["step"], row["delta (%)"]] for row in trial) for trial in grouped(own, "seed").values()]
            for name, own in lines.items()}}] if lines else []
        panels += [forest(f"{ranks} ranks, after the last step", x, ends)] if ends else []
    return panels


def timelines(paths):
    """Panels by place, of the traces of one run."""
    def panel(line):
        return {"kind": "timeline", "title": line.title, "length": line.length, "ranks": line.ranks,
                "x": "ms since the step began on its first rank", "zero": min(rank.begin for rank in line.ranks.values())}

    return {place: [panel(line) for line in lines] for place, lines in timeline.timelines(paths).items()}


class Figure(typing.NamedTuple):
    title: str
    caption: str
    panels_of: typing.Callable


# In the order of the page.
OF_TABLES = {
    "differences": Figure(
        "How much longer a step is than the baseline's",
        "Left of 0 a step is shorter than the baseline's. Lines are 95 % intervals, which hold for all rows of a setting at once: "
        "if a line crosses 0, the measurement does not show which of the two is faster (open).", differences),
    "cost": Figure(
        "What synchronisation adds to a step",
        "A cost is the sum of four parts. exposed: time in which ranks wait and compute nothing. tax: forward and backward take "
        "longer, because communication uses the same cores. own: copies and other work of the strategy. rest: mostly the optimizer. "
        "Parts left of 0 make a step shorter. Lines are 95 % intervals.", cost),
    "tokens": Figure(
        "What synchronisation costs, by the size of a step",
        "As a share of the row's own step, with its 95 % interval.", tokens),
    "links": Figure(
        "Which strategy pays over which link",
        "How much longer a step is than the baseline's over the same link, and half the 95 % interval. Rates are of each "
        "direction; without a rate: on one host.", links),
    "bandwidth": Figure(
        "Bus bandwidth",
        "By the trimmed mean of each iteration's slowest rank, with its 95 % interval.", bandwidth),
    "convergence": Figure(
        "Held-out loss above the baseline's",
        "By step: a line for each seed, against the baseline with this seed. After the last step: means over seeds, with 95 % "
        "intervals that hold for all rows at once.", convergence)}
OF_TRACES = Figure(
    "One step of each strategy",
    "The measured step of median length: what each rank computes, when it waits, and which collectives are in flight. Dotted: "
    "its last gradient. exposed: how much later the last rank has averaged than the last rank would have computed without waits, "
    "as in tables; without times of single waits (on a GPU) it is not shown, and the optimizer includes its waits. Tracing adds "
    "to a step, so its times are not those of the tables.", timelines)


# Each of these draws a panel into axes. `limits`: of x, over all panels of its scale.
def broken(name, width=40):
    return re.sub(f"(.{{10,{width - 3}}}[:,]) ?(?=.{{3}})", r"\1\n", name) if len(name) > width else name


def number(value, width):
    digits = sum(width < limit for limit in (20, 1, 0.1))  # as many as an interval of that width needs
    return re.sub("^-(0[.0]*)$", r"\1", f"{value:.{digits}f}")


def draw_rows(panel, axes, limits):
    axes.set(xlim=limits, ylim=(len(panel["rows"]) - 0.5, -0.5), xlabel=panel["x"])
    axes.set_yticks(range(len(panel["rows"])), [broken(row[0]) for row in panel["rows"]], fontsize=7)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.grid(axis="x")
    for y, (_, value, low, high, extra) in enumerate(panel["rows"]):
        text, parts, ends = ("their sum", extra, [0, 0]) if isinstance(extra, dict) else (extra, {}, [0, 0])
        color, marker = VERDICTS.get(text, ("black", "D"))
        for part, length in parts.items():
            axes.barh(y, length, 0.62, left=ends[length > 0], color=PARTS[part], edgecolor="white", linewidth=0.4, label=part)
            ends[length > 0] += length
        axes.plot([low, high], [y, y], color=color, linewidth=1.4)
        axes.plot([value], [y], color=color, marker=marker, markersize=5, label=text)
        axes.text(1.01, y, "{} [{}, {}]".format(*(number(v, high - low) for v in (value, low, high))), va="center", fontsize=8,
                  transform=axes.get_yaxis_transform())


def size_text(mebi):
    """8 B, 32 KiB or 1 GiB: a size that is given in MiB."""
    size, units = mebi * 2**20, ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.3g} {units[0]}"


def draw_lines(panel, axes, _):
    axes.set(xscale="log", yscale="log" if panel["y"] == "GB/s" else "linear", xlabel=panel["x"], ylabel=panel["y"])
    axes.grid()
    for (name, points), (color, marker) in zip(panel["series"].items(), itertools.cycle(SERIES)):
        axes.plot([point[0] for point in points], [point[1] for point in points], color=color, marker=marker, label=name)
        known = [point for point in points if None not in point]
        axes.fill_between(*([point[i] for point in known] for i in (0, 2, 3)), color=color, alpha=0.2, linewidth=0)
    sizes = sorted({point[0] for points in panel["series"].values() for point in points})
    sizes = sizes[::-(-len(sizes) // 8)]
    axes.set_xticks(sizes, [size_text(size) if panel["y"] == "GB/s" else f"{size:.3g}" for size in sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    if panel["y"] != "GB/s":
        axes.axhline(0, color="black", linewidth=0.8)


def draw_map(panel, axes, _):
    axes.set(xlim=(-0.5, len(panel["columns"]) - 0.5), ylim=(len(panel["rows"]) - 0.5, -0.5))
    axes.set_xticks(range(len(panel["columns"])), [name.removeprefix("at ").replace(" ", "\n") for name in panel["columns"]])
    axes.set_yticks(range(len(panel["rows"])), [broken(row[0]) for row in panel["rows"]], fontsize=7)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    for y, (_, *cells) in enumerate(panel["rows"]):
        for x, (value, low, high, word) in ((x, cell) for x, cell in enumerate(cells) if cell[1] is not None):
            axes.barh(y, 0.96, 0.92, left=x - 0.48, color=VERDICTS[word][0], alpha=0.3, label=word)
            text = f"{number(value, high - low)} \u00b1{number((high - low) / 2, high - low)}"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, weight="bold" if word in ("faster", "slower") else None)


def draw_seeds(panel, axes, _):
    axes.axis("off")
    axes.set_title(panel["title"], pad=46)
    own, grid = None, axes.get_subplotspec().subgridspec(-(-len(panel["lines"]) // 3), 3)
    for i, (name, trials) in enumerate(panel["lines"].items()):
        own = axes.figure.add_subplot(grid[i], sharey=own)
        own.set_title(broken(name, 36), fontsize=7)
        own.axhline(0, color="black", linewidth=0.8)
        own.tick_params(labelsize=7, labelleft=i % 3 == 0)
        for points in trials:
            own.plot(*zip(*points), color=BLUE, linewidth=0.9, label="one seed")


def draw_timeline(panel, axes, limits):
    zero = panel["zero"]
    shortest = limits[1] / 1000  # that can be seen

    def bar(begin, end, y, height, color, text):
        if begin < end:
            axes.broken_barh([(begin - zero, max(end - begin, shortest))], (y, height), color=color, label=text,
                             edgecolor="white", linewidth=0.3)

    def parts(spans, y, height, color, text):  # of a bar, in their true lengths
        if spans:
            axes.broken_barh([(begin - zero, end - begin) for begin, end in spans], (y, height), color=color, label=text,
                             linewidth=0)

    ticks = []
    for i, (number_of_rank, rank) in enumerate(panel["ranks"].items()):
        top = 1.2 * i
        ticks.append((top + 0.2, f"rank {number_of_rank}"))
        if rank.flights:
            ticks += [(top + 0.66, "in flight"), (top + 0.96, "queued")]
        for name, (begin, end) in rank.phases.items():
            bar(begin, end, top, 0.42, PHASES[name], name.replace("sync_exposed", "waits"))
        for is_counted, color, text in ((True, PALE, "waits"), (False, SILVER, "waits before forward, not exposed")):
            parts([(wait.begin, wait.end) for wait in rank.waits if wait.is_counted == is_counted], top, 0.42, color, text)
        lanes = max((flight.lane for flight in rank.flights), default=0) + 1
        for flight in rank.flights:
            y, height = top + 0.46 + 0.4 * flight.lane / lanes, 0.4 / lanes
            bar(flight.begin, flight.end, y, height, GREY, "in flight while its rank computes")
            parts(timeline.within(flight.begin, flight.end, rank.waiting()), y, height, ORANGE, "in flight while its rank waits")
            bar(flight.issued, flight.begin, top + 0.9, 0.12, PINK, "issued, not yet in flight")
        axes.plot([rank.last_gradient - zero] * 2, [top, top + 1.02], color="black", linestyle=":", linewidth=1)
    axes.set(xlim=(0, limits[1]), ylim=(1.2 * len(panel["ranks"]) - 0.1, -0.1), xlabel=panel["x"])
    axes.set_yticks(*zip(*ticks), fontsize=8)


# What draws a kind of panel; its height in inches, and that of each of its rows.
KINDS = {"rows": (draw_rows, 0.75, 0.27), "lines": (draw_lines, 2.8, 0), "map": (draw_map, 0.75, 0.27),
         "seeds": (draw_seeds, 1.0, 0.45), "timeline": (draw_timeline, 0.7, 0.7)}


def picture(title, panels, form):
    """The bytes of an svg or png. Its description has a digest of what is drawn: bytes differ between matplotlib's releases."""
    matplotlib.rcParams.update({
        "axes.axisbelow": True, "ytick.major.size": 0, "grid.color": PALE, "axes.spines.top": False, "axes.spines.right": False,
        "svg.fonttype": "none", "svg.hashsalt": "gradsync", "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left"})
    heights = [0.45] + [KINDS[panel["kind"]][1] + KINDS[panel["kind"]][2] * len(
        panel.get("rows") or panel.get("lines") or panel.get("ranks") or ()) for panel in panels]
    figure = matplotlib.figure.Figure(figsize=(7.6, sum(heights) + 0.35), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    for i, panel in enumerate(panels):
        alike = [other for other in panels if other.get("scale") == panel.get("scale")]
        ends = [end for other in alike if other["kind"] == "rows" for row in other["rows"] for end in row[2:4]]
        low, high = min([0, *ends]), max([0, *ends, *(other.get("length", 0) for other in alike)])
        margin = 0.04 * (high - low) or 1
        axes = figure.add_subplot(grid[i + 1])
        axes.set_title(panel["title"])
        KINDS[panel["kind"]][0](panel, axes, (low - margin, high + margin))
    key = {text: mark for axes in figure.axes for mark, text in zip(*axes.get_legend_handles_labels())}
    legend = figure.add_subplot(grid[0])
    legend.axis("off")
    legend.legend(list(key.values()), list(key), ncol=len(key) if len(key) < 6 else 4, loc="center left", frameon=False)
    drawn = json.loads(json.dumps([title, panels], default=dataclasses.asdict),
                       parse_float=lambda text: f"{float(text):.4g}")  # The rest may differ.
    about = {"Title": title, "Description": f"sha256 {hashlib.sha256(json.dumps(drawn).encode()).hexdigest()}"}
    out = io.BytesIO()
    figure.savefig(out, format=form, dpi=130, metadata=about | ({"Date": None, "Creator": "gradsync"} if form == "svg" else {}))
    return out.getvalue()


STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:1.5rem auto;padding:0 1rem}img{max-width:100%}
figcaption,.said{color:#555}div{overflow-x:auto}table{border-collapse:collapse;font-size:13px}.n{text-align:right}
td,th{padding:.1rem .5rem;border-bottom:1px solid #ddd;white-space:nowrap}pre{white-space:pre-wrap;user-select:all}"""


def marked(text):  # a line of Markdown with `code` and **bold**
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text)))


def listed(lines):
    return "<ul>" + "".join(f"<li>{marked(line)}</li>\n" for line in lines) + "</ul>" if lines else ""


def table_html(table):
    """The first section is open, if the table is no detail; the rest is folded."""
    text = ["<details><summary>More</summary>"]
    for section in table["sections"]:
        text += [f"<p class=said>{marked(section['title'])}</p><div><table><tr>",
                 *(f"<th>{html.escape(name)}</th>" for name in section["columns"])]
        for row in section["rows"]:
            text.append("</tr>\n<tr>")
            text += [f"<td{' class=n' if re.match('[-+]?[0-9]', cell) else ''}>{marked(cell)}</td>" for cell in row]
        text.append("</tr></table></div>\n")
        if section is table["sections"][0] and not table["is_detail"]:
            text.append(text.pop(0))
    constants = f"<p class=said>All rows: {html.escape(table['constants'])}.</p>" if table["constants"] else ""
    text = [f"<h3>{html.escape(table['title'])}</h3>\n", listed(table["findings"]), constants, *text, "</details>",
            listed(table["notes"])]
    return "".join(text).replace("<details><summary>More</summary></details>", "")


def advice_html(screen):
    """The lines of a screen above its first empty line: the advice for each setting, and commands. The whole screen, if it has
    no empty line, because then it has no advice."""
    advice, gap, _ = screen.partition("\n\n")
    if not gap:
        return f"<pre>{html.escape(screen)}</pre>\n"
    text = []
    for line in advice.splitlines():
        name, _, rest = line.partition("  ")
        if re.match(" {3}", line) and text:  # goes on
            text[-1] = f"{text[-1].removesuffix('</p>')} {html.escape(line.strip())}</p>"
        elif line.startswith("  "):  # a command, or more of it
            text.append(f"<pre>{html.escape(line.strip())}</pre>")
        else:
            text.append(f"<p><strong>{html.escape(name)}</strong> {html.escape(rest.strip())}</p>")
    return "\n".join(text).replace("</pre>\n<pre>", "\n") + "\n"


def page(data, screen, figures):
    """HTML that loads nothing."""
    tables = [table for table in data["shown"] if table["sections"] and table["sections"][0]["rows"]]
    text = ["<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>",
            "<meta http-equiv=Content-Security-Policy content=\"default-src 'none';img-src data:;style-src 'unsafe-inline'\">",
            f"<title>gradsync report</title><style>{STYLE}</style></head>\n<body><h1>What gradient synchronisation costs</h1>",
            advice_html(screen)]
    for title, caption, panels in figures:
        image = base64.b64encode(picture(title, panels, "svg")).decode()
        text += [f"<figure><img alt='{html.escape(title)}' src='data:image/svg+xml;base64,{image}'>",
                 f"<figcaption>{html.escape(caption)}</figcaption></figure>\n"]
    text += ["<h2>Tables</h2>\n", *map(table_html, tables), "<h2>Warnings</h2>\n",
             listed([f"`{own['name']}`: {own['meaning']}" for own in data["warnings"]]), "<h2>Runs</h2>\n"]
    for run in data["runs"]:
        about = joined(*(run[key] for key in ("experiment", "run", "time", "ranks", "machine", "software")))
        text.append(f"<p class=said>{html.escape(about)}</p><pre>{html.escape(run['command'])}</pre>\n")
    return "".join([*text, "</body></html>\n"])


def figures_of_traces(directories):
    """A figure for each run and place, the latest run last."""
    traces = {path for directory in directories for below in ("", "traces")
              for path in pathlib.Path(directory, below).glob("*.trace.json")}
    figures = []
    for _, paths in sorted(grouped(sorted(traces), lambda path: path.name.rpartition(".rank")[0]).items()):
        try:
            panels_by_place = OF_TRACES.panels_of(paths)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # It must not cost the rest.
            print(f"report: left out: {paths[0]}: no trace of gradsync: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        figures += [(f"{OF_TRACES.title}: {place}", OF_TRACES.caption, panels) for place, panels in panels_by_place.items()]
    return figures


def summarized(*arguments, quiet=False):
    """What `summarize` prints; ends the program if it fails. `quiet`: without its complaints, which it has already printed."""
    made = subprocess.run([str(SUMMARIZE), *arguments], stdout=subprocess.PIPE, check=False, encoding="utf-8",
                          stderr=subprocess.DEVNULL if quiet else None)
    if made.returncode != 0:
        sys.exit(made.returncode)  # it has said why
    return made.stdout


class Version(argparse.Action):
    """Prints the version, which `summarize` has."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(summarized("--version").replace("summarize", "report", 1), end="")
        parser.exit(0)


def main():
    parser = argparse.ArgumentParser(prog="report", usage=argparse.SUPPRESS, description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", metavar="DIR", help="shows these directories with records, or files of them")
    parser.add_argument("--out", default="", help="writes the page (*.html), or with --figure a picture (*.svg, *.png)")
    parser.add_argument("--figure", choices=[*OF_TABLES, "timeline"],
                        help="draws this one alone; timeline: of the latest traced run")
    parser.add_argument("--version", nargs=0, action=Version, help="prints the version")
    options = parser.parse_args()
    if not options.out.endswith((".svg", ".png") if options.figure else ".html"):
        parser.error(f"--out={options.out}: expected a name that ends in {'.svg or .png' if options.figure else '.html'}")
    if matplotlib is None:
        parser.exit(4, "report: no matplotlib: `./bazelw run //tools:report -- "
                    f"{' '.join(options.inputs)} --out=report.html` installs it and makes the report\n")
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    data, screen, figures = {}, "", []
    if options.figure != "timeline":
        data = json.loads(summarized("--format=json", *options.inputs))
        figures = [(figure.title, figure.caption, figure.panels_of(data)) for name, figure in OF_TABLES.items()
                   if options.figure in (None, name)]
    if options.figure is None:
        screen = summarized("--format=screen", *options.inputs, quiet=True)
    if options.figure in (None, "timeline"):
        figures += figures_of_traces(options.inputs)
    figures = [figure for figure in figures if figure[2]]
    if options.figure and not figures:
        parser.error(f"--figure={options.figure}: there is nothing that it could show")
    content = picture(figures[-1][0], figures[-1][2], options.out[-3:]) if options.figure else page(data, screen, figures).encode()
    pathlib.Path(options.out).write_bytes(content)
    print(options.out)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"report: {error}")
