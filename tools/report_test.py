#!/usr/bin/python3
"""tools/report.py: tables (JSON) and traces in, the numbers of figures and pages out. Runs in its runfiles."""
import gzip
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ET

from matplotlib.figure import Figure

sys.dont_write_bytecode = True
HERE = pathlib.Path.cwd()
sys.path.insert(0, str(HERE / "tools"))
from sample_traces import trace

SPEC = importlib.util.spec_from_file_location("report", HERE / "tools/report.py")
report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(report)
SVG = "{http://www.w3.org/2000/svg}"


SCREEN = """tiny over gloo  Undecided: a < b may have
                left
small over shm  Use zero1: 9 to 13 % faster
To tell a from b:
  ./bazelw run //bench:ddp \\
  --out=DIR

2 ranks on one host
of the grid
"""


def data_of(**tables):
    """Tables of rows that are dictionaries."""
    return {"tables": [{"name": name, "columns": list(rows[0]) if rows else [], "rows": [list(row.values()) for row in rows]}
                       for name, rows in tables.items()], "shown": [], "warnings": [], "runs": []}


def ddp(variant, delta=(None, None, None), cost=(None, None, None), verdict="", baseline="core@gloo", **more):
    parts = {"exposed (s)": 0.004, "tax (s)": -0.003, "own (s)": 0.002, "rest (s)": None}
    row = {"variant": variant, "backend": variant.rpartition("@")[2], "setting": "", "run": "r", "model_size": "tiny",
           "world_size": 2, "baseline": baseline, "verdict": verdict, "tokens": 64}
    for name, unit, values in (("delta", " (%)", delta), ("sync_cost", " (s)", cost),
                               ("fraction_cost", "", [value and 10 * value for value in cost])):
        row.update({name + end + unit: value for end, value in zip(("", "_low", "_high"), values)})
    return row | parts | more


def titles(panels):
    return [panel["title"] for panel in panels]


def drawn(panel, limits=(-10, 50)):
    """The axes into which a panel is drawn."""
    axes = Figure().add_subplot(1, 1, 1)
    report.KINDS[panel["kind"]][0](panel, axes, limits)
    return axes


def lines_of(axes):
    return [[list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))] for line in axes.get_lines()]


