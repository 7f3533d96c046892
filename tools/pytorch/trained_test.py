"""What check remembers of a step, and whose turn it is."""

import unittest

from run_ranks import torch

from gradsync.trained import STEPS, Step, Trained, Turns


def parameters(count):
    return [torch.nn.Parameter(torch.ones(2)) for _ in range(count)]


class StepTest(unittest.TestCase):
    def test_gradients_are_summed_until_their_owner_drops_them(self):
        mine, other = parameters(2)
        step = Step(suspect=id(mine))
        optimizer = torch.optim.SGD([mine], lr=1)
        self.assertFalse(step.drop(optimizer))
        for p in (mine, mine, other):
            step.deliver(p, torch.full((2,), 6.0), scale=2)
        self.assertEqual(step.gradients[id(mine)].sums[0].tolist(), [6, 6])
        self.assertEqual([one.tolist() for one in step.suspect_by_pass], [[6, 6], [6, 6]])
        step.losses = [None]
        step.clipped = {id(mine): "digest"}
        self.assertTrue(step.drop(optimizer))
        self.assertEqual([*step.gradients], [id(other)])
        self.assertEqual((step.losses, step.clipped, step.suspect_by_pass), ([], {}, []))
        step.losses = [None]
        self.assertFalse(step.drop(optimizer))  # nothing was delivered since
        self.assertEqual(step.losses, [None])

    def test_an_engine_knows_gradients_that_parameters_have_not(self):
        p, other = parameters(2)
        p.grad = torch.zeros(2)
        step = Step(full={id(p): torch.ones(2), id(other): None})
        self.assertEqual(step.gradient_of(p).tolist(), [1, 1])
        self.assertIsNone(step.gradient_of(other))
        step.full = {}
        self.assertIs(step.gradient_of(p), p.grad)

    def test_the_next_step_begins_without_inputs_and_buffers(self):
        step = Step(inputs=["a"], buffers={}, losses=[None])
        step.begin_next()
        self.assertEqual((step.inputs, step.buffers, step.losses), ([], None, [None]))


class TurnsTest(unittest.TestCase):
    def test_groups_take_turns(self):
        turns = Turns(2)
        params = parameters(3)
        for p in (*params, params[0]):
            turns.add(p)
        self.assertEqual((len(turns), [turns.number_of(p) for p in params]), (3, [0, 1, 2]))
        for group in ([0, 2], [1], []):
            for _ in range(STEPS):
                self.assertEqual([i for i, p in enumerate(params) if turns.has(p)], group)
                self.assertEqual(turns.are_over(), not group)
                turns.count(params)
        self.assertIsNone(turns.number_of(parameters(1)[0]))

    def test_an_optimizer_is_awaited_for_a_while(self):
        turns = Turns(1)
        first, second = object(), object()
        turns.count(second)
        for _ in range(4 * STEPS):
            self.assertFalse(turns.are_over())
            turns.count(first)
        self.assertTrue(turns.are_over())


class TrainedTest(unittest.TestCase):
    def test_names_are_those_of_the_first_model_without_wrappers(self):
        trained = Trained()
        net = torch.nn.Linear(2, 1)
        self.assertEqual(trained.name_of(net.bias), "")
        for prefix in ("module", "_orig_mod"):
            outer = torch.nn.Module()
            outer.add_module(prefix, net)
            trained.models = {0: outer, 1: torch.nn.Sequential(net)}
            self.assertEqual(trained.name_of(net.bias), "bias")


if __name__ == "__main__":
    unittest.main()
