"""What the factors of losses say. Needs no PyTorch."""

import sys
import unittest

sys.path.insert(0, "tools/pytorch")
from gradsync.findings import Findings
from gradsync.losses import LossFactor, PassLoss, judge_losses

EPS = 2.0**-23


def judged(*ranks, **more):
    """The factor and the notes for ranks with such (factor, tokens, mean) in each pass."""
    findings = Findings()
    losses = [[loss and PassLoss(*loss, EPS, **more) for loss in rank] for rank in ranks]
    return judge_losses(losses, findings), findings.notes()


def mistake(ranks, passes, factor, is_divided_by_all=False, **more):
    """The mistake of ranks whose passes all have this factor."""
    loss, _ = judged(*[[(factor, 4, 1)] * passes] * ranks, **more)
    return loss.mistake(ranks, passes, is_divided_by_all)


class LossesTest(unittest.TestCase):
    def test_factors_are_of_the_mean_of_means_and_of_the_mean_over_tokens(self):
        factor, notes = judged([(2, 4, 1)], [(2, 4, 3)])
        self.assertEqual((factor.of_means, factor.of_tokens, notes), (2, 2, []))
        factor, _ = judged([(2, 4, 1), (2, 4, 3)], [(2, 4, 0.5), (2, 4, 1.5)])
        self.assertEqual(factor.of_means, 4)  # of the mean of four passes
        factor, notes = judged([(0.5, 2, 1)], [(1.5, 6, 2)])  # each token counts as much
        self.assertEqual((factor.of_means, factor.of_tokens, notes), (None, 1, []))
        factor, _ = judged([(1 / 2, 4, 1)] * 2, [(1 / 3, 4, 1)] * 3)  # of unequal passes
        self.assertAlmostEqual(factor.of_means, 1)
        self.assertIsNone(factor.of_tokens)
        factor, _ = judged([(1, 4, 1)], [(2, 4, 1)])
        self.assertEqual((factor.of_means, factor.of_tokens), (None, None))
        self.assertEqual(factor.text(), "1 to 2 times the mean loss, depending on the pass")
        factor, _ = judged([(1 / 2, 4, 1), (-3, 4, 1)], [(1, 4, 1)])
        self.assertEqual(judged([(0, 4, 1)], [(0, 4, 1)])[0].text(), "0 times the mean loss")
        self.assertEqual(factor.text(), "-6 to 1 times the mean loss, depending on the pass")

    def test_numbers_of_tokens_that_differ_are_noted(self):
        for factor in (1, 3):
            loss, notes = judged([(factor, 2, 1)], [(factor, 6, 2)])
            self.assertEqual((loss.of_means, loss.of_tokens), (factor, None))
            text = (
                "passes have 2 to 6 tokens, and the loss is -14.29% off the mean over all of them"
            )
            self.assertEqual(notes, [text])
        self.assertEqual(judged([(1, 2, 3)], [(1, 6, 3)])[1], [])  # the means are equal

    def test_numbers_of_passes_that_differ_are_noted(self):
        _, notes = judged([(1 / 2, 8, 1), (1 / 2, 8, 1)], [(1, 8, 2)])
        text = "ranks have 8 to 16 tokens, and the loss is +12.50% off the mean over all of them"
        self.assertEqual(notes, [text])

    def test_what_is_unknown_is_no_factor(self):
        for losses in ([None], [(2, 4, 1), None], [(2, 0, 0)], []):
            loss, notes = judged([(2, 4, 1)], losses)
            if losses:
                self.assertEqual((loss, notes), (LossFactor(), []))
        self.assertEqual(judged([], [])[0], LossFactor())
        self.assertEqual(judged([(0, 4, 1)], [(0, 4, 1)])[0].of_means, None)
        self.assertFalse(LossFactor().makes_up_for(2, 1, True))

    def test_a_factor_of_passes_is_a_mistake_if_one_call_made_them(self):
        self.assertIn("passes, 3", mistake(2, 3, 1))
        self.assertIn("ranks times passes, 6", mistake(2, 3, 2))
        self.assertEqual(mistake(2, 3, 1 / 3), "")
        for factor in (1 / 2, 2 / 3, 1 / 6, 5):  # half of it, the ranks, and others
            self.assertEqual(mistake(2, 3, factor), "", factor)
        self.assertEqual(mistake(2, 1, 2), "")  # a sum over two dimensions, in one pass
        two_calls = [PassLoss(1, 4, 1, EPS, call) for call in ("train.py:1@2", "train.py:1@9")]
        loss = judge_losses([two_calls, two_calls], Findings())
        self.assertEqual((loss.of_means, loss.mistake(2, 2, False)), (2, ""))

    def test_half_is_averaged_twice_if_a_collective_made_it(self):
        self.assertEqual(mistake(2, 1, 1 / 2), "")
        twice = "averaged twice: the number of ranks, 2"
        self.assertEqual(mistake(2, 1, 1 / 2, is_reduced=True), twice)
        self.assertEqual(mistake(2, 1, 1 / 2, is_divided_by_all=True), twice)
        self.assertEqual(mistake(2, 1, 1, is_reduced=True), "")
        self.assertEqual(mistake(2, 1, 1 / 4, is_reduced=True), "")
        self.assertEqual(mistake(1, 1, 1, is_reduced=True), "")
        self.assertEqual(mistake(2, 3, 1 / 2, is_reduced=True), twice)  # divided by passes before
        self.assertEqual(mistake(2, 3, 1 / 2), "")

    def test_a_loss_makes_up_for_gradients(self):
        loss, _ = judged([(0.25, 2, 1)], [(0.75, 6, 2)])  # a sum over the tokens of both ranks
        self.assertTrue(loss.makes_up_for(2, 1, False))
        self.assertEqual(loss.shown(2), 0.5)
        self.assertEqual(loss.text(), f"{loss.shown():g} times the mean loss")
        for factor in (1, 0.5, 4, 0, None):
            self.assertFalse(loss.makes_up_for(factor, 1, False), factor)

    def test_a_part_of_a_loss_makes_up_for_what_its_factor_comes_from(self):
        """As half of a squared error in a sum of losses does not for gradients that are summed."""
        for more, is_divided, expected in (
            ({}, False, False),
            ({"is_reduced": True}, False, True),
            ({}, True, True),
        ):
            loss, _ = judged([(0.5, 4, 1)], [(0.5, 4, 1)], is_whole=False, **more)
            self.assertEqual(loss.makes_up_for(2, 1, is_divided), expected)
        loss, _ = judged(*[[(1, 4, 1)] * 3] * 2, is_whole=False)
        self.assertTrue(loss.makes_up_for(1 / 3, 3, False))
        self.assertFalse(loss.makes_up_for(1 / 3, 2, False))


if __name__ == "__main__":
    unittest.main()