class Differences(unittest.TestCase):
    def test_values_intervals_and_verdicts(self):
        panels = report.differences(data_of(ddp=[
            ddp("core@gloo"), ddp("none@gloo"), ddp("naive@gloo", (29.0, 15.0, 43.0), verdict="slower"),
            ddp("a b@gloo", (-4.0, -7.0, -1.0), verdict="faster"),
            ddp("zero1@gloo", (1.0, -2.0, 4.0), verdict="disturbed:17%")]))
        self.assertEqual(titles(panels), ["tiny, over gloo"])
        self.assertEqual(panels[0]["x"], "% of the step of core")
        self.assertEqual(panels[0]["rows"], [["a b", -4.0, -7.0, -1.0, "faster"], ["zero1", 1.0, -2.0, 4.0, "no verdict"],
                                             ["naive", 29.0, 15.0, 43.0, "slower"]])
        axes = drawn(panels[0])
        self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["a b", "zero1", "naive"])
        self.assertEqual([text.get_text() for text in axes.texts], ["-4.0 [-7.0, -1.0]", "1.0 [-2.0, 4.0]", "29 [15, 43]"])
        self.assertEqual(lines_of(axes)[1:],  # behind the line at 0
                         [[[-7, -1], [0, 0]], [[-4], [0]], [[-2, 4], [1, 1]], [[1], [1]], [[15, 43], [2, 2]], [[29], [2]]])
        colors = [line.get_color() for line in axes.get_lines()][2::2]
        self.assertEqual(colors, [report.VERDICTS[word][0] for word in ("faster", "no verdict", "slower")])

    def test_rows_of_one_model_stand_in_one_panel(self):
        rows = [ddp(f"{name}@{backend}", (delta, 0.5, 2.0), setting="tiny, b2", baseline=f"core@{backend}")
                for delta, name in ((2.0, "naive"), (1.0, "flat")) for backend in ("gloo", "shm")]
        rows.append(ddp("zero1@shm", (1.0, 0.5, 2.0), setting="small, b2", model_size="small"))
        panels = report.differences(data_of(ddp=rows))
        self.assertEqual(titles(panels), ["tiny, b2", "small, b2, over shm"])
        self.assertEqual([row[0] for row in panels[0]["rows"]], ["flat@gloo", "naive@gloo", "flat@shm", "naive@shm"])
        self.assertEqual([row[0] for row in panels[1]["rows"]], ["zero1"])
        self.assertEqual([panel["x"] for panel in panels], ["% of the step of core, over the same backend", "% of the step of core"])
        self.assertEqual([panel["scale"] for panel in panels], titles(panels))  # each has its own

    def test_what_differs_between_settings_stands_in_front_of_rows(self):
        rows = [ddp("naive@gloo", (1.0, 0.5, 2.0), setting=f"tiny, b{b}, s{s}") for b, s in ((1, 8), (1, 4))]
        panels = report.differences(data_of(ddp=rows))
        self.assertEqual(titles(panels), ["tiny, b1, over gloo"])
        self.assertEqual([row[0] for row in panels[0]["rows"]], ["s8: naive", "s4: naive"])
        for row in rows:  # where no part has the model's name
            row["setting"] = row["setting"].removeprefix("tiny, ")
        self.assertEqual(titles(report.differences(data_of(ddp=rows))), ["tiny, b1, over gloo"])

    def test_baselines_of_several_bucket_sizes(self):
        rows = [ddp(f"naive:x={x}@gloo", (1.0, 0.5, 2.0), baseline=f"core:x={x},y=1@gloo") for x in (1, 2)]
        panels = report.differences(data_of(ddp=rows))
        self.assertEqual([panel["x"] for panel in panels], ["% of the step of core with the row's bucket size"])


class Cost(unittest.TestCase):
    def test_parts_add_up_to_either_side(self):
        panels = report.cost(data_of(ddp=[ddp("none@gloo"), ddp("core@gloo", cost=(0.003, 0.001, 0.005))]))
        self.assertEqual(titles(panels), ["tiny, over gloo"])
        name, *values, parts = panels[0]["rows"][0]
        self.assertEqual(name, "core")
        self.assertEqual(values, [3.0, 1.0, 5.0])
        self.assertEqual(parts, {"exposed": 4.0, "tax": -3.0, "own": 2.0})
        axes = drawn(panels[0])
        self.assertEqual([(bar.get_x(), bar.get_width()) for bar in axes.patches], [(0, 4), (0, -3), (4, 2)])
        self.assertEqual(lines_of(axes)[2], [[3.0], [0]])
        self.assertEqual(axes.get_legend_handles_labels()[1], ["their sum", "exposed", "tax", "own"])

    def test_seconds_where_one_is_long(self):
        panels = report.cost(data_of(ddp=[ddp("core@gloo", cost=(0.9, 0.8, 1.0))]))
        self.assertEqual(panels[0]["rows"][0][1:4], [0.9, 0.8, 1.0])
        self.assertTrue(panels[0]["x"].startswith("s longer than"))
        self.assertEqual(drawn(panels[0]).texts[0].get_text(), "0.90 [0.80, 1.00]")


