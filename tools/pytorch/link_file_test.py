"""Which logs of measurements are read, as what, and which are refused with which words. All are of one link: an all-reduce of n
ranks takes 50 us and its bytes at 1 GB/s."""

import gzip
import json
import os
import random
import tempfile
import unittest

from gradsync import Refused
from gradsync.link import MeasuredLink, Operation
from gradsync.link_file import bounds, read_link
from gradsync.recording import Recording
from sample_recordings import launch, screen, sent_by, written

SIZES = [1 << k for k in range(10, 28)]
FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}
HEADER = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"
UNITS = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"


def seconds(size):
    return 50e-6 + size / 1e9


def number(value):
    return "%.2f" % value if value < 1e4 else "%.1f" % value if value < 1e5 else "%.0f" % value


def times(size, ranks=2, kind="all_reduce", unit=1e-6, slower=1):
    rate = size / seconds(size) / 1e9 / slower
    return [
        number(slower * seconds(size) / unit),
        number(rate),
        number(rate * FACTORS[kind] * (ranks - 1) / ranks),
    ]


def ranks_of(count, hosts=None):
    return [
        f"#  Rank {r:2} Group  0 Pid {1000 + r:6} on     host-{r % (hosts or count)} device {r:2} [0000:04:00] NVIDIA X"
        for r in range(count)
    ]


def rows_of(ranks=2, kind="all_reduce", sizes=SIZES, wrong="0"):
    redop = "none" if kind in ("all_gather", "alltoall") else "sum"
    return [
        " ".join(
            [
                "  ",
                str(size),
                str(size // 4),
                "float",
                redop,
                "-1",
                *(times(size, ranks, kind) + [wrong]) * 2,
            ]
        )
        for size in sizes
    ]


def log(
    ranks=2,
    kind="all_reduce",
    header=(HEADER, UNITS),
    rows=None,
    named=True,
    listed=None,
    end=("# Out of bounds values : 0 OK",),
):
    return [
        *[f"# Collective test starting: {kind}_perf"] * named,
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 134217728",
        "#",
        "# Using devices",
        *(ranks_of(ranks) if listed is None else listed),
        "#",
        "#                                  out-of-place                       in-place",
        *header,
        *(rows_of(ranks, kind) if rows is None else rows),
        *end,
    ]


def document(ranks=2, kind="all_reduce", **changes):
    """What nccl-tests write with -J."""
    results = []
    for size in SIZES:
        rate = size / seconds(size) / 1e9
        one = {
            "time": "%f" % (1e6 * seconds(size)),
            "alg_bw": "%f" % rate,
            "bus_bw": "%f" % (rate * FACTORS[kind] * (ranks - 1) / ranks),
            "nwrong": 0,
        }
        one = {name: float(value) for name, value in one.items()}
        results.append(
            {
                "size": size,
                "count": size // 4,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": one,
                "in_place": one,
            }
        )
    devices = [
        {"rank": r, "group": 0, "pid": 1, "hostname": f"h{r}", "device": 0} for r in range(ranks)
    ]
    return {
        "version": 1,
        "args": [f"./build/{kind}_perf"],
        "config": {"nthreads": 1, "ngpus": 1, "devices": devices},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        **changes,
    }


class LinkFileTest(unittest.TestCase):
    def path(self, content, suffix=".txt"):
        content = "\n".join(content) + "\n" if isinstance(content, list) else content
        with tempfile.NamedTemporaryFile(
            suffix=suffix, dir=os.environ.get("TEST_TMPDIR"), delete=False
        ) as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        self.addCleanup(os.remove, file.name)
        return file.name

    def read(self, content, world_size=0):
        return read_link(self.path(content), world_size)

    def assert_right(self, content, ranks=2, says=(), relative=2e-3, **more):
        link = self.read(content, **more)
        self.assertEqual(link.world_size, ranks)
        for size in (1 << 20, 25 << 20):
            self.assertAlmostEqual(link.costs.seconds(size) / seconds(size), 1, delta=relative)
        for said, expected in zip(link.says, says):
            self.assertIn(expected, said)
        self.assertEqual(len(link.says), len(says), link.says)
        return link

    def assert_refused(self, content, *said):
        with self.assertRaises(Refused) as refused:
            self.read(content)
        self.assertNotIn("\n", str(refused.exception))
        self.assertRegex(str(refused.exception), "^/.*: ")
        for text in said:
            self.assertIn(text, str(refused.exception))

    def test_digits_say_what_a_number_may_have_been(self):
        self.assertEqual([round(end, 4) for end in bounds("0.57")], [0.5649, 0.5751])
        self.assertEqual([round(end, 2) for end in bounds("134268")], [134267.49, 134268.51])
        self.assertEqual(bounds("1.3e+07"), (1.3e7 - 0.51e6, 1.3e7 + 0.51e6))
        self.assertEqual(bounds("0.00")[0], 0)
        self.assertEqual(bounds("51,02"), bounds("51.02"))
        for text in ("", "nan", "N/A", "-1", "1e999", "inf", "1.2.3", "12:34:56", "e5"):
            self.assertIsNone(bounds(text), text)

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
        # Without what is before the rows, that tell what they are; 8 ranks, but not 300, are told by two digits.
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
        self.assert_right(in_unit("ms", (header,), 1e-3), relative=0.06)
        self.assert_refused(in_unit("ms", (header, UNITS), 1e-3), "is not an algbw of")

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

    def ranks_are_listed_and_agree_with_bandwidths(self):
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

    def test_osu_allreduce_has_to_be_told_its_ranks(self):
        rows = ["%-10d %20.2f" % (size, 1e6 * seconds(size)) for size in SIZES]
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
            row + " %.2f %.2f 1000" % (0.5e6 * seconds(size), 2e6 * seconds(size))
            for row, size in zip(rows, SIZES)
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
            ", measured by 8 ranks, 128 MiB to 256 MiB.\nBeware of it: all ranks on one host: it does not tell what a "
            "link between hosts takes.\nBeware of it: not all sizes of buckets, 1 MiB to 4 MiB, were measured.\n"
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
