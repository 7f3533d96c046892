#!/usr/bin/env python3
"""tools/dev/change_figures.py [SEED [COUNT]]: does docs.sh catch figures that change at random?

Copies the repository, changes COUNT figures of the documents (30) by 5 to 50 % and runs docs.sh in
the copy. A figure is caught if docs.sh puts back the old one, so that docs.sh --check would show
the difference, or if prose_figures.py names its line. A third of the figures is of prose, as far as
prose beside blocks has any; the others are of values inside of sentences and of generated blocks.
Prints a line for each figure, and exits with 1 if one was not caught. Takes a minute; needs what
`./bazelw build //tools:report //tools:summarize` makes."""

from __future__ import annotations

import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import prose_figures

NUMBER = re.compile(rf"(?<![\w.,]){prose_figures.NUMBER}(?![\w,]|\.\d)")
VALUE_TEXT = re.compile(r"(?<= -->)[^<]*(?=<!-- end -->)")


@dataclass(frozen=True)
class Place:
    """Where a number of a document is."""

    document: str
    line: int  # from 1
    begin: int  # within the line
    text: str


@dataclass(frozen=True)
class Change:
    place: Place
    new_text: str


def in_blocks(document: str, lines: list[str]) -> Iterator[Place]:
    is_inside = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("<!-- "):
            is_inside = line.startswith("<!-- begin: ")
        elif is_inside:
            for match in NUMBER.finditer(line):
                yield Place(document, number, match.start(), match[0])


def in_values(document: str, lines: list[str]) -> Iterator[Place]:
    for number, line in enumerate(lines, start=1):
        for text in VALUE_TEXT.finditer(line):
            for match in NUMBER.finditer(line, text.start(), text.end()):
                yield Place(document, number, match.start(), match[0])


def in_prose(document: str, lines: list[str]) -> Iterator[Place]:
    """Figures beside blocks, in lines that have the number once."""
    for section in prose_figures.sections_of(lines):
        if not section.is_generated:
            continue
        for paragraph in section.paragraphs:
            for figure in prose_figures.figures_of_paragraph(paragraph):
                number = figure.text.split(" ")[0]
                found = [m for m in NUMBER.finditer(lines[figure.line - 1]) if m[0] == number]
                if len(found) == 1:
                    yield Place(document, figure.line, found[0].start(), number)


def changed(number: str, random_numbers: random.Random) -> str:
    """A number that differs by 5 to 50 %, with as many decimals if these suffice."""
    old = float(number.replace(",", ""))
    decimals = len(number.partition(".")[2])
    factor = 1 + random_numbers.uniform(0.05, 0.5) * random_numbers.choice((-1, 1))
    while True:
        new = f"{old * factor:.{decimals}f}"
        if 0.045 <= abs(float(new) / old - 1) <= 0.505:
            return new
        decimals += 1


def choose(documents: dict[str, list[str]], seed: int, count: int) -> list[Change]:
    """At most one change in a line, so that it is sure which of them is caught."""
    random_numbers = random.Random(seed)
    prose, values, blocks = (
        [place for name, lines in documents.items() for place in kind(name, lines)]
        for kind in (in_prose, in_values, in_blocks)
    )
    for places in (prose, values, blocks):
        random_numbers.shuffle(places)
    changes: dict[tuple[str, int], Change] = {}
    for place in [*prose[: count // 3], *values[: count // 3], *blocks]:
        is_zero = not place.text.strip("0.")
        if len(changes) < count and not is_zero and (place.document, place.line) not in changes:
            change = Change(place, changed(place.text, random_numbers))
            changes[place.document, place.line] = change
    return list(changes.values())


def copy_repository(root: pathlib.Path, to: pathlib.Path) -> None:
    """Copies tracked files; what Bazel built stands beside them, and is not built again."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)
    (to / "bazelw").write_text("#!/bin/sh\n")
    (to / "bazel-bin").symlink_to((root / "bazel-bin").resolve())


def apply(changes: list[Change], documents: dict[str, list[str]], to: pathlib.Path) -> None:
    texts = {name: list(lines) for name, lines in documents.items()}
    for change in changes:
        place = change.place
        line = texts[place.document][place.line - 1]
        rest = line[place.begin + len(place.text) :]
        texts[place.document][place.line - 1] = line[: place.begin] + change.new_text + rest
    for name, lines in texts.items():
        (to / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def is_caught(change: Change, old: list[str], remade: list[str], output: str) -> bool:
    place = change.place
    restored = remade[place.line - 1] == old[place.line - 1]
    return restored or f"{place.document}:{place.line}: {change.new_text} " in output


def main(seed: str = "1", count: str = "30") -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    names = ["README.md", "CONTRIBUTING.md", "tools/pytorch/README.md"]
    names += [str(path.relative_to(root)) for path in (root / "docs").glob("*.md")]
    documents = {
        name: (root / name).read_text(encoding="utf-8").splitlines() for name in sorted(names)
    }
    changes = choose(documents, int(seed), int(count))
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory)
        copy_repository(root, copy)
        apply(changes, documents, copy)
        run = subprocess.run(
            ["tools/dev/docs.sh"], cwd=copy, check=False, capture_output=True, text=True
        )
        num_caught = 0
        for change in changes:
            place = change.place
            remade = (copy / place.document).read_text(encoding="utf-8").splitlines()
            caught = is_caught(change, documents[place.document], remade, run.stderr)
            num_caught += caught
            verdict = "caught" if caught else "NOT CAUGHT"
            print(f"{verdict}: {place.document}:{place.line}: {place.text} -> {change.new_text}")
    print(f"{num_caught} of {len(changes)} caught")
    return 0 if num_caught == len(changes) == int(count) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
