"""Costs of collectives, and replays of steps with them, in numbers that can be computed by hand."""

import itertools
import math
import unittest
from collections import Counter
from dataclasses import replace
from statistics import fmean, stdev

from gradsync import Refused, drawing, network, replay
from gradsync.link import Cost, Curve, LinkCosts, MeasuredLink, Operation
from gradsync.network import Network, Wire
from gradsync.processors import Processors
from gradsync.replay import (
    Collective,
    RankStep,
    Scenario,
    Schedule,
    Transfer,
    Waits,
)


def two_hosts(algorithm, **changes):
    return replace(Network(8, 4, Wire(100, 0.5), Wire(1000, 0.01), algorithm), **changes)


def costs():
    return LinkCosts(
        [
            Cost(100, 10, 0.4),
            Cost(200, 20, 0.6),
            Cost(100, 16, 0.8, in_flight=2),
            Cost(100, 50, 1.0, in_flight=4),
            Cost(100, 4, 0.1, "all_gather"),
        ]
    )


def replayed(issued, backward, sizes, used=0, available=1, computing=1, together=None):
    """A link that takes a second for each byte, and this much of the processor."""
    all_costs = [Cost(1, 1, used), Cost(100, 100, used)]
    all_costs += [Cost(10, together, used, in_flight=2)] * bool(together)
    one = LinkCosts(all_costs, 2 if together else 1)
    ks = range(1, one.channels + 1)
    outcome = replay.replay_step(
        Schedule(issued, backward),
        [
            Transfer(
                one.seconds(b),
                [one.gain(b, k) / k for k in ks],
                [one.processor(b, k) / k for k in ks],
            )
            for b in sizes
        ],
        Processors(available, computing),
    )
    return outcome.backward_s, outcome.done_s, outcome.computed_s


class CurveTest(unittest.TestCase):
    def test_is_linear_between_measured_sizes(self):
        curve = Curve([(400, 8), (100, 2), (200, 3)])
        self.assertEqual(
            [curve.time_at(size) for size in (100, 150, 200, 300, 400)], [2, 2.5, 3, 5.5, 8]
        )
        self.assertEqual([curve.ratio_at(size) for size in (10, 300, 1000)], [2, 5.5, 8])
        self.assertEqual(Curve([(100, 2), (100, 6)]).time_at(100), 4)

    def test_extrapolates_times_by_latency_below_and_rate_above(self):
        curve = Curve([(100, 2), (200, 3)])  # 1 + bytes / 100
        self.assertEqual([curve.time_at(size) for size in (0, 50, 400)], [1, 1.5, 6])
        self.assertEqual(
            Curve([(100, 1), (200, 3)]).time_at(10), 0.1
        )  # a line that would be negative is not followed
        self.assertEqual(Curve([(100, 1)]).time_at(10), 0.1)


class LinkCostsTest(unittest.TestCase):
    def test_uses_the_most_that_were_measured_together(self):
        self.assertEqual([costs().processor(100, k) for k in (1, 2, 3, 9)], [0.4, 0.8, 0.8, 1.0])
        self.assertEqual(costs().processor(150, 1), 0.5)

    def test_gain_is_what_many_together_save(self):
        self.assertEqual([costs().gain(100, k) for k in (1, 2, 4)], [1, 1.25, 0.8])

    def test_an_unknown_kind_takes_half_an_all_reduce(self):
        self.assertEqual(costs().seconds(100, "all_gather"), 4)
        self.assertEqual(LinkCosts([Cost(100, 10)]).seconds(100, "all_gather"), 5)

    def test_changes_times_or_processors(self):
        slower = costs().changed(pace=3)
        self.assertEqual(
            (slower.seconds(100), slower.gain(100, 2), slower.processor(100, 1)), (30, 1.25, 0.4)
        )
        free = costs().changed(processor=0.25)
        self.assertEqual((free.seconds(100), free.processor(1e6, 4)), (10, 0.25))

    def test_refuses_what_takes_no_time_and_costs_without_an_all_reduce(self):
        for bad in (
            [Cost(100, 0)],
            [Cost(100, -1)],
            [Cost(100, math.inf)],
            [Cost(100, math.nan)],
            [Cost(0, 1)],
            [Cost(100, 4, 0.1, "all_gather")],
            [Cost(100, 4, in_flight=2)],
        ):
            with self.assertRaises(Refused, msg=bad):
                LinkCosts(bad)


