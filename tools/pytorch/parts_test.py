"""What a step is made of, and what ranks that vary cost, in numbers to compute by hand."""

import json
import pathlib
import re
import unittest
from dataclasses import replace
from statistics import fmean

from gradsync import replay
from gradsync.answering import answer_of
from gradsync.link import Cost, LinkCosts
from gradsync.parts import parts_of, variation_of
from gradsync.processors import Processors
from gradsync.replay import Collective, RankStep, Scenario
from gradsync.rounds import RoundTimes
from gradsync.text import text_of
from gradsync.units_text import sum_texts
from gradsync.what_if_command import parse, question_from
from sample_recordings import (
    MS,
    alone,
    ask,
    changed,
    launch,
    predictor,
    screen,
    sent_by,
    sharded,
    steps_of,
    written,
)

RECORDINGS = pathlib.Path(__file__).absolute().parents[2] / "docs/recordings"
NAMED = (
    ("--link=25Gbit,5us", "--world_size=64"),
    ("--link=1Gbit,50us", "--world_size=8", "--ranks_per_host=4"),
    ("--link=25Gbit,5us", "--world_size=3", "--processor_percent=70"),
)


def jittered(more_ms, **changes):
    """The launch whose rank r takes more_ms(r, i) ms longer in its i-th step of a mode, in forward,
    with and without synchronisation.
    """
    one = {**launch(), **changes}
    for rank, steps in enumerate(one["ranks"]):
        for mode in ("none", "probe"):
            own = [step for step in steps if step["mode"] == mode]
            if mode == "probe":  # of those like DDP's
                own = [s for s in own if s["collectives"]["kind"] == "all_reduce"]
            for i, step in enumerate(own):
                more_ns = more_ms(rank, i) * MS
                step["before_ns"] += more_ns
                step["step_ns"] += more_ns
    return one


def in_ms(parts):
    return [
        round(1e3 * seconds, 6)
        for seconds in (
            parts.computation_s,
            parts.copies_s,
            parts.slowed_s,
            parts.exposed_s,
            parts.broadcasts_s,
        )
    ]


class PartsTest(unittest.TestCase):
    def test_computation_copies_and_what_is_exposed(self):
        # none: 19 + 38 + 1 + 5; a probe takes 4 more. The second bucket is sent in 30 after
        # backward.
        self.assertEqual(in_ms(ask().ddp.parts), [63, 4, 0, 30, 0])

    def test_communication_slows_computation(self):
        busy = launch()
        for sent in sent_by(busy):
            sent["cpu_ns"] = sent["wall_ns"] // 2
        # The first bucket is sent from 10 on in 10, which become 15 beside 10 of backward.
        self.assertEqual(in_ms(ask(busy).ddp.parts), [63, 4, 5, 30, 0])

    def test_computation_is_of_the_slowest_rank_between_waits(self):
        # Rank 0 is 8 slower before backward ends, rank 1 4 slower in the optimizer.
        one = launch()
        for rank, name, more in ((0, "before_ns", 8), (1, "optimizer_ns", 4)):
            for step in one["ranks"][rank]:
                if step["mode"] != "ddp":
                    step[name] += more * MS
        self.assertEqual(in_ms(ask(one).ddp.parts), [63 + 8 + 4, 4, 0, 30, 0])

    def test_casts_are_copies_and_broadcasts_are_told(self):
        one = predictor()
        row = one.question.script_row
        # 1 ms a MiB to cast; casts back are part of the recorded collectives.
        self.assertEqual(in_ms(parts_of(one.step(replace(row, bf16=True))))[1], 4 + 4)
        self.assertEqual(in_ms(parts_of(one.step(replace(row, zero1=True))))[4], 30)
        named = predictor(link="8Gbit,1us", world_size=2)
        # Over another link the last bucket, of 3 MiB, is cast back after it is received.
        self.assertAlmostEqual(
            parts_of(named.step(replace(row, bf16=True))).copies_s, 11e-3, places=6
        )

    def test_under_fully_shard_all_that_is_not_computation_is_exposed(self):
        answer = ask(sharded())
        computation, *others = in_ms(answer.ddp.parts)
        self.assertEqual(others, [0, 0, round(1e3 * answer.ddp.exposed_s, 6), 0])
        self.assertAlmostEqual(computation / 1e3 + answer.ddp.exposed_s, answer.ddp.step_s.value)

    def test_of_a_faster_processor_all_but_communication_is_scaled(self):
        fast = launch()
        for step in steps_of(fast, "none"):
            step["step_ns"] //= 2
        self.assertEqual(in_ms(ask(at=written(fast)).ddp.parts)[1], 2)

    def test_copies_that_noise_hides_are_none(self):
        one = launch()
        for step in steps_of(one, "none"):
            step["before_ns"] += 9 * MS
        self.assertEqual(in_ms(ask(one).ddp.parts)[1], 0)

    def test_parts_are_of_the_rounds_that_the_step_is_the_mean_of(self):
        # By round: backward of 10 to 19 s, after which a collective of 1 s has 1, 0.5 or 0 s left.
        exposed = [1 - 0.5 * (i % 3) for i in range(10)]
        ranks = [[RankStep(0, 1, [10 + i - 1 + exposed[i]], 10 + i, 2) for i in range(10)]]
        one = replay.predict(
            Scenario(
                ranks, [Collective(1)], 1, LinkCosts([Cost(1, 1)]), Processors(1, 1), log_error=0
            )
        )
        by_step = sorted((10 + i + exposed[i] + 2, exposed[i]) for i in range(10))
        kept = by_step[2:-2]
        self.assertAlmostEqual(one.step_s.value, fmean(step for step, _ in kept))
        self.assertAlmostEqual(one.exposed_s, fmean(left for _, left in kept))
        self.assertNotAlmostEqual(one.exposed_s, fmean(sorted(exposed)[2:-2]), places=2)


