"""The file to which launches are added."""

import json
import os
import pathlib

from gradsync.recording import kind_of


def unusable(out, head, keys):
    """Returns why a launch cannot be added to a file, whose launches what_if uses together; None if it can."""
    exists = os.path.exists(out)
    if (
        not os.access(os.path.dirname(out), os.W_OK)
        or exists
        and not (os.path.isfile(out) and os.access(out, os.W_OK))
    ):
        return f"--out={out} cannot be written, or is no file"
    try:
        with open(out if exists else os.devnull) as file:
            line = file.readline()
        differs = [
            key for key in keys if line and kind_of(json.loads(line), key) != kind_of(head, key)
        ]
    except (ValueError, AttributeError, KeyError):
        return f"{out} is no recording, to which a launch could be added: name another file (--out)"
    return (
        f"{out} holds launches that differ in {differs[0]}: record this one to another file (--out)"
        if differs
        else ""
    )


def append(out, line):
    """Writes the whole text or nothing. Raises OSError."""
    out, whole = pathlib.Path(out), pathlib.Path(f"{out}.{os.getpid()}")
    try:
        whole.write_text((out.read_text() if out.exists() else "") + line)
        whole.replace(out)
    except OSError:
        whole.unlink(missing_ok=True)
        raise