class NetworkTest(unittest.TestCase):
    def test_reads_a_rate_and_a_latency(self):
        self.assertEqual(network.parse_wire("100Gbit,5us"), Wire(12.5e9, 5 * 1e-6))
        self.assertEqual(network.parse_wire("200Mbit,1ms"), Wire(25e6, 1e-3))
        self.assertEqual(network.parse_wire("1Gbit"), Wire(125e6, 5 * 1e-6))
        for text in (
            "",
            "100",
            "100Gbit,",
            "100Gbit,5",
            "100Gbit,5us,6us",
            "-1Gbit",
            "5us",
            "0Gbit,5us",
            "1Gbit,0us",
            "infGbit",
        ):
            self.assertIsNone(network.parse_wire(text), text)

    def test_takes_what_algorithms_take(self):
        def seconds(algorithm, kind="all_reduce", **changes):
            return network.collective_seconds(two_hosts(algorithm, **changes), kind, 800)

        # 7 hops of 1/8 of 800 bytes over the slower wire, to reduce and to gather.
        self.assertAlmostEqual(seconds("ring"), 2 * 7 * (0.5 + 1))
        self.assertAlmostEqual(seconds("ring", "all_gather"), 7 * (0.5 + 1))
        self.assertAlmostEqual(
            seconds("ring", world_size=4), 2 * 3 * (0.01 + 0.2)
        )  # one host's own wires
        self.assertAlmostEqual(seconds("tree"), 2 * (0.5 + 2 * 0.01 + 8))
        self.assertAlmostEqual(seconds("tree", "all_gather"), 7 * (0.5 + 1))
        # 3 hops of 200 bytes within, one of 400 between, each way.
        self.assertAlmostEqual(seconds("hierarchical"), 2 * (3 * (0.01 + 0.2) + 0.5 + 4))
        self.assertAlmostEqual(seconds("hierarchical", "all_gather"), 3 * (0.01 + 0.2) + 0.5 + 4)
        self.assertAlmostEqual(
            seconds("best"), min(seconds("ring"), seconds("tree"), seconds("hierarchical"))
        )
        # Fewer ranks than a host has places for.
        self.assertAlmostEqual(seconds("hierarchical", world_size=2), 2 * (0.01 + 0.4))
        self.assertAlmostEqual(seconds("tree", world_size=2), 2 * (0.01 + 0.8))
        # 9 ranks on hosts of 8 are on two hosts, as 16 are: all bytes pass between them.
        for ranks in (9, 12, 16):
            more = {"world_size": ranks, "ranks_per_host": 8, "within": Wire(1e12, 1e-9)}
            self.assertAlmostEqual(seconds("hierarchical", **more), 2 * (0.5 + 4), 6)

    def test_processors_are_used_by_the_byte_that_a_rank_sends(self):
        # 1e-3 CPU-seconds for each byte of an all-reduce: between 2 ranks as many are sent, between
        # 8 1.75 times.
        two = MeasuredLink(LinkCosts([Cost(1024, 2.048, 0.5)]), 2)

        def used(recorded, ranks, kind="all_reduce"):
            over = network.costs_over(
                Network(ranks, 1, Wire(1e3, 1e-9), Wire(1, 1), "ring"), recorded
            )
            return over.processor(4096, 1, kind) * over.seconds(4096, kind) / 4096

        self.assertAlmostEqual(used(two, 2), 1e-3)
        self.assertAlmostEqual(used(two, 8), 1.75e-3)
        self.assertAlmostEqual(used(replace(two, world_size=8), 2), 1e-3 / 1.75)
        self.assertAlmostEqual(used(two, 8, "all_gather"), 0.875e-3)  # half of an all-reduce

    def test_collectives_of_fsdp2_take_their_copies_over_any_link(self):
        # 2 ms a byte of an all-reduce without a link, and as much or half as much of FSDP2's; what
        # they take more is copies.
        def over(processor, **more):
            recorded = MeasuredLink(
                LinkCosts(
                    [Cost(1024, 2.048, processor)]
                    + [Cost(1024, seconds, 0.9, kind) for kind, seconds in more.items()]
                ),
                2,
            )
            over = network.costs_over(Network(2, 1, Wire(1e3, 1e-9), Wire(1, 1), "ring"), recorded)
            return network.with_units(over, recorded.costs, is_gloo=processor > 0)

        byte = 1514 / 1448 * 1e-3 + 1e-3  # sent over the wire, and its CPU-seconds
        costs = over(0.5, unit_gather=1.524, unit_reduce=2.648)
        self.assertAlmostEqual(costs.seconds(4096, "unit_gather"), 2048 * byte + 4 * 0.5, 5)
        self.assertAlmostEqual(
            costs.seconds(4096, "unit_reduce"), 4096 * byte + 4 * 0.6, 5
        )  # gloo's is an all-reduce
        self.assertAlmostEqual(costs.seconds(4096), 4096 * byte, 5)
        self.assertAlmostEqual(
            over(0.5, unit_gather=0.9).seconds(4096, "unit_gather"), 2048 * byte, 5
        )
        self.assertAlmostEqual(
            over(0, unit_reduce=1.524).seconds(4096, "unit_reduce"), 2.048 + 4 * 0.5, 5
        )  # NCCL's
        self.assertFalse(over(0.5).has(Operation.UNIT_REDUCE))

    def test_a_ring_of_more_ranks_has_more_hops_of_fewer_bytes(self):
        two, eight = (two_hosts("ring", world_size=ranks, ranks_per_host=1) for ranks in (2, 8))
        scaled = network.in_ring_of(MeasuredLink(network.costs_over(two, None), 2), 8)
        for size in (1024, 1e6):
            for kind in ("all_reduce", "all_gather"):
                self.assertAlmostEqual(
                    scaled.seconds(size, kind) / network.collective_seconds(eight, kind, size), 1
                )


