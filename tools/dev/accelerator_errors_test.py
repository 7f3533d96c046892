"""What accelerator_errors.py says of launches whose errors are known."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "pytorch")]
import accelerator_errors
from sample_recordings import MS, launch, steps_of

NONE_S = 0.063  # of both ranks of the sample's launch
WAY = "bucket_cap_mb=25"


def said_of(
    rows,
    predicted,
    busy=0.2,
    hop_s=1e-5,
    none_s=NONE_S,
    link_rate=8 * 10**9,
    ranks_per_host=1,
    flags=(),
):
    """The lines about a launch of 8 ranks. `rows`: by way, steps; `predicted`: by way; `flags`:
    of accelerator_errors.py.
    """
    one = launch()
    one["link_rate"] = link_rate
    place = {"world_size": 8, "ranks_per_host": ranks_per_host}
    measured = [
        {**place, "hop_s": hop_s},
        {
            **place,
            "busy": busy,
            "rows": {
                "none": {"steps": [NONE_S], "own": [none_s - 0.001, none_s + 0.001]},
                **{way: {"steps": steps, "own": []} for way, steps in rows.items()},
            },
        },
    ]
    files = {
        "predicted": [{**place, "time": "", "rows": predicted}],
        "measured": measured,
    }
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as directory:
        with gzip.open(f"{directory}/base.jsonl.gz", "wt") as file:
            file.write(json.dumps(one) + "\n")
        for name, lines in files.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            pathlib.Path(f"{directory}/base.{name}.jsonl").write_text(text)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            accelerator_errors.main([directory, *flags])
    return out.getvalue().splitlines()


class AcceleratorErrorsTest(unittest.TestCase):
    def test_errors_are_of_steps_and_of_costs(self):
        said = said_of({WAY: [0.1, 0.12]}, {WAY: [0.121, 0.1, 0.13]})
        self.assertTrue(said[0].endswith("Rows: 1, of which 1 count."))
        self.assertIn(
            "Aim: median error of the step at most 3 %: does not hold, 10.0 %.", said
        )
        self.assertIn(
            "Aim: steps outside of intervals at most 10 %: holds, 0.0 %.", said
        )
        self.assertIn("Errors of predictions: 1, median 10.0 %", said[1])
        self.assertIn("Of costs: 1, median 23.4 %", said[2])  # 58 ms beside 47
        # The same, by the predictions of the present code.
        self.assertIn("The same rows, predicted anew by the present code:", said)
        self.assertIn(
            "predicted: 1 of 1; the median width of an interval is 27.3 %", said[4]
        )
        self.assertIn("+10.0 %", said[-2])

    def test_a_page_shows_one_case_or_the_sizes_of_errors_alone(self):
        def said(*flags):
            return said_of({WAY: [0.1, 0.12]}, {WAY: [0.121, 0.1, 0.13]}, flags=flags)

        whole = said()
        table = whole.index("```")
        self.assertEqual(said("--table=base"), whole)
        self.assertEqual(said("--table=fine"), whole[: table + 2] + ["```"])
        shared = said_of(
            {WAY: [0.1]}, {WAY: [0.1] * 3}, ranks_per_host=2, flags=["--table=base"]
        )
        self.assertTrue(shared[-2].startswith("base, 2 each"))
        self.assertEqual(said("--summary"), whole[: table - 1])
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            said("--table=smooth")

    def test_a_row_counts_by_three_conditions(self):
        def counts(**changes):
            return said_of({WAY: [0.1]}, {WAY: [0.1, 0.1, 0.1]}, **changes)[0]

        self.assertIn("which 1 count", counts(none_s=1.029 * NONE_S, busy=0.5))
        self.assertIn("which 0 count", counts(none_s=1.031 * NONE_S))
        self.assertIn("which 0 count", counts(none_s=0.969 * NONE_S))
        self.assertIn("which 0 count", counts(busy=0.51))
        # A piece of an eighth of 4 MiB takes 524 us.
        self.assertIn("which 1 count", counts(hop_s=52e-6))
        self.assertIn("which 0 count", counts(hop_s=53e-6))
        self.assertIn("which 1 count", counts(hop_s=520e-6, link_rate=8 * 10**8))

    def test_rows_say_how_long_their_bytes_take(self):
        def sending(way, **changes):
            return float(
                said_of({way: [0.1]}, {way: [0.1, 0.1, 0.1]}, **changes)[-2].split()[-1]
            )

        # Of eight ranks each sends 7/4 of 4 MiB, in 7.34 ms; backward takes 38.
        for way, part in (
            (WAY, 1),
            ("bf16_compress_hook", 1 / 2),
            ("no_sync over 2 passes", 1 / 2),
            ("no_sync over 4 passes", 1 / 4),
            ("ZeroRedundancyOptimizer", 3 / 2),
            ("fully_shard", 3 / 2),  # one unit, which is the root: it is gathered once
            ("fully_shard, no reshard", 3 / 2),
            ("local SGD, H=4", 1 / 4),
        ):
            self.assertAlmostEqual(
                sending(way, link_rate=8 * 10**8), part * 1.93, delta=0.01
            )
        shared = {"ranks_per_host": 4, "link_rate": 8 * 10**8}
        self.assertAlmostEqual(
            sending("HSDP", **shared), 1.10, delta=0.01
        )  # 4 MiB, between two

    def test_two_thirds_of_the_rows_overlap(self):
        near = ["bf16_compress_hook", "no_sync over 2 passes"]
        far = [
            "no_sync over 4 passes",
            "bucket_cap_mb=5",
        ]  # 0.48 and 1.93 times backward

        def said(*ways):
            rows = {way: [0.1] for way in ways}
            lines = said_of(rows, {way: [0.1] * 3 for way in ways}, link_rate=8 * 10**8)
            return [line for line in lines if "backward" in line or "overlap" in line][
                :2
            ]

        aim = "Aim: rows that hardly overlap at most 33.3 %: "
        count, held = said(*near, *far[:1])
        self.assertTrue(
            count.startswith("Of 3 rows") and count.endswith("as backward: 2.")
        )
        self.assertEqual(held, aim + "holds, 33.3 %.")
        count, held = said(*near, *far)
        self.assertTrue(
            count.startswith("Of 4 rows") and count.endswith("as backward: 2.")
        )
        self.assertEqual(held, aim + "does not hold, 50.0 %.")

    def test_units_pass_pieces_too(self):
        for hop_s, count in ((52e-6, 1), (53e-6, 0)):  # one unit of 4 MiB, as above
            said = said_of(
                {"fully_shard": [0.1]}, {"fully_shard": [0.1, 0.1, 0.1]}, hop_s=hop_s
            )
            self.assertIn(f"which {count} count", said[0])

    def test_a_slow_rank_is_slow_everywhere(self):
        case = accelerator_errors.CASES["slow_rank"]
        for ranks in (2, 8):
            own = [1.2 if rank == 1 else 1.0 for rank in range(ranks)]
            self.assertAlmostEqual(accelerator_errors._equal_s(case, own), 1)

    def test_steps_of_several_passes_cost_more_than_so_many(self):
        way = "no_sync over 2 passes"
        said = said_of({way: [0.226]}, {way: [0.246, 0.2, 0.3]})
        self.assertIn("Of costs: 1, median 20.0 %", said[2])  # 120 ms beside 100

    def test_local_steps_are_means(self):
        way = "local SGD, H=4"
        said = said_of({way: [0.4]}, {way: [0.11, 0.1, 0.12]})
        self.assertIn("median 10.0 %", said[1])

    def test_pairs_that_differ_are_ordered(self):
        fast, slow = [0.1, 0.1001, 0.1, 0.1001], [0.2, 0.2001, 0.2, 0.2001]
        other = "bucket_cap_mb=1"
        rows = {WAY: slow, other: fast}
        told = said_of(rows, {WAY: [0.3, 0, 1], other: [0.2, 0, 1]})
        self.assertIn(
            "Of 1 pairs of ways that differ by more than their intervals", told[5]
        )
        self.assertTrue(told[5].endswith("predicted: 1."))
        wrong = said_of(rows, {WAY: [0.1, 0, 1], other: [0.2, 0, 1]})
        self.assertTrue(wrong[5].endswith("predicted: 0."))
        # By what a pass takes.
        other = "no_sync over 4 passes"
        passes = said_of(
            {WAY: fast, other: slow}, {WAY: [0.1, 0, 1], other: [0.2, 0, 1]}
        )
        self.assertTrue(passes[5].endswith("predicted: 1."))
        alike = said_of(
            {WAY: fast, "bucket_cap_mb=1": fast},
            {WAY: [1, 0, 1], "bucket_cap_mb=1": [2, 0, 1]},
        )
        self.assertIn("Of 0 pairs", alike[5])

    def test_the_kept_ways_are_predicted_from_two_ranks(self):
        one = launch()
        for step in steps_of(one, "none"):
            step["cpu_ns"] = MS
        with tempfile.TemporaryDirectory(
            dir=os.environ.get("TEST_TMPDIR")
        ) as directory:
            path = pathlib.Path(directory) / "base.jsonl.gz"
            with gzip.open(path, "wt") as file:
                file.write(json.dumps({**one, "link_rate": 10**9}) + "\n")
            alone = accelerator_errors.predictions(path, 8, 1)
            shared = accelerator_errors.predictions(path, 8, 4)
        self.assertIn("fully_shard, no reshard", alone)
        self.assertNotIn("none", alone)
        self.assertEqual([*alone, "HSDP"], list(shared))
        self.assertTrue(
            all(low <= value <= high for value, low, high in alone.values())
        )
        self.assertNotEqual(alone[WAY], shared[WAY])
        # Seven of eight ranks leave the optimizer's work to others, and send weights three times.
        self.assertGreater(alone["ZeroRedundancyOptimizer"][0], alone[WAY][0])


if __name__ == "__main__":
    unittest.main()
