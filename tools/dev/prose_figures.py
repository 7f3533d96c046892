#!/usr/bin/env python3
"""tools/dev/prose_figures.py LIST DOCUMENT...: prose beside a generated block has no own figures.

Blocks are made from kept records, so a figure that prose repeats from them goes stale when they are
measured again. A figure is a number with a unit of share, time (up to seconds) or rate, or a
factor: 12 ms, 3 to 5 %, 1.1 times. A table may have the unit in a heading: "time (ms)". A section
(from heading to heading) that contains a generated block of figures, or a picture, may have only

- values that docs.sh makes: <!-- value: TABLE DIRECTORY; ROW; COLUMN -->x<!-- end -->
- settings: figures that LIST has on a line of their own, "95 %"
- cited figures: LIST has the document and the figure, "docs/gpu.md: 900 GB/s", and the paragraph
  links to the source

Code (between backquotes, or fenced) is not read. Prints one line for each figure that is none of
these, and for each line of LIST that no document needs; then exits with 1."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"(?:%|per cent|ns|us|ms|s|seconds?|[kMGTP]?B/s|[kMGT]?bit/s|[MGTP]?FLOP/s|CPU-seconds?)"
WORDS = r"two|three|four|five|six|seven|eight|nine|ten"
SEPARATOR = r"\s*(?:,|to|and|or|-|\[|\])\s*[+-]?"
# One or more numbers with one unit: "12 ms", "3 to 5 %", "-4.0 [-7.3, -0.7] %".
QUANTITY = re.compile(
    rf"(?<![\w.])(?P<numbers>{NUMBER}(?:{SEPARATOR}{NUMBER})*)\]?\s*(?P<unit>{UNIT})(?![\w/])"
)
FACTOR = re.compile(
    rf"(?<![\w.])(?P<numbers>(?:{NUMBER})(?:{SEPARATOR}{NUMBER})*)(?:x(?![\w])|\s+times\b)"
    rf"|\b(?P<words>{WORDS})\s+times\s+(?:as|the|more|less|longer|shorter|slower|faster)\b"
)
COLUMN_UNIT = re.compile(rf"\((?P<unit>{UNIT})\)")
# Blocks without figures: of code, of commands and of names.
BLOCK_OF_FIGURES = re.compile(r"<!-- (?:begin: (?!commands |commits |file )|picture: )")
VALUE = re.compile(r"<!-- value: [^>]*-->.*?<!-- end -->")


@dataclass(frozen=True)
class Figure:
    line: int  # from 1
    text: str  # a number and its unit: "3.5 GB/s", "1.1 times"


@dataclass
class Paragraph:
    """Lines of prose that belong together: an item of a list, or a table."""

    lines: list[tuple[int, str]] = field(default_factory=list)

    @property
    def has_link(self) -> bool:
        return any("](" in text or "://" in text for _, text in self.lines)


@dataclass
class Section:
    """What stands between two headings."""

    paragraphs: list[Paragraph] = field(default_factory=list)
    is_generated: bool = False  # whether it contains a generated block of figures, or a picture


def sections_of(lines: Iterable[str]) -> list[Section]:
    """Divides a document into sections, without generated blocks and fenced code."""
    sections = [Section()]
    paragraph = Paragraph()
    in_block = False
    in_code = False
    for number, line in enumerate(lines, start=1):
        starts_code = line.startswith("```")
        if in_block:
            in_block = line != "<!-- end -->"
            paragraph = Paragraph()
            continue
        if in_code or starts_code:
            in_code = in_code != starts_code
            paragraph = Paragraph()
            continue
        if line.startswith("#"):
            sections.append(Section())
        sections[-1].is_generated |= bool(BLOCK_OF_FIGURES.match(line))
        if line.startswith("<!-- begin: "):
            in_block = True
            continue
        if not line.strip() or line.startswith(("#", "- ", "  - ")):
            paragraph = Paragraph()
        if line.strip():
            if not paragraph.lines:
                sections[-1].paragraphs.append(paragraph)
            paragraph.lines.append((number, line))
    return sections


def without_code(text: str) -> str:
    """`text` with marks in place of values, comments, code, and addresses of links."""
    text = re.sub(r"<!--.*?-->", "@", VALUE.sub("@", text))
    text = re.sub(r"`[^`]*`", "@", text)
    return re.sub(r"\]\([^)]*\)|https?://\S+", "]@", text)


def with_unit(numbers: str, unit: str) -> list[str]:
    return [f"{number} {unit}" for number in re.findall(NUMBER, numbers)]


def figures_of_text(text: str) -> list[str]:
    found: list[str] = []
    for match in QUANTITY.finditer(text):
        found += with_unit(match["numbers"], match["unit"])
    for match in FACTOR.finditer(text):
        found += (
            with_unit(match["numbers"], "times")
            if match["numbers"]
            else [f"{match['words']} times"]
        )
    return found


def figures_of_table(lines: list[tuple[int, str]]) -> Iterator[Figure]:
    """Figures of a table, whose columns may have units in the heading."""
    headings = lines[0][1].split("|")
    units = [COLUMN_UNIT.search(heading) for heading in headings]
    for number, line in lines:
        for cell, unit in zip(line.split("|"), units, strict=False):
            is_heading = number == lines[0][0]
            if unit and not is_heading:
                texts = with_unit(without_code(cell), unit["unit"])
            else:
                texts = figures_of_text(without_code(cell))
            yield from (Figure(number, text) for text in texts)


def figures_of_paragraph(paragraph: Paragraph) -> list[Figure]:
    """Figures of a paragraph, in which a number and its unit may stand on two lines."""
    if paragraph.lines[0][1].startswith("|"):
        return list(figures_of_table(paragraph.lines))
    joined = without_code("\n".join(text for _, text in paragraph.lines))
    first = paragraph.lines[0][0]
    found: list[Figure] = []
    for pattern in (QUANTITY, FACTOR):
        for match in pattern.finditer(joined):
            line = first + joined.count("\n", 0, match.start())
            found += [Figure(line, text) for text in figures_of_text(match[0])]
    return found


@dataclass
class Allowed:
    """The figures of LIST, and which of them no document has."""

    settings: set[str] = field(default_factory=set)
    cited: set[tuple[str, str]] = field(default_factory=set)  # (document, figure)
    unused: set[str] = field(default_factory=set)  # as LIST has them

    @classmethod
    def read(cls, text: str) -> Allowed:
        allowed = cls()
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            document, separator, figure = line.partition(": ")
            if separator:
                allowed.cited.add((document, figure))
            else:
                allowed.settings.add(line)
            allowed.unused.add(line)
        return allowed

    def complaint(self, document: str, figure: Figure, paragraph: Paragraph) -> str | None:
        """What is wrong with this figure; None if nothing is."""
        if figure.text in self.settings:
            self.unused.discard(figure.text)
            return None
        if (document, figure.text) in self.cited:
            self.unused.discard(f"{document}: {figure.text}")
            return None if paragraph.has_link else "is cited, and its paragraph has no link"
        return "is beside a generated block, and neither made by docs.sh nor listed"


def complaints_of(document: str, text: str, allowed: Allowed) -> list[str]:
    """One line for each figure of the document that must not stand there."""
    lines: list[str] = []
    for section in sections_of(text.splitlines()):
        if not section.is_generated:
            continue
        for paragraph in section.paragraphs:
            for figure in figures_of_paragraph(paragraph):
                complaint = allowed.complaint(document, figure, paragraph)
                if complaint:
                    lines.append(f"{document}:{figure.line}: {figure.text} {complaint}")
    return lines


def main(list_path: str, *documents: str) -> int:
    allowed = Allowed.read(pathlib.Path(list_path).read_text(encoding="utf-8"))
    complaints: list[str] = []
    for document in documents:
        text = pathlib.Path(document).read_text(encoding="utf-8")
        complaints += complaints_of(document, text, allowed)
    complaints += [f"{list_path}: no document needs {line}" for line in sorted(allowed.unused)]
    print(*complaints, sep="\n", end="\n" if complaints else "", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