class ReplayTest(unittest.TestCase):
    """(backward's end in time, all done in time, and by the clock of computation)."""

    def test_a_collective_follows_backward(self):
        self.assertEqual(replayed([5], 5, [10], used=0.5), (5, 15, 5))
        self.assertEqual(replayed([2, 5], 5, [1, 10])[:2], (5, 15))

    def test_computation_and_communication_slow_each_other_down(self):
        # From 2 on, 12 s of computation and 10 s of communication, both 1.5 times as long: the
        # collective ends at 17, when 2 s of computation are left.
        self.assertEqual(replayed([2], 14, [10], used=0.5), (19, 17, 12))
        # Both at 1 / 1.5 until 2 + 6 = 8, when 4 s of the collective are done; then it goes on at
        # its own pace.
        backward, done, work = replayed([2], 6, [10], used=0.5)
        self.assertAlmostEqual(backward, 8)
        self.assertAlmostEqual(done, 14)
        self.assertAlmostEqual(work, 6)

    def test_without_use_of_processors_nothing_is_slower(self):
        self.assertEqual(replayed([2], 14, [10]), (14, 12, 12))

    def test_processors_to_spare_are_used_first(self):
        self.assertEqual(replayed([0], 12, [100], used=0.5, available=2)[0], 12)
        self.assertEqual(replayed([0], 12, [100], used=0.5, available=2, computing=2)[0], 15)

    def test_collectives_queue_in_the_order_of_issue(self):
        self.assertEqual(replayed([0, 1, 2], 2, [10, 3, 5])[1], 18)
        self.assertEqual(replayed([0, 20], 30, [10, 3])[1], 23)

    def test_nothing_is_issued_after_backward_by_rounding(self):
        late = math.nextafter(5, 6)
        self.assertEqual(replayed([0, late], 5, [10, 10], together=16)[1], 18)

    def test_two_in_flight_share_the_link_and_gain_together(self):
        # Two of 10 take 16 together: each at 10 / 16 of its pace.
        self.assertEqual(replayed([0, 0], 0, [10, 10], together=16)[1], 16)
        # The second begins at 5: 5 are left of the first, which take 8; then 5 of the second,
        # alone. A third waits its turn.
        self.assertEqual(replayed([0, 5], 5, [10, 10], together=16)[1], 18)
        self.assertEqual(replayed([0, 0, 0], 0, [10, 10, 10], together=16)[1], 26)


