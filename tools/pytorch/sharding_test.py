"""Predictions of FSDP2: its schedule, and its steps, in numbers that can be computed by hand."""

import unittest
from dataclasses import replace

from gradsync import Refused, replay, sharding
from gradsync.link import Cost, LinkCosts, Operation
from gradsync.probes import Communication
from gradsync.processors import Processors
from gradsync.replay import Scenario, Schedule, Transfer, Waits
from gradsync.schema import Launch, Step, StepMode, Unit
from gradsync.sharding import Resharding
from gradsync.unit_schedule import Call, Event, collectives, events_of
from sample_recordings import (
    MIB,
    MS,
    ask,
    launch,
    predict,
    predictor,
    question,
    screen,
    sent_by,
    sharded,
    steps_of,
    with_units,
)


def blocks(count, reshards=True):
    return [Unit("", (), False), *(Unit(f"h.{k}", (), reshards) for k in range(count))]


def events(count):
    """A root around blocks, each of which takes 10 s forward and 20 s backward."""
    forward, ends = 10 * count, 30 * count
    rows = [Event(0, Call.PRE_FORWARD, 0)]
    for k in range(count):
        rows += [
            Event(10 * k, Call.PRE_FORWARD, 1 + k),
            Event(10 * (k + 1), Call.POST_FORWARD, 1 + k),
        ]
    rows += [Event(forward, Call.POST_FORWARD, 0), Event(forward, Call.PRE_BACKWARD, 0)]
    for k in range(count):
        rows += [
            Event(forward + 20 * k, Call.PRE_BACKWARD, count - k),
            Event(forward + 20 * (k + 1), Call.POST_BACKWARD, count - k),
        ]
    return [*rows, Event(ends, Call.POST_BACKWARD, 0)]


def sharded_ms(one, resharding=Resharding.AS_RECORDED, **flags):
    """What a step of this launch should take under fully_shard."""
    return 1e3 * predictor(one, **flags).sharded_step(resharding).step_s.value


class ScheduleTest(unittest.TestCase):
    def order(self, units, overlaps=True, rows=None):
        return [
            (c.operation[0], c.unit)
            for c in collectives(rows or events(len(units) - 1), units, overlaps)
        ]

    def test_forward_gathers_what_it_calls_and_backward_one_unit_ahead(self):
        gathers = [("a", u) for u in (0, 1, 2, 3)]
        for overlaps in (False, True):
            # The prefetch of the last block is issued when the root's backward begins.
            self.assertEqual(
                self.order(blocks(3), overlaps),
                gathers + [("a", 3), ("a", 2), ("r", 3), ("a", 1), ("r", 2), ("r", 1), ("r", 0)],
            )
            self.assertEqual(
                self.order(blocks(3, False), overlaps),
                gathers + [("r", 3), ("r", 2), ("r", 1), ("r", 0)],
            )

    def test_units_without_parameters_are_none(self):
        self.assertEqual(
            [c.unit for c in collectives(events(2), blocks(2), True, empty={0})], [1, 2, 2, 1, 2, 1]
        )

    def test_what_is_issued_ahead_and_what_waits(self):
        plan = collectives(events(3), blocks(3), True)
        forward, backward = [c for c in plan[:4]], plan[4:]
        # A buffer is copied out before the next unit but one is gathered.
        self.assertEqual(
            [(c.issued_s, c.needed_s) for c in forward], [(0, 0), (0, 0), (0, 10), (0, 20)]
        )
        self.assertEqual(
            [(c.operation[0], c.unit, c.issued_s, c.needed_s) for c in backward],
            [
                ("a", 3, 30, 30),
                ("a", 2, 30, 50),
                ("r", 3, 50, 70),
                ("a", 1, 50, 70),
                ("r", 2, 70, 90),
                ("r", 1, 90, 90),
                ("r", 0, 90, None),
            ],
        )
        self.assertTrue(
            all(c.issued_s == c.needed_s for c in collectives(events(3), blocks(3), False)[:4])
        )

    def test_passes_that_do_not_reduce_gather_again(self):
        first = [
            replace(event, call=Call.ACCUMULATE) if event.call is Call.POST_BACKWARD else event
            for event in events(1)
        ]
        plan = self.order(
            blocks(1),
            rows=first + [replace(event, moment_s=event.moment_s + 30) for event in events(1)],
        )
        self.assertEqual(
            plan, [("a", 0), ("a", 1), ("a", 1), ("a", 0), ("a", 1), ("a", 1), ("r", 1), ("r", 0)]
        )

        # Nothing of a pass is issued before it begins.
        passes = first + [replace(event, moment_s=event.moment_s + 30) for event in events(1)]
        self.assertEqual([c.issued_s for c in collectives(passes, blocks(1), True)[3:5]], [30, 30])

    def test_blocks_are_what_names_number(self):
        names = [
            "wte.weight",
            "h.0.a.weight",
            "h.0.mlp.1.weight",
            "h.1.a.weight",
            "ln.bias",
            "0.weight",
        ]
        units = sharding.repeated_blocks(names)
        self.assertEqual(
            [(u.name, u.parameters, u.reshards) for u in units],
            [("", (0, 4), False), ("h.0", (1, 2), True), ("h.1", (3,), True), ("0", (5,), True)],
        )


