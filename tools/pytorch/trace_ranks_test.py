"""`gradsync trace` of several ranks: which collective is which, who waits, and for whom."""

import random
import unittest
from dataclasses import replace

from gradsync import Refused
from gradsync.trace.report import read_ranks, report_of
from gradsync.trace.text import text_of
from sample_traces import Sample, two_ranks


def report(samples):
    return report_of(read_ranks([sample.written() for sample in samples]))


def micros(by_rank):
    return {rank: round(1e6 * seconds) for rank, seconds in by_rank.items()}


class WaitingTest(unittest.TestCase):
    def assert_waits(self, found, pure, by_rank, awaited):
        """In microseconds: the pure time, and what each rank waits in a step."""
        self.assertEqual(len(found.sizes), 1)
        self.assertEqual(round(1e6 * found.sizes[0].pure_s), pure)
        self.assertFalse(found.sizes[0].is_limit)
        self.assertEqual(micros(found.waiting.by_rank_s), by_rank)
        self.assertEqual(found.waiting.awaited, awaited)

    def test_transmission_begins_with_the_last_arrival(self):
        found = report(two_ranks(late=50))
        self.assert_waits(found, 100, {0: 50, 1: 0}, 1)
        self.assertAlmostEqual(1e-9 * found.sizes[0].bus_bytes_per_s, 1e6 / 100e-6 / 1e9)
        self.assertEqual(round(1e6 * found.sizes[0].waiting_s), 25)
        self.assertEqual(found.waiting.last_counts, {1: 3})
        self.assertEqual(micros(found.waiting.for_rank_s), {0: 0, 1: 50})
        self.assertTrue(found.waiting.is_always_the_same)
        self.assertIn("it is always the same", text_of(found))

    def test_waits_are_of_the_steps_that_all_ranks_have(self):
        for longer in (0, 1):
            samples = two_ranks(late=50)
            for step in (4, 5):
                samples[longer].step(step, 1000.0 * step, 990)
            found = report(samples)
            self.assert_waits(found, 100, {0: 50, 1: 0}, 1)
            self.assertEqual(micros(found.waiting.for_rank_s), {0: 0, 1: 50})

    def test_each_collective_is_told(self):
        found = report(two_ranks(late=50)).collectives
        self.assertEqual(
            [(one.step, one.counts) for one in found], [(0, 0), (1, 1), (2, 1), (3, 1)]
        )
        for one in found:
            told = (one.kind, one.group, one.bytes, one.last_rank)
            self.assertEqual(told, ("all_reduce", "0 [0, 1]", 1_000_000, 1))
            self.assertEqual(round(1e6 * one.pure_s), 100)
            self.assertEqual(micros(one.waiting_s), {0: 50, 1: 0})

    def test_files_may_come_in_any_order(self):
        found = report(list(reversed(two_ranks(late=50))))
        self.assert_waits(found, 100, {0: 50, 1: 0}, 1)
        self.assertEqual([rank.rank for rank in found.ranks], [0, 1])

    def test_the_clocks_of_hosts_differ(self):
        for apart in (300, -300, 5e6):
            found = report(two_ranks(late=50, hosts=("a", "b"), apart=apart))
            self.assert_waits(found, 100, {0: 50, 1: 0}, 1)

    def test_profilers_of_hosts_start_at_other_times(self):
        samples = two_ranks(late=50, hosts=("a", "b"), apart=300)
        samples[1].operator("aten::mm", -20_000, 5)
        samples[1].events.insert(0, samples[1].events.pop())
        self.assert_waits(report(samples), 100, {0: 50, 1: 0}, 1)

    def test_hosts_of_one_name_may_have_two_clocks(self):
        found = report(two_ranks(late=50, hosts=("localhost", "localhost"), apart=5e5))
        self.assert_waits(found, 100, {0: 50, 1: 0}, 1)

    def test_clocks_of_hosts_may_drift(self):
        samples = two_ranks(late=50, hosts=("a", "b"))
        for event in samples[1].events:
            if "ts" in event:
                event["ts"] += 200 * (event["ts"] // 1000)
        self.assert_waits(report(samples), 100, {0: 50, 1: 0}, 1)

    def test_traces_that_name_no_host_are_aligned_by_ends(self):
        found = report(two_ranks(late=50, hosts=("", ""), apart=700))
        self.assert_waits(found, 100, {0: 50, 1: 0}, 1)

    def test_on_one_host_ends_may_differ_a_little(self):
        """The last arrival to the last end, by the clock that they share."""
        samples = two_ranks(late=50)
        for event in samples[0].events:
            if "AllReduce" in event["name"]:
                event["dur"] += 20
        self.assert_waits(report(samples), 120, {0: 50, 1: 0}, 1)

    def test_origins_of_traces_are_heeded(self):
        """Times count from a base that each trace has of its own."""
        samples = two_ranks(late=50)
        samples[1].facts["baseTimeNanoseconds"] = 7_000_000_000
        for event in samples[1].events:
            if "ts" in event:
                event["ts"] -= 7_000_000
        for event in samples[0].events:
            if "AllReduce" in event["name"]:
                event["dur"] += 20  # only a shared clock tells that this is no waiting
        self.assert_waits(report(samples), 120, {0: 50, 1: 0}, 1)

    def test_not_always_the_same_rank(self):
        samples = two_ranks(late=0)
        for step, rank in ((1, 0), (2, 1), (3, 0)):
            own = [one for one in samples[rank].events if "AllReduce" in one["name"]]
            own[step]["ts"] -= 40
            own[step]["dur"] += 40
        found = report(samples)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 27, 1: 13})
        self.assertEqual((found.waiting.awaited, found.waiting.last_counts), (1, {0: 1, 1: 2}))
        self.assertFalse(found.waiting.is_always_the_same)
        self.assertIn("67 % of all waiting; not always the same", text_of(found))

    def test_the_first_step_is_left_out(self):
        samples = two_ranks(late=50)
        first = next(one for one in samples[0].events if "AllReduce" in one["name"])
        first["ts"] -= 200
        first["dur"] += 200
        self.assert_waits(report(samples), 100, {0: 50, 1: 0}, 1)


