"""How far roundings can bring gradients, and weights, from what they are exactly."""

import math
import types
import unittest

from run_ranks import torch

from gradsync import Refused, mistakes, reference, twin


class ReferenceTest(unittest.TestCase):
    def test_the_bound_counts_roundings(self):
        like = torch.tensor([1.0, -2.0])
        held = reference.Gradients(torch.ones(2))
        for _ in range(3):
            held.add(like)
        self.assertEqual((held.roundings, held.sums.tolist()), (3, [[3, -6], [3, 6]]))
        scaled = reference.Gradients(torch.ones(2))
        scaled.add(like, 4)  # the factor and its product are rounded too
        self.assertEqual((scaled.roundings, scaled.sums.tolist()), (3, [[0.25, -0.5], [0.25, 0.5]]))
        for dtype, u in ((torch.float32, 2.0**-24), (torch.bfloat16, 2.0**-8)):
            bounds = reference.bound_of(held.sums[1], {torch.float64, dtype}, 5).tolist()
            for bound, magnitude in zip(bounds, (3, 6), strict=True):
                self.assertAlmostEqual(bound / (5 * u * magnitude), 1, delta=6 * u)

    def test_many_roundings_have_a_bound_too(self):
        """Also where their number times u is 1 or more."""
        one = torch.ones(1, dtype=torch.float64)
        bounds = [float(reference.bound_of(one, {torch.bfloat16}, n)) for n in (255, 256, 512)]
        self.assertEqual(bounds, sorted(bounds))
        self.assertAlmostEqual(bounds[1], math.e - 1, delta=0.01)
        self.assertAlmostEqual(bounds[2], math.e**2 - 1, delta=0.04)

    def test_no_smaller_bound_would_hold(self):
        """1 + u, rounded to even, loses half a unit in each of two additions."""
        off = float(abs(torch.tensor(1.0) + 2.0**-24 + 2.0**-24 - (1.0 + 2.0**-23)))
        magnitude = torch.tensor(1 + 2.0**-23, dtype=torch.float64)
        one, two = (float(reference.bound_of(magnitude, {torch.float32}, n)) for n in (1, 2))
        self.assertLess(one, off)
        self.assertLessEqual(off, two)

    def test_digests_tell_contents_shapes_and_dtypes_apart(self):
        tensors = [
            torch.zeros(4),
            torch.ones(4),
            torch.zeros(2, 2),
            torch.zeros(4, dtype=torch.int32),
            torch.zeros(0),
            torch.zeros(4, dtype=torch.bfloat16),
            torch.zeros(2, dtype=torch.complex64),
        ]
        self.assertEqual(len({reference.digest(tensor) for tensor in tensors}), len(tensors))
        rows = torch.arange(4.0).view(2, 2)
        self.assertEqual(reference.digest(rows.T), reference.digest(rows.T.clone()))

    def test_what_cannot_be_read_is_refused(self):
        for tensor in (torch.zeros(2, 2).to_sparse(), torch.zeros(2, device="meta")):
            with self.assertRaisesRegex(Refused, "cannot be read"):
                reference.digest(tensor)

    def test_roundings_of_an_optimizer_that_averages_are_bounded(self):
        p = torch.nn.Parameter(torch.zeros(3))
        mean = torch.ones(3, dtype=torch.float64)
        bound = torch.tensor([0.1, 0.2, 0.2], dtype=torch.float64)
        one = types.SimpleNamespace(is_used=True, mean=mean, bound=bound)
        (weights,) = twin.step_of_twin(torch.optim.SGD([p], lr=0.5), [one], None)
        self.assertTrue(torch.equal(weights.expected, -mean / 2) and not p.any())
        # To both sides, the rate times the norm of the bound.
        self.assertAlmostEqual(float(weights.rounding), 2 * 0.5 * 0.3, 6)
        self.assertTrue(weights.are_missed())
        p.data = weights.expected.float()
        self.assertFalse(weights.are_missed())

    def test_roundings_up_and_down_may_differ(self):
        class OneSided(torch.optim.SGD):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    p -= (p.grad - 1).clamp(min=0)

        p = torch.nn.Parameter(torch.zeros(1))
        one = torch.ones(1, dtype=torch.float64)
        compared = types.SimpleNamespace(is_used=True, mean=one, bound=one / 2)
        (weights,) = twin.step_of_twin(OneSided([p], lr=1), [compared], None)
        self.assertAlmostEqual(float(weights.rounding), 0.5, 6)  # of one side alone

    def test_factors_have_names(self):
        for factor, world_size, passes, name in (
            (4, 4, 2, "summed and not averaged: the number of ranks, 4"),
            (2, 2, 2, "summed and not averaged: the number of ranks, 2, or of passes, 2"),
            (1 / 4, 4, 2, "averaged twice: the number of ranks, 4"),
            (8, 4, 2, "ranks times passes, 8"),
            (1 / 8, 4, 2, "divided by ranks times passes, 8"),
            (2, 4, 2, "not divided by the number of passes, 2"),
            (1 / 2, 4, 2, "divided by the number of passes, 2"),
            (3, 4, 2, ""),
            (1, 4, 2, ""),
            (1, 1, 1, ""),
        ):
            self.assertEqual(mistakes.name_of_factor(factor, 0.01, world_size, passes), name)
        self.assertTrue(mistakes.name_of_factor(4.03, 0.01, 4, 1))
        self.assertFalse(mistakes.name_of_factor(4.05, 0.01, 4, 1))

    def test_what_a_copy_raises_is_the_scripts(self):
        class Broken(torch.optim.SGD):
            def step(self):
                raise KeyError("no")

        p = torch.nn.Parameter(torch.zeros(3))
        mean = torch.ones(3, dtype=torch.float64)
        one = types.SimpleNamespace(is_used=True, mean=mean, bound=mean)
        group = torch.distributed.distributed_c10d._world.default_pg
        with self.assertRaisesRegex(Refused, "^KeyError: 'no'$"):
            twin.step_of_twin(Broken([p], lr=0.5), [one], object())
        self.assertIs(torch.distributed.distributed_c10d._world.default_pg, group)


if __name__ == "__main__":
    unittest.main()
