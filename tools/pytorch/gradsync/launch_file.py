"""Checks whether the recording of a training run can be appended to a file."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from gradsync import Refused
from gradsync.launch_checks import differing_field
from gradsync.recording_file import parse_launch, read_bytes


class UnusableFile(Refused):
    """Raised by check_usable() if the recording of a training run cannot be appended to a file."""


def check_usable(path: str, **known: Any) -> None:
    """Raises UnusableFile if a new recording cannot be appended to the file `path`, or if `path`
    has no directory part. `known`: fields of the new recording, such as `command`. Raises
    UnusableFile if differing_field() finds that a field in `known` differs from that of the file's
    first launch."""
    if not _can_be_written(path):
        raise UnusableFile(f"--out={path} cannot be written, or is no file")
    if not os.path.exists(path):
        return
    try:
        lines = read_bytes(path).decode("utf-8-sig", errors="replace").splitlines()
        if not lines:
            return
        first = parse_launch(lines[0])
    except Refused:
        raise UnusableFile(
            f"{path} is no recording, to which a launch could be added: name another file (--out)"
        ) from None
    field = differing_field(first, dataclasses.replace(first, **known), list(known))
    if field:
        raise UnusableFile(
            f"{path} holds launches that differ in {field}: record this one to another file (--out)"
        )


def _can_be_written(path: str) -> bool:
    if os.path.exists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK)):
        return False
    return os.access(os.path.dirname(path), os.W_OK)
