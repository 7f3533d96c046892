"""Which faults record_commands.py finds in documents, commands and records."""

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

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import record_commands


class DocumentsTest(unittest.TestCase):
    def test_directories_of_a_document(self) -> None:
        text = """
            <!-- begin: links docs/records/a docs/records/b_1 --baseline_row=c -->
            <!-- picture: docs/images/c.svg report docs/records/c --figure=cost -->
            A <!-- value: ddp docs/records/d; row; step (ms) -->1<!-- end -->
            <!-- begin: prediction_errors docs/recordings/e --summary -->
            <!-- begin: answer what_if docs/recordings/f/g.jsonl.gz --link=1Gbit -->
            <!-- begin: ddp docs/published/h -->
            docs/records/i in prose
            """
        self.assertEqual(record_commands.directories_of(text), {"a", "b_1", "c", "d", "e", "f"})
        for text in (
            "prediction_errors docs/recordings",
            "answer what_if docs/recordings/lstm.1gbit.jsonl.gz",
        ):
            self.assertEqual(
                record_commands.directories_of(f"<!-- begin: {text} -->"), {"recordings"}
            )

    def test_a_document_shows_its_commands(self) -> None:
        uses = "<!-- begin: ddp docs/records/a -->\n"
        shows = "<!-- begin: commands b a -->\n"
        without = record_commands.without_commands
        self.assertEqual([*without({"docs/x.md": uses + shows})], [])
        self.assertEqual(
            [*without({"docs/x.md": uses, "docs/y.md": shows})],
            ["docs/x.md: shows a without a block of its command: commands a"],
        )
        self.assertEqual([*without({"README.md": uses, "docs/y.md": shows})], [])
        self.assertEqual(
            len([*without({"README.md": uses, "docs/y.md": "<!-- begin: commands b -->"})]), 1
        )


class CommandsTest(unittest.TestCase):
    def test_commands_of(self) -> None:
        text = "# a 1 no\na 1 bench/ddp --x \\\n    --y\n\nb 2 hosts.sh 2 bench/ddp\na 3 bench/z\n"
        self.assertEqual(
            record_commands.commands_of(text),
            {"a": ["1 bench/ddp --x --y", "3 bench/z"], "b": ["2 hosts.sh 2 bench/ddp"]},
        )

    def test_what_matters_of_a_command(self) -> None:
        words = record_commands.words_of
        self.assertEqual(
            words("2 hosts.sh --rate=1gbit 2 bench/ddp --b --a"),
            words("bench/ddp --a --b --out=DIR"),
        )
        self.assertEqual(
            words("1 bench/ddp --threads_per_rank=1"), words("bench/ddp --answer=false")
        )
        self.assertNotEqual(words("1 bench/ddp --threads_per_rank=2"), words("bench/ddp"))
        self.assertNotEqual(words("1 bench/ddp --a"), words("bench/ddp --a --b"))
        self.assertNotEqual(words("1 bench/ddp --a"), words("bench/compare --a"))


class MainTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(directory.cleanup)
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(directory.name)
        for path in ("docs/records/a", "docs/records/b", "docs/recordings/c", "tools/pytorch"):
            pathlib.Path(path).mkdir(parents=True)
        pathlib.Path("README.md").write_text("<!-- begin: ddp docs/records/a -->\n")
        pathlib.Path("tools/pytorch/README.md").write_text(
            "<!-- begin: answer docs/recordings/c/x.jsonl.gz -->\n"
        )
        pathlib.Path("docs/x.md").write_text("<!-- begin: commands a c -->\n")
        pathlib.Path("docs/records/commands.txt").write_text(
            "a 1 bench/ddp --x\na 1 bench/ddp --y\nb 1 bench/suite\n"
        )
        pathlib.Path("docs/recordings/commands.txt").write_text(
            "recordings predict.py\nc Cannot be repeated: lost.\n"
        )
        self.record("a", "bench/ddp --x --out=DIR", "bench/ddp --y --out=DIR")
        self.record("b", "bench/compare --of=the_suite")

    def record(self, name: str, *command_lines: str) -> None:
        lines = [
            json.dumps({"provenance": {"command_line": line}}) + '\n{"samples":1}\n'
            for line in command_lines
        ]
        with gzip.open(f"docs/records/{name}/r.jsonl.gz", "wt") as file:
            file.write("".join(lines))

    def faults(self) -> list[str]:
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            status = record_commands.main()
        self.assertEqual(status, 1 if err.getvalue() else 0)
        return err.getvalue().splitlines()

    def test_no_faults(self) -> None:
        self.assertEqual(self.faults(), [])

    def test_records_of_another_command(self) -> None:
        self.record("a", "bench/ddp --x --out=DIR", "bench/ddp --z --out=DIR")
        self.assertEqual(
            self.faults(),
            ["docs/records/a: not of its command in commands.txt, but of bench/ddp --z --out=DIR"],
        )

    def test_documents_are_read(self) -> None:
        pathlib.Path("docs/x.md").write_text("")
        self.assertEqual(
            [line.split(":")[0] for line in self.faults()], ["README.md", "tools/pytorch/README.md"]
        )
        pathlib.Path("docs/x.md").write_text(
            "<!-- begin: commands a c -->\n<!-- begin: ddp docs/records/b -->\n"
        )
        self.assertEqual([line.split(":")[0] for line in self.faults()], ["docs/x.md"])

    def test_recordings_without_a_command_and_commands_without_recordings(self) -> None:
        pathlib.Path("docs/recordings/d").mkdir()
        pathlib.Path("docs/recordings/c").rmdir()
        self.assertEqual(
            self.faults(),
            [
                f"docs/recordings: only one of commands.txt and the directories has {name}"
                for name in "cd"
            ],
        )


if __name__ == "__main__":
    unittest.main()
