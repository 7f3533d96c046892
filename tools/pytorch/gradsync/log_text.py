"""Reads the text of log files in UTF-8, or in UTF-16 with a byte order mark."""

from __future__ import annotations

import re

from gradsync.recording_file import read_bytes

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# What web pages and mails have in place of blanks.
SPACES = re.compile("[\\u00a0\\u2000-\\u200a\\u202f]")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours of a terminal


def read_text(path: str) -> str:
    """Returns a file's text without a byte order mark and without terminals' CSI escape sequences,
    such as colours. U+00A0 (no-break space), U+2000 to U+200A and U+202F become blanks; bytes that
    cannot be decoded become U+FFFD.

    If gzip has compressed the file, read_text() decompresses it. Raises Refused if the file cannot
    be read or decompressed.
    """
    data = read_bytes(path)
    encoding = "utf-16" if data[:2] in UTF16_MARKS else "utf-8-sig"
    return SPACES.sub(" ", ESCAPES.sub("", data.decode(encoding, errors="replace")))
