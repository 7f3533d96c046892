"""Which measurements of nccl-tests are believed, and why others are not."""

import unittest

from gradsync import Refused
from gradsync.link import Operation
from gradsync.link_file import read_link
from gradsync.printed import interval_of
from sample_logs import SIZES, LogTest, log, ranks_of, rows_of, times


class NcclRunTest(LogTest):
    def test_digits_say_what_a_number_may_have_been(self):
        for text, low, high in (
            ("0.57", 0.5649, 0.5751),
            ("134268", 134267.49, 134268.51),
            ("1.3e+07", 1.3e7 - 0.51e6, 1.3e7 + 0.51e6),
        ):
            self.assertAlmostEqual(interval_of(text).low, low)
            self.assertAlmostEqual(interval_of(text).high, high)
        self.assertEqual(interval_of("0.00").low, 0)
        self.assertEqual(interval_of("51,02"), interval_of("51.02"))
        for text in ("", "nan", "N/A", "-1", "1e999", "inf", "1.2.3", "12:34:56", "e5"):
            self.assertIsNone(interval_of(text), text)

    def test_a_collective_is_what_the_program_the_redop_and_the_bandwidths_say(self):
        both = self.assert_right(log(4) + log(4, "all_gather"), 4)
        self.assertEqual(
            [kind for kind in Operation if both.costs.has(kind)],
            [Operation.ALL_REDUCE, Operation.ALL_GATHER],
        )
        self.assert_right(log(4, "alltoall") + log(4) + log(4, "reduce_scatter"), 4)
        concluded = log(named=False) + ["# Collective test concluded: all_reduce_perf"]
        self.assert_right(
            concluded
            + log(kind="alltoall", named=False)
            + ["# Collective test concluded: alltoall_perf"]
        )
        self.assert_right(
            ["$ mpirun -np 2 ./build/all_reduce_perf -b 1K -e 128M"] + log(named=False)
        )
        self.assert_refused(log(kind="alltoall"), "measured alltoall: expected all_reduce")
        self.assert_refused(log(kind="alltoall", named=False), "that is not named, with redop none")
        self.assert_refused(
            log(4, "reduce_scatter", named=False),
            "lists 4 ranks, but busbw / algbw is",
            "all_reduce of 4 has 1.5",
        )
        self.assert_refused(
            [line.replace(" sum ", " none ") for line in log()], "all_reduce and redop none"
        )
        self.assert_refused(log(2) + log(4), "measured by 2 and by 4 ranks")

    def test_a_reduction_to_one_rank_is_no_all_reduce(self):
        rooted = [row.replace("sum -1", "sum 0") for row in rows_of()]
        self.assert_refused(log(rows=rooted, named=False), "with redop none or a root")
        self.assert_refused(log(rows=rooted), "says all_reduce and root 0: expected -1")
        self.assert_refused(
            ["mpirun -np 2 /usr/local/bin/reduce_perf_mpi -b 1K"] + log(rows=rooted, named=False),
            "measured reduce: expected all_reduce",
        )

    def test_programs_are_named_by_words_that_end_in_perf(self):
        def named(line):
            return [line] + log(4, "all_gather", named=False)

        for line in (
            "srun /home/user/net_perf/nccl-tests/build/all_gather_perf -b 1K",
            "srun -p gpu_perf ./all_gather_perf -b 1K",
            "./all_gather_perf -b 1K  # on partition gpu_perf",
            "mpirun -np 4 /usr/local/bin/all_gather_perf_mpi -b 1K",
            "./build/all_gather_perf -b 1K > all_reduce_perf.txt",
            "cd all_reduce_perf/today && ./all_gather_perf",
        ):
            self.assert_refused(named(line), "measured all_gather: expected all_reduce")
        self.assert_refused(named("./own_perf -b 1K"), "measured own: expected all_reduce")

    def test_measurements_of_one_size_have_to_agree(self):
        def slower(factor, sizes=SIZES):
            rows = rows_of(sizes=[size for size in SIZES if size not in sizes])
            return rows + [
                " ".join([str(size), str(size // 4), "float sum -1", *times(size, slower=factor)])
                for size in sizes
            ]

        self.assert_right(log() + log())
        agreeing = self.read(log() + log(rows=slower(1.4)))
        expected = self.read(log()).costs.seconds(1 << 20) * 1.2
        self.assertAlmostEqual(agreeing.costs.seconds(1 << 20) / expected, 1, places=3)
        self.assert_refused(
            log() + log(rows=slower(4)),
            "measurements of one size differ by up to 4 times, at ",
            "; keep one of them in the file",
        )
        self.assert_refused(
            log() + log(rows=slower(1.6, [1 << 20])),
            "differ by up to 1.6 times, at 1 MiB: 1.099 ms and 1.758 ms",
        )
        self.assert_refused(log(rows=rows_of() + slower(2)), "differ by up to 2 times")
        # Only all-gathers disagree.
        gathers = [
            " ".join(
                [
                    str(size),
                    str(size // 4),
                    "float none -1",
                    *times(size, 2, "all_gather", slower=3),
                ]
            )
            for size in SIZES
        ]
        both = log(2, "all_gather") + log(2, "all_gather", rows=gathers)
        self.assert_refused(log() + both, "differ by up to")

    def test_one_type_and_redop_count(self):
        others = [
            row.replace("float sum", f"{kind} {redop}").replace(" 51.", " 99.")
            for row in rows_of()
            for kind, redop in (
                ("float", "max"),
                ("int8", "sum"),
                ("bfloat16", "sum"),
                ("f8e4m3", "sum"),
            )
        ]
        self.assert_right(log(rows=others[:8] + rows_of() + others[8:]))
        slow = [
            " ".join([str(size), str(size), "int8", "sum", "-1", *times(size, slower=2), "0"])
            for size in SIZES
        ]
        self.assert_right(log(rows=slow + rows_of()))
        self.assert_right(log(rows=rows_of() + slow))

    def test_a_log_most_of_whose_rows_disagree_is_refused(self):
        wrong = [f"{size} {size} float sum -1 1.00 1.00 1.00 0" for size in SIZES]
        self.assert_right(log(rows=rows_of() + wrong[1:]), says=["with themselves: 17"])
        self.assert_refused(log(rows=rows_of()[:12] + wrong), "is not an algbw of")

    def test_errors_count_where_the_numbers_are_taken_from(self):
        def rows(*wrong):
            return [
                " ".join([str(size), str(size), "float", "sum", "-1"])
                + "".join(f" {' '.join(times(size))} {one}" for one in wrong)
                for size in SIZES
            ]

        self.assert_right(log(rows=rows("2", "0")))
        self.assert_right(log(rows=rows("0", "2")), says=["check of results FAILED"])
        self.assert_right(log(rows=rows("0.0", "0.0")))

    def test_ranks_are_listed_and_agree_with_bandwidths(self):
        self.assert_right(
            log(8, listed=ranks_of(2) + ["..."]),
            8,
            ["does not list all ranks, but busbw / algbw is"],
        )
        self.assert_refused(
            log(8, listed=ranks_of(2)),
            "lists 2 ranks, but busbw / algbw is",
            "as of 8 ranks; all_reduce of 2 has 1",
        )
        self.assert_refused(log(72, listed=ranks_of(72)[-1:]), "lists 1 ranks, not all of them")
        groups = [
            line.replace("Group  0", f"Group {i % 4:2}") for i, line in enumerate(ranks_of(8))
        ]
        self.assert_right(log(2, listed=groups), 2, ["4 groups of 2 ranks at the same time"])
        self.assert_refused(log(2, listed=groups[:5]), "groups of different numbers of ranks")
        self.assert_refused(log(1), "measured by 1 rank, expected 2 or more")
        self.assert_refused(log(1, listed=2 * ranks_of(1)), "measured by 1 rank")
        self.assert_right(log(2, listed=ranks_of(2, hosts=1)), 2, ["all ranks on one host"])
        self.assert_right(
            log(
                2,
                listed=[
                    "#   Rank  0 uses device  0 [0x04] X",
                    "#   Rank  1 uses device  1 [0x05] X",
                ],
            )
        )

    def test_checks_that_failed_are_said(self):
        self.assert_right(
            log(end=["# Out of bounds values : 36 FAILED"]), says=["check of results FAILED"]
        )
        self.assert_right(log(rows=rows_of(wrong="3e+06")), says=["check of results FAILED"])
        self.assert_right(log(rows=rows_of(wrong="N/A")))
        self.assert_right(log(rows=rows_of(wrong="0e+00")))

    def test_what_proves_nothing_is_refused(self):
        self.assert_refused(log(rows=rows_of(sizes=[8, 16])), "no bandwidth has two digits")
        self.assert_refused(log(rows=[f"{s} {s} float sum -1 0.00 0.00 0.00 0" for s in SIZES]))
        small = self.assert_right(log(rows=["64 16 float sum -1 50.06 0.00 0.00 0", *rows_of()]))
        self.assertEqual(small.costs.sizes()[0], SIZES[0])
        self.assert_refused(log(rows=[]), "begins as nccl-tests do and has no rows")
        for text in (
            "",
            "notes",
            "0 " * 5000,
            "{",
            "[1]",
            "\0\1\2",
            "size count type\n1 2 3",
            "#" * 10**5,
        ):
            self.assert_refused(text, ": ")
        self.assert_refused(
            "Collective: Allreduce\n 256 1024 51.02 51.02 51.02 1.0 1.0 1.0\n",
            "expected what nccl-tests",
        )
        with self.assertRaisesRegex(Refused, "^/nonexistent: cannot be read"):
            read_link("/nonexistent", 0)


if __name__ == "__main__":
    unittest.main()
