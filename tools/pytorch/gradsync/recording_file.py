"""Reads recordings (files of measured steps), and adds launches to such files."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import zlib

from gradsync import Refused
from gradsync.launch_checks import check_launch
from gradsync.schema import Launch

LONGEST_FILE_BYTES = 1 << 31  # a limit for devices without an end
GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Returns the contents of a file, cut off after 2 GiB (LONGEST_FILE_BYTES). If gzip has
    compressed the file, returns its decompressed contents, cut off after 2 GiB, too.

    Raises Refused if the file cannot be read or decompressed.
    """
    try:
        with open(path, "rb") as file:
            is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        with gzip.open(path) if is_compressed else open(path, "rb") as file:
            return file.read(LONGEST_FILE_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise Refused(f"{path}: cannot be read: {why}") from None


def parse_launch(line: str) -> Launch:
    """Returns the launch in one line of a recording. Raises Refused if the line is not a launch, or
    if check_launch() refuses it. The error's text does not name the file."""
    try:
        # NaN and Infinity are no JSON, and become texts, which are no numbers.
        launch = Launch.from_json(json.loads(line, parse_constant=str))
        check_launch(launch)
        return launch
    except json.JSONDecodeError as error:
        why = f"no launch, or cut off (one is a line), error at byte {error.pos + 1}"
        raise Refused(why) from None
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None


def read_launches(path: str | os.PathLike[str]) -> list[Launch]:
    """Returns the launches of a recording. Raises Refused if the file cannot be read or is empty.
    Raises Refused, naming the file and the line, if parse_launch() refuses a line.
    """
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    launches = [_numbered(path, number, line) for number, line in enumerate(text.splitlines(), 1)]
    if not launches:
        raise Refused(f"{path}: no launch of gradsync record")
    return launches


def _numbered(path: str | os.PathLike[str], number: int, line: str) -> Launch:
    try:
        return parse_launch(line)
    except Refused as error:
        raise Refused(f"{path}, line {number}: {error}") from None


def append_launch(path: str | os.PathLike[str], launch: Launch) -> None:
    """Adds the launch to a file as a line, either completely or, if writing fails, not at all. If
    the file does not exist, makes it. The line is compressed by gzip if the file's contents are, or
    if a new or empty file's name ends in .gz.

    Raises OSError if the file cannot be read or written.
    """
    path = pathlib.Path(path)
    before = path.read_bytes() if path.exists() else b""
    line = (json.dumps(launch.to_json(), separators=(",", ":")) + "\n").encode()
    if before.startswith(GZIP_MAGIC) or (not before and path.suffix == ".gz"):
        line = gzip.compress(line)  # such a file may have several parts
    whole = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        whole.write_bytes(before + line)
        whole.replace(path)
    except OSError:
        whole.unlink(missing_ok=True)
        raise