class Lines(unittest.TestCase):
    def test_tokens(self):
        rows = [ddp("core@shm", cost=(c, c / 2, 2 * c), tokens=t) for t, c in ((128, 0.01), (64, 0.02))]
        panels = report.tokens(data_of(ddp=[*rows, ddp("none@shm", tokens=64), ddp("core@gloo", cost=(0.1, 0.1, 0.1))]))
        self.assertEqual(titles(panels), ["tiny, 2 ranks, over shm"])  # over gloo there is one number of tokens
        self.assertEqual(panels[0]["series"], {"core": [[64, 20.0, 10.0, 40.0], [128, 10.0, 5.0, 20.0]]})
        self.assertEqual(report.tokens(data_of(ddp=[ddp("core@shm", cost=(0.1, 0.1, 0.1), tokens=None)] * 2)), [])
        axes = drawn(panels[0])
        self.assertEqual(lines_of(axes)[0], [[64, 128], [20, 10]])
        self.assertEqual(axes.get_xscale(), "log")
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["64", "128"])

    def test_bandwidth(self):
        def row(size, speed, low, high, backend="gloo", collective="all_reduce", wrong=0):
            return {"backend": backend, "collective": collective, "data_size (MB)": size, "busbw (GB/s)": speed,
                    "busbw_low (GB/s)": low, "busbw_high (GB/s)": high, "wrong elements": wrong}
        rows = [row(10, 3.0, 2.0, 4.0), row(1, 1.0, None, None), row(1, 2.0, 1.0, 3.0, "shm", "broadcast"),
                row(5, 9.0, 8.0, 9.5, wrong=3)]
        panels = report.bandwidth(data_of(all_reduce=rows))
        self.assertEqual(panels[0]["series"], {"gloo": [[1, 1.0, None, None], [10, 3.0, 2.0, 4.0]],
                                               "shm broadcast": [[1, 2.0, 1.0, 3.0]]})
        axes = drawn(panels[0])
        self.assertEqual(lines_of(axes)[0], [[1, 10], [1, 3]])
        band = {tuple(point) for point in axes.collections[0].get_paths()[0].vertices}
        self.assertEqual(band, {(10, 2), (10, 4)})  # where both ends are known
        self.assertEqual(axes.get_yscale(), "log")
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["1 MiB", "10 MiB"])
        self.assertEqual([report.size_text(size / 2**20) for size in (8, 1024, 2**30, 2**41)],
                         ["8 B", "1 KiB", "1 GiB", "2.05e+03 GiB"])
        self.assertEqual(report.bandwidth(data_of(all_reduce=rows[2:])), [])


class Links(unittest.TestCase):
    def test_maps_rows_and_links(self):
        row = {"variant": "topk", "baseline": "core"}
        for place, values, verdict in (("over shm", (None, None, None), ""), ("at 1 Gbit/s", (-56.0, -61.0, -51.0), "faster"),
                                       ("at 4 Gbit/s", (-0.1, -0.6, 0.4), "equal")):
            row.update({f"delta {place}{end} (%)": value for end, value in zip(("", "_low", "_high"), values)})
            row[f"verdict {place}"] = verdict
        panels = report.links(data_of(links=[row]))
        self.assertEqual(panels[0]["columns"], ["over shm", "at 1 Gbit/s", "at 4 Gbit/s"])
        self.assertEqual(panels[0]["rows"], [["topk", [None, None, None, "no verdict"], [-56.0, -61.0, -51.0, "faster"],
                                              [-0.1, -0.6, 0.4, "equal"]]])
        axes = drawn(panels[0])
        self.assertEqual([(text.get_position(), text.get_text()) for text in axes.texts],
                         [((1, 0), "-56.0 \u00b15.0"), ((2, 0), "-0.1 \u00b10.5")])
        self.assertEqual([text.get_text() for text in axes.get_xticklabels()], ["over\nshm", "1\nGbit/s", "4\nGbit/s"])
        self.assertEqual(axes.get_legend_handles_labels()[1], ["faster", "equal"])


