#!/usr/bin/env python3
"""tools/dev/count_words.py [DOCUMENT...]: how many words of prose the documents have.

Counts headings too, but no code, no tables and no generated blocks. Without a DOCUMENT, counts the
pages of docs/, with their sum, and then the other documents."""

from __future__ import annotations

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import prose

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHERS = ("README.md", "CONTRIBUTING.md", "tools/pytorch/README.md")


def print_count(path: pathlib.Path) -> int:
    """Prints and returns how many words a document has."""
    count = prose.words_of_document(path.read_text(encoding="utf-8"))
    print(f"{count:6}  {os.path.relpath(path)}")
    return count


def main(arguments: list[str]) -> int:
    if arguments:
        for argument in arguments:
            print_count(pathlib.Path(argument))
        return 0
    total = sum(print_count(path) for path in sorted(ROOT.glob("docs/*.md")))
    print(f"{total:6}  the pages of docs/ in all")
    for name in OTHERS:
        print_count(ROOT / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
