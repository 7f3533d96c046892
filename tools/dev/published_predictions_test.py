"""What is predicted of published figures. docs/prediction.md prints these errors, in per cent."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import published_predictions


class PublishedPredictionsTest(unittest.TestCase):
    def errors(self, source):
        return [
            100 * one.error
            for one in published_predictions.figures()
            if one.source.startswith(source)
        ]

    def test_curves_of_many_gpus(self):
        for source, errors in (
            ("llm-foundry, MPT 1b", (-0.06, 1.93, 3.59)),
            ("llm-foundry, MPT 13b", (-0.37, 0.07, -0.88, -0.70)),
            ("llm-foundry, MPT 760m", (-0.05, 0.79)),
            ("torchtitan", (-0.18, 1.51)),
            ("Ultra-Scale Playbook", (1.59, -1.45, 22.90)),
        ):
            found = self.errors(source)
            self.assertEqual(len(found), len(errors), source)
            for error, expected in zip(found, errors, strict=True):
                self.assertAlmostEqual(error, expected, delta=0.02, msg=source)

    def test_a_line_goes_through_two_points(self):
        self.assertAlmostEqual(published_predictions.on_line((8, 4416), (24, 8134), at=40), 11852)

    def test_a_ring_of_two_passes_all_bytes_once(self):
        # 0.498 GB at 50 and 6.25 GB/s, and two hops of 5 and 10 us.
        expected = 1e3 * (0.498 / 6.25 - 0.498 / 50) + 2 * 0.005
        self.assertAlmostEqual(published_predictions.nvlink_gain_ms(), expected)

    def test_each_figure_is_a_line_of_the_table(self):
        heading, *lines, causes = published_predictions.table().splitlines()
        self.assertEqual(len(lines), len(published_predictions.figures()))
        self.assertLessEqual(max(map(len, [heading, *lines, causes])), 148)


if __name__ == "__main__":
    unittest.main()