def seconds_step(before, backward, **more):
    return Step(
        StepMode.UNSYNCHRONISED, 0, 1, before_ns=before * 1e9, backward_ns=backward * 1e9, **more
    )


class EventsTest(unittest.TestCase):
    """Of a root around two blocks."""

    UNITS = [Unit("", (0,), False), Unit("h.0", (1,), True), Unit("h.1", (2,), True)]

    def assert_events(self, found, *expected):
        self.assertEqual([(one.call, one.unit) for one in found], [one[1:] for one in expected])
        for one, (moment, *_) in zip(found, expected, strict=True):
            self.assertAlmostEqual(one.moment_s, moment, msg=one)

    def test_of_a_script_with_units_are_what_was_recorded(self):
        times = ([5, 9, 12, 20], [5, 7, 12, 18], [7, 9, 9, 12])
        units_ns = tuple(tuple(1e9 * moment for moment in own) for own in times)
        found = events_of(seconds_step(12, 8, units_ns=units_ns), self.UNITS, 1, [])
        self.assert_events(
            found,
            (5, Call.PRE_FORWARD, 0),
            (5, Call.PRE_FORWARD, 1),
            (7, Call.PRE_FORWARD, 2),
            (7, Call.POST_FORWARD, 1),
            (9, Call.POST_FORWARD, 0),
            (9, Call.POST_FORWARD, 2),
            (9, Call.PRE_BACKWARD, 2),
            (12, Call.PRE_BACKWARD, 0),
            (12, Call.PRE_BACKWARD, 1),
            (12, Call.POST_BACKWARD, 2),
            (18, Call.POST_BACKWARD, 1),
            (20, Call.POST_BACKWARD, 0),
        )

    def test_of_other_scripts_are_in_proportion_to_backward(self):
        # The second block's gradients are ready after 8 of 20 s, and the first block's at the end.
        found = events_of(seconds_step(30, 20), self.UNITS, 1, [20, 20, 8])
        self.assert_events(
            found,
            (0, Call.PRE_FORWARD, 0),
            (0, Call.PRE_FORWARD, 1),
            (18, Call.POST_FORWARD, 1),
            (18, Call.PRE_FORWARD, 2),
            (30, Call.POST_FORWARD, 2),
            (30, Call.POST_FORWARD, 0),
            (30, Call.PRE_BACKWARD, 0),
            (30, Call.PRE_BACKWARD, 2),
            (38, Call.POST_BACKWARD, 2),
            (38, Call.PRE_BACKWARD, 1),
            (50, Call.POST_BACKWARD, 1),
            (50, Call.POST_BACKWARD, 0),
        )

    def test_forward_takes_no_less_than_nothing(self):
        found = events_of(seconds_step(10, 20), self.UNITS, 2, [20, 20, 20])
        self.assertEqual({event.moment_s for event in found[12:18]}, {10})

    def test_earlier_passes_are_as_the_last_and_do_not_reduce(self):
        # Three passes of 30 s, of which 10 are forward; the last one begins at 60.
        for step in (
            seconds_step(70, 20),
            seconds_step(70, 20, units_ns=tuple((60e9, 70e9, 70e9, 90e9) for _ in self.UNITS)),
        ):
            found = events_of(step, self.UNITS, 3, [20, 20, 20])
            self.assertEqual(len(found), 3 * 12)
            for number in (0, 1):
                for own, last in zip(found[12 * number :], found[24:], strict=False):
                    self.assertAlmostEqual(own.moment_s, last.moment_s - 60 + 30 * number)
                    self.assertEqual(own.unit, last.unit)
                    if last.call is Call.POST_BACKWARD:
                        self.assertIs(own.call, Call.ACCUMULATE)
                    else:
                        self.assertIs(own.call, last.call)

    def test_all_steps_issue_in_the_order_of_the_first(self):
        one = launch()
        for parameter, name in zip(one["parameters"], ("h.0.a", "h.1.a", "b"), strict=True):
            parameter["name"] = name
        for steps in one["ranks"]:
            for step in [step for step in steps if step["mode"] == "none"][1:]:
                step["ready_ns"] = [10 * MS, 38 * MS, 30 * MS]
        parsed = Launch.from_json(one)
        units = sharding.units_of(parsed)
        (first, *_), *others = sharding.rounds_of(parsed, units, "here")
        order = [(one.operation, one.unit) for one in first.plan]
        moments = {tuple(one.issued_s for one in first.plan)}
        for steps in others:
            for step in steps:
                self.assertEqual([(one.operation, one.unit) for one in step.plan], order)
                moments.add(tuple(one.issued_s for one in step.plan))
        self.assertEqual(len(moments), 2)
        self.assertEqual(sharding.plan_of(parsed, units, "here"), first.plan)
        sharded_ms(one, Resharding.ALL, world_size=16)  # whose ranks are of several rounds
        for steps in one["ranks"]:
            steps[:] = [step for step in steps if step["mode"] != "none"]
        with self.assertRaisesRegex(Refused, 'here: no steps of mode "none"'):
            sharding.rounds_of(Launch.from_json(one), units, "here")