class RoundTest(unittest.TestCase):
    def test_other_links_are_on_the_line_to_a_standard_deviation(self):
        one = RoundTimes(
            step_s=10,
            faster_link_s=8,
            slower_link_s=13,
            exposed_s=2,
            faster_exposed_s=1,
            slower_exposed_s=5,
            slowed_s=0,
            alone_s=8,
            first_s=1,
        )
        deviations = (-3, -1, -0.5, 0, 0.5, 1, 2)
        self.assertEqual([one.at(x) for x in deviations], [4, 8, 9, 10, 11.5, 13, 16])
        # Less than nothing cannot be exposed.
        self.assertEqual([one.exposed_at(x) for x in deviations], [0, 1, 1.5, 2, 3.5, 5, 8])


class VariationTest(unittest.TestCase):
    """Both ranks' own step takes 63 ms, and 97 with DistributedDataParallel."""

    def assert_variation(self, more_ms, step, equal, rank, correlation, **flags):
        answer = ask(jittered(more_ms), **flags)
        told = answer.variation
        self.assertEqual(
            [
                round(1e3 * seconds, 6)
                for seconds in (told.varying_step_s, told.equal_step_s, told.rank_s)
            ],
            [step, equal, rank],
        )
        self.assertEqual(told.varying_step_s, answer.ddp.step_s.value)
        self.assertAlmostEqual(told.waiting_part, (step - equal) / (step - rank))
        self.assertAlmostEqual(told.communication_part, (equal - rank) / (step - rank))
        if correlation is None:
            self.assertIsNone(told.correlation)
        else:
            self.assertAlmostEqual(told.correlation, correlation)

    def test_equal_ranks_lose_to_communication_alone(self):
        self.assert_variation(lambda rank, i: 0, 97, 97, 63, None)
        self.assertNotIn("Estimated", screen())

    def test_of_ranks_that_are_slow_by_turns_all_wait(self):
        # One of them takes 8 longer, which is 4 on average.
        self.assert_variation(lambda rank, i: 8 * (i % 2 == rank), 97 + 8, 97 + 4, 63 + 4, -1)

    def test_of_a_slow_rank_all_wait(self):
        self.assert_variation(lambda rank, i: 8 * rank, 97 + 8, 97 + 4, 63 + 4, None)

    def test_of_a_slow_rank_and_of_slow_steps_all_wait(self):
        # 8 or 12 longer by turns, 6 on average.
        self.assert_variation(
            lambda rank, i: 8 * rank + 4 * (i % 2 == rank), 97 + 10, 97 + 6, 63 + 6, -1
        )

    def test_for_ranks_that_are_slow_together_nobody_waits(self):
        def together(rank, i):
            return 8 * (i % 2)

        self.assert_variation(together, 97 + 4, 97 + 4, 63 + 4, 1)
        said = "The recorded ranks were slow in the same steps (correlation 1.00), which points to"
        self.assertNotIn(said, screen(jittered(together)))
        self.assertIn(said, screen(jittered(together), world_size=8))
        others = jittered(together, hosts=["a", "b"])
        self.assertIsNone(ask(others, world_size=8).variation.correlation)
        self.assertNotIn(said, screen(others, world_size=8))
        by_turns = jittered(lambda rank, i: 8 * (i % 2 == rank))
        self.assertNotIn("same steps", screen(by_turns, world_size=8))

    def test_what_communication_hides_costs_nothing(self):
        # All is sent in 40 ms after the first gradient, and backward is 8 longer on one rank after
        # its gradients are ready.
        one = launch()
        for i, step in enumerate(steps_of(one, "probe")):
            step["ready_ns"] = [10 * MS] * 3
            step["backward_ns"] += 8 * MS * (i % 2)
        told = ask(one).variation
        self.assertAlmostEqual(told.varying_step_s, told.equal_step_s)
        self.assertAlmostEqual(told.waiting_part, 0)

    def test_more_ranks_of_which_some_are_slow_wait_as_long(self):
        for ranks in (8, 64):
            told = ask(jittered(lambda rank, i: 8 * rank), world_size=ranks).variation
            self.assertAlmostEqual(told.varying_step_s - told.equal_step_s, 4e-3)
            self.assertAlmostEqual(told.rank_s, 67e-3)

    def test_fewer_ranks_than_were_recorded_are_the_first_of_them(self):
        four = jittered(lambda rank, i: 8 * rank)
        four.update(
            world_size=4, hosts=["a"] * 4, cores=4, ranks=[*four["ranks"], *launch()["ranks"]]
        )
        told = ask(four, world_size=2).variation
        self.assertAlmostEqual(told.varying_step_s - told.equal_step_s, 4e-3)
        self.assertIn("the 2 ranks vary as they did", screen(four, world_size=2))

    def test_copies_and_broadcasts_are_no_computation_of_a_rank(self):
        one = predictor()
        row = one.question.script_row
        for changes in ({}, {"zero1": True}):
            told = variation_of(one.step(replace(row, **changes)), one.question.launch)
            optimizer_ms = 6 * (1 - one.zero1_part()) if changes else 0
            self.assertAlmostEqual(1e3 * told.rank_s, 63 - optimizer_ms)

    def test_several_launches_count_as_much_as_each_other(self):
        slow = jittered(lambda rank, i: 8 * rank)
        told = ask(launch(), slow).variation
        self.assertAlmostEqual(told.varying_step_s - told.equal_step_s, (0 + 4e-3) / 2)

    def test_all_rounds_count(self):
        # In half of the 36 rounds rank 1 takes 8 longer.
        told = ask(jittered(lambda rank, i: 8 * rank * (i >= 18))).variation
        self.assertAlmostEqual(told.equal_step_s, 97e-3 + 8e-3 / 2 / 2)

    def test_says_that_it_is_no_measurement(self):
        text = screen(jittered(lambda rank, i: 8 * rank), world_size=64)
        self.assertIn("\nEstimated, not measured: an average rank computes for 67.0 ms.", text)
        self.assertIn(
            " waiting for slower ranks: 64 ranks are assumed to vary like the 2 ranks that were "
            "recorded\n",
            text,
        )
        self.assertRegex(
            text, r"communication and copies: 64 ranks of equal speed would take [\d.]+ ms"
        )
        text = screen(jittered(lambda rank, i: 8 * rank))
        self.assertIn("    34.0 ms  (89 %) communication and copies: 2 ranks of equal speed", text)
        self.assertIn(
            "     4.0 ms  (11 %) waiting for slower ranks: the 2 ranks vary as they did", text
        )
        one = alone()
        for i, step in enumerate(steps_of(one, "probe")):
            step["before_ns"] += 20 * MS * (i % 2)
        text = screen(one, link="25Gbit", world_size=8)
        self.assertIn("8 ranks are assumed to vary like the 1 rank that was recorded", text)

    def test_says_what_is_known_of_the_hosts_load(self):
        slow = jittered(lambda rank, i: 8 * rank)
        unknown = "Whether the recorded machine was busy with other work (steal, load) is unknown."
        self.assertIn(unknown, screen(slow))
        self.assertIsNone(ask(slow).load)
        loads = [
            {"steal_part": steal, "busy_part": 0.5, "load_average": average}
            for steal, average in ((0.021, 1.5), (0.013, 2.4))
        ]
        self.assertIn(
            " took 2.1 % of the machine's CPU time (steal); load average 2.4.",
            screen({**slow, "loads": loads}),
        )
        self.assertIn(unknown, screen({**slow, "loads": loads}, slow))
        more = [{**loads[0], "steal_part": 0.5}, loads[1]]
        answer = ask({**slow, "loads": loads}, {**slow, "loads": more})
        self.assertEqual(answer.load.steal_part, 0.5)