class Convergence(unittest.TestCase):
    def test_a_line_for_each_seed_and_the_end(self):
        losses = [{"variant": v, "world_size": 2, "seed": seed, "step": step, "bits_per_byte": 2.0, "delta (%)": delta}
                  for v, seed, step, delta in (("naive@shm", 0, 10, 0.0), ("topk@shm", 0, 20, 8.0), ("topk@shm", 0, 10, 9.0),
                                               ("topk@shm", 1, 10, 7.0), ("topk@shm", 2, 10, None))]
        ends = [{"variant": v, "world_size": 2, "baseline": "naive@shm", "verdict": verdict, "delta (%)": d,
                 "delta_low (%)": low, "delta_high (%)": high} for v, verdict, d, low, high in (
                     ("naive@shm", "", None, None, None), ("topk@shm", "worse", 7.5, 6.0, 9.0))]
        panels = report.convergence(data_of(convergence=ends, losses=losses))
        self.assertEqual(panels[0]["lines"], {"topk": [[[10, 9.0], [20, 8.0]], [[10, 7.0]]]})
        self.assertEqual(panels[1]["rows"], [["topk", 7.5, 6.0, 9.0, "worse"]])
        self.assertEqual(panels[1]["x"], "% above the loss of naive")
        axes = drawn(panels[0])
        self.assertEqual(lines_of(axes.figure.axes[1])[1:], [[[10, 20], [9, 8]], [[10], [7]]])
        # One row, or no baseline, has nothing to be compared with.
        self.assertEqual(report.convergence(data_of(convergence=ends[:1], losses=losses[:1])), [])
        ends[0]["baseline"] = ""
        self.assertEqual(report.convergence(data_of(convergence=ends[:1], losses=[losses[0] | {"delta (%)": None}])), [])


