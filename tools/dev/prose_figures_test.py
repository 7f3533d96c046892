"""Which figures prose_figures.py finds in prose, and which of them it allows."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import prose_figures

BLOCK = "<!-- begin: ddp docs/records/a -->\n| step (ms) |\n|--:|\n| 12.5 |\n<!-- end -->\n"


def complaints(text: str, *allowed: str) -> list[str]:
    """What is said of a document x.md, without its name."""
    found = prose_figures.complaints_of(
        "x.md", text, prose_figures.Allowed.read("\n".join(allowed))
    )
    return [line.removeprefix("x.md:") for line in found]


def figures(prose: str) -> list[str]:
    """The figures of prose that stands above a block."""
    return [
        line.split(": ")[1].partition(" is beside")[0] for line in complaints(f"{prose}\n\n{BLOCK}")
    ]


class FiguresTest(unittest.TestCase):
    def test_units(self) -> None:
        for text in (
            "12 ms", "1.5 s", "3 us", "7 ns", "4 %", "4 per cent", "21.3 GB/s", "25 Gbit/s",
            "50 Mbit/s", "0.64 PFLOP/s", "0.51 CPU-seconds", "100 seconds", "1.1 times",
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(figures(f"It takes {text}, or so."), [text])

    def test_a_unit_need_not_have_a_space(self) -> None:
        self.assertEqual(figures("Half: 50%, 12ms and 1.5x."), ["50 %", "12 ms", "1.5 times"])

    def test_all_numbers_that_share_a_unit(self) -> None:
        self.assertEqual(figures("It takes 3 to 5 % more."), ["3 %", "5 %"])
        self.assertEqual(figures("-4.0 [-7.3, -0.7] % with it"), ["4.0 %", "7.3 %", "0.7 %"])
        self.assertEqual(figures("**-4.0 [-7.3, -0.7] %** with it"), ["4.0 %", "7.3 %", "0.7 %"])
        self.assertEqual(figures("by 14.5-16.2 ms"), ["14.5 ms", "16.2 ms"])
        self.assertEqual(figures("26, 30 or 1,032.5 ms"), ["26 ms", "30 ms", "1,032.5 ms"])
        self.assertEqual(figures("1.1 to 1.3 times the mean"), ["1.1 times", "1.3 times"])

    def test_factors_in_words(self) -> None:
        self.assertEqual(
            figures("It grows three times as fast, ten times faster."), ["three times", "ten times"]
        )
        self.assertEqual(figures("Run it three times. Seven times nothing."), [])

    def test_what_is_no_figure(self) -> None:
        for text in (
            "2 x 64 tokens, 30 rounds, 12 bytes per parameter and 37.3 MB",
            "`--time=12s` and `12 ms`",
            "[a page](https://a.b/12%20ms) or https://a.b/3%25",
            "version 2.6 since 2026 supports 64 sequences",
            "<!-- value: ddp docs/records/a; b 12 ms; step (ms) -->12.5 ms<!-- end --> ms",
            "```\nIt takes 12 ms.\n```",
        ):
            with self.subTest(text):
                self.assertEqual(figures(text), [])

    def test_a_figure_beside_a_value(self) -> None:
        value = "<!-- value: ddp docs/records/a; b; step (ms) -->12.5<!-- end -->"
        self.assertEqual(figures(f"{value} ms, not 13 ms, {value} ms, 14 ms"), ["13 ms", "14 ms"])

    def test_over_the_end_of_a_line(self) -> None:
        self.assertEqual(complaints(f"A step\ntakes 12\nms.\n\n{BLOCK}")[0][:8], "2: 12 ms")
        self.assertEqual(figures("- An item ends with 12\n- ms"), [])

    def test_tables_by_hand(self) -> None:
        table = "| what | time of 2 ranks (ms) | share (%) |\n|:--|--:|--:|\n"
        table += "| a 7 | 12 [3, 4] | |\n| b | 1 s | +5.5 |\n"
        self.assertEqual(figures(table), ["12 ms", "3 ms", "4 ms", "1 ms", "5.5 %"])
        self.assertEqual(complaints(table + "\n" + BLOCK)[-1][:8], "4: 5.5 %")
        self.assertEqual(figures("| a | b |\n|:--|:--|\n| 12 ms | 7 |"), ["12 ms"])


class SectionsTest(unittest.TestCase):
    def test_only_sections_with_a_block_of_figures(self) -> None:
        self.assertEqual(
            complaints("# A\n12 ms\n\n# B\n13 ms\n\n" + BLOCK + "14 ms\n\n## C\n15 ms\n")[0][:9],
            "5: 13 ms ",
        )
        self.assertEqual(
            len(complaints("# A\n12 ms\n\n# B\n13 ms\n\n" + BLOCK + "14 ms\n\n## C\n15 ms\n")), 2
        )

    def test_which_blocks_have_figures(self) -> None:
        for kind in (
            "ddp docs/records/a",
            "lines 1-2 screen docs/records/a",
            "answer what_if a",
            "warnings",
        ):
            with self.subTest(kind):
                self.assertEqual(
                    len(complaints(f"12 ms\n<!-- begin: {kind} -->\n<!-- end -->\n")), 1
                )
        for kind in ("commands a", "commits", "file a.cc"):
            with self.subTest(kind):
                self.assertEqual(complaints(f"12 ms\n<!-- begin: {kind} -->\n<!-- end -->\n"), [])
        self.assertEqual(
            len(complaints("12 ms\n<!-- picture: a.svg report docs/records/a --figure=b -->\n")), 1
        )

    def test_code_in_a_block_ends_with_the_block(self) -> None:
        text = "<!-- begin: answer what_if a -->\n```\n12 ms\n```\n<!-- end -->\n13 ms\n"
        self.assertEqual([line[:5] for line in complaints(text)], ["6: 13"])
        text = BLOCK + "```\n# no heading, 12 ms\n```\n13 ms\n"
        self.assertEqual([line[:5] for line in complaints(text)], ["9: 13"])


class AllowedTest(unittest.TestCase):
    def test_settings(self) -> None:
        text = "Over 1 Gbit/s and 4 Gbit/s.\n\n" + BLOCK
        self.assertEqual(complaints(text, "# Settings", "", "1 Gbit/s", "4 Gbit/s"), [])
        self.assertEqual(len(complaints(text, "1 Gbit/s", "# 4 Gbit/s")), 1)
        self.assertEqual(len(complaints(text, "1 %", "4 Gbit/s")), 1)

    def test_cited_figures_need_their_link(self) -> None:
        cited = "x.md: 900 GB/s"
        self.assertEqual(complaints(f"NVLink\nhas [900 GB/s](https://a.b).\n\n{BLOCK}", cited), [])
        self.assertEqual(
            complaints(f"It has 900 GB/s.\n\n[Another](https://a.b) paragraph\n{BLOCK}", cited),
            ["1: 900 GB/s is cited, and its paragraph has no link"],
        )
        self.assertEqual(
            len(complaints(f"It [has](https://a.b) 900 GB/s.\n{BLOCK}", "y.md: 900 GB/s")), 1
        )

    def test_main(self) -> None:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as directory:
            paths = [pathlib.Path(directory, name) for name in ("list", "a.md", "b.md")]
            paths[0].write_text(f"1 %\n2 %\n{paths[2]}: 3 %\n")
            paths[1].write_text("1 %\n\n" + BLOCK)
            paths[2].write_text("[3 %](https://a.b)\n\n" + BLOCK + "4 ms\n")
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                self.assertEqual(prose_figures.main(*map(str, paths)), 1)
            self.assertEqual(
                err.getvalue().splitlines(),
                [
                    f"{paths[2]}:8: 4 ms is beside a generated block, "
                    "and neither made by docs.sh nor listed",
                    f"{paths[0]}: no document needs 2 %",
                ],
            )
            paths[0].write_text(f"1 %\n{paths[2]}: 3 %\n4 ms\n")
            self.assertEqual(prose_figures.main(*map(str, paths)), 0)


if __name__ == "__main__":
    unittest.main()
