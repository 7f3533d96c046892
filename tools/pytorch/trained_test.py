"""What check remembers of a step, and whose turn it is."""

import types
import unittest
import warnings

from run_ranks import torch

from gradsync.loss_watch import LossWatch, Pass
from gradsync.trained import LONGEST, MOST_MATRICES, STEPS, Step, Trained, Turns


def parameters(count):
    return [torch.nn.Parameter(torch.ones(2)) for _ in range(count)]


def begin_pass(step):
    one = Pass("train.py:1", scale=1, given=1, is_divided=False)
    step.begin_pass(one)
    return one


class LossWatchTest(unittest.TestCase):
    def test_a_loss_with_deprecated_arguments_is_not_watched(self):
        cross_entropy = torch.nn.functional.cross_entropy
        args = (torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 1]))
        for given in ({"reduce": False}, {"reduce": True}, {"size_average": False}, {}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch says that they are deprecated
                loss = cross_entropy(*args, **given)
            targets = []
            LossWatch(targets).add(cross_entropy, loss, args, given)
            self.assertEqual(len(targets), 0 if given else 1, given)


class StepTest(unittest.TestCase):
    def test_gradients_are_summed_until_their_owner_drops_them(self):
        mine, other = parameters(2)
        step = Step(suspect=id(mine))
        optimizer = torch.optim.SGD([mine], lr=1)
        self.assertFalse(step.drop(optimizer))
        one = begin_pass(step)
        for p in (mine, mine, other):
            step.deliver(p, torch.full((2,), 6.0), scale=2)
        step.end_pass()
        self.assertEqual(step.gradients[id(mine)].sums[0].tolist(), [6, 6])
        self.assertEqual([one.tolist() for one in step.by_pass[id(mine)]], [[6, 6], [6, 6]])
        step.clipped = {id(mine): "digest", id(other): "digest"}
        self.assertEqual(step.passes_of([mine]), [one])
        self.assertTrue(step.drop(optimizer))
        self.assertEqual([*step.gradients], [id(other)])
        self.assertEqual(([*step.clipped], step.by_pass), ([id(other)], {}))
        self.assertEqual((step.passes_of([mine]), step.passes_of([other])), ([], [one]))
        self.assertFalse(step.drop(optimizer))  # nothing was delivered since

    def test_what_the_script_takes_away_is_set_aside(self):
        mine, zero, other = parameters(3)
        step = Step()
        for taken in (torch.zeros(2), None):
            first = begin_pass(step)
            for p in (mine, zero, other):
                step.deliver(p, torch.ones(2), scale=1)
                step.deliver_hooked(p, torch.full((2,), 3.0), scale=1)
                p.grad = torch.ones(2)
            step.end_pass()
            mine.grad = taken
            zero.grad = torch.zeros(2)
            second = begin_pass(step)
            self.assertEqual(step.passes_of([mine, zero]), [])
            self.assertEqual(step.passes_of([other]), [first])
            step.deliver(mine, torch.full((2,), 5.0), scale=1)
            self.assertEqual(step.passes_of([mine]), [second])
            for number, since, all_of_them in (
                (id(mine), 5, 6),
                (id(zero), 0, 1),
                (id(other), 1, 1),
            ):
                held = step.gradients[number]
                self.assertEqual(held.sums[0].tolist(), [since, since])
                self.assertEqual(held.with_aside().sums[0].tolist(), [all_of_them, all_of_them])
            self.assertEqual(step.hooked[id(mine)].sums[0].tolist(), [0, 0])
            step.drop(torch.optim.SGD([mine, zero, other], lr=1))
            self.assertEqual((step.gradients, step.hooked, step.passes), ({}, {}, [second]))
            step.end_pass()

    def test_a_gradient_that_is_not_there_yet_is_not_taken_away(self):
        """As under fully_shard, before ranks have reduced it."""
        (p,) = parameters(1)
        step = Step()
        for _ in range(2):
            begin_pass(step)
            step.deliver(p, torch.ones(2), scale=1)
            step.end_pass()
        self.assertEqual(step.gradients[id(p)].sums[0].tolist(), [2, 2])
        self.assertEqual(len(step.passes_of([p])), 2)

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

    def test_the_next_step_begins_without_calls_and_targets(self):
        step = Step()
        step.targets.append("digest")
        step.calls.train(torch.nn.BatchNorm1d(2), (torch.ones(1),), {})
        self.assertEqual((len(step.calls.inputs), len(step.calls.buffers)), (1, 3))
        step.begin_next()
        self.assertEqual((step.calls.inputs, step.calls.buffers, step.targets), ([], {}, []))


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
        self.assertEqual([Turns(groups).longest() for groups in (25, 26)], [50, 52])


class TrainedTest(unittest.TestCase):
    def test_names_are_those_of_the_first_model_without_wrappers(self):
        trained = Trained()
        net = torch.nn.Linear(2, 1)
        self.assertEqual(trained.name_of(net.bias), "")
        for prefix in ("module", "_orig_mod", "module._orig_mod", "_orig_mod.module"):
            outer = net
            for name in reversed(prefix.split(".")):
                inner, outer = outer, torch.nn.Module()
                outer.add_module(name, inner)
            trained.models = {0: outer, 1: torch.nn.Sequential(net)}
            self.assertEqual(trained.name_of(net.bias), "bias")

    def test_why_no_ddp_knows_a_parameter(self):
        trained = Trained()
        nets = [torch.nn.Linear(2, 1) for _ in range(3)]
        wrapped = [types.SimpleNamespace(parameters=net.parameters) for net in nets[:2]]
        self.assertEqual(trained.why_not_reduced(nets[0].weight), "")  # without any DDP
        trained.wrapped = wrapped
        for ddp, net in zip(wrapped, nets, strict=False):
            ddp._module_parameters = [net.weight]
        for net in nets[:2]:
            self.assertEqual(trained.why_not_reduced(net.weight), "")
            self.assertIn("made after the model was wrapped", trained.why_not_reduced(net.bias))
        self.assertIn("in no model that is wrapped", trained.why_not_reduced(nets[2].weight))

    def test_a_parameter_was_frozen_when_the_last_model_was_wrapped(self):
        trained = Trained()
        net = torch.nn.Linear(2, 1)
        ddp = types.SimpleNamespace(parameters=net.parameters, _module_parameters=[net.weight])
        net.weight.requires_grad_(False)
        trained.wrap(ddp)
        net.weight.requires_grad_(True)
        self.assertIn("it needed no gradient when", trained.why_not_reduced(net.weight))
        trained.wrap(ddp)
        self.assertEqual(trained.why_not_reduced(net.weight), "")

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