class InDirectory(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(os.environ["TEST_TMPDIR"]) / self.id()
        shutil.rmtree(self.dir, ignore_errors=True)
        (self.dir / "bin").mkdir(parents=True)
        shutil.copy(HERE / "tools/report", self.dir / "bin/report")
        shutil.copy(HERE / "tools/timeline.py", self.dir / "bin/timeline.py")
        self.summarize("{}")

    def summarize(self, text, status=0, screen=""):
        """What stands in for the program says this, and ends so."""
        (self.dir / "tables.json").write_text(text)
        (self.dir / "screen.txt").write_text(screen)
        program = self.dir / "bin/summarize"
        program.write_text(f"#!/bin/sh\necho \"$*\" >{self.dir}/asked\ncase $1 in --format=screen) cat {self.dir}/screen.txt; "
                           f"echo again >&2 ;;\n--version) echo summarize of gradsync 1.2 ;;\n*) cat {self.dir}/tables.json ;; esac"
                           f"\nexit {status}\n")
        program.chmod(0o755)

    def run_report(self, *arguments, status=0, program=None, **environment):
        made = subprocess.run([program or self.dir / "bin/report", *map(str, arguments)], cwd=self.dir, check=False,
                              env=os.environ | environment, capture_output=True, text=True)
        self.assertEqual(made.returncode, status, made.stderr)
        return made.stdout, made.stderr

    def write_traces(self, *traces, run="ddp.1", below="traces"):
        (self.dir / below).mkdir(exist_ok=True)
        for rank, one in enumerate(traces):
            (self.dir / below / f"{run}.rank{rank}.trace.json").write_text(json.dumps(one))
        return sorted((self.dir / below).glob(f"{run}.*"))


class Timeline(InDirectory):
    def panel(self, *traces):
        return report.timelines(self.write_traces(*traces))["tiny, 2 ranks, batch 2, sequence 64"][0]

    def bars_of(self, *traces):
        """The axes, and the spans of each kind of bar."""
        axes = drawn(self.panel(*traces), (0, 40))
        spans = {}
        for bars in axes.collections:
            for path in bars.get_paths():
                x = [point[0] for point in path.vertices]
                spans.setdefault(bars.get_label(), []).append((min(x), max(x)))
        return axes, spans

    def test_shows_the_step_of_median_length(self):
        panel = self.panel(*(trace(rank, ((0, 50), (1, 41), (2, 44)), waits=[(21, 32)]) for rank in (0, 1)))
        self.assertEqual(panel["title"], "core, step 44 ms, exposed 11 ms, 1 MiB in 1 collectives")
        self.assertEqual(panel["length"], 44)
        self.assertEqual(list(panel["ranks"]), [0, 1])

    def test_marks_what_is_in_flight_while_its_rank_waits(self):
        axes, spans = self.bars_of(trace(0, waits=[(0, 2, False), (12, 15), (22, 25), (34, 36)]))
        self.assertEqual(spans, {
            "forward": [(0, 5)], "backward": [(5, 20)], "optimizer": [(32, 40)],
            "waits": [(20, 32), (12, 15), (22, 25), (34, 36)], "waits before forward, not exposed": [(0, 2)],
            "in flight while its rank computes": [(10, 30)], "in flight while its rank waits": [(12, 15), (20, 30)],
            "issued, not yet in flight": [(7, 10)]})
        self.assertEqual(lines_of(axes)[0][0], [20, 20])
        self.assertEqual([text.get_text() for text in axes.get_yticklabels()], ["rank 0", "in flight", "queued"])

    def test_an_update_that_waits_is_not_all_update(self):
        # As by zero1 over gloo: nothing waits between backward and the update.
        axes, spans = self.bars_of(trace(0, sync_end=20, waits=[(20, 30), (33, 35)]))
        self.assertEqual(spans["waits"], [(20, 30), (33, 35)])
        self.assertEqual(spans["in flight while its rank waits"], [(20, 30)])
        self.assertIn("exposed 12 ms", self.panel(trace(0, sync_end=20, waits=[(20, 30), (33, 35)]))["title"])

    def test_without_times_of_waits(self):
        axes, spans = self.bars_of(trace(0))
        self.assertEqual(spans["waits"], [(20, 32)])
        self.assertEqual(spans["in flight while its rank waits"], [(20, 30)])

    def test_a_pictures_digest_is_of_all_that_is_drawn(self):
        def digest(waits):
            made = report.picture("", [self.panel(trace(0, waits=waits))], "svg").decode()
            return re.search("sha256 ([0-9a-f]{64})", made)[1]

        # Both waits do not count, so that titles are equal.
        self.assertNotEqual(digest([(0, 2, False)]), digest([(0, 3, False)]))
        self.assertEqual(digest([(0, 2, False)]), digest([(0, 2, False)]))

    def test_a_step_without_communication(self):
        alone = trace(0)
        alone["traceEvents"] = [one for one in alone["traceEvents"] if one["tid"] < 3 and one["name"] != "sync_exposed"]
        self.assertEqual(self.panel(alone)["title"], "core, step 40 ms")
        self.assertEqual([text.get_text() for text in self.bars_of(alone)[0].get_yticklabels()], ["rank 0"])

    def test_is_of_the_latest_run_and_bad_traces_are_left_out(self):
        self.write_traces(trace(0), run="ddp.1", below="results")
        self.write_traces(trace(0, ((0, 77),)), run="ddp.2", below="results/traces")
        out, err = self.run_report("results", "--figure=timeline", "--out=t.svg")
        self.assertEqual((out, err), ("t.svg\n", ""))
        self.assertIn("step 77 ms", (self.dir / "t.svg").read_text())
        self.assertFalse((self.dir / "asked").exists())
        for bad in ("{", "[]", '{"traceEvents": [{"ph": "X"}]}', '{"traceEvents": 5}', "\xff"):
            (self.dir / "results/traces/ddp.2.rank0.trace.json").write_text(bad, encoding="latin-1")
            _, err = self.run_report("results", "--figure=timeline", "--out=t.svg")
            self.assertRegex(err, r"\Areport: left out: results/traces/ddp.2.rank0.trace.json: no trace of gradsync: .*\n\Z")
            self.assertIn("step 40 ms", (self.dir / "t.svg").read_text())


class Program(InDirectory):
    def test_a_picture_says_what_it_shows_and_nothing_of_today(self):
        def svg(delta):
            self.summarize(json.dumps(data_of(ddp=[ddp("<naive & co>@gloo", (delta, 15.0, 43.0), verdict="slower")])))
            self.run_report("a b", "c", "--figure=differences", "--out=x.svg")
            return (self.dir / "x.svg").read_text()

        first = svg(29.0)
        self.assertEqual((self.dir / "asked").read_text(), "--format=json a b c\n")
        self.assertEqual(first, svg(29.0))
        self.assertNotIn("dc:date", first)
        texts = [element.text for element in ET.fromstring(first).iter(f"{SVG}text")]
        self.assertIn("<naive & co>", texts)
        self.assertIn("29 [15, 43]", texts)
        digest = re.search("<dc:description>sha256 ([0-9a-f]{64})</dc:description>", first)[1]
        self.assertIn(digest, svg(29.000001))
        self.assertNotIn(digest, svg(29.1))
        self.run_report("a", "--figure=differences", "--out=x.png")
        self.assertEqual((self.dir / "x.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_a_page_holds_all_and_escapes_it(self):
        def section(title, text):
            return {"title": title, "columns": ["variant", "step (ms)"], "rows": [[text, "1.5"]]}
        table = {"name": "ddp", "title": "T <1>", "constants": "ranks 2", "is_detail": False, "findings": ["Use `a<b` & **c**"],
                 "notes": ["a note"], "sections": [section("", "**x & y**"), section("Second", "hidden")]}
        detail = table | {"title": "Details", "is_detail": True, "constants": "", "findings": ["not above"], "notes": [],
                          "sections": [section("", "deep")]}
        data = data_of(ddp=[ddp("core@gloo", cost=(0.003, 0.001, 0.005)), ddp("naive@gloo", (29.0, 15.0, 43.0))])
        data |= {"shown": [table, detail, table | {"title": "Empty", "sections": []}],
                 "warnings": [{"name": "n<10", "meaning": "fewer `steps`"}],
                 "runs": [{"experiment": "ddp", "run": "r<1>", "time": "now", "ranks": "2 ranks", "machine": "host",
                           "software": "g", "command": "./bazelw run //bench:ddp -- --x='<a b>'"}]}
        self.summarize(json.dumps(data), screen=SCREEN)
        self.write_traces(trace(0))
        out, err = self.run_report(".", "--out=r.html")  # what summarize complains of is printed once
        self.assertEqual((out, err), ("r.html\n", ""))
        page = (self.dir / "r.html").read_text()
        self.assertEqual(page.count("data:image/svg+xml;base64,"), 3)  # differences, cost, timeline
        advice = ("<p><strong>tiny over gloo</strong> Undecided: a &lt; b may have left</p>\n"
                  "<p><strong>small over shm</strong> Use zero1: 9 to 13 % faster</p>\n"
                  "<p><strong>To tell a from b:</strong> </p>\n<pre>./bazelw run //bench:ddp \\\n--out=DIR</pre>\n")
        self.assertIn(f"<h1>What gradient synchronisation costs</h1>{advice}<figure>", page)
        self.assertNotIn("of the grid", page)
        for text in ("<li>Use <code>a&lt;b</code> &amp; <strong>c</strong></li>", "<h3>T &lt;1&gt;</h3>", "All rows: ranks 2.",
                     "<td><strong>x &amp; y</strong></td><td class=n>1.5</td>",
                     "<li><code>n&lt;10</code>: fewer <code>steps</code></li>", "ddp, r&lt;1&gt;, now, 2 ranks, host, g",
                     "<pre>./bazelw run //bench:ddp -- --x=&#x27;&lt;a b&gt;&#x27;</pre>",
                     "<li>a note</li>"):
            self.assertTrue(text in page, text)
        self.assertEqual(page.count("not above"), 1)  # a detail's findings stand at its table alone
        self.assertFalse("Empty" in page or re.search("<script|src='?http|href='?http", page))
        # What is open, and what is folded.
        open_part, folded = page.index("<strong>x &amp; y"), page.index("hidden")
        self.assertLess(open_part, page.index("<details>"))
        self.assertLess(page.index("<details>"), folded)
        self.assertLess(folded, page.index("</details>"))
        deep = page.index("deep")
        self.assertEqual(page.count("<details>", 0, deep) - page.count("</details>", 0, deep), 1)

    def test_a_screen_without_advice_is_shown_whole(self):
        self.summarize(json.dumps(data_of(ddp=[])), screen="2 ranks on <host>\n  gloo\n")
        self.run_report("a", "--out=x.html")
        self.assertIn("</h1><pre>2 ranks on &lt;host&gt;\n  gloo\n</pre>", (self.dir / "x.html").read_text())

    def test_version(self):
        self.assertEqual(self.run_report("--version"), ("report of gradsync 1.2\n", ""))

    def test_what_it_refuses(self):
        self.summarize(json.dumps(data_of(ddp=[ddp("core@gloo")])))
        for arguments, message in (
                (["--out=x.html"], "the following arguments are required: DIR"),
                (["a"], "--out=: expected a name that ends in .html"),
                (["a", "--out=x.svg"], "--out=x.svg: expected a name that ends in .html"),
                (["a", "--figure=cost", "--out=x.html"], "--out=x.html: expected a name that ends in .svg or .png"),
                (["a", "--figure=cake", "--out=x.svg"], "argument --figure: invalid choice: 'cake'"),
                (["a", "--outt=x.svg"], "unrecognized arguments: --outt=x.svg"),
                (["a", "--figure=cost", "--out=x.svg"], "--figure=cost: there is nothing that it could show"),
                (["a", "--figure=timeline", "--out=x.svg"], "--figure=timeline: there is nothing that it could show")):
            out, err = self.run_report(*arguments, status=2)
            self.assertEqual((out, err.count("\n")), ("", 1), err)
            self.assertTrue(err.startswith(f"report: error: {message}"), err)
        self.assertRegex(self.run_report("a", "--out=no/x.html", status=1)[1], r"\Areport: .*no/x\.html'\n\Z")
        self.summarize("", status=1)
        self.assertEqual(self.run_report("a", "--out=x.html", status=1), ("", ""))
        (self.dir / "bin/summarize").unlink()
        self.assertRegex(self.run_report("a", "--out=x.html", status=1)[1], r"\Areport: .*bin/summarize'\n\Z")

    def test_without_matplotlib(self):
        (self.dir / "matplotlib.py").write_text("raise ImportError\n")
        out, err = self.run_report("a", "b", "--out=x.html", status=4, PYTHONPATH=str(self.dir))
        self.assertEqual((out, err), ("", "report: no matplotlib: `./bazelw run //tools:report -- a b --out=report.html` "
                                          "installs it and makes the report\n"))

    def test_records_without_rows(self):
        self.summarize(json.dumps(data_of(ddp=[], all_reduce=[], links=[], convergence=[], losses=[])))
        self.run_report("a", "--out=x.html")
        self.assertFalse("<figure>" in (self.dir / "x.html").read_text())


class KeptRecords(InDirectory):
    """The whole way, with summarize."""

    def unpack(self, name):
        (self.dir / name).mkdir()
        for path in (HERE / "docs/records" / name).glob("*.gz"):
            (self.dir / name / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        return name

    def test_every_figure(self):
        for figure, names in (("differences", ["tiny"]), ("cost", ["small"]), ("tokens", ["grid"]),
                              ("bandwidth", ["all_reduce"]), ("links", ["beyond", "link"]), ("convergence", ["convergence"]),
                              ("timeline", ["timeline"])):
            with self.subTest(figure):
                self.run_report(*map(self.unpack, names), f"--figure={figure}", "--out=x.svg", program=HERE / "tools/report")
                ET.parse(self.dir / "x.svg")

    def test_pages(self):
        for name in ("quick", "gpu_strategies_xl", "memory"):  # several settings; one rank; no figure but its own
            self.run_report(self.unpack(name), "--out=x.html", program=HERE / "tools/report")
            page = (self.dir / "x.html").read_text()
            self.assertTrue("<pre>./bazelw run //bench:" in page, name)
            self.assertTrue(page.endswith("</html>\n"), name)


if __name__ == "__main__":
    unittest.main()
