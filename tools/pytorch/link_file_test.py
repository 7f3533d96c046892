"""Links of several kinds of files, and what is said of them."""

import gzip
import json
import os
import random
import re
import tempfile
import unittest

from gradsync import Refused, nccl_json, nccl_output, osu_output
from gradsync.link import MeasuredLink
from gradsync.link_file import read_link
from gradsync.recording import Recording
from sample_logs import (
    SIZES,
    LogTest,
    document,
    log,
    ranks_of,
    rows_of,
    seconds,
)
from sample_recordings import launch, screen, written

try:
    from re import _parser as parser
except ImportError:  # before Python 3.11
    import sre_parse as parser


def begins_with_repeat(pattern):
    """Whether a pattern begins with a repeat of something, that no assertion stands before."""
    (first, argument), *_ = parser.parse(pattern)
    while first == parser.SUBPATTERN:
        (first, argument), *_ = argument[-1]
    return first == parser.MAX_REPEAT


class LinkFileTest(LogTest):
    def test_osu_allreduce_has_to_be_told_its_ranks(self):
        rows = [f"{size:<10} {1e6 * seconds(size):20.2f}" for size in SIZES]
        text = [
            "# OSU MPI-CUDA Allreduce Latency Test v7.3",
            "# Datatype: MPI_FLOAT.",
            "# Size       Avg Latency(us)",
            *rows,
        ]
        self.assert_right(
            text, 4, ["taken to be measured by 4 ranks, as many as are asked for"], world_size=4
        )
        self.assert_right(
            ["[1,0]<stdout>:" + line for line in text],
            4,
            ["as many as are asked for"],
            world_size=4,
        )
        self.assert_right(["mpirun -np 8 -N 2 osu_allreduce -m 1:1"] + text, 8)
        self.assert_right(["salloc -n 16 mpirun -np 8 osu_allreduce -m 1:1"] + text, 8)
        for command in ("srun -n8", "mpirun --np 8", "srun --ntasks=8"):
            self.assert_right([f"{command} osu_allreduce -m 1:1"] + text, 8)
        self.assert_refused(
            ["mpirun -n 8 osu_allreduce -f", *text, "mpirun -n 4 osu_allreduce -f", *text],
            "several numbers of ranks",
        )
        self.assert_refused(text, "does not tell how many ranks")
        full = [
            f"{row} {0.5e6 * seconds(size):.2f} {2e6 * seconds(size):.2f} 1000"
            for row, size in zip(rows, SIZES, strict=True)
        ]
        header = ["# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations"]
        self.assert_right(text[:1] + header + full, 2, ["as many as are asked for"], world_size=2)
        self.assert_refused(
            text[:1] + header + [f"{row} 1.00 2.00 10" for row in rows], "is not between"
        )
        self.assert_refused(
            [text[0].replace("Allreduce", "Bcast"), *text[1:]], "no rows of osu_allreduce"
        )
        self.assert_refused(
            [text[0], "# Size  Overall(us)  Compute(us)", *rows],
            "expected Size and Avg Latency(us)",
        )
        for extreme in ("Min", "Max"):
            self.assert_refused(
                [text[0], f"# Size  {extreme} Latency(us)", *rows],
                "expected Size and Avg Latency(us)",
            )
        self.assert_refused(
            ["srun -n 2 osu_allreduce -f", text[0], text[2], "1024 0.00"],
            "takes 0 s, expected more than 0",
        )

    def test_columns_of_osu_allreduce_are_those_of_its_heading(self):
        def printed(heading, row):
            rows = [f"{size:<10} {row(1e6 * seconds(size))}" for size in SIZES]
            return [
                "srun -n 2 osu_allreduce -f",
                "# OSU MPI Allreduce Latency Test v7.5",
                f"# Size       Avg Latency(us)   {heading}",
                *rows,
            ]

        self.assert_right(printed("Validation", lambda us: f"{us:.2f}  Pass"))
        self.assert_right(
            printed("Validation", lambda us: f"{us:.2f}  Fail"), says=["check of results FAILED"]
        )
        tail = "P50 Tail Lat(us)  P90 Tail Lat(us)  P99 Tail Lat(us)"
        self.assert_right(
            printed(tail, lambda us: f"{us:.2f} {0.9 * us:.2f} {3 * us:.2f} {9 * us:.2f}")
        )
        whole = "Min Latency(us)   Max Latency(us)  Iterations   Validation   P99 Tail Lat(us)"
        lines = printed(whole, lambda us: f"{us:.2f} {us / 2:.2f} {2 * us:.2f} 100 Pass {us:.2f}")
        self.assert_right(lines)
        self.assert_right([f"{place:6}\t{line}" for place, line in enumerate(lines)])
        self.assert_refused(
            printed("Energy(J)", lambda us: f"{us:.2f} 1.00"), "expected Size and Avg Latency(us)"
        )
        self.assert_refused(
            printed("", lambda us: f"{us:.2f}") + printed("", lambda us: f"{4 * us:.2f}"),
            "differ by up to 4 times, at ",
        )

    def test_web_pages_have_other_blanks(self):
        self.assert_right([line.replace("  ", " \u00a0") for line in log()])
        self.assert_right([line.replace("  ", "\u2009\u202f") for line in log()])

    def test_lines_take_steps_in_proportion_to_their_lengths(self):
        # A search tries each place where a pattern may begin. Those that begin with a repeat would
        # read the rest of a run of digits, of letters or of blanks from each place in it.
        patterns = {
            f"{module.__name__}.{name}": value
            for module in (nccl_output, nccl_json, osu_output)
            for name, value in vars(module).items()
            if isinstance(value, re.Pattern)
        }
        self.assertGreater(len(patterns), 10)
        for name, pattern in patterns.items():
            whole = name.endswith("REST") or name.endswith("LATENCY")  # of one word, by fullmatch
            self.assertTrue(whole or not begins_with_repeat(pattern.pattern), name)
            self.assertNotIn(".*?", pattern.pattern, name)
        self.assertTrue(begins_with_repeat(r"(\d+)\s+(\d+)"))
        digits = "9" * 4000
        self.assert_refused([digits] * 300, "none of its lines is a measurement")
        self.assert_right(log() + [digits] * 300 + [digits + " 1 "] * 300)

    def test_records_of_gradsync_are_of_one_backend(self):
        def record(rank, **changes):
            # The rank that came last waited least.
            one = {
                "schema": "gradsync.record/5",
                "experiment": "all_reduce",
                "run_id": "a",
                "rank": rank,
                "world_size": 2,
                "variant": {"backend": "gloo"},
                "samples": {
                    "time_ns": [3_000_000 * (1 + rank), 6_000_000 * (2 - rank)] * 5,
                    "communication_cpu_ns": [900_000] * 10,
                },
                "cell": {"collective": "all_reduce", "size_bytes": 1 << 20},
                "facts": {"channels": 2},
            }
            return json.dumps({**one, **changes})

        link = self.read("\n".join(record(rank) for rank in (0, 1)))
        self.assertEqual((link.world_size, link.costs.channels, link.says), (2, 2, ()))
        self.assertAlmostEqual(link.costs.seconds(1 << 20), 4.5e-3)
        self.assertAlmostEqual(link.costs.processor(1 << 20, 1), 0.9 / 6.75)
        self.assertEqual(self.read(record(0, facts={"channels": 1})).costs.channels, 1)
        slow = {"time_ns": [12_000_000] * 10, "communication_cpu_ns": [900_000] * 10}
        twice = self.read(record(0) + "\n" + record(0, run_id="b", samples=slow))
        self.assertEqual(
            list(twice.says),
            [
                "measurements of one size differ by up to 1.6 times, at 1 MiB: 7.5 ms and 12 ms; "
                "their mean counts"
            ],
        )
        self.assert_refused(
            record(0, schema="gradsync.record/4"),
            "schema gradsync.record/4, expected gradsync.record/5",
        )
        both = [record(0), record(0, run_id="b", variant={"backend": "shm"})]
        self.assert_refused(
            "\n".join(both), "all_reduce over gloo of 2 ranks and shm of 2 ranks: expected"
        )
        self.assert_refused(record(0, experiment="ddp"), "all_reduce over nothing: expected")
        self.assert_refused(record(0, facts={"channels": 0}), "channels: 0, expected 1 or more")
        self.assert_refused(record(0)[:200], "cut off or none at all")
        directory = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        with gzip.open(os.path.join(directory, "a.jsonl.gz"), "wt") as file:
            file.write(record(0) + "\n" + record(1) + "\n")
        self.assertAlmostEqual(read_link(directory, 0).costs.seconds(1 << 20), 4.5e-3)
        self.assertIsInstance(read_link(written(launch()), 0), Recording)

    def test_the_screen_says_what_was_read(self):
        text = screen(
            link=self.path(
                log(8, rows=rows_of(8, sizes=[1 << 27, 1 << 28]), listed=ranks_of(8, hosts=1))
            )
        )
        self.assertIn(
            ", measured by 8 ranks, 128 MiB to 256 MiB.\n"
            "Beware of it: all ranks on one host: it does not tell what a link between hosts "
            "takes.\n"
            "Beware of it: not all sizes of buckets, 1 MiB to 4 MiB, were measured.\n"
            "Assumed: collectives go around a ring.\n",
            text,
        )
        self.assertNotIn("Beware", screen(link=self.path(log())))
        # The script's own buckets have 1 and 3 MiB; those of 5 MiB and more hold all 4.
        small = self.path(log(rows=rows_of(sizes=[1 << 20, 3 << 20])))
        self.assertIn(
            "Beware of it: not all sizes of buckets, 1 MiB to 4 MiB, were measured.",
            screen(link=small),
        )

    def test_logs_that_are_cut_or_changed_are_read_or_refused_in_one_line(self):
        source = random.Random(3)
        texts = ["\n".join(log(4)), json.dumps(document(4), indent=0), "\n".join(rows_of(4))]
        wrong = 0
        for number in range(900):
            text = list(texts[number % 3])
            for _ in range(source.randrange(1, 6)):
                at = source.randrange(len(text) or 1)
                kind = source.randrange(5)
                if kind == 0:
                    text[at : at + 1] = chr(source.randrange(32, 127))
                elif kind == 1:
                    del text[at : at + source.randrange(200)]
                elif kind == 2:
                    text[at:at] = source.choice(
                        ("0", "-", ".", "e9", "\n", " ", "#", "nan", "9" * 20, "\x1b[0m", "{")
                    )
                elif kind == 3:
                    other = source.randrange(len(text) or 1)
                    text[at:at] = text[other : other + source.randrange(300)]
                elif source.randrange(4) == 0:
                    del text[at:]
            try:
                link = self.read("".join(text))
                self.assertIsInstance(link, MeasuredLink)
                pace = [link.costs.seconds(size) / seconds(size) for size in link.costs.sizes()]
                wrong += link.world_size != 4 or not 0.9 < min(pace) <= max(pace) < 1.1
            except Refused as refused:
                self.assertNotIn("\n", str(refused))
        self.assertEqual(wrong, 0)


if __name__ == "__main__":
    unittest.main()
