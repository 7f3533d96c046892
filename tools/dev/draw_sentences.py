#!/usr/bin/env python3
"""tools/dev/draw_sentences.py SEED [COMMIT] [--places]: sixty sentences for a blind test.

Can a reader who does not know the code understand the text? The reader gets what this prints, and
writes what each sentence means; somebody else compares that with the code. Draws, from the files of
COMMIT (HEAD), sentences of comments in C++ headers (30), of documents (20) and of docstrings of the
Python package (10). SEED is eight hexadecimal digits, such as the beginning of the last commit that
changed the text: nobody can choose it, and the same SEED and COMMIT give the same sentences.

Each sentence stands between its neighbours: the sentences beside it in its paragraph or comment,
or, at the first and the last one, the heading or code that stands there. With --places, prints the
file and line of each sentence instead, for the person who compares."""

from __future__ import annotations

import argparse
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import prose


@dataclass(frozen=True)
class Kind:
    name: str
    paths: re.Pattern[str]
    passages: Callable[[str], Iterator[prose.Passage]]  # of a file's text
    count: int  # of the sentences to draw


KINDS = (
    Kind(
        "C++ headers",
        re.compile(r"(?:model|comm|ddp|bench|tools)/.*\.h"),
        prose.passages_of_header,
        30,
    ),
    Kind(
        "documents",
        re.compile(r"(?:README|CONTRIBUTING|tools/pytorch/README|docs/[^/]*)\.md"),
        prose.passages_of_document,
        20,
    ),
    Kind(
        "Python docstrings",
        re.compile(r"tools/pytorch/gradsync/.*\.py"),
        prose.passages_of_python,
        10,
    ),
)


def files_of(archive: bytes) -> dict[str, str]:
    """The texts in a tar archive by their paths, of those files that a kind has."""
    texts: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            is_wanted = any(kind.paths.fullmatch(member.name) for kind in KINDS)
            content = files.extractfile(member) if is_wanted and member.isfile() else None
            if content is not None:
                texts[member.name] = content.read().decode()
    return texts


def draw(kind: Kind, texts: dict[str, str], seed: str) -> list[prose.Sentence]:
    """The sentences of this kind with the lowest hashes of seed, place and text.

    So the order of the files has no influence, nor has a release of Python."""
    pool = [
        sentence
        for path, text in texts.items()
        if kind.paths.fullmatch(path)
        for sentence in prose.sentences_of(path, kind.passages(text))
    ]

    def rank(sentence: prose.Sentence) -> bytes:
        key = f"{seed}\n{sentence.path}\n{sentence.line}\n{sentence.text}"
        return hashlib.sha256(key.encode()).digest()

    return sorted(pool, key=rank)[: kind.count]


def printed(number: int, sentence: prose.Sentence, with_places: bool) -> str:
    if with_places:
        return f"{number}. {sentence.path}:{sentence.line}"
    return "\n".join(
        [
            f"{number}.  before: {sentence.before or '(nothing)'}",
            f"    SENTENCE: {sentence.text}",
            f"    after: {sentence.after or '(nothing)'}",
            "",
        ]
    )


def seed_of(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{8}", text):
        raise argparse.ArgumentTypeError(f"expected eight hexadecimal digits, not {text!r}")
    return text


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(usage="draw_sentences.py SEED [COMMIT] [--places]")
    parser.add_argument("seed", type=seed_of)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--places", action="store_true")
    options = parser.parse_args(arguments)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", options.commit], check=False, stdout=subprocess.PIPE
    )
    if archive.returncode:  # git has printed why
        return 2
    texts = files_of(archive.stdout)
    number = 0
    for kind in KINDS:
        print(f"# {kind.name}\n")
        for sentence in draw(kind, texts, options.seed):
            number += 1
            print(printed(number, sentence, options.places))
        if options.places:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
