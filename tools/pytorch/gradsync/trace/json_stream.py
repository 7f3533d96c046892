"""Reads the JSON of a trace event by event, so that a large file is never in memory as a whole."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

from gradsync import Refused
from gradsync.recording_file import GZIP_MAGIC

CHUNK_BYTES = 1 << 22
LONGEST_VALUE = 1 << 24  # characters of one event or of one fact beside the events
EVENTS = "traceEvents"
SPACE = " \t\r\n"
Event = dict[str, Any]


class Progress:
    """Shows on a terminal how much of a file has been read. Writes nothing if `out` (by default
    stderr) is no terminal."""

    def __init__(self, name: str, total_bytes: int, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._shows = self._out.isatty()
        self._name = name
        self._total_bytes = max(1, total_bytes)
        self._shown = -1

    def at(self, position: int) -> None:
        """Prints which percentage of the file is read, if this percentage has grown since it was
        last printed. `position`: the number of the file's bytes read so far."""
        percent = min(100, 100 * position // self._total_bytes)
        if self._shows and percent > self._shown:
            self._shown = percent
            self._out.write(f"\rreading {self._name}: {percent} %")
            self._out.flush()

    def end(self) -> None:
        """Clears the line of progress on the terminal."""
        if self._shows and self._shown >= 0:
            self._out.write("\r\033[K")
            self._out.flush()


class _Text:
    """The text of a file, of which only a part is in memory at a time."""

    def __init__(self, path: str, read: Callable[[], bytes]) -> None:
        self._path = path
        self._read = read
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._scan = json.JSONDecoder(strict=False).raw_decode  # control characters are read
        self._text = ""
        self._at = 0  # in _text
        self._lines = 0  # before _text
        self._before = 0  # characters of the line that were dropped
        self._is_ended = False
        self.events = 0

    def _more(self) -> bool:
        """Reads more of the file's text, and drops the text that is already parsed. Returns False
        at the end of the file, else True."""
        if self._is_ended:
            return False
        chunk = self._read()
        self._is_ended = not chunk
        lines = self._text.count("\n", 0, self._at)
        self._lines += lines
        last = self._text.rfind("\n", 0, self._at)
        self._before = self._at - last - 1 if lines else self._before + self._at
        self._text = self._text[self._at :] + self._decode(chunk, final=self._is_ended)
        self._at = 0
        return not self._is_ended

    def peek(self) -> str:
        """Skips white space, and returns the next character, but leaves it to be read again;
        returns an empty string at the end of the file."""
        while True:
            text, at = self._text, self._at
            while at < len(text) and text[at] in SPACE:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if not self._more():
                return ""

    def skip(self, expected: str) -> None:
        if self.peek() != expected:
            self.refuse(f"expected {expected}")
        self._at += 1

    def value(self) -> Any:
        """Reads one whole JSON value, and returns it. Raises Refused, with the place in the file,
        if the value is invalid, too deep or much longer than LONGEST_VALUE characters."""
        self.peek()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                problem, place = error.msg, error.pos
            except RecursionError:
                self.refuse("it is too deep")
            else:
                # A number may go on in what was not read yet.
                if end < len(self._text) or not self._more():
                    self._at = end
                    return value
                continue
            place -= self._at  # of the value, since reading on drops what is before it
            if len(self._text) - self._at > LONGEST_VALUE or not self._more():
                self.refuse(problem, self._at + place)

    def refuse(self, problem: str, place: int | None = None) -> NoReturn:
        place = self._at if place is None else place
        line = self._lines + self._text.count("\n", 0, place) + 1
        last = self._text.rfind("\n", 0, place)
        column = place - last if last >= 0 else self._before + place + 1
        if self._is_ended and not self._text[place:].strip(SPACE):
            problem = "it ends too early"
        raise Refused(
            f"{self._path}: broken JSON in line {line}, character {column}, "
            f"after {self.events} events: {problem}"
        )


def _events(text: _Text) -> Iterator[Event]:
    text.skip("[")
    if text.peek() == "]":
        text.skip("]")
        return
    while True:
        event = text.value()
        text.events += 1
        if isinstance(event, dict):
            yield event
        if text.peek() == "]":
            text.skip("]")
            return
        text.skip(",")


def _fields(text: _Text, facts: dict[str, Any]) -> Iterator[Event]:
    """Yields the events in the field traceEvents of a JSON object, and adds the object's other
    fields to `facts`. If the object has the field traceEvents, sets `facts["traceEvents"]` to
    True."""
    text.skip("{")
    while text.peek() != "}":
        name = text.value()
        if not isinstance(name, str):
            text.refuse("expected a name")
        text.skip(":")
        if name == EVENTS:
            facts[EVENTS] = True
            yield from _events(text)
        else:
            facts[name] = text.value()
        if text.peek() != "}":
            text.skip(",")
    text.skip("}")


def read_events(path: str, facts: dict[str, Any]) -> Iterator[Event]:
    """Yields the events of a trace's file; recognises compression by gzip from the file's first
    bytes, not from its name.

    `facts` gets the fields that the file has in addition to the events; when the iteration ends,
    `facts` has all these fields. `facts["traceEvents"]` is True instead of a list of the events.
    Raises Refused if the file cannot be read, is no trace, or has the name of a Perfetto trace,
    such as *.pftrace. If the file's JSON is broken, the error names the line and the character.
    """
    if path.removesuffix(".gz").endswith((".pftrace", ".perfetto-trace")):
        raise Refused(
            f"{path}: a trace of Perfetto: expected what export_chrome_trace() writes to "
            "a name that ends in .json or .json.gz"
        )
    try:
        with open(path, "rb") as file:
            is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            yield from _events_of(path, file, is_compressed, facts)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise Refused(f"{path}: cannot be read: {why}") from None


def _events_of(
    path: str, file: io.BufferedReader, is_compressed: bool, facts: dict[str, Any]
) -> Iterator[Event]:
    progress = Progress(os.path.basename(path), os.fstat(file.fileno()).st_size)
    source = gzip.GzipFile(fileobj=file) if is_compressed else file

    def read() -> bytes:
        progress.at(file.tell())
        return source.read(CHUNK_BYTES)

    text = _Text(path, read)
    try:
        first = text.peek()
        if first == "{":
            yield from _fields(text, facts)
        elif first == "[":
            facts[EVENTS] = True
            yield from _events(text)
        else:
            raise Refused(f"{path}: no JSON: expected what export_chrome_trace() writes")
        if text.peek():
            text.refuse("expected nothing more")
    finally:
        progress.end()
    if EVENTS not in facts:
        raise Refused(f"{path}: no {EVENTS}: expected what export_chrome_trace() writes")