class DrawTest(unittest.TestCase):
    """Of 2 measured ranks and 20 rounds, whose values tell both: 100 times the rank, and the
    round."""

    def draws(self, world_size, buckets=1):
        ranks = [[100 * rank + number for number in range(20)] for rank in range(2)]
        return replay.draw_rounds(
            Scenario(
                ranks,
                [Collective(1)] * buckets,
                world_size,
                LinkCosts([Cost(1, 1)]),
                Processors(1, 1),
                0,
            )
        )

    def test_measured_ranks_are_not_drawn(self):
        self.assertEqual(self.draws(2), [[k, 100 + k] for k in range(20)])
        self.assertEqual(self.draws(1), [[k] for k in range(20)])

    def test_other_ranks_of_a_larger_world_are_any_of_any_round(self):
        draws = self.draws(6)
        self.assertEqual(len(draws), 20)
        for k, drawn in enumerate(draws):
            self.assertLessEqual({k, 100 + k}, set(drawn))
            self.assertLess(2, len(drawn))
            self.assertEqual(sorted(set(drawn)), drawn)  # what is drawn twice is as late as once
            self.assertLessEqual(len(drawn), 6)
        drawn = [value for values in self.draws(100) for value in values]
        self.assertEqual(set(drawn), {*range(20), *range(100, 120)})

    def test_thousands_of_ranks_are_drawn_for_fewer_rounds(self):
        self.assertEqual(len(self.draws(16384, buckets=14)), 20)
        self.assertEqual(len(self.draws(16384, buckets=15)), 19)
        self.assertEqual(len(self.draws(16384, buckets=60)), 12)

    def test_a_bootstrap_takes_all_values_and_normal_paces(self):
        picks = drawing.resamples(5)
        drawn = drawing.deviations()
        self.assertEqual((len(picks), len(drawn)), (1000, 1000))
        of_each = (
            [one.link for one in drawn],
            [one.replicated for one in drawn],
            [one.sharded for one in drawn],
            drawing.row_deviations("a"),
            drawing.row_deviations("b"),
        )
        for own in of_each:
            self.assertAlmostEqual(fmean(own), 0, delta=0.1)
            self.assertAlmostEqual(stdev(own), 1, delta=0.1)
        for one, other in itertools.combinations(of_each, 2):  # they are independent
            products = [a * b for a, b in zip(one, other, strict=True)]
            self.assertAlmostEqual(fmean(products), 0, delta=0.1)
        taken = Counter(pick for own in picks for pick in own)
        self.assertEqual((sorted(taken), sum(taken.values())), ([0, 1, 2, 3, 4], 5000))
        for count in taken.values():
            self.assertAlmostEqual(count, 1000, delta=120)

    def test_every_answer_draws_the_same_numbers(self):
        # These are equal on every release of Python.
        self.assertAlmostEqual(drawing.deviations()[0].link, -0.7128650723073232, 12)
        self.assertEqual(drawing.resamples(5)[0], [4, 4, 0, 0, 4])
        self.assertEqual(self.draws(4), self.draws(4))
        self.assertEqual(self.draws(4)[:2], [[0, 16, 100, 105], [1, 8, 101, 115]])


