"""Intervals of predicted values, and local SGD, which is predicted by such alone."""

import math
import unittest

from gradsync.drawing import deviations
from gradsync.estimates import Interval
from gradsync.local_sgd import local_step
from sample_recordings import launch, predictor, steps_of


def drawn(value, *launches):
    return Interval.of(value, launches)


class IntervalTest(unittest.TestCase):
    def test_spans_the_middle_of_all_launches(self):
        one = drawn(7, [*range(41)])
        self.assertEqual((one.value, one.low, one.high), (7, 1, 39))
        both = drawn(7, [*range(41)], [100 + k for k in range(41)])
        self.assertEqual((both.low, both.high), (1, 139))

    def test_a_difference_leaves_out_what_is_common(self):
        common = [float(k) for k in range(41)]
        one, other = drawn(20, common), drawn(21, [1 + k for k in common])
        self.assertTrue(one.low < other.low < one.high)
        difference = one.less(other)
        self.assertEqual((difference.value, difference.low, difference.high), (-1, -1, -1))
        self.assertTrue(one.is_told_from(other))
        self.assertTrue(other.is_told_from(one))
        self.assertFalse(one.is_told_from(one))
        # As far apart, but drawn by themselves.
        self.assertFalse(one.is_told_from(drawn(21, [1 + k for k in reversed(common)])))

    def test_launches_that_disagree_do_not_tell(self):
        one = drawn(2, [1.0] * 41, [3.0] * 41)
        self.assertFalse(one.is_told_from(drawn(2, [2.0] * 41, [2.0] * 41)))
        self.assertTrue(one.is_told_from(drawn(3, [2.0] * 41, [4.0] * 41)))

    def test_is_scaled_with_all_its_draws(self):
        one = drawn(20, [float(k) for k in range(41)]).scaled(0.5)
        self.assertEqual((one.value, one.low, one.high), (10, 0.5, 19.5))
        self.assertTrue(one.is_told_from(drawn(10, [k / 2 + 1 for k in range(41)])))


class LocalStepTest(unittest.TestCase):
    def test_the_slowest_ranks_sum_counts(self):
        # Means of four steps of 1 or 3 s, which are far less apart than steps are.
        ranks = [[1.0, 3.0] * 20] * 2
        one = local_step(ranks, 2, 4, 0, 0).value
        self.assertTrue(2 < one < 2.7, one)
        self.assertGreater(local_step(ranks, 2, 1, 0, 0).value, one)
        self.assertGreater(local_step(ranks, 64, 4, 0, 0).value, one + 0.4)
        # A slow rank is slow in all its steps.
        self.assertEqual(local_step([[1.0] * 4, [2.0] * 4], 2, 8, 0, 0).value, 2)
        self.assertEqual(local_step([[1.0] * 4, [2.0] * 4], 16, 8, 0, 0).value, 2)

    def test_an_average_is_as_uncertain_as_the_link(self):
        one = local_step([[1.0] * 4] * 2, 2, 8, 0.5, 0.1)
        self.assertAlmostEqual(one.value, 1.5)
        for drawn_s, own in zip(one.draws[0], deviations(), strict=True):
            self.assertAlmostEqual(drawn_s, 1 + 0.5 * math.exp(0.1 * own.link))

    def test_few_rounds_are_uncertain(self):
        # The mean of 16 rounds of 1 or 3 s, however many steps are drawn from them.
        one = local_step([[1.0, 3.0] * 8] * 2, 64, 64, 0, 0)
        self.assertGreater(one.high - one.value, 0.4)
        self.assertGreater(one.value - one.low, 0.4)

    def test_many_ranks_take_no_longer_to_answer(self):
        self.assertEqual(local_step([[1.0] * 1000], 16384, 64, 0, 0).value, 1)

    def test_is_predicted_of_all_launches(self):
        slow = launch()
        for step in steps_of(slow, "none"):
            step["step_ns"] *= 2
        step, average_s = predictor(launch(), slow).local_step(8)
        self.assertAlmostEqual(average_s, 5e-3)
        self.assertAlmostEqual(step.value, 63e-3 * 1.5 + 5e-3)
        self.assertTrue(step.low < 63e-3 + 6e-3 and step.high > 126e-3 + 4e-3)


if __name__ == "__main__":
    unittest.main()
