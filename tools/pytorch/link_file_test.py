"""Links of several kinds of files, and what is said of them."""

import gzip
import json
import os
import random
import tempfile
import unittest

from gradsync import Refused
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
        self.assert_refused(
            ["srun -n 2 osu_allreduce -f", text[0], text[2], "1024 0.00"],
            "takes 0 s, expected more than 0",
        )

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
        self.assert_refused(
            record(0, schema="gradsync.record/4"),
            "schema gradsync.record/4, expected gradsync.record/5",
        )
        both = [record(0), record(0, run_id="b", variant={"backend": "shm"})]
        self.assert_refused(
            "\n".join(both), "all_reduce over gloo of 2 ranks and shm of 2 ranks: expected"
        )
        self.assert_refused(record(0, experiment="ddp"), "all_reduce over nothing: expected")
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
