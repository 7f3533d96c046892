"""What is said of recordings, and the flags of what_if."""

import contextlib
import io
import json
import random
import unittest
from dataclasses import replace

from gradsync import Refused, what_if_command
from gradsync.text import text_of
from sample_recordings import (
    MIB,
    MS,
    ask,
    changed,
    launch,
    screen,
    sent_by,
    steps_of,
    written,
)


class AnswerTest(unittest.TestCase):
    def many_parameters(self):
        """The same in 64 parameters."""
        one = launch()
        one["parameters"] = [{"name": "p", "numel": 1 << 14, "bytes": 1 << 16}] * 64
        for step in steps_of(one, "none") + steps_of(one, "probe"):
            step["ready_ns"] = [(64 - i) * 40 * MS // 64 for i in range(64)]
        return one

    def test_is_one_screen(self):
        text = screen(self.many_parameters()).splitlines()
        self.assertLessEqual(len(text), 30)
        self.assertLessEqual(max(map(len, text)), 118)

    def test_tells_the_step_with_and_without_synchronisation(self):
        text = screen()
        for said in (
            "3 parameters, 4.194 MB of gradients, SGD; 2 ranks over gloo on cpu, threads each: 1; "
            "launches: 1\n",
            "A step without synchronisation takes 63 ms.",
            "with buckets of 25 MiB (the first: 1 MiB) will take 97.00 [",
            "] ms (95 %):\n   63.00 ms  computation of the slowest rank\n",
            " 30.00 ms  ranks only wait for gradients after backward (exposed)\n",
            "no_sync",
        ):
            self.assertIn(said, text)
        self.assertNotIn("Assumed", text)
        self.assertEqual(ask().sizes[0].cost_s, ask().sizes[0].step_s.value - ask().none_s)

    def test_costs_are_more_than_so_many_passes_take(self):
        twice = launch()
        twice["rows"][0]["passes"] = 2
        self.assertAlmostEqual(
            ask(twice).sizes[0].cost_s, ask(twice).sizes[0].step_s.value - 2 * 63e-3
        )

    def test_shows_sizes_that_make_other_buckets_of_as_many(self):
        # 1.5, 0.5 and 2 MiB are ready in this order: 1 makes 1.5 and 2.5 of them, 2 makes 2 and 2.
        one = launch()
        for parameter, size in zip(one["parameters"], (4, 1, 3), strict=True):
            parameter["bytes"] = size << 19
        self.assertEqual(
            [(size.bucket_cap_mb, size.buckets) for size in ask(one).sizes],
            [(1, 2), (2, 2), (5, 1)],
        )

    def test_compares_what_was_measured(self):
        self.assertIn("90 ms +- 0.0 %         +7.8 %   +25.9 %\n", screen() + "\n")
        self.assertIn(
            "90 ms +- 0.0 %         +7.8 %   +25.9 %     +0.0 %\n",
            screen(launch(), launch()) + "\n",
        )
        varied = launch()
        for i, step in enumerate(steps_of(varied, "ddp")):
            step["step_ns"] = (80 + i % 12) * MS  # of both ranks at the same time
        interval = ask(varied).measured[0].measured_s.interval
        half = 100 * (interval.high - interval.value) / interval.value
        self.assertGreater(half, 1)
        self.assertIn(f"85.5 ms +- {half:.1f} %  ", screen(varied))
        there = launch()  # 97 ms beside 45 that were measured elsewhere
        for step in steps_of(there, "ddp"):
            step["step_ns"] = 45 * MS
        self.assertIn("+115.6 %", screen(at=written(there)))
        self.assertEqual(ask(world_size=4).measured, [])
        for name, value in (
            ("passes", 8),
            ("parameters", [{**p, "bytes": 8} for p in there["parameters"]]),
        ):
            with self.assertRaisesRegex(
                Refused, "--at=.*: a recording of other parameters or passes"
            ):
                ask(at=written({**there, name: value}))

    def test_tells_how_far_the_cost_is_off(self):
        for passes, none_ms in ((1, 63), (2, 2 * 63)):
            one = launch()
            one["rows"][0]["passes"] = passes
            for step in steps_of(one, "ddp"):
                step["step_ns"] = 150 * MS
            (row,) = ask(one).measured
            self.assertAlmostEqual(
                row.cost_error, (1e3 * row.predicted_s.value - none_ms) / (150 - none_ms) - 1
            )
        for step in steps_of(one, "ddp"):
            step["step_ns"] = 2 * 63 * MS  # a cost of nothing has no error
        self.assertIsNone(ask(one).measured[0].cost_error)

    def test_the_first_line_says_that_steps_wait_for_data(self):
        for between_ms, said in (
            (21, "21 ms pass before each step, in which scripts load data: 25 % of the time"),
            (3, "3 parameters"),
        ):
            one = launch()
            for step in steps_of(one, "none") + steps_of(one, "probe"):
                step["between_ns"] = between_ms * MS
            one["ranks"][0] = [
                {**step, "between_ns": 0} for step in one["ranks"][0]
            ]  # all wait for the last
            self.assertTrue(screen(one).startswith(said), screen(one))
            self.assertEqual(
                [round(1e3 * rank.between_s) for rank in ask(one).ranks], [0, between_ms]
            )

    def test_names_the_rank_that_the_others_wait_for(self):
        for more, said in (
            (
                10,
                "Rank 1 is slow: forward 29 ms, backward 38 ms, optimizer 5 ms; the fastest rank "
                "takes 62 ms for all.",
            ),
            (3, None),
        ):
            one = launch()
            for step in one["ranks"][1]:
                step["before_ns"] = step.get("before_ns", 0) + more * MS
            self.assertEqual(
                [line for line in screen(one).splitlines() if "is slow" in line],
                [said] if said else [],
            )
        now_and_then = launch()
        for step in steps_of(now_and_then, "none")[12::2]:
            step["before_ns"] += 20 * MS
        self.assertNotIn("is slow", screen(now_and_then))

    def test_says_where_ddp_made_other_buckets(self):
        for rebuilt, is_other in (([4 * MIB], True), ([3 * MIB, MIB], False), ([], False)):
            one = launch()
            one["rows"][0]["rebuilt_bucket_bytes"] = rebuilt
            self.assertEqual("+25.9 %       DDP made other buckets" in screen(one), is_other)

    def test_counts_whether_the_faster_size_is_predicted_faster(self):
        # One bucket of all is predicted to take 107 ms, and the script's own two 97.
        one = launch()
        one["rows"] += [
            {
                **one["rows"][0],
                "name": name,
                "first_bucket_bytes": 25 * MIB,
                "rebuilt_bucket_bytes": [],
            }
            for name in ("one", "the same buckets")
        ]
        for steps in one["ranks"]:
            steps += [
                {"mode": "ddp", "row": row, "begin_ns": 0, "step_ns": (95 + row) * MS}
                for row in (1, 2)
                for _ in range(12)
            ]
        counts = (
            "Sizes of buckets that differ by more than intervals: 2 pairs, the faster one "
            "predicted: "
        )
        self.assertIn(counts + "2", screen(one))
        for step in steps_of(one, "ddp"):
            if step["row"] == 1:
                step["step_ns"] = 89 * MS
        self.assertIn(counts + "1", screen(one))
        for name, value in (
            ("bf16", True),
            ("zero1", True),
            ("passes", 2),
        ):  # only sizes may differ
            other = json.loads(json.dumps(one))
            other["rows"][1][name] = value
            self.assertEqual((ask(other).pairs, ask(other).pairs_right), (1, 1))
        for i, step in enumerate(steps_of(one, "ddp")):  # intervals overlap
            step["step_ns"] = (80 + 20 * (i % 2) + step["row"]) * MS
        self.assertNotIn("Sizes of buckets that", screen(one))
        for step in steps_of(one, "ddp"):
            step["step_ns"] = 90 * MS
        self.assertNotIn("Sizes of buckets that", screen(one))

    def test_a_floor_is_told_only_below_what_a_step_may_take(self):
        told = "No order of sending takes less than 70 ms over this link."
        self.assertIn(told, screen())  # which may be 95 ms
        answered = ask()
        low = answered.ddp.step_s.low
        for floor_s in (low, low + 1e-3):
            step = replace(answered.ddp, floor_s=floor_s)
            self.assertNotIn("No order", text_of(replace(answered, ddp=step)))

    def test_names_the_best_size_only_if_it_can_be_told(self):
        late = self.many_parameters()  # the whole model in one bucket waits for backward
        for sent in sent_by(late):
            sent.update(wall_ns=sent["wall_ns"] // 20, ns=[ns // 20 for ns in sent["ns"]])
        self.assertIn("The best bucket size", screen(late))
        # A launch whose steps cost much more than another's hides what sizes differ by.
        slow = json.loads(json.dumps(late))
        for step in steps_of(slow, "probe"):
            step["optimizer_ns"] = 600 * MS
        for sent in sent_by(slow):
            sent["cpu_ns"] = sent["wall_ns"]
        self.assertIn("which differ by less than can be told", screen(late, slow))

    def test_says_what_options_gain(self):
        text = screen()
        self.assertRegex(
            text, r"no_sync: 4 times the passes .*gains \(-21.4 %\)"
        )  # against three buckets
        self.assertRegex(text, r"twice as long.*loses \(\+")
        self.assertRegex(text, r"half as long.*gains \(-")

    def test_many_ranks_wait_for_the_slowest(self):
        one = launch()
        for i, step in enumerate(steps_of(one, "probe")):
            step["before_ns"] = 60 * MS if i % 4 == 0 else step["before_ns"]
        self.assertEqual(ask(one).slowest_s, None)
        self.assertAlmostEqual(ask(one, world_size=64).slowest_s, 107e-3)
        self.assertIn("64 ranks are assumed to vary like the 2 ranks", screen(one, world_size=64))
        self.assertAlmostEqual(ask(one, world_size=16384, link="400Gbit").slowest_s, 107e-3)

    def test_an_answer_for_gpus_says_first_how_wrong_published_costs_were_predicted(self):
        words = "published costs of 4 and 8 GPUs were predicted within a factor of"
        lines = screen(changed(device="NVIDIA H100")).splitlines()
        self.assertIn(words, lines[1])
        self.assertNotIn(words, screen(launch()))

    def test_says_which_collectives_no_link_changes(self):
        one = launch()
        for count, own_bytes, said in (
            (
                2,
                3000,
                "2 collectives of the script itself, 3 kB, count as computation: a link does "
                "not change them.",
            ),
            (
                1,
                8,
                "1 collective of the script itself, 8 B, counts as computation: a link does not "
                "change it.",
            ),
        ):
            for step in steps_of(one, "none"):
                step.update(own_collectives=count, own_bytes=own_bytes)
            self.assertIn(f"In each step {said}", screen(one))
        self.assertNotIn("of the script itself", screen(launch()))

    def test_says_what_it_assumes(self):
        self.assertIn(
            "Assumed: communication takes nothing from computation on the GPU.",
            screen(changed(device="NVIDIA H100")),
        )
        named = {"world_size": 64, "link": "8Gbit,1us"}
        self.assertIn(
            "Asked for 64 ranks (1 on a host), 8 Gbit/s and 1 us between hosts.\n"
            "Assumed: the link is within 10 % of its data sheet.\n",
            screen(**named),
        )
        self.assertIn(
            "of its data sheet; ranks of a host exchange 200 Gbit/s (--within).\n",
            screen(**named, ranks_per_host=8),
        )
        own = "Assumed: all-reduces and all-gathers go around a ring and broadcasts through a tree"
        best = "Assumed: collectives take the fastest of a ring, a tree and rings of hosts."
        nccl = changed(backend="nccl")
        self.assertIn(f"{own}, as gloo does it.\n", screen(**named))
        self.assertIn(own, screen(**named, algorithm="ring"))
        self.assertIn(best, screen(**named, algorithm="best"))
        self.assertIn(best, screen(nccl, **named))
        for one in (launch(), nccl):
            told = screen(one, **named, algorithm="tree")
            self.assertIn("Assumed: collectives take the algorithm tree.\n", told)
        hybrid = ", those of HSDP a ring.\n"
        told = screen(nccl, **named, ranks_per_host=8)
        self.assertIn(best.removesuffix(".") + hybrid, told)
        told = screen(nccl, **named, ranks_per_host=8, algorithm="ring")
        self.assertIn("Assumed: collectives take the algorithm ring.\n", told)
        # Nobody knows what communication takes of processors where nothing was communicated, or
        # tells it.
        assumed, silent = (
            "Assumed: communication takes nothing from computation.",
            changed(backend="none"),
        )
        self.assertNotIn(assumed, screen(**named))
        self.assertIn(assumed, screen(silent, **named))
        self.assertNotIn(assumed, screen(silent, **named, processor_percent=10))
        self.assertNotIn("Assumed", screen(silent, link=written(launch())))
        self.assertIn("Assumed: collectives go around a ring.", screen(world_size=4))
        self.assertNotIn("Assumed", screen(world_size=2))


class FlagsTest(unittest.TestCase):
    def run_main(self, *arguments):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                status = what_if_command.main(list(arguments))
            except SystemExit as exit:
                status = exit.code
        return status, out.getvalue(), errors.getvalue()

    def test_refuses_flags_that_it_would_not_use(self):
        path = written(launch())
        wire_only = "--{} is for a --link that is a rate and a latency"
        for arguments, said in (
            (["--within=100Gbit,1us"], wire_only.format("within")),
            (["--algorithm=ring"], wire_only.format("algorithm")),
            (["--ranks_per_host=2"], wire_only.format("ranks_per_host")),
            (["--link=25Gbit", "--within=400Gbit"], "--within is for ranks that share a host"),
            (
                ["--link=25gbit,5us"],
                "--link=25gbit,5us: neither a rate and a latency such as 25Gbit,5us nor a "
                "file; did you mean 25Gbit,5us?",
            ),
            (["--link=25Gbps"], "did you mean 25Gbit,5us?"),
            (["--link=25GBit,5us"], "did you mean 25Gbit,5us?"),
            (["--link=25GBits/s,5us"], "did you mean 25Gbit,5us?"),
            (["--link=3GBs"], "did you mean 24Gbit,5us?"),
            (["--link=3GB/s,2"], "did you mean 24Gbit,2us?"),
            (["--link=25Gbit,0us"], "--link=25Gbit,0us: neither"),
            ([f"--link={path[:-1]}"], f"did you mean {path}?"),
            (["--wrld_size=2"], "unrecognized arguments: --wrld_size=2"),
            (["--world_size=many"], "expected 0 to 16384"),
            (["--world_size=1"], "one rank communicates with nobody"),
            ([path], "unrecognized arguments"),
        ):
            status, out, errors = self.run_main(path, *arguments)
            self.assertEqual((status, out, errors.count("\n")), (2, "", 1), arguments)
            self.assertTrue(errors.startswith("what_if: ") and said in errors, errors)
        self.assertIn("cannot be read", self.run_main("/nonexistent")[2])

    def test_prints_json(self):
        status, out, _ = self.run_main(written(launch()), "--format=json")
        self.assertEqual((status, json.loads(out)["none_s"]), (0, ask().none_s))

    def test_recordings_that_are_cut_or_changed_are_answered_or_refused_in_one_line(self):
        source = random.Random(1)
        text = json.dumps(launch())
        for _ in range(300):
            changed_text = list(text)
            for _ in range(source.randrange(1, 4)):
                at = source.randrange(len(changed_text) or 1)
                kind = source.randrange(4)
                if kind == 0:
                    changed_text[at : at + 1] = chr(source.randrange(32, 127))
                elif kind == 1:
                    del changed_text[at:]
                elif kind == 2:
                    del changed_text[at : at + source.randrange(30)]
                else:
                    changed_text[at:at] = source.choice(
                        ("-", "0", "e9", "null", "[]", "1e999", "9" * 30, "{}")
                    )
            status, out, errors = self.run_main(written("".join(changed_text)), "--link=25Gbit")
            self.assertTrue(
                status == 0
                and "nan" not in out
                and "inf" not in out
                or status == 2
                and not out
                and errors.count("\n") == 1,
                out + errors,
            )


if __name__ == "__main__":
    unittest.main()
