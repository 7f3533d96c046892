"""Logs of measurements, all of one link: an all-reduce of n ranks takes 50 us and its bytes at
1 GB/s."""

import os
import tempfile
import unittest

from gradsync import Refused
from gradsync.link_file import read_link

SIZES = [1 << k for k in range(10, 28)]
FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}
HALF = "     time   algbw   busbw  #wrong"
HEADER = "#       size         count      type   redop    root" + HALF + HALF
UNITS_OF_HALF = "             (us)  (GB/s)  (GB/s)"
UNITS = "#        (B)    (elements)                  " + UNITS_OF_HALF + UNITS_OF_HALF


def seconds(size):
    """Returns what an all-reduce takes."""
    return 50e-6 + size / 1e9


def number(value):
    """Returns a number with the digits that nccl-tests print."""
    if value < 1e4:
        return f"{value:.2f}"
    if value < 1e5:
        return f"{value:.1f}"
    return f"{value:.0f}"


def times(size, ranks=2, kind="all_reduce", unit=1e-6, slower=1):
    """Returns a time, algbw and busbw, as they are printed."""
    rate = size / seconds(size) / 1e9 / slower
    return [
        number(slower * seconds(size) / unit),
        number(rate),
        number(rate * FACTORS[kind] * (ranks - 1) / ranks),
    ]


def ranks_of(count, hosts=None):
    """Returns the lines that list ranks, on so many hosts, by default each on its own."""
    lines = []
    for rank in range(count):
        place = f"Group  0 Pid {1000 + rank:6} on     host-{rank % (hosts or count)}"
        lines.append(f"#  Rank {rank:2} {place} device {rank:2} [0000:04:00] NVIDIA X")
    return lines


def rows_of(ranks=2, kind="all_reduce", sizes=SIZES, wrong="0"):
    """Returns rows with equal numbers out of place and in place."""
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
    """Returns what a program prints."""
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
        bus_rate = rate * FACTORS[kind] * (ranks - 1) / ranks
        one = {
            "time": f"{1e6 * seconds(size):f}",
            "alg_bw": f"{rate:f}",
            "bus_bw": f"{bus_rate:f}",
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


class LogTest(unittest.TestCase):
    """Reads logs that are made for the test."""

    def path(self, content, suffix=".txt"):
        content = "\n".join(content) + "\n" if isinstance(content, list) else content
        with tempfile.NamedTemporaryFile(
            suffix=suffix, dir=os.environ.get("TEST_TMPDIR"), delete=False
        ) as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        self.addCleanup(os.remove, file.name)
        return file.name

    def read(self, content, world_size=0):
        """Returns the link that a file of these lines, this text or these bytes holds."""
        return read_link(self.path(content), world_size)

    def assert_right(self, content, ranks=2, says=(), relative=2e-3, **more):
        """The link is the one of all logs here, within this part, and has these remarks."""
        link = self.read(content, **more)
        self.assertEqual(link.world_size, ranks)
        for size in (1 << 20, 25 << 20):
            self.assertAlmostEqual(link.costs.seconds(size) / seconds(size), 1, delta=relative)
        self.assertEqual(len(link.says), len(says), link.says)
        for said, expected in zip(link.says, says, strict=True):
            self.assertIn(expected, said)
        return link

    def assert_refused(self, content, *said):
        """The log is refused in one line that has all of these texts."""
        with self.assertRaises(Refused) as refused:
            self.read(content)
        self.assertNotIn("\n", str(refused.exception))
        self.assertRegex(str(refused.exception), "^/.*: ")
        for text in said:
            self.assertIn(text, str(refused.exception))
