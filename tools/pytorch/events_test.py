"""Listeners are told of what a process calls, and leave PyTorch as they found it."""

import unittest

from run_ranks import torch

from torch.optim import optimizer as hooks

from gradsync import events
from gradsync.patches import Patches
from torch_snapshot import snapshot


class Diary(events.Listener):
    """Writes down events. At `stops_at` it stops to listen; at `fails_at` it raises, too."""

    def __init__(self, stops_at=None, fails_at=None):
        self.told, self.stops_at, self.fails_at = [], stops_at, fails_at
        events.listen(self)

    def _write(self, event):
        self.told.append(event)
        if event in (self.stops_at, self.fails_at):
            events.stop_listening(self)
        if event == self.fails_at:
            raise KeyError(event)

    def on_forward(self, model):
        self._write("forward")

    def on_call(self, module, args, kwargs):
        self._write("call")

    def on_losses(self, tensors, gradients=None):
        self._write("losses")

    def on_backward(self):
        self._write("backward")

    def on_backward_end(self):
        self._write("backward_end")

    def on_update(self, optimizer, args, kwargs):
        self._write("update")

    def on_updated(self, optimizer):
        self._write("updated")

    def on_scaled(self, optimizer):
        self._write("scaled")


STEP = ["losses", "backward", "backward_end", "update", "updated", "scaled"]


class EventsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.compile(lambda x: x, backend="eager")(torch.ones(1))  # replaces names by itself, once

    def setUp(self):
        self.net = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.before = snapshot()

    def tearDown(self):
        self.assertEqual(snapshot(), self.before)
        self.assertFalse(events.listeners)
        self.assertFalse(events.in_backward())

    def step(self):
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.net(torch.ones(1, 2)).sum().backward()
        scaler.step(self.optimizer)

    def test_backward_is_over_when_its_end_is_told(self):
        found = {}

        class Within(Diary):
            def _write(self, event):
                found[event] = events.in_backward()

        listener = Within()
        self.step()
        events.stop_listening(listener)
        in_backward = [event for event, is_in_backward in found.items() if is_in_backward]
        self.assertEqual(in_backward, ["losses", "backward"])
        self.assertEqual(list(found), STEP)

    def test_a_step_is_told_in_order_and_again_after_a_second_beginning(self):
        for _ in range(2):
            diary = Diary()
            with Patches() as patches:
                events.watch_calls(torch.nn.Linear, patches)
                self.step()
            self.step()
            events.stop_listening(diary)
            events.stop_listening(diary)  # which it does no more
            self.step()
            self.assertEqual(diary.told, ["forward", "call", *STEP, *STEP])
            self.assertEqual(snapshot(), self.before)

    def test_an_inner_pass_and_an_inner_module_are_not_told(self):
        class Twice(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, x):
                return torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=True)

        diary = Diary()
        with Patches() as patches:
            events.watch_calls(torch.nn.Module, patches)
            Twice(self.net)(torch.ones(1, 2, requires_grad=True)).sum().backward()
        events.stop_listening(diary)
        # The checkpoint calls the inner module again, within backward: then it is outermost.
        self.assertEqual(
            diary.told,
            ["forward", "call", "losses", "backward", "forward", "call", "backward_end"],
        )

    def test_it_may_stop_at_any_event(self):
        for event in STEP:
            with self.subTest(event):
                diary = Diary(stops_at=event)
                self.step()
                self.assertEqual(diary.told, STEP[: STEP.index(event) + 1])
                self.assertEqual(snapshot(), self.before)

    def test_it_may_raise_at_any_event(self):
        for event in STEP:
            with self.subTest(event):
                Diary(fails_at=event)
                with self.assertRaises(KeyError):
                    self.step()
                self.assertEqual(snapshot(), self.before)
                self.assertFalse(events.in_backward())

    def test_other_peoples_hooks_stay_and_are_called(self):
        for register, event in (
            (hooks.register_optimizer_step_pre_hook, "update"),
            (hooks.register_optimizer_step_post_hook, "updated"),
        ):
            with self.subTest(event):
                called = []
                diary = Diary(stops_at=event)
                theirs = register(lambda *_, called=called: called.append(0))
                self.step()  # PyTorch goes on to their hook, while ours cannot be removed
                self.step()
                self.assertEqual((len(called), diary.told[-1]), (2, event))
                theirs.remove()
                self.step()  # now ours can
                self.assertEqual(snapshot(), self.before)

    def test_a_raising_listener_is_removed_though_other_hooks_follow(self):
        Diary(fails_at="update")
        theirs = hooks.register_optimizer_step_pre_hook(lambda *_: None)
        with self.assertRaises(KeyError):
            self.step()
        theirs.remove()
        self.assertEqual(snapshot(), self.before)

    def test_one_that_stops_another_silences_it_at_once(self):
        class First(Diary):
            def on_backward(self):
                events.stop_listening(second)

        first = First()
        second = Diary()
        self.step()
        self.assertEqual(second.told, ["losses"])
        events.stop_listening(first)

    def test_a_compiled_step_does_not_trace_listeners(self):
        class Counting(events.Listener):
            def __init__(self):
                self.compiled = []

            def on_update(self, optimizer, args, kwargs):
                self.compiled.append(torch.compiler.is_compiling())
                torch.frombuffer(bytearray(b"1234"), dtype=torch.uint8)  # which no graph can hold

        one = Counting()
        events.listen(one)
        self.net(torch.ones(1, 2)).sum().backward()
        step = torch.compile(self.optimizer.step, backend="eager")
        step()
        step()
        events.stop_listening(one)
        self.assertEqual(one.compiled, [False, False])

    def test_arguments_of_step_can_be_replaced(self):
        class Closing(events.Listener):
            def on_update(self, optimizer, args, kwargs):
                return args[:1], {"closure": lambda: 7}

        one = Closing()
        events.listen(one)
        diary = Diary()
        self.assertEqual(self.optimizer.step(), 7)
        events.stop_listening(one)
        events.stop_listening(diary)


if __name__ == "__main__":
    unittest.main()