class BlockedReplayTest(unittest.TestCase):
    def transmitted(self, issued, needed, backward, seconds, used=0):
        outcome = replay.replay_step(
            Schedule(issued, backward, needed),
            [Transfer(one, [1], [used]) for one in seconds],
            Processors(1, 1),
        )
        return outcome.backward_s, outcome.done_s, outcome.computed_s

    def test_computation_waits_for_what_it_needs(self):
        self.assertEqual(
            self.transmitted([0, 0], [5, 12], 20, [10, 10]), (28, 20, 12)
        )  # waits from 5 to 10 and from 17 to 20
        self.assertEqual(self.transmitted([0], [20], 20, [10])[0], 20)
        self.assertEqual(self.transmitted([3], [3], 20, [10])[0], 30)

    def test_what_waits_is_not_slowed_down_and_does_not_slow_down(self):
        self.assertEqual(self.transmitted([4], [4], 20, [10], used=0.5)[0], 30)
        # From 0 on both at 2 / 3; at 7.5 the 5 s of computation are over, and the rest goes alone.
        self.assertEqual(self.transmitted([0], [5], 20, [10], used=0.5), (27.5, 12.5, 5))

    def test_ranks_wait_for_the_slowest_in_each_part(self):
        def step(waits):
            ranks = [
                [replay.RankStep(0, 0, ready, 10, 1, ready)] * 12 for ready in ([2, 4], [3, 8])
            ]
            gather = replay.Collective(1, Operation.ALL_GATHER)
            costs = LinkCosts([Cost(1, 1)])
            return replay.predict(
                Scenario(ranks, [gather] * 2, 2, costs, Processors(1, 1), 0, waits)
            )

        # Parts of 3, 5 and 6 s, 2 collectives of half a second, 1 s after.
        blocking = step(Waits.ALL_RANKS)
        self.assertAlmostEqual(blocking.step_s.value, 3 + 5 + 6 + 1 + 1)
        self.assertAlmostEqual(blocking.exposed_s, 1)
        self.assertAlmostEqual(step(Waits.COMPUTATION).step_s.value, 10 + 1 + 1)