class PredictTest(unittest.TestCase):
    """Of 12 equal rounds of two ranks."""

    def predicted(
        self, *ranks, sizes=(1,), used=0.0, log_error=0.0, waits=Waits.OPTIMIZER, **errors
    ):
        kind = Operation.ALL_REDUCE if waits is Waits.OPTIMIZER else Operation.ALL_GATHER
        return replay.predict(
            Scenario(
                ranks=[[rank] * 12 for rank in ranks],
                collectives=[Collective(size, kind) for size in sizes],
                world_size=len(ranks),
                costs=LinkCosts([Cost(1, 1, used), Cost(1, 1, used, Operation.ALL_GATHER)]),
                processors=Processors(1, 1),
                log_error=log_error,
                waits=waits,
                **errors,
            )
        )

    def test_rows_share_the_models_error_and_have_one_of_their_own(self):
        # Both cost 2 s, in one collective or in two.
        def steps(**errors):
            one = [RankStep(0, 2, [4] * 2, 4, 1)]
            other = [RankStep(0, 2, [4], 4, 1)]
            return (
                self.predicted(*one, sizes=(1, 1), **errors).step_s,
                self.predicted(*other, sizes=(2,), **errors).step_s,
            )

        one, other = steps(model_error=0.5)
        self.assertAlmostEqual(one.high, 5 + 2 * math.exp(1.96 * 0.5), delta=0.6)
        self.assertAlmostEqual(one.low, 5 + 2 * math.exp(-1.96 * 0.5), delta=0.2)
        difference = one.less(other)
        self.assertAlmostEqual(difference.low, 0)
        self.assertAlmostEqual(difference.high, 0)
        one, other = steps(row_error=0.5)
        self.assertAlmostEqual(one.high, 5 + 2 * math.exp(1.96 * 0.5), delta=0.6)
        difference = one.less(other)
        self.assertLess(difference.low, -2)
        self.assertGreater(difference.high, 2)
        self.assertEqual(one.less(steps(row_error=0.5)[0]).high, 0)  # the same row
        # What ranks do in their own steps is no part of the cost, but copies are.
        copies = steps(model_error=0.5, copies_s=3)[0]
        self.assertAlmostEqual(copies.high, 2 + 5 * math.exp(1.96 * 0.5), delta=1.5)
        self.assertGreater(copies.high, 12)

    def test_a_step_begins_with_its_last_rank(self):
        one = self.predicted(*[RankStep(begin, 2, [2], 4, 1) for begin in (10, 13)])
        self.assertEqual((one.step_s.value, one.slowest_s, one.exposed_s), (5, 5, 0))
        # The last rank gathers after 2 s, for 1 s, and computes 2 s and 1 s more.
        ranks = [RankStep(begin, 2, [2], 4, 1, [2]) for begin in (10, 13)]
        for waits in (Waits.ALL_RANKS, Waits.COMPUTATION):
            one = self.predicted(*ranks, waits=waits)
            self.assertEqual((one.step_s.value, one.slowest_s, one.exposed_s), (6, 5, 1))

    def test_no_order_takes_less_than_the_floor(self):
        rank = RankStep(0, 2, [2, 4], 4, 1, [4, 4])
        # The slowest rank; all bytes after the first gradient; computation and what moves bytes.
        self.assertEqual(self.predicted(rank, sizes=(1, 1)).floor_s, 5)
        self.assertEqual(self.predicted(rank, sizes=(9, 6)).floor_s, 2 + 15)
        self.assertEqual(self.predicted(rank, sizes=(9, 6), used=0.5).floor_s, 2 + 15)
        self.assertEqual(self.predicted(rank, sizes=(2, 1), used=0.5).floor_s, 5 + 1.5)
        for used, floor_s in ((0, 2 + 15), (1, 5 + 15)):
            gathers = self.predicted(rank, sizes=(9, 6), used=used, waits=Waits.COMPUTATION)
            self.assertEqual(gathers.floor_s, floor_s)

    def test_an_interval_is_as_wide_as_the_link_is_uncertain(self):
        rank = RankStep(0, 2, [4], 4, 1)
        one = self.predicted(rank, sizes=(100,), log_error=0.1).step_s
        self.assertEqual(one.value, 4 + 100 + 1)
        self.assertAlmostEqual(one.low, 5 + 100 - 1.96 * (100 - 100 * math.exp(-0.1)), delta=1)
        self.assertAlmostEqual(one.high, 5 + 100 + 1.96 * (100 * math.exp(0.1) - 100), delta=1)
        exact = self.predicted(rank, sizes=(100,)).step_s
        self.assertEqual((exact.low, exact.high), (105, 105))


if __name__ == "__main__":
    unittest.main()