class AlignmentTest(unittest.TestCase):
    def notes(self, samples):
        return " ".join(report(samples).notes)

    def test_steps_are_paired_by_their_numbers(self):
        """One profiler began a step later."""
        samples = two_ranks(late=50, steps=6)
        samples[1].events = [one for one in samples[1].events if one.get("ts", 1e9) >= 1000]
        found = report(samples)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 50, 1: 0})
        self.assertIn("Collectives that some rank's trace lacks: 1.", found.notes)
        self.assertEqual((found.skipped, found.waiting.collectives), (1, 4))

    def test_ranks_without_a_common_step_have_means(self):
        samples = [two_ranks(steps=4)[0], two_ranks(steps=1)[1]]
        found = report(samples)
        self.assertIsNone(found.skipped)
        self.assertEqual([len(rank.steps) for rank in found.ranks], [4, 1])

    def test_numbers_pair_collectives_of_which_one_trace_lacks_some(self):
        samples = two_ranks(late=50)
        for rank, one in enumerate(samples):
            kernels = [event for event in one.events if "AllReduce" in event["name"]]
            for number, event in enumerate(kernels):
                event["args"]["Seq"] = number
            extra = {"Seq": 99}
            if rank == 0:  # before the others of its step
                one.all_reduce(2220, 10, launched=2001, **extra)
        found = report(samples)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 50, 1: 0})
        self.assertIn("Collectives that some rank's trace lacks: 1.", found.notes)

    def test_without_numbers_sizes_and_groups_tell_collectives_apart(self):
        samples = two_ranks(late=50)
        for rank, one in enumerate(samples):
            for step in range(4):
                # In another order on each rank, which their groups allow.
                begin = 1000 * step
                first, second = ((2_000_000, "1"), (1_000_000, "2"))[:: 1 - 2 * rank]
                at = 300 - 40 * rank
                for i, (size, group) in enumerate((first, second)):
                    name = {"Process Group Name": group}
                    begins, ends = (at, 400) if size == 2_000_000 else (at - 10, 420)
                    one.all_reduce(
                        begin + begins, ends - begins, begin + 211 + i, size=size, **name
                    )
        found = report(samples)
        sizes = {(one.group, one.bytes): round(1e6 * one.pure_s) for one in found.sizes}
        self.assertEqual(
            sizes,
            {
                ("0 [0, 1]", 1_000_000): 100,
                ("1 [0, 1]", 2_000_000): 100,
                ("2 [0, 1]", 1_000_000): 130,
            },
        )

    def test_a_collective_that_one_of_three_traces_lacks_is_not_aligned(self):
        samples = two_ranks(late=50, hosts=("a", "a", "a"), group="[0, 1, 2]")
        for one in samples:
            one.facts["distributedInfo"]["world_size"] = 3
        kernels = [event for event in samples[2].events if "AllReduce" in event["name"]]
        samples[2].events.remove(kernels[-1])
        found = report(samples)
        self.assertEqual(found.waiting.collectives, 2)
        self.assertIn("Collectives that some rank's trace lacks: 2.", found.notes)

    def test_groups_of_other_ranks_need_no_partner(self):
        samples = two_ranks(late=50, group="[0, 1]")
        for rank, one in enumerate(samples):
            for step in range(4):
                more = {"Process Group Ranks": f"[{rank}, {rank + 2}]", "Process Group Name": "2"}
                one.all_reduce(1000 * step + 850, 30, 1000 * step + 840, **more)
        found = report(samples)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 50, 1: 0})
        self.assertFalse([note for note in found.notes if "lacks" in note])

    def test_collectives_whose_ends_differ_are_left_out(self):
        samples = two_ranks(late=50, steps=6)
        own = [one for one in samples[0].events if "AllReduce" in one["name"]]
        own[2]["dur"] += 5000
        found = report(samples)
        self.assertIn("Of 6 collectives 1 are left out: their ends differ.", found.notes)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 40, 1: 0})

    def test_ranks_whose_ends_mostly_differ_cannot_be_aligned(self):
        for hosts in (("a", "a"), ("a", "b")):
            samples = two_ranks(late=50, steps=7, hosts=hosts)
            own = [one for one in samples[0].events if "AllReduce" in one["name"]]
            for i, event in enumerate(own):
                event["ts"] += 7000 * i * i
            found = report(samples)
            self.assertIsNone(found.waiting)
            self.assertTrue(found.sizes[0].is_limit)
            self.assertIn("Ranks cannot be aligned", " ".join(found.notes))

    def test_ranks_without_a_common_collective_are_told(self):
        samples = two_ranks()
        for event in samples[1].events:
            if "AllReduce" in event["name"]:
                event["args"]["In msg nelems"] = event["args"]["Out msg nelems"] = 5
        found = report(samples)
        self.assertIsNone(found.waiting)
        self.assertIn("no collective in common", " ".join(found.notes))

    def test_bytes_of_an_all_to_all_are_each_ranks_own(self):
        samples = two_ranks(late=50)
        for rank, one in enumerate(samples):
            for event in one.events:
                if "AllReduce" in event["name"]:
                    event["args"]["Collective name"] = "all_to_allv"
                    event["args"]["In msg nelems"] += 8 * rank
        self.assertEqual(micros(report(samples).waiting.by_rank_s), {0: 50, 1: 0})

    def test_many_ranks_wait_for_the_slowest_of_them(self):
        numbers = random.Random(4)
        samples, arrivals = [], {}
        for rank in range(8):
            one = Sample(rank, world_size=8, host_name=f"host{rank // 4}")
            shift = 90_000.0 * (rank // 4)
            for step in range(5):
                begin = shift + 1000 * step
                at = arrivals.setdefault((rank, step), numbers.randrange(100, 400))
                one.step(step, begin, 990).kernel(begin, 50, begin)
                more = {"Group size": 8, "Process Group Ranks": "[0, 1, ..., 7]"}
                one.all_reduce(begin + at, 700 - at, begin + 60, **more)
            samples.append(one)
        found = report(samples)
        last = {step: max(arrivals[rank, step] for rank in range(8)) for step in range(5)}
        expected = {
            rank: sum(last[step] - arrivals[rank, step] for step in range(1, 5)) / 4
            for rank in range(8)
        }
        for rank, micros_waited in expected.items():
            self.assertAlmostEqual(1e6 * found.waiting.by_rank_s[rank], micros_waited, 3)
        pure = sum(700 - last[step] for step in range(1, 5)) / 4
        self.assertAlmostEqual(1e6 * found.sizes[0].pure_s, pure, 3)
        self.assertAlmostEqual(1e-6 * found.sizes[0].bus_bytes_per_s, 1.75e6 / pure, 3)


class RanksTest(unittest.TestCase):
    def assert_refused(self, samples, *expected):
        paths = [sample.written() for sample in samples]
        with self.assertRaises(Refused) as caught:
            read_ranks(paths)
        for text in (paths[1], *expected):
            self.assertIn(text, str(caught.exception))

    def test_a_trace_in_which_nothing_takes_time_is_refused(self):
        for empty in (
            Sample(rank=1).operator("aten::mm", 5, 0),
            # The optimizer's thread has no operator.
            Sample(rank=1)
            .annotation("Optimizer.step#SGD.step", 5, 9)
            .operator("aten::mm", 5, 9, 7),
        ):
            self.assert_refused([two_ranks()[0], empty], "takes any time")

    def test_ranks_that_have_no_row_are_counted(self):
        def text_of_ranks(number):
            ranks = [
                Sample(rank=rank, world_size=number).step(1, 0, 9).operator("aten::mm", 1, 5)
                for rank in range(number)
            ]
            return text_of(report(ranks))

        self.assertIn("and 2 other ranks; these are means", text_of_ranks(18))
        many = report_of(read_ranks([sample.written() for sample in two_ranks()]))
        waits = dict.fromkeys(range(17), 1e-3)
        waiting = replace(many.waiting, by_rank_s=waits, for_rank_s=waits)
        self.assertIn("rank 15 1 ms, and 1 others.", text_of(replace(many, waiting=waiting)))
        self.assertIn("rank 15", text_of_ranks(16))
        self.assertNotIn("other ranks", text_of_ranks(16))

    def test_a_rank_twice_is_refused(self):
        self.assert_refused([two_ranks()[1], two_ranks()[1]], "rank 1 again")

    def test_traces_of_two_worlds_are_refused(self):
        other = two_ranks()[1]
        other.facts["distributedInfo"]["world_size"] = 4
        self.assert_refused([two_ranks()[0], other], "a world of 4 ranks", "of 2")

    def test_a_trace_that_names_no_rank_beside_one_that_does_is_refused(self):
        other = two_ranks()[1]
        del other.facts["distributedInfo"]["rank"]
        self.assert_refused([two_ranks()[0], other], "does not say which rank")

    def test_traces_that_name_no_ranks_are_numbered(self):
        samples = two_ranks(late=50)
        for sample in samples:
            del sample.facts["distributedInfo"]
        found = report(samples)
        self.assertEqual(micros(found.waiting.by_rank_s), {0: 50, 1: 0})


if __name__ == "__main__":
    unittest.main()
