"""Which sentences draw_sentences.py finds, and that it draws the same ones again."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
import draw_sentences
import prose

HEADER = """#pragma once

// Returns the sum of all numbers. Throws Overflow, e.g. for two large numbers. See E. J. Cook.
//
// A sum has these steps:
//   int total = 0; // not a sentence of its own.
// - The first step reads numbers:
//   from a file or from a pipe.
int Sum();

struct Row {
  int64_t numel = 0;  // The number of elements is never
                      // below one in a row.
  int other = 0;      // (rows, columns)
};
"""
DOCUMENT = """# Title of a page

The first sentence says `a. b c d`, what is *new*. A second sentence follows it
on two lines. See [here](x.md), which takes 1.5 s.

| A table is not prose. |
|:--|

- The item of a list counts too.

<!-- begin: ddp docs/records/a -->
This sentence was made by a program.
<!-- end -->

```
This sentence stands in a fenced block.
```
"""
MODULE = '''"""The module says what its functions do."""

def area(width: float,
         height: float) -> float:
    """Returns the area of a rectangle. Raises ValueError for negative numbers.

    The second paragraph explains more of it."""
    # A comment is not a docstring here.
    text = "Nor is a string of this kind."
    return width * height
'''


def found(passages: Iterable[prose.Passage]) -> list[tuple[str, str, str]]:
    """(before, sentence, after) of each sentence."""
    return [(s.before, s.text, s.after) for s in prose.sentences_of("x", passages)]


class SentencesTest(unittest.TestCase):
    def test_of_a_header(self) -> None:
        self.assertEqual(
            found(prose.passages_of_header(HEADER)),
            [
                ("", "Returns the sum of all numbers.",
                 "Throws Overflow, e.g. for two large numbers."),
                ("Returns the sum of all numbers.", "Throws Overflow, e.g. for two large numbers.",
                 "See E. J. Cook."),
                ("int total = 0; // not a sentence of its own.",
                 "The first step reads numbers: from a file or from a pipe.", "int Sum();"),
                ("int64_t numel = 0;", "The number of elements is never below one in a row.", ""),
            ],
        )  # fmt: skip

    def test_the_neighbour_of_a_paragraph_is_one_sentence(self) -> None:
        header = "// One sentence stands here. Another one follows.\n//\n// A paragraph of its own.\n"
        self.assertEqual(
            found(prose.passages_of_header(header))[-1],
            ("Another one follows.", "A paragraph of its own.", ""),
        )

    def test_of_a_document(self) -> None:
        self.assertEqual(
            found(prose.passages_of_document(DOCUMENT)),
            [
                ("# Title of a page", "The first sentence says `a. b c d`, what is *new*.",
                 "A second sentence follows it on two lines."),
                ("The first sentence says `a. b c d`, what is *new*.",
                 "A second sentence follows it on two lines.",
                 "See [here](x.md), which takes 1.5 s."),
                ("A second sentence follows it on two lines.",
                 "See [here](x.md), which takes 1.5 s.", ""),
                ("See [here](x.md), which takes 1.5 s.", "The item of a list counts too.", ""),
            ],
        )  # fmt: skip

    def test_of_docstrings(self) -> None:
        signature = "def area(width: float, height: float) -> float:"
        self.assertEqual(
            found(prose.passages_of_python(MODULE)),
            [
                ("", "The module says what its functions do.", ""),
                (signature, "Returns the area of a rectangle.",
                 "Raises ValueError for negative numbers."),
                ("Returns the area of a rectangle.", "Raises ValueError for negative numbers.", ""),
                ("Raises ValueError for negative numbers.",
                 "The second paragraph explains more of it.", ""),
            ],
        )  # fmt: skip

    def test_what_is_no_sentence(self) -> None:
        for text in ("(batch, seq, d_model)", "Numbers of elements in a row", "Sum of all.",
                     "elements: rows, columns,"):  # fmt: skip
            with self.subTest(text):
                self.assertFalse(prose.is_sentence(text))

    def test_words_of_a_document(self) -> None:
        # The heading, the first paragraph and the item.
        self.assertEqual(prose.words_of_document(DOCUMENT), 5 + 25 + 8)


def git(root: pathlib.Path, *arguments: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *names, *arguments], cwd=root, check=True)


class DrawTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        git(self.root, "init", "--quiet")
        self.write("docs/a.md", "# A\n\n" + self.numbered(50, "document"))
        self.write("model/a.h", "// " + self.numbered(50, "header") + "\nint a;\n")
        self.write("tools/pytorch/gradsync/a.py", f'"""{self.numbered(50, "docstring")}"""\n')
        self.write("third_party/b.h", "// " + self.numbered(50, "foreign") + "\n")
        self.commit()

    def numbered(self, count: int, what: str) -> str:
        return " ".join(f"Sentence {n} of the {what}." for n in range(count))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self) -> None:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message=text")

    def drawn(self, *arguments: str, status: int = 0) -> str:
        """What the program prints in the repository."""
        here = os.getcwd()
        os.chdir(self.root)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as output:
                self.assertEqual(draw_sentences.main(list(arguments)), status)
        finally:
            os.chdir(here)
        return output.getvalue()

    def sentences(self, output: str) -> list[str]:
        return re.findall(r"^    SENTENCE: (.*)$", output, re.MULTILINE)

    def test_sixty_sentences_of_three_kinds(self) -> None:
        drawn = self.sentences(self.drawn("0123abcd"))
        kinds = [sentence.split()[-1] for sentence in drawn]
        self.assertEqual(kinds, ["header."] * 30 + ["document."] * 20 + ["docstring."] * 10)
        self.assertEqual(len(set(drawn)), 60)

    def test_the_same_seed_draws_the_same(self) -> None:
        first = self.drawn("0123abcd")
        self.assertEqual(self.drawn("0123abcd"), first)
        self.assertNotEqual(self.drawn("0123abce"), first)

    def test_draws_from_the_commit_not_from_the_folder(self) -> None:
        first = self.drawn("0123abcd")
        self.write("docs/a.md", "# A\n\n" + self.numbered(50, "new document"))
        self.assertEqual(self.drawn("0123abcd"), first)
        self.commit()
        self.assertNotEqual(self.drawn("0123abcd"), first)
        self.assertEqual(self.drawn("0123abcd", "HEAD~1"), first)

    def test_neighbours_stand_beside_it(self) -> None:
        number = r"Sentence (\d+) of .*"
        text = rf"before: {number}\n    SENTENCE: {number}\n    after: {number}\n"
        numbers = re.findall(text, self.drawn("0123abcd"))
        self.assertGreater(len(numbers), 50)
        for before, drawn, after in numbers:
            self.assertEqual((int(before) + 1, int(after) - 1), (int(drawn), int(drawn)))

    def test_places_are_for_another_reader(self) -> None:
        places = self.drawn("0123abcd", "--places").splitlines()
        self.assertIn("1. model/a.h:1", places)
        self.assertIn("60. tools/pytorch/gradsync/a.py:1", places)
        self.assertEqual(self.sentences("\n".join(places)), [])
        self.assertNotIn("model/a.h", self.drawn("0123abcd"))

    def test_refuses_other_seeds_and_commits(self) -> None:
        for seed in ("0123abc", "0123abcg", "0123abcde", ""):
            with (
                self.subTest(seed),
                contextlib.redirect_stderr(io.StringIO()) as errors,
                self.assertRaises(SystemExit),
            ):
                draw_sentences.main([seed])
            self.assertIn("expected eight hexadecimal digits", errors.getvalue())
        self.assertEqual(self.drawn("0123abcd", "no-such-commit", status=2), "")


if __name__ == "__main__":
    unittest.main()
