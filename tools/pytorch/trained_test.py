"""What check remembers of a step, and whose turn it is."""

import unittest

from run_ranks import torch

from gradsync.trained import LONGEST, MOST_MATRICES, STEPS, Step, Trained, Turns


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
        self.assertEqual([one.tolist() for one in step.by_pass[id(mine)]], [[6, 6], [6, 6]])
        step.losses = [None]
        step.clipped = {id(mine): "digest"}
        self.assertTrue(step.drop(optimizer))
        self.assertEqual([*step.gradients], [id(other)])
        self.assertEqual((step.losses, step.clipped, step.by_pass), ([], {}, {}))
        step.losses = [None]
        self.assertFalse(step.drop(optimizer))  # nothing was delivered since
        self.assertEqual(step.losses, [None])

    def test_passes_of_few_small_matrices_are_kept_before_anything_is_wrong(self):
        step = Step()
        small, large = torch.ones(2, 2), torch.ones(65, 64)
        params = [torch.nn.Parameter(small.clone()) for _ in range(MOST_MATRICES + 1)]
        others = [torch.nn.Parameter(large.clone()), torch.nn.Parameter(torch.ones(2))]
        for p in (*others, *params, *params):
            step.deliver(p, p.detach(), scale=1)
        self.assertEqual([*step.by_pass], [id(p) for p in params[:-1]])
        self.assertEqual({len(passes) for passes in step.by_pass.values()}, {2})

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
        optimizer = torch.optim.SGD(params, lr=1)
        for p in (*params, params[0]):
            turns.add(p)
        self.assertEqual((len(turns), [turns.number_of(p) for p in params]), (3, [0, 1, 2]))
        for group in ([0, 2], [1], []):
            for _ in range(STEPS):
                self.assertEqual([i for i, p in enumerate(params) if turns.has(p)], group)
                self.assertEqual(turns.is_pending(optimizer), bool(group))
                turns.count(optimizer)
        self.assertIsNone(turns.number_of(parameters(1)[0]))

    def test_each_optimizer_is_pending_until_its_own_parameters_were_checked(self):
        turns = Turns(1)
        params = parameters(4)
        params[3].requires_grad_(False)
        one, other = (torch.optim.SGD(some, lr=1) for some in (params[:2], params[1:]))
        frozen = torch.optim.SGD(params[3:], lr=1)
        for optimizer in (one, other, frozen):
            turns.expect(optimizer)
        self.assertFalse(turns.is_pending(frozen))
        params[2].requires_grad_(False)  # for a while, as a discriminator is
        for _ in range(STEPS):
            turns.count(one)
        self.assertFalse(turns.is_pending(one))
        self.assertTrue(turns.is_pending(other))
        self.assertEqual((turns.unchecked(one), turns.unchecked(other)), (0, 1))
        turns.count(other, is_last=True)
        self.assertFalse(turns.is_pending(other))
        self.assertFalse(turns.has(params[2]))
        self.assertEqual(turns.unchecked(other), 0)

    def test_an_optimizer_is_awaited_for_a_while(self):
        turns = Turns(1)
        (p, q) = parameters(2)
        first, second = (torch.optim.SGD([one], lr=1) for one in (p, q))
        turns.take(second)
        for _ in range(LONGEST):
            self.assertFalse(turns.are_too_long())
            turns.take(first)
        self.assertTrue(turns.are_too_long())


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

    def test_an_optimizer_within_another_is_no_outer_one(self):
        trained = Trained()
        (p,) = parameters(1)
        outer, inner = (torch.optim.SGD([p], lr=1) for _ in range(2))
        self.assertEqual([trained.add(one, "f:1") for one in (outer, inner, outer)], [1, 1, 0])
        trained.be_inner(inner)
        trained.be_inner(torch.optim.SGD([p], lr=1))  # that nobody has made
        self.assertEqual([made.updater for made in trained.outer()], [outer])
        self.assertEqual(trained.updaters(), [outer, inner])


if __name__ == "__main__":
    unittest.main()
