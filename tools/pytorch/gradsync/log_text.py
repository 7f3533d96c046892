"""Text of logs, in whatever encoding they were kept."""

from __future__ import annotations

import re

from gradsync.recording_file import read_bytes

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours of a terminal


def read_text(path: str) -> str:
    """Returns a file's text without escapes; bytes that are no text become U+FFFD.

    Raises Refused if the file cannot be read. What gzip has compressed is decompressed.
    """
    data = read_bytes(path)
    if data[:2] in UTF16_MARKS:
        return data.decode("utf-16", errors="replace")
    return ESCAPES.sub("", data.decode("utf-8-sig", errors="replace"))
