#!/usr/bin/env python3
"""tools/dev/record_commands.py: all that a document shows has its command, and is of that command.

Run in the repository's root. docs/records/commands.txt and docs/recordings/commands.txt have the
commands; the latter may have "Cannot be repeated: WHY". Checks that

- each document of docs/ shows, in blocks `commands`, the commands of all records and recordings
  from which its blocks, pictures and values are made; those of the two READMEs, which have less
  room, some document shows
- docs/recordings/commands.txt has every directory of recordings, and no other
- each kept record was measured with its command, as the record itself says

Prints one line for each fault; then exits with 1. docs.sh checks that docs/records/commands.txt has
every directory of records, and no other."""

from __future__ import annotations

import collections
import gzip
import json
import pathlib
import re
import sys
from collections.abc import Iterator

# docs/records/tiny; docs/recordings/unseen; docs/recordings/a.jsonl.gz, beside these directories
SHOWN = re.compile(r"docs/(?:records|(recordings))(?:/([a-z0-9_]+)(?=[/; ]|$))?")
COMMANDS = re.compile(r"^<!-- begin: commands (.*) -->$", re.MULTILINE)
MADE = re.compile(r"<!-- (?:begin|picture|value): (?!commands )(.*?) -->")
# Flags that do not change what is measured: where records go, and the default on two cores.
IMMATERIAL = re.compile(r"--(?:out=|answer=false$|threads_per_rank=1$)")


def commands_of(text: str) -> dict[str, list[str]]:
    """The commands of a commands.txt by the name in front of them, each on one line."""
    commands: dict[str, list[str]] = collections.defaultdict(list)
    for line in re.sub(r" *\\\n *", " ", text).splitlines():
        if re.match(r"[a-z]", line):
            name, command = line.split(maxsplit=1)
            commands[name].append(command)
    return commands


def directories_of(document: str) -> set[str]:
    """The directories from which a document is made; `recordings` for files of docs/recordings."""
    names: set[str] = set()
    for made in MADE.findall(document):
        names |= {name or recordings for recordings, name in SHOWN.findall(made)}
    return names - {""}


def shown_by(document: str) -> set[str]:
    """The names whose commands a document shows."""
    return {name for names in COMMANDS.findall(document) for name in names.split()}


def without_commands(documents: dict[str, str]) -> Iterator[str]:
    """`documents`: texts by their paths."""
    somewhere: set[str] = set()
    for text in documents.values():
        somewhere |= shown_by(text)
    for path, text in documents.items():
        shown = somewhere if path.endswith("README.md") else shown_by(text)
        for name in sorted(directories_of(text) - shown):
            yield f"{path}: shows {name} without a block of its command: commands {name}"


def words_of(command: str) -> tuple[str, ...]:
    """The program and its flags, in one order."""
    words = command[command.index("bench/") :].split()
    return tuple(sorted(word for word in words if not IMMATERIAL.match(word)))


def command_lines(directory: pathlib.Path) -> set[str]:
    """The command lines in a directory's records."""
    found: set[str] = set()
    for path in directory.glob("*.jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                provenance = json.loads(line).get("provenance")
                if provenance:  # later lines of a row have samples alone
                    found.add(provenance["command_line"])
    return found


def of_other_commands(records: pathlib.Path, commands: dict[str, list[str]]) -> Iterator[str]:
    for name, listed in commands.items():
        # The suite starts the other programs, with flags of its own.
        if any(command.split()[-1] == "bench/suite" for command in listed):
            continue
        expected = {words_of(command) for command in listed}
        for measured in sorted(command_lines(records / name)):
            if words_of(measured) not in expected:
                yield f"{records}/{name}: not of its command in commands.txt, but of {measured}"


def main() -> int:
    records = pathlib.Path("docs/records")
    recordings = pathlib.Path("docs/recordings")
    of_records = commands_of((records / "commands.txt").read_text(encoding="utf-8"))
    of_recordings = commands_of((recordings / "commands.txt").read_text(encoding="utf-8"))
    paths = [
        *pathlib.Path("docs").glob("*.md"),
        pathlib.Path("README.md"),
        pathlib.Path("tools/pytorch/README.md"),
    ]
    documents = {str(path): path.read_text(encoding="utf-8") for path in sorted(paths)}
    faults = [*without_commands(documents), *of_other_commands(records, of_records)]
    directories = {path.name for path in recordings.iterdir() if path.is_dir()} | {recordings.name}
    faults += [
        f"{recordings}: only one of commands.txt and the directories has {name}"
        for name in sorted(directories ^ set(of_recordings))
    ]
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