class ShardedTest(unittest.TestCase):
    def test_over_gloo_a_step_is_a_sum(self):
        # Both are gathered, the block twice, and reduced.
        self.assertAlmostEqual(sharded_ms(sharded()), 19 + 38 + 3 * 6 + 2 * 10 + 1 + 5, delta=1e-6)
        self.assertAlmostEqual(
            sharded_ms(sharded(), Resharding.NONE), 63 + 2 * 6 + 2 * 10, delta=1e-6
        )
        self.assertIn("over gloo all wait for each collective", screen(sharded()))
        self.assertIn("fully_shard with 2 units will take", screen(sharded()))

    def test_over_gloo_and_a_named_link_a_reduction_is_an_all_reduce(self):
        one = sharded()
        for sent in sent_by(one, "all_reduce"):
            sent["cpu_ns"] = sent["wall_ns"] // 2
        for step in steps_of(one, "none") + steps_of(one, "probe"):
            step.update(gather_ns=[12 * MS] * 2, reduce_ns=[26 * MS] * 2)
        # Each rank sends half of what it gathers, and all of what it reduces: a MiB takes the wire,
        # and half of the 10 ms that it took without a link. What is above 20 ms for an all-reduce
        # of 2 MiB, or 10 for half of it, are copies.
        sent = 1e3 * 1514 / 1448 * MIB / 125e6 + 5
        self.assertAlmostEqual(
            sharded_ms(one, link="1Gbit,1us"),
            63 + 3 * (sent + 2) + 2 * (2 * sent + 6),
            delta=0.05,
        )

    def test_who_waits_in_one_collective_may_be_last_in_the_next(self):
        one = sharded()
        for waits, steps in zip(([1, 11], [11, 2]), one["ranks"], strict=True):
            for step in steps:
                if step["mode"] != "ddp":
                    step.update(
                        gather_ns=[ms * MS for ms in waits],
                        reduce_ns=[(20 - ms) * MS for ms in waits],
                    )
        # The rank that began last took 12 ms to gather both, and 27 to reduce; of gathers of equal
        # size another one in backward.
        self.assertAlmostEqual(
            sharded_ms(one),
            63 + 3 * 6 + 27,
            delta=1e-6,
        )

    def test_what_is_rare_and_long_in_a_step_of_many_is_not_lost(self):
        one = sharded()
        one["units"] = [
            {"name": name, "parameters": [k], "reshards": False}
            for k, name in enumerate(("", "h.0", "h.1"))
        ]
        for i, step in enumerate(steps_of(one, "none") + steps_of(one, "probe")):
            step.update(
                units_ns=[[0, 19 * MS, 19 * MS, 57 * MS]] * 3,
                gather_ns=[6 * MS] * 3,
                reduce_ns=[3 * MS] * 3,
            )
            step["gather_ns"][i % 3] += 9 * MS  # in each step another
        self.assertAlmostEqual(
            sharded_ms(one),
            63 + 3 * 6 + 9 + 3 * 3,
            delta=1e-6,
        )

    def test_a_gpu_overlaps_and_is_not_validated(self):
        one = sharded(device="NVIDIA H100", backend="nccl")
        # The root is gathered at 0, for 6 ms; the block's until 12, for what is 5; its backward's
        # from 19 to 25; reductions at 45 and 57, of 10 ms each: 19 + 38 + 6 + 1 of gathers, and 10
        # + 1 + 5 behind.
        self.assertAlmostEqual(sharded_ms(one), 6 + 1 + 57 + 10 + 1 + 5, delta=1e-6)
        self.assertIn(
            "its schedule on a GPU is not validated on one",
            screen(one),
        )

    def test_units_of_another_script_are_its_blocks(self):
        # One unit of 4 MiB, gathered in half an all-reduce of 40 ms and reduced by one; half of the
        # optimizer's work.
        self.assertAlmostEqual(
            sharded_ms(launch(), Resharding.ALL),
            57 + 20 + 40 + 1 + 2.5,
            delta=1e-6,
        )
        self.assertIn("repeated blocks as units", screen())

    def test_units_of_another_script_take_what_a_probe_of_them_takes(self):
        one = with_units(launch())
        for parameter, name in zip(one["parameters"], ("h.0.a", "h.0.b", "c"), strict=True):
            parameter["name"] = name
        self.assertAlmostEqual(
            sharded_ms(one, Resharding.NONE),
            57 + 26 + 9 + 47 + 15 + 1 + 2.5,
            delta=1e-6,
        )
        # What copies take they take between more ranks, and over any link. Three of four parts are
        # sent instead of one of two.
        wider = sharded_ms(one, Resharding.NONE, world_size=4)
        self.assertAlmostEqual(
            wider, 57 + 40 * 6 / 4 / 2 + 35 - 20 + 40 * 6 / 4 + 62 - 40 + 1 + 1.25, delta=1e-6
        )
        self.assertIn("repeated blocks as units; over", screen(one))
        self.assertIn("repeated blocks as units, without copies; over", screen())
        for change in ({"in_ns": [MS]}, {"in_flight": 0, "ns": [], "in_ns": [], "out_ns": []}):
            with self.assertRaisesRegex(ValueError, "lacks times of its collectives"):
                sent_by(one, "fully_shard")[1].update(change)
                question([one])

    def test_units_use_processors_as_large_all_reduces_do(self):
        one = sharded()
        for sent in sent_by(one, "all_reduce"):
            if sent["in_flight"] == 1:
                sent["cpu_ns"] = sent["wall_ns"] * len(sent["bytes"]) // 10
        # Pieces of 1 MiB use 4 tenths of a processor, and all 4 MiB at once one tenth.
        costs = Communication.of([Launch.from_json(one)]).link.costs
        self.assertAlmostEqual(costs.processor(MIB, 1), 0.4)
        self.assertAlmostEqual(costs.processor(MIB, 1, Operation.UNIT_GATHER), 0.1)

    def test_the_optimizer_updates_shards(self):
        one = sharded()
        self.assertAlmostEqual(
            predict(one).step_s.value - predict().step_s.value, 6e-3
        )  # DDP's twice as much

    def test_a_policy_gathers_and_reduces_its_own_bytes(self):
        one = sharded()
        for parameter in one["parameters"]:
            parameter["gathered_bytes"] = parameter["bytes"] // 2  # bf16
        units = [Unit("", (0, 2), False), Unit("h.0", (1,), True)]
        parameters = Launch.from_json(one).parameters
        for operation, expected in (
            (Operation.ALL_GATHER, [MIB, MIB]),
            (Operation.REDUCE_SCATTER, [2 * MIB, 2 * MIB]),
        ):
            self.assertEqual(sharding.unit_bytes(parameters, units, operation), expected)
        # Where it was recorded, collectives take what they took. Over another link a gather sends
        # half of 1 MiB, and takes 1 ms more than half an all-reduce of that; a reduction sends 2
        # MiB.
        self.assertAlmostEqual(sharded_ms(one), 63 + 3 * 6 + 2 * 10, delta=1e-6)
        mib_ms = 1e3 * MIB / 1e9
        self.assertAlmostEqual(
            sharded_ms(one, link="8Gbit,0.000001us"),
            63 + 3 * (mib_ms / 2 + 1) + 2 * 2 * mib_ms,
            delta=0.01,
        )
        (way,) = [way for way in ask(one).ways if way.way == "fully_shard"]
        self.assertAlmostEqual(way.sent_bytes / MIB, 3 / 2 + 4)
        for parameter in one["parameters"]:
            parameter["reduced_bytes"] = parameter["bytes"] // 2
        (way,) = [way for way in ask(one).ways if way.way == "fully_shard"]
        self.assertAlmostEqual(way.sent_bytes / MIB, 3 / 2 + 2)

    def test_of_hsdp_two_of_four_ranks_share(self):
        one = sharded(sharing_ranks=2, world_size=4, hosts=["host"] * 4)
        one["ranks"] *= 2
        self.assertAlmostEqual(1e3 * ask(one).ddp.step_s.value, 63 + 3 * 6 + 2 * 10, delta=1e-6)
        ways = {way.way: way for way in ask(one).ways}
        own = ways["HSDP, 2 ranks share"]
        self.assertEqual(own.step_s, ask(one).ddp.step_s)
        # Gathers and reductions of 6 and 4 MiB send half, and all-reduces of halves 2 MiB.
        self.assertAlmostEqual(own.sent_bytes / MIB, 3 + 2 + 2)
        # Between all ranks gathers take half of an all-reduce, because only HSDP's were timed.
        self.assertAlmostEqual(sharded_ms(one), 57 + 1 + 5 / 2 + 3 * 10 + 2 * 20, delta=1e-6)
        link = {"link": "8Gbit,0.000001us"}
        mib_ms = 1e3 * MIB / 1e9
        for ranks in (4, 6):
            answer = ask(one, **link, world_size=ranks)
            # Each rank sends half of 2 MiB, and in a reduction an all-reduce of the other half.
            again = 2 * (1 - 2 / ranks) * mib_ms
            expected = 63 + 5 * mib_ms + 2 * again
            self.assertAlmostEqual(1e3 * answer.ddp.step_s.value, expected, delta=0.01)
        for flags, said in (
            ({**link, "world_size": 5}, "--world_size=5: 2 ranks share parameters"),
            ({"world_size": 8}, "name a rate as --link"),
        ):
            with self.assertRaisesRegex(Refused, said):
                ask(one, **flags)
        alone = ask(one, **link, world_size=2)  # one replica, which is fully_shard
        self.assertLess(alone.ddp.step_s.value, ask(one, **link, world_size=4).ddp.step_s.value)

    def test_is_compared_with_its_own_steps(self):
        (row,) = ask(sharded()).measured
        self.assertAlmostEqual(row.error, 101 / 90 - 1)

    def test_units_and_their_times_are_checked(self):
        for change, said in (
            (lambda one: one["units"].pop(), "units do not hold each parameter once"),
            (lambda one: steps_of(one, "none")[3]["gather_ns"].pop(), "lacks times of its units"),
            (lambda one: one.update(memory={"ready_bytes": [1]}), "memory lacks parameters"),
        ):
            one = sharded()
            change(one)
            with self.assertRaisesRegex(ValueError, said):
                question([one])


if __name__ == "__main__":
    unittest.main()
