"""Finds JSON documents in the text of a log. A document may span several lines, and a launcher such
as mpirun may have printed a prefix before each line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

# A brace that a launcher's prefix, such as [1,0]<stdout>:, does not have.
OPENING = re.compile(r'\{\s*(?=["}]|$)|\[\s*(?=\{|$)')
# What a line of a document is made of. Texts do not go on in the next line.
TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|[\[\]{}]|[\s:,]+|-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity'
)
OPENS = ("{", "[")
CLOSES = ("}", "]")
# Numbers are texts, which show their digits.
DECODER = json.JSONDecoder(parse_float=str, parse_int=str)
DEEPEST = 4  # of texts that hold JSON that holds texts

IsMeasurement = Callable[[Any], bool]


@dataclass
class Log:
    """The lines of text of a log, and its parsed JSON documents that are measurements, each in the
    order of the log. Numbers in the documents are str, with their digits as in the log; NaN and
    Infinity are float."""

    lines: list[str] = field(default_factory=list)
    documents: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Spanning:
    """Parsed JSON documents, and the index `after` of the log line at which to go on reading.
    `has_end`: False if the log ends before a document's closing brace or bracket."""

    documents: list[Any]
    after: int
    has_end: bool


def log_of(text: str, is_measurement: IsMeasurement) -> Log:
    """Splits the text of a log into lines and the JSON documents for which `is_measurement` returns
    True. Other JSON documents are searched for such documents. Strings in other JSON documents are
    split like the log, because Docker may have wrapped log lines in JSON. Numbers in other JSON
    documents become lines of text."""
    log = Log()
    _add(text, is_measurement, log, DEEPEST)
    return log


def _add(text: str, is_measurement: IsMeasurement, log: Log, deepest: int) -> None:
    for part in _parts_of(text.splitlines()):
        if isinstance(part, str):
            log.lines.append(part)
        else:
            _add_document(part, is_measurement, log, deepest)


def _add_document(document: Any, is_measurement: IsMeasurement, log: Log, deepest: int) -> None:
    if is_measurement(document):
        log.documents.append(document)
    elif isinstance(document, str) and deepest > 0:
        _add(document, is_measurement, log, deepest - 1)
    elif isinstance(document, (dict, list)):
        for value in document.values() if isinstance(document, dict) else document:
            _add_document(value, is_measurement, log, deepest)


def _parts_of(lines: Sequence[str]) -> Iterator[Any]:
    """Yields the lines of text in `lines` as str, and the JSON documents in `lines` as dict or
    list. Leaves out text before a document on the document's first line. Text after a document on
    the same line is yielded as str, with all documents that follow this text."""
    may_span = True  # until a document has no end
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        opening = OPENING.search(line)
        if not opening:
            yield line
            continue
        found, rest = _on_one_line(line[opening.start() :])
        if not found and may_span:
            spanning = _on_several(lines, place - 1, opening.start())
            found, place, may_span = spanning.documents, spanning.after, spanning.has_end
            rest = "" if found else line
        yield from found
        if rest:
            yield rest if found else line


def _on_one_line(text: str) -> tuple[list[Any], str]:
    """Returns the parsed JSON documents at the beginning of `text`, and the rest of `text`."""
    documents = []
    end = 0
    while opening := OPENING.match(text, end):
        try:
            document, end = DECODER.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            break
        documents.append(document)
        end += len(text[end:]) - len(text[end:].lstrip())
    return documents, text[end:]


def _on_several(lines: Sequence[str], first: int, column: int) -> Spanning:
    """Returns the Spanning of JSON that begins at character `column` of line `first` and ends on a
    later line. If there is no such JSON, `documents` is empty, and `after` is `first` + 1."""
    has_end = True
    for cut in sorted({column, 0}, reverse=True):  # other lines may have the prefix, too, or not
        after = _place_after(lines, first, column, cut)
        if after is None:
            has_end = False
            continue
        block = [lines[first][column:], *(line[cut:] for line in lines[first + 1 : after])]
        found, rest = _on_one_line("\n".join(block))
        if found and not rest:
            return Spanning(found, after, has_end=True)
    return Spanning([], first + 1, has_end)


def _place_after(lines: Sequence[str], first: int, column: int, cut: int) -> int | None:
    """Returns the index of the first line after the JSON that begins at character `column` of line
    `first`. If an earlier line cannot be a part of JSON, returns the index of that line. Returns
    None if `lines` ends within the JSON. `cut`: the number of characters, such as a launcher's
    prefix, to skip on each line after line `first`."""
    depth = 0
    for place in range(first, len(lines)):
        change = _depth_change(lines[place][column if place == first else cut :])
        if change is None:
            return place
        depth += change
        if depth <= 0:
            return place + 1
    return None


def _depth_change(text: str) -> int | None:
    """Returns the number of opening braces and brackets in `text`, outside of strings, minus the
    number of closing ones. Returns None if `text` cannot be a part of JSON."""
    change = 0
    end = 0
    while end < len(text):
        token = TOKEN.match(text, end)
        if not token:
            return None
        end = token.end()
        change += (token[0] in OPENS) - (token[0] in CLOSES)
    return change