class SumTest(unittest.TestCase):
    """Printed parts add up to the printed step."""

    STEP = re.compile(r"A step of .* will take ([\d.]+) \[([\d.]+), ([\d.]+)\] ms \(95 %\):")
    PART = re.compile(r" +(-?[\d.]+) ms  \S.*")

    def assert_adds_up(self, text):
        lines = text.splitlines()
        (at,) = (i for i, line in enumerate(lines) if self.STEP.fullmatch(line))
        step, low, high = self.STEP.fullmatch(lines[at]).groups()
        self.assertLessEqual(float(low), float(step))
        self.assertLessEqual(float(step), float(high))
        decimals = len(step.partition(".")[2])
        parts, i = [], at + 1
        while match := self.PART.fullmatch(lines[i]):
            parts.append(match[1])
            i += 1
        self.assertGreaterEqual(len(parts), 2)
        self.assertEqual(f"{sum(map(float, parts)):.{decimals}f}", step, text)
        self.assertTrue(all(float(part) >= 0 for part in parts), text)
        if not lines[i].startswith("Estimated"):
            return 1
        rank = re.search(r"computes for ([\d.]+) ms", lines[i])[1]
        lost = [self.PART.fullmatch(line)[1] for line in lines[i + 1 : i + 3]]
        self.assertEqual(f"{float(rank) + sum(map(float, lost)):.{decimals}f}", step, text)
        equal = re.search(r"would take ([\d.]+) ms", lines[i + 1])[1]
        self.assertEqual(f"{float(rank) + float(lost[0]):.{decimals}f}", equal)
        percents = [int(re.search(r"\((\d+) %\)", line)[1]) for line in lines[i + 1 : i + 3]]
        self.assertEqual(sum(percents), 100)
        return 2

    def test_in_all_answers_about_kept_recordings(self):
        sums = 0
        for number, path in enumerate(sorted(RECORDINGS.rglob("*.gz"))):
            for flags in ((), NAMED[number % len(NAMED)]):
                question = question_from(parse([str(path), *flags]))
                if question.launch.world_size == 1 and not flags:
                    continue  # a recording by one rank has no link of its own
                answer = answer_of(question)
                parts = [*vars(answer.ddp.parts).values()]
                self.assertAlmostEqual(sum(parts), answer.ddp.step_s.value, places=12)
                self.assertAlmostEqual(answer.ddp.parts.exposed_s, answer.ddp.exposed_s, places=12)
                sums += self.assert_adds_up(text_of(answer))
        self.assertGreater(sums, 100)

    def test_all_have_four_digits_of_the_total(self):
        for total_s, parts_s, texts in (
            (1.2345, (1.0004, 0.2341), ["1234", "1000", "234"]),
            (12.3456, (12.0, 0.3456), ["12346", "12000", "346"]),
            (0.0012346, (0.0010005, 0.0002341), ["1.235", "1.001", "0.234"]),
            (0.1, (0.09996, 0.00004), ["100.0", "100.0", "0.0"]),
        ):
            self.assertEqual(sum_texts(total_s, parts_s), texts)

    def test_with_few_and_many_digits(self):
        for factor in (0.0013, 0.0137, 1, 9.7, 1234.5):
            one = json.loads(json.dumps(changed(threads=1)))
            for step in steps_of(one, "none") + steps_of(one, "probe"):
                for name in ("before_ns", "backward_ns", "optimizer_ns", "step_ns", "rest_ns"):
                    step[name] *= factor
                step["ready_ns"] = [factor * ns for ns in step["ready_ns"]]
            self.assert_adds_up(screen(one))


if __name__ == "__main__":
    unittest.main()
