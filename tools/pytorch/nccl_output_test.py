"""What is read of logs of nccl-tests, and which are refused with which words."""

import gzip
import json
import unittest

from gradsync.link_file import read_link
from sample_logs import (
    HEADER,
    SIZES,
    UNITS,
    LogTest,
    document,
    log,
    ranks_of,
    rows_of,
    times,
)


class NcclOutputTest(LogTest):
    def test_reads_what_programs_print(self):
        link = self.assert_right(log())
        # What they use of processors is not told.
        self.assertFalse(link.costs.uses_processors())
        self.assert_right(log(8), 8)
        self.assert_right(log(named=False))
        self.assert_right(log(rows=rows_of()[::-1]))
        self.assert_right(log(24, listed=ranks_of(24, hosts=3)), 24)
        # Of 2019: no groups, no root, and the largest error in place of how many are wrong.
        half = "     time   algbw   busbw  error"
        rows = [
            " ".join([str(size), str(size // 4), "float", "sum", *(times(size) + ["2e-07"]) * 2])
            for size in SIZES
        ]
        self.assert_right(
            log(
                header=("#       size         count    type   redop" + half + half, UNITS),
                rows=rows,
                named=False,
                listed=[line.replace("Group  0 ", "") for line in ranks_of(2)],
            )
        )
        # Rows alone tell what they are; two digits tell 8 ranks, but not 300.
        self.assert_right(rows_of(8), 8, ["does not list all ranks"])
        self.assert_refused(
            rows_of(300),
            "lists no ranks, not all of them, and busbw / algbw is",
            "that does not tell how many",
        )

    def test_columns_are_those_of_the_header(self):
        def with_columns(names, values, half=lambda size: times(size) + ["0"], **more):
            names = "# " + " ".join(names)
            return log(
                header=(names, UNITS),
                rows=[
                    " ".join([str(size), str(size // 4), *values(size), *half(size)])
                    for size in SIZES
                ],
                **more,
            )

        before, half = (
            ["size", "count", "type", "redop", "root"],
            ["time", "algbw", "busbw", "#wrong"],
        )
        self.assert_right(
            with_columns(
                before + half + half + ["timestamp"],
                lambda size: ["float", "sum", "-1"],
                lambda size: (times(size) + ["0"]) * 2 + ["2025-08-05", "12:34:56"],
            )
        )
        iterations = ["i_min", "i_max", "i_p99", "i_cv%"]
        self.assert_right(
            with_columns(
                before + (half + iterations) * 2,
                lambda size: ["float", "sum", "-1"],
                lambda size: (times(size) + ["0", "10.00", "900.00", "800.00", "5.00"]) * 2,
            )
        )
        self.assert_right(
            with_columns(before[:-1] + half, lambda size: ["half", "sum"])
        )  # no root, one half
        self.assert_refused(
            with_columns(before + ["cputime"] + half[1:], lambda size: ["float", "sum", "-1"]),
            "cputime",
            "time",
        )
        self.assert_refused(
            with_columns(before[:2] + half, lambda size: []), "its columns are size count time"
        )
        self.assert_refused(
            with_columns(before + half[1:] + half[:1], lambda size: ["float", "sum", "-1"]),
            "its columns are size count type redop root algbw busbw #wrong time: expected size",
        )
        # One column that the header does not have: nothing of a row agrees with anything.
        self.assert_refused(
            with_columns(before + half, lambda size: ["float", "sum", "-1", "0.05"]),
            "is not an algbw of",
            "columns or units are not understood",
        )
        # DDP works in place; which half of a row that is stands above it.
        for first, second in ((3, 1), (1, 3)):
            rows = [
                " ".join(
                    [
                        str(size),
                        str(size),
                        "float",
                        "sum",
                        "-1",
                        *times(size, slower=first),
                        "0",
                        *times(size, slower=second),
                        "0",
                    ]
                )
                for size in SIZES
            ]
            lines = log(rows=rows)
            self.assert_right(
                lines
                if second == 1
                else [
                    line.replace("out-of-place", "").replace("in-place", "in-place  out-of-place")
                    for line in lines
                ]
            )

    def test_units_are_those_of_the_header_or_those_that_agree(self):
        def in_unit(unit, header, kind=1e-6):
            rows = [
                " ".join([str(size), str(size), "float", "sum", "-1", *times(size, unit=kind), "0"])
                for size in SIZES
            ]
            return log(header=header, rows=rows)

        header = HEADER.rpartition("     time")[0]
        self.assert_right(
            in_unit("ms", (header, UNITS.replace("(us)", "(ms)")), 1e-3), relative=0.06
        )
        link = self.assert_right(in_unit("ms", (header,), 1e-3), relative=0.06)
        self.assertGreater(link.costs.sizes()[0], SIZES[0])  # 0.05 ms have too few digits
        self.assert_refused(in_unit("ms", (header, UNITS), 1e-3), "is not an algbw of")

    def test_what_stands_behind_rows_is_of_other_rows(self):
        self.assert_right(log() + [UNITS.replace("(us)", "(ms)")])
        self.assert_right(log() + ["# Collective test concluded: alltoall_perf"])

    def test_prefixes_colours_and_encodings_do_not_matter(self):
        for prefix in (
            "[1,0]<stdout>:",
            "[0] ",
            "0: ",
            "12: 12: ",
            "2025-01-02T03:04:05.678901234Z ",
            "[2025-01-02 03:04:05] ",
            "nccl-test-worker-0 1 ",
            "worker-0  | ",
            "2025-01-02T03:04:05Z stdout F ",
            "\t    ",
            "> ",
            "\x1b[32m",
        ):
            self.assert_right([prefix + line for line in log()])
            self.assert_right([prefix + line.replace("#", "") for line in log()])
        text = "\n".join(log())
        for content in (
            text.encode("utf-16"),
            text.encode("utf-8-sig"),
            text.replace("\n", "\r\n").encode(),
            b"\xff\xf0" + text.encode(),
            b"\xfe\xff" + text.encode("utf-16-be"),
        ):
            self.assert_right(content)
        self.assert_right(
            [line if line.startswith("#") else line.replace(".", ",") for line in log()]
        )
        compressed = self.path(gzip.compress(text.encode()), ".txt.gz")
        self.assertEqual(read_link(compressed, 0).world_size, 2)

    def test_rows_that_others_interrupt_are_put_together_or_left_out(self):
        info = "host-0:497888:497888 [0] NCCL INFO 1024 Bytes -> Algo 0 proto 0 time 25.229528"
        rows = [
            line
            for row in rows_of()
            for line in (" ".join(row.split()[:5]) + info, " " + " ".join(row.split()[5:]))
        ]
        self.assert_right(log(rows=rows))
        self.assert_right(log(rows=[part for row in rows for part in (row, "1", "2 3")]))
        rows = rows_of()
        self.assert_right(log(rows=rows[:8] + [info] + rows[8:]))
        self.assert_right(
            log(rows=rows[:-1] + [rows[-1][:60]], end=())
        )  # the in-place half is cut off
        left_out = ["left out, because they do not agree with themselves: 1"]
        self.assert_right(log(rows=rows[:-1] + [rows[-1][:40]], end=()), says=left_out)
        self.assert_right(
            log(
                rows=rows
                + rows_of(sizes=[1 << 28])[:1]
                + ["268435456 1 float sum -1 99.99 1.00 1.00 0"]
            ),
            says=left_out,
        )

    def test_json_goes_through_the_same_checks(self):
        one = json.dumps(document())
        self.assert_right(one)
        self.assert_right("\n\n" + one)
        self.assert_right(one + "\n" + json.dumps(document(kind="all_gather")))
        config = {
            "nthreads": 2,
            "ngpus": 2,
            "devices": [{"hostname": "a"}, {"hostname": "b"}],
        }  # of processes
        self.assert_right(json.dumps(document(8, config=config)), 8)
        self.assert_refused(
            json.dumps(document(8, config=document()["config"])),
            "lists 2 ranks, but busbw / algbw is",
            "8 ran",
        )
        self.assert_refused(json.dumps(document(1)), "measured by 1 rank")
        self.assert_refused(
            json.dumps(document(kind="alltoall")), "measured alltoall: expected all_reduce"
        )
        self.assert_refused(json.dumps(document(results=[])), "expected what nccl-tests")
        self.assert_refused(one[:3000], "cut off or none at all, error at byte")
        self.assert_refused(one.replace('"time"', '"cpu_time"'), "expected time")
        self.assert_refused(
            json.dumps(document(config={})), "lacks what such a file has ('nthreads')"
        )
        self.assert_right(
            one.replace('"time": 51.024', '"time": "nan"'), says=["do not agree with themselves: 1"]
        )
        self.assert_right(json.dumps(document(out_of_bounds={"okay": "false"})), says=["FAILED"])
        self.assert_right(
            one.replace('"time": 1', '"time": 2'), says=["do not agree with themselves: 5"]
        )
        self.assert_refused(one.replace('"alg_bw": 0', '"alg_bw": 1'), "is not an algbw of")
        changed = document()
        for result in changed["results"]:  # which DDP does not do
            result["out_of_place"] = {**result["out_of_place"], "time": 1e9}
        self.assert_right(json.dumps(changed))


if __name__ == "__main__":
    unittest.main()
