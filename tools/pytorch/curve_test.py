"""Curves: several numbers of ranks and links at once."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import tempfile
import unittest
from dataclasses import replace
from unittest import mock

import gradsync
from gradsync import Refused, plot, what_if_command
from gradsync.answer import as_json
from gradsync.curve import Curve
from gradsync.curve_text import curve_text
from sample_recordings import MS, launch, sharded, steps_of, written

LINKS = ["8Gbit,5us", "1Gbit,50us"]


def varied():
    """The launch, whose steps differ."""
    one = launch()
    for i, step in enumerate(steps_of(one, "probe")):
        step["before_ns"] += 3 * MS * (i % 5)
    return one


def run_main(*arguments):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = what_if_command.main(list(arguments))
        except SystemExit as exit:
            status = exit.code
    return status, out.getvalue(), errors.getvalue()


class PointsTest(unittest.TestCase):
    def test_each_point_is_what_is_answered_of_it_alone(self):
        path = written(varied())
        curve = gradsync.what_if(path, world_size=[8, 2, 64], link=LINKS, ranks_per_host=2)
        self.assertEqual(
            [(point.link, point.world_size) for point in curve.points],
            [(link, ranks) for link in LINKS for ranks in (8, 2, 64)],
        )
        for point in curve.points:
            answer = gradsync.what_if(
                path, world_size=point.world_size, link=point.link, ranks_per_host=2
            )
            step, none_s = answer.ddp.step_s, answer.none_s
            self.assertEqual(point.step_s, step)
            self.assertEqual(point.exposed_s.value, answer.ddp.exposed_s)
            self.assertEqual(point.equal_step_s, answer.variation.equal_step_s)
            for value, low, high in (
                (point.cost_s, step.low - none_s, step.high - none_s),
                (
                    point.speed_up,
                    point.world_size * none_s / step.high,
                    point.world_size * none_s / step.low,
                ),
            ):
                self.assertAlmostEqual(value.low, low)
                self.assertAlmostEqual(value.high, high)
            self.assertAlmostEqual(point.cost_s.value, step.value - none_s)
            self.assertAlmostEqual(point.speed_up.value, point.world_size * none_s / step.value)

    def test_other_arguments_count(self):
        path = written(varied())
        plain = gradsync.what_if(path, world_size=[2, 4], link=LINKS)
        slow = varied()
        for step in steps_of(slow, "none"):
            step["step_ns"] *= 2
        there = gradsync.what_if(path, world_size=[2], link=LINKS, at=written(slow))
        self.assertAlmostEqual(there.none_s, 2 * 63e-3)
        for arguments in ({"processor_percent": 100}, {"algorithm": "tree"}, {"at": written(slow)}):
            other = gradsync.what_if(path, world_size=[2, 4], link=LINKS, **arguments)
            pairs = zip(plain.points, other.points, strict=True)
            self.assertTrue(
                any(abs(a.step_s.value - b.step_s.value) > 1e-5 for a, b in pairs), arguments
            )

    def test_what_is_exposed_has_an_interval(self):
        # 30 ms of a link that other launches have 3 % faster or slower.
        (point,) = gradsync.what_if(written(launch()), world_size=[2]).points
        exposed = point.exposed_s
        self.assertAlmostEqual(exposed.value, 30e-3)
        self.assertAlmostEqual(exposed.low, 30e-3 * (1 - 1.96 * 0.03), delta=0.2e-3)
        self.assertAlmostEqual(exposed.high, 30e-3 * (1 + 1.96 * 0.03), delta=0.2e-3)
        # Of two launches it spans both.
        slow = launch()
        for step in steps_of(slow, "probe"):
            step["collectives"]["ns"] = [2 * ns for ns in step["collectives"]["ns"]]
            step["collectives"]["wall_ns"] *= 2
        (both,) = gradsync.what_if(written(launch(), slow), world_size=[2]).points
        self.assertAlmostEqual(both.exposed_s.low, exposed.low)
        self.assertGreater(both.exposed_s.high, 59e-3)
        self.assertAlmostEqual(both.exposed_s.value, (30e-3 + 60e-3) / 2, delta=5e-3)

    def test_steps_of_several_passes_are_compared_with_as_many(self):
        one = launch()
        one["rows"][0]["passes"] = 2
        curve = gradsync.what_if(written(one), world_size=[2])
        self.assertAlmostEqual(curve.none_s, 2 * 63e-3)
        (point,) = curve.points
        self.assertAlmostEqual(point.cost_s.value, point.step_s.value - 2 * 63e-3)

    def test_a_list_of_one_is_a_curve(self):
        path = written(launch())
        for arguments in ({"world_size": [4]}, {"link": ["8Gbit,5us"]}, {"world_size": (2,)}):
            curve = gradsync.what_if(path, **arguments)
            self.assertIsInstance(curve, Curve)
            self.assertEqual(len(curve.points), 1)

    def test_each_assumption_is_told_once(self):
        curve = gradsync.what_if(written(launch()), world_size=[4, 8], link=LINKS)
        self.assertEqual(curve.notes[0], "Assumed: the link is within 10 % of its data sheet.")
        self.assertEqual(len(curve.notes), len(set(curve.notes)))
        curve = gradsync.what_if(written(launch()), world_size=[2, 4])
        self.assertEqual(curve.notes, ["Assumed: collectives go around a ring."])

    def test_a_link_may_be_a_recording(self):
        fast = launch()
        for step in steps_of(fast, "probe"):
            step["collectives"]["ns"] = [ns // 2 for ns in step["collectives"]["ns"]]
            step["collectives"]["wall_ns"] //= 2
        path = written(fast)
        curve = gradsync.what_if(written(launch()), world_size=[2, 4], link=[path])
        for point in curve.points:
            alone = gradsync.what_if(written(launch()), world_size=point.world_size, link=path)
            self.assertEqual(point.step_s, alone.ddp.step_s)


class MeasuredTest(unittest.TestCase):
    def test_own_steps_of_other_recordings_are_points(self):
        other = launch()
        other.update(world_size=3, hosts=["a"] * 3, ranks=[*other["ranks"], launch()["ranks"][0]])
        for step in steps_of(other, "ddp"):
            step["step_ns"] = 120 * MS
        path = written(other)
        (point,) = gradsync.what_if(written(launch()), world_size=[2, 3], measured=[path]).measured
        self.assertEqual((point.recording, point.world_size), (path, 3))
        self.assertAlmostEqual(point.step_s.value, 120e-3)
        self.assertAlmostEqual(point.speed_up.value, 3 * 63 / 120)
        for i, step in enumerate(steps_of(other, "ddp")):
            step["step_ns"] += 5 * MS * (i % 12 % 2)
        paths = [written(other), written(launch())]
        many = gradsync.what_if(written(launch()), world_size=[2, 3], measured=paths).measured
        self.assertEqual([point.world_size for point in many], [3, 2])
        step, speed_up = many[0].step_s.interval, many[0].speed_up.interval
        self.assertLess(step.low, step.high)
        self.assertAlmostEqual(speed_up.low, 3 * 63e-3 / step.high)
        self.assertAlmostEqual(speed_up.high, 3 * 63e-3 / step.low)

    def test_what_cannot_be_compared_is_refused(self):
        silent = launch()
        for steps in silent["ranks"]:
            steps[:] = [step for step in steps if step["mode"] != "ddp"]
        smaller = launch()
        smaller["parameters"] = [{**one, "bytes": 8} for one in smaller["parameters"]]
        for one, said in (
            (smaller, "--measured=.*: a recording of other parameters or passes"),
            ({**launch(), "passes": 2}, "--measured=.*: a recording of other parameters or passes"),
            (silent, "--measured=.*: it holds no steps that the script synchronised"),
            ({**silent, "rows": []}, "it holds no steps that the script synchronised"),
        ):
            with self.assertRaisesRegex(Refused, said):
                gradsync.what_if(written(launch()), world_size=[2, 4], measured=[written(one)])


class RefusedTest(unittest.TestCase):
    def test_in_one_line(self):
        path = written(launch())
        for arguments, said in (
            ({"world_size": [2, 4, 2]}, "--world_size=2: it is named twice"),
            ({"link": ["8Gbit", "8Gbit"]}, "--link=8Gbit: it is named twice"),
            ({"world_size": []}, "a curve needs a number of ranks and a link at least"),
            ({"link": []}, "a curve needs a number of ranks and a link at least"),
            ({"world_size": [2, 16385]}, "--world_size=16385: expected 1 to 16384"),
            ({"world_size": [1, 2]}, "one rank communicates with nobody"),
            ({"link": ["8Gbit", "fast"]}, "--link=fast: neither a rate"),
            ({"world_size": [2, 4], "memory": "80GB"}, "--memory is for one number of ranks"),
            ({"world_size": 4, "measured": [path]}, "--measured is for several numbers of ranks"),
        ):
            with self.assertRaises(Refused, msg=arguments) as refused:
                gradsync.what_if(path, **arguments)
            self.assertIn(said, str(refused.exception))
            self.assertNotIn("\n", str(refused.exception))

    def test_flags(self):
        path = written(launch())
        several = "--world_size=2,4"
        for arguments, said in (
            (["--world_size=2,"], "expected 2 to 16384"),
            (["--world_size=2,0"], "expected 2 to 16384"),
            (["--world_size=2,1"], "expected 2 to 16384"),
            (["--world_size=2;4"], "expected 0 to 16384"),
            ([several, "--memory=80GB"], "--memory is for one number of ranks and one link"),
            (["--plot=x.svg"], "--plot needs several numbers of ranks"),
            ([f"--measured={path}"], "--measured is for several numbers of ranks"),
            ([several, "--plot=x.gif"], "--plot=x.gif: expected a name that ends in .svg or .png"),
            ([several, "--measured=/nonexistent"], "/nonexistent: cannot be read"),
            (["--link=8Gbit", "--link=25Gbps"], "did you mean 25Gbit,5us?"),
            (["--link="], "--link=: expected a rate and a latency, or a file"),
            (["--link=8Gbit", "--link="], "--link=: expected a rate"),
        ):
            status, out, errors = run_main(path, *arguments)
            self.assertEqual((status, out, errors.count("\n")), (2, "", 1), arguments)
            self.assertTrue(errors.startswith("what_if: ") and said in errors, errors)

    def test_a_missing_matplotlib_is_told_at_once(self):
        with mock.patch.object(importlib.util, "find_spec", return_value=None):
            status, out, errors = run_main("/nonexistent", "--world_size=2,4", "--plot=x.svg")
        self.assertEqual((status, out), (4, ""))
        self.assertEqual(
            errors,
            "what_if: no module matplotlib: --plot needs it (pip install 'gradsync[plot]')\n",
        )


class TextTest(unittest.TestCase):
    def test_has_a_line_for_each_point_and_no_other_tables(self):
        status, text, _ = run_main(
            written(varied()), "--world_size=2,4,64", "--link=8Gbit,5us", "--link=1Gbit,50us"
        )
        lines = text.splitlines()
        self.assertEqual(status, 0)
        self.assertLessEqual(max(map(len, lines)), 118)
        rows = [line.split() for line in lines if line.startswith("   ")]
        self.assertEqual(
            [(row[0], row[-1]) for row in rows],
            [(ranks, link) for link in LINKS for ranks in ("2", "4", "64")],
        )
        self.assertIn("A step without synchronisation takes 63 ms.", lines)
        for other in ("bucket_cap_mb ", "way ", "DDP ", "twice as long", "Asked for"):
            self.assertNotIn(f"\n{other}", text)

    def test_numbers_stand_in_the_order_of_the_titles(self):
        curve = gradsync.what_if(written(launch()), world_size=[2], measured=[written(launch())])
        text = curve_text(curve)
        self.assertRegex(
            text,
            r"\n    2  97 \[.*\] +1.3 \[.*\] +34 \[.*\] +30 \[.*\] +97 ms +as recorded\n",
        )
        self.assertIn("\nMeasured in other recordings:\n", text)
        self.assertRegex(text, r"\n    2  90 \[90, 90\] +1.4 \[1.4, 1.4\] +/")
        none = curve.measured[0]
        none = replace(none, step_s=replace(none.step_s, interval=None))
        none = replace(none, speed_up=replace(none.speed_up, interval=None))
        self.assertRegex(curve_text(replace(curve, measured=[none])), r"\n    2  90 +1.4  +/")

    def test_names_what_synchronises(self):
        self.assertIn(
            "steps of fully_shard with 2 units.",
            curve_text(gradsync.what_if(written(sharded()), world_size=[2, 4], link="8Gbit")),
        )

    def test_json_has_the_names_of_the_dataclasses(self):
        path = written(varied())
        status, out, _ = run_main(path, "--world_size=2,4", "--format=json", f"--measured={path}")
        self.assertEqual(status, 0)
        printed = json.loads(out)
        curve = gradsync.what_if(path, world_size=[2, 4], measured=[path])
        self.assertEqual(printed, json.loads(json.dumps(as_json(curve))))
        point = curve.points[1]
        step = point.step_s
        self.assertEqual(printed["points"][1]["step_s"], [step.value, step.low, step.high])
        self.assertEqual(printed["points"][1]["world_size"], 4)

    def test_several_measured_files_are_divided_by_commas_or_flags(self):
        paths = [written(launch()) for _ in range(3)]
        _, text, _ = run_main(
            paths[0],
            "--world_size=2,4",
            f"--measured={paths[0]},{paths[1]}",
            f"--measured={paths[2]}",
        )
        self.assertEqual([path for path in paths if f"  {path}\n" in text], paths)


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "needs matplotlib")
class PlotTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def curve(self, **arguments):
        path = written(varied())
        return gradsync.what_if(path, world_size=[2, 4, 16], measured=[path], **arguments)

    def drawn(self, curve, name="curve.svg"):
        path = self.directory / name
        plot.save(curve, path)
        return path.read_bytes()

    def test_the_same_curve_gives_the_same_bytes(self):
        import matplotlib

        curve = self.curve()
        first = self.drawn(curve)
        matplotlib.rcParams["lines.linewidth"] = 30  # of somebody else
        self.addCleanup(matplotlib.rcdefaults)
        self.assertEqual(self.drawn(curve), first)
        self.assertEqual(matplotlib.rcParams["lines.linewidth"], 30)
        self.assertNotIn(b"<dc:date>", first)

    def test_other_curves_have_other_descriptions(self):
        def description(curve):
            text = self.drawn(curve).decode()
            return text.partition("<dc:description>")[2].partition("<")[0]

        curve = self.curve()
        step = replace(curve.points[0].step_s, value=1.0)
        points = [replace(curve.points[0], step_s=step), *curve.points[1:]]
        self.assertRegex(description(curve), "^sha256 [0-9a-f]{64}$")
        self.assertNotEqual(description(curve), description(replace(curve, points=points)))
        self.assertNotEqual(description(curve), description(replace(curve, measured=[])))
        rounded = replace(curve, none_s=curve.none_s * (1 + 1e-9))
        self.assertEqual(description(curve), description(rounded))

    def test_everything_has_a_name(self):
        text = self.drawn(self.curve(link=LINKS)).decode()
        for said in (
            "Predicted: DistributedDataParallel with buckets of 25 MiB (the first: 1 MiB)",
            "time of a step (ms)",
            "speed-up: samples a second, of one rank = 1",
            "ideal: speed-up = number of ranks",
            "a step without synchronisation",
            "predicted over 8Gbit,5us",
            "predicted over 1Gbit,50us",
            "interval of 95 %",
            "predicted, if all ranks were equally fast",
        ):
            self.assertEqual(text.count(f">{said}</text>"), 1, said)
        self.assertEqual(text.count(">measured</text>"), 1)
        self.assertEqual(text.count(">ranks</text>"), 2)
        self.assertIn(">16</text>", text)
        self.assertNotIn(">measured<", self.drawn(replace(self.curve(), measured=[])).decode())

    def test_lines_are_where_the_numbers_are(self):
        from matplotlib.figure import Figure

        curve = self.curve()
        figure = Figure()
        plot._draw(figure, replace(curve, points=curve.points[::-1]))  # asked for in this order
        steps, speeds, _ = figure.axes

        def line(axes, style, marker):
            (found,) = (
                one
                for one in axes.lines
                if (one.get_linestyle(), one.get_marker()) == (style, marker)
                and one.get_color() == plot.COLOURS[0]
            )
            return [*map(float, found.get_ydata())]

        points = curve.points
        self.assertEqual(line(steps, "-", "o"), [1e3 * point.step_s.value for point in points])
        self.assertEqual(line(speeds, "-", "o"), [point.speed_up.value for point in points])
        equal = [point.equal_step_s for point in points]
        self.assertEqual(line(steps, ":", "None"), [1e3 * step for step in equal])
        self.assertEqual(
            line(speeds, ":", "None"),
            [point.world_size * curve.none_s / point.equal_step_s for point in points],
        )
        for axes, factor, name in ((steps, 1e3, "step_s"), (speeds, 1, "speed_up")):
            (band,) = axes.collections
            heights = [y for _, y in band.get_paths()[0].vertices]
            values = [getattr(point, name) for point in points]
            self.assertAlmostEqual(min(heights), factor * min(one.low for one in values))
            self.assertAlmostEqual(max(heights), factor * max(one.high for one in values))

    def test_the_command_draws_and_prints(self):
        path, out = written(varied()), self.directory / "out.svg"
        status, text, errors = run_main(path, "--world_size=4,2", f"--plot={out}")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("speed-up", text)
        self.assertIn(b"</svg>", out.read_bytes())
        self.assertTrue(self.drawn(self.curve(), "curve.png").startswith(b"\x89PNG"))

    def test_refuses_one_number_of_ranks_and_a_file_that_cannot_be_written(self):
        path = written(launch())
        for arguments, said in (
            (["--link=8Gbit", "--link=1Gbit", f"--plot={self.directory}/x.svg"], "several numbers"),
            (
                ["--world_size=2,4", f"--plot={self.directory}/no/x.svg"],
                "cannot be written: No such",
            ),
        ):
            status, out, errors = run_main(path, *arguments)
            self.assertEqual((status, out, errors.count("\n")), (2, "", 1))
            self.assertIn(said, errors)


if __name__ == "__main__":
    unittest.main()
