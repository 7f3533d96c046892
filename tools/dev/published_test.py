"""What is predicted of published steps, and what an answer for GPUs says of it."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).absolute().parent
sys.path.insert(0, str(HERE))
import published
from gradsync import published_costs
from published_lines import BadLine, Memory, Passes, Scaling, read

FILE = str(HERE.parents[1] / "docs/published_steps.jsonl")
LINE = {
    "kind": "scaling",
    "source": "someone/benchmark",
    "gpu": "X",
    "model": "net",
    "setting": "f32",
    "first": "plain",
    "gradient_bytes": 100e6,
    "tensors": 50,
    "step_ms": {"1": 30, "2": 33, "8": 36},
    "bus_gb_s": {"2": 10, "8": 20},
    "is_bus_assumed": False,
    "ddp_of_one_ms": 32,
    "wanted": [2, 8],
}


class LinesTest(unittest.TestCase):
    def read(self, *lines):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
            return read(file.name)

    def assert_bad(self, word, **changes):
        fields = {name: value for name, value in {**LINE, **changes}.items() if value is not None}
        with self.assertRaisesRegex(BadLine, f"line 1: .*{word}"):
            self.read(fields)

    def test_units_are_those_of_the_file(self):
        (line,) = self.read(LINE)
        steps_ms = {gpus: round(1e3 * seconds, 6) for gpus, seconds in line.step_s.items()}
        self.assertEqual(steps_ms, {1: 30, 2: 33, 8: 36})
        self.assertEqual(line.bus_bytes_s, {2: 10e9, 8: 20e9})
        self.assertEqual((line.ddp_of_one_s, line.step_sd_s, line.clock_mhz), (0.032, 0, {}))
        self.assertAlmostEqual(line.cost_s(8), 0.006)
        self.assertEqual(line.machine, ("someone/benchmark", "X"))
        passes = {"kind": "passes", "passes": 4, "one_ms": 2, "once_ms": 50, "each_ms": 56.5}
        names = {name: LINE[name] for name in ("source", "gpu", "model", "setting")}
        self.assertEqual(
            self.read({**names, **passes}),
            [Passes("someone/benchmark", "X", "net", "f32", 4, 0.002, 0.050, 0.0565)],
        )
        peaks = {"kind": "memory", "ranks": 8, "recording": "a/b.jsonl", "peak_mib": {"ddp": 2}}
        (memory,) = self.read({**names, **peaks})
        self.assertEqual(memory.peak_bytes, {"ddp": 2 << 20})
        self.assertEqual(memory.recording, str(pathlib.Path(tempfile.gettempdir()) / "a/b.jsonl"))

    def test_some_fields_may_be_missing(self):
        optional = ("tensors", "setting", "is_bus_assumed", "ddp_of_one_ms")
        (line,) = self.read({name: LINE[name] for name in LINE if name not in optional})
        self.assertEqual(line.name, "X, net")
        self.assertEqual(
            (line.tensors, line.is_bus_assumed, line.ddp_of_one_s), (None, False, None)
        )
        self.assertIsNone(published.ddp_tensors(line, 2))

    def test_lines_that_lack_something_are_named(self):
        self.assert_bad("lacks 'source'", source=None)
        self.assert_bad("lacks 'other'", kind="other")
        self.assert_bad("expected a text", gpu=8)
        self.assert_bad("no number above 0", gradient_bytes=-1)
        self.assert_bad("no number above 0", step_ms={"1": "30", "2": 33, "8": 36})
        self.assert_bad("expected plain or ddp", first="fsdp")
        self.assert_bad("wanted has 4", wanted=[2, 4])
        self.assert_bad("wanted has 1", wanted=[1], bus_gb_s={"1": 10, "2": 10, "8": 20})
        self.assert_bad("wanted has 8", bus_gb_s={"2": 10})
        with self.assertRaisesRegex(BadLine, "line 2: "):
            self.read(LINE, [])


class PredictionTest(LinesTest):
    def cost_ms(self, gpus=2, **changes):
        (line,) = self.read({**LINE, **changes})
        return 1e3 * published.predicted_cost_s(line, gpus)

    def test_the_last_bucket_is_exposed_and_others_where_the_link_is_slow(self):
        # 100 MB are 1 MiB, three of 25 MiB, and 20.3 MB, ready at the end: all pass at 10 GB/s.
        last_ms = 1e-6 * (100e6 - 76 * (1 << 20)) / 10
        self.assertAlmostEqual(self.cost_ms(), last_ms)
        # Between 8 they pass 7/4 of their bytes, at 20 GB/s.
        self.assertAlmostEqual(self.cost_ms(8), last_ms * 7 / 8)
        # At 1 GB/s the first has passed when the second is ready; the others wait for it.
        second_ms = 10 + 20 * (26 << 20) / 100e6
        left_ms = 100 - 1e-6 * (1 << 20)
        self.assertAlmostEqual(self.cost_ms(bus_gb_s={"2": 1, "8": 1}), second_ms + left_ms - 30)
        self.assertAlmostEqual(self.cost_ms(gradient_bytes=1e6), 0.1)

    def test_the_slowest_of_ranks_that_vary_is_waited_for(self):
        steady = self.cost_ms(8)
        varied = self.cost_ms(8, step_sd_ms=0.5)
        self.assertGreater(varied, steady + 0.5 * 0.8)  # 1.42 of a normal distribution
        self.assertLess(varied, steady + 0.5 * 1.6)

    def test_a_cost_of_each_pass_is_that_of_one_more(self):
        line = Passes("a", "X", "net", "f32", 4, 0.002, 0.050, 0.0565)
        (row,) = published.rows_of([line])
        self.assertAlmostEqual(row.predicted_s, 0.056)
        self.assertAlmostEqual(row.published_cost_s, 0.0065)
        self.assertAlmostEqual(row.predicted_cost_s, 0.006)
        self.assertIn("-8 %", row.text())

    def test_factors_are_above_1_and_of_many_gpus(self):
        lines = self.read(LINE, {**LINE, "step_ms": {"1": 30, "2": 33, "8": 30.1}})
        cost = published.predicted_cost_s(lines[0], 8)
        expected = sorted([max(cost / 0.006, 0.006 / cost), cost / 0.0001])
        for found, factor in zip(published.factors(lines), expected, strict=True):
            self.assertAlmostEqual(found, factor)
        none = self.read({**LINE, "step_ms": {"1": 30, "2": 33, "8": 29}})
        self.assertEqual(published.factors(none), [])
        self.assertEqual(published.summary(none), "No line has a cost of 4 or 8 GPUs.")
        self.assertEqual(len(list(published.rows_of(none))), 2)
        self.assertIn("      - ", list(published.rows_of(none))[1].text())


class FitTest(LinesTest):
    def test_a_parameter_is_fitted_to_one_model_and_tried_on_others(self):
        other = {**LINE, "model": "other", "ddp_of_one_ms": None, "tensors": 100}
        del other["ddp_of_one_ms"]
        lines = self.read(LINE, other, {**other, "gpu": "Y"}, {**other, "gpu": "Z", "first": "ddp"})
        a_step, a_gradient, slowest, tax = published.CANDIDATES
        self.assertAlmostEqual(published.fitted(a_step, lines[:1]), 2)
        self.assertAlmostEqual(published.fitted(a_gradient, lines[:1]), 40)
        self.assertIsNone(published.fitted(a_step, lines[1:]))
        lacking = [lines[0].cost_s(n) - published.predicted_cost_s(lines[0], n) for n in (2, 8)]
        rings = [0.010, 0.100 * 7 / 4 / 20]
        expected = sum(part / ring for part, ring in zip(lacking, rings, strict=True)) / 2
        self.assertAlmostEqual(published.fitted(tax, lines[:1]), expected)
        expected = (lacking[0] / 0.0003 / 0.5642 + lacking[1] / 0.0003 / 1.4236) / 2
        self.assertAlmostEqual(published.fitted(slowest, lines[:1]), expected)
        trials = list(published.trials_of(a_step, lines))
        self.assertEqual([one.gpus for one in trials], [2, 8] * 3)
        self.assertEqual([one.is_same_machine for one in trials], [True] * 2 + [False] * 4)
        self.assertEqual([one.applies for one in trials], [True] * 4 + [False] * 2)
        self.assertAlmostEqual(trials[0].error, trials[0].today + 2 / 3)
        self.assertEqual(trials[5].error, trials[5].today)
        trials = list(published.trials_of(a_gradient, lines))
        self.assertAlmostEqual(trials[0].error, trials[0].today + 4 / 3)


class KeptFileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lines = read(FILE)

    def test_an_answer_says_how_wrong_costs_are(self):
        found = published.factors(self.lines)
        self.assertEqual(len(found), published_costs.COSTS)
        self.assertEqual(round(found[-1]), published_costs.WITHIN)
        half = (found[len(found) // 2 - 1] + found[len(found) // 2]) / 2
        self.assertEqual(round(half), published_costs.HALF_WITHIN)
        said = published_costs.note().partition(": ")[0]
        self.assertEqual(published.summary(self.lines).rstrip("."), said)

    def test_costs_are_predicted_too_low(self):
        # What the note says of their direction.
        for line in self.lines:
            if isinstance(line, Scaling):
                for gpus in line.wanted:
                    self.assertLess(published.predicted_cost_s(line, gpus), line.cost_s(gpus))

    def test_no_candidate_halves_the_error_of_other_machines(self):
        # One that did would belong into what_if.
        for candidate in published.CANDIDATES:
            trials = [
                one
                for one in published.trials_of(candidate, self.lines)
                if one.gpus in published.MANY and not one.is_same_machine
            ]
            today, error = (
                sorted(map(abs, values))[len(trials) // 2]
                for values in ([one.today for one in trials], [one.error for one in trials])
            )
            self.assertGreater(error, today / 2, candidate.name)

    def test_peaks_of_memory_are_those_of_recordings(self):
        peaks = {
            (line.model, way): published.predicted_peak_bytes(line, way) / peak
            for line in self.lines
            if isinstance(line, Memory)
            for way, peak in line.peak_bytes.items()
        }
        self.assertEqual(len(peaks), 4)
        for (model, way), ratio in peaks.items():
            # FSDP's were published of gathers in bf16, and are predicted of gathers in f32.
            least, most = (0.95, 1) if way == "ddp" else (1.3, 1.8)
            self.assertTrue(least < ratio < most, (model, way, ratio))

    def test_every_figure_is_a_line(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            published.main(FILE)
        table = printed.getvalue().partition("\n\n")[0].splitlines()
        self.assertEqual(len(table) - 1, len(list(published.rows_of(self.lines))))
        self.assertLessEqual(max(map(len, printed.getvalue().splitlines())), 148)


if __name__ == "__main__":
    unittest.main()
