"""The prose of the repository: sentences of documents, of C++ comments and of Python docstrings.

Code, tables and generated blocks of documents are no prose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import prose_figures

MIN_WORDS = 4  # fewer are a label, not a sentence
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|al|Sec|Eq|Fig|[A-Z])\.|\.\.\.)[\"')\]*`]*$")
SENTENCE_END = re.compile(r"(?<=[.?!])[\"')\]*`]*(?=\s)")
IS_SENTENCE = re.compile(r"^[\"'(*`\[<]*[A-Za-z0-9&:].*[.?!][\"')\]*`]*$", re.DOTALL)
LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+(?:\[[ x]\]\s+)?")
COMMENT = re.compile(r"^(?P<code>.*?)(?P<mark>//+)(?P<text>.*)$")


@dataclass(frozen=True)
class Passage:
    """Text that a reader takes in as one: a paragraph, a comment or a docstring."""

    line: int  # from 1, of its first line
    text: str  # in one line
    before: str  # what stands directly before it: a heading or code; may be empty
    after: str  # the code directly after it; may be empty


@dataclass(frozen=True)
class Sentence:
    path: str
    line: int  # from 1, of its passage
    text: str
    before: str  # the sentence before it in its passage, or what stands before the passage
    after: str


def sentences_of_text(text: str) -> list[str]:
    """Divides a passage, whose last part may have no full stop."""
    parts: list[str] = []
    begin = 0
    hidden = re.sub(r"`[^`]*`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)
    for end in SENTENCE_END.finditer(hidden):
        if not ABBREVIATION.search(hidden[begin : end.end()]):
            parts.append(text[begin : end.end()].strip())
            begin = end.end()
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def is_sentence(text: str) -> bool:
    """Whether it ends like a sentence and has words enough; a verb is not looked for."""
    words = re.findall(r"[A-Za-z]{2,}", text)
    return bool(IS_SENTENCE.match(text)) and len(words) >= MIN_WORDS


def sentences_of(path: str, passages: Iterable[Passage]) -> Iterator[Sentence]:
    for passage in passages:
        parts = sentences_of_text(passage.text)
        around = [passage.before, *parts, passage.after]
        for index, part in enumerate(parts):
            if is_sentence(part):
                yield Sentence(path, passage.line, part, around[index], around[index + 2])


def passages_of_document(text: str) -> Iterator[Passage]:
    """Paragraphs and items of lists, each with its heading or the paragraph before it."""
    before = ""
    for section in prose_figures.sections_of(text.splitlines()):
        for paragraph in section.paragraphs:
            lines = [re.sub(r"<!--.*?-->", "", line) for _, line in paragraph.lines]
            lines[0] = LIST_ITEM.sub("", lines[0])
            joined = " ".join(" ".join(lines).split())
            if lines[0].startswith("|") or not joined:
                continue
            if not lines[0].startswith("#"):
                yield Passage(paragraph.lines[0][0], joined, before, "")
            before = sentences_of_text(joined)[-1]


@dataclass
class Comment:
    """Comment lines below each other, in one column."""

    line: int  # from 1, of the first line
    code: str  # in front of the first line
    texts: list[str]  # of each line, without the slashes
    following: str  # the line of code below


def comments_of(text: str) -> Iterator[Comment]:
    """The comments of a C++ source.

    A comment behind code goes on in the lines below, if these have nothing but comments that begin
    in the same column."""
    lines = [*text.splitlines(), ""]
    start = 0
    while start < len(lines):
        first = COMMENT.match(lines[start])
        if not first:
            start += 1
            continue
        column = first.start("mark")
        end = start + 1
        while COMMENT.match(lines[end]) and lines[end][:column].strip() == "":
            if not lines[end][column:].startswith("//"):
                break
            end += 1
        texts = [lines[index][column:].lstrip("/") for index in range(start, end)]
        code = first["code"].strip()
        yield Comment(start + 1, code, texts, "" if code else lines[end].strip())
        start = end


def paragraphs_of(comment: Comment) -> Iterator[tuple[int, str, bool]]:
    """The first line, text and whether it is code, of each paragraph and each item of a list.

    Indented lines that do not continue an item are code."""
    words: list[str] = []
    start = comment.line
    is_item = False
    for line, part in enumerate(comment.texts, start=comment.line):
        starts_item = bool(LIST_ITEM.match(part))
        is_code = part.startswith("  ") and not starts_item and not is_item
        if starts_item or is_code or not part.strip():
            if words:
                yield start, " ".join(words), False
            words = []
            is_item = starts_item
        if is_code:
            yield line, part.strip(), True
        elif part.strip():
            start = start if words else line
            words.append(LIST_ITEM.sub("", part).strip())
    if words:
        yield start, " ".join(words), False


def passages_of_header(text: str) -> Iterator[Passage]:
    """Paragraphs and items of lists in comments of C++, each with what stands beside it."""
    for comment in comments_of(text):
        paragraphs = list(paragraphs_of(comment))
        following = [text for _, text, _ in paragraphs[1:]] + [comment.following]
        before = comment.code
        for (line, joined, is_code), after in zip(paragraphs, following, strict=True):
            if not is_code:
                yield Passage(line, joined, before, sentences_of_text(after)[0] if after else "")
            before = joined if is_code else sentences_of_text(joined)[-1]


def signature_of(node: ast.AST, lines: list[str]) -> str:
    """The lines of a class or function down to its body, in one line."""
    if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return ""
    head = lines[node.lineno - 1 : node.body[0].lineno - 1]
    return " ".join(line.strip() for line in head)


def passages_of_python(text: str) -> Iterator[Passage]:
    """Paragraphs of the docstrings, the first one with the function or class that has it."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        docstring = ast.get_docstring(node)
        if docstring is None:
            continue
        before = signature_of(node, lines)
        for paragraph in re.split(r"\n\s*\n", docstring):
            joined = " ".join(paragraph.split())
            yield Passage(node.body[0].lineno, joined, before, "")
            before = sentences_of_text(joined)[-1]


def words_of_document(text: str) -> int:
    """Words of a document's prose and headings, without code, tables and generated blocks."""
    count = 0
    for section in prose_figures.sections_of(text.splitlines()):
        for paragraph in section.paragraphs:
            if not paragraph.lines[0][1].startswith("|"):
                joined = " ".join(line for _, line in paragraph.lines)
                count += len(re.sub(r"<!--.*?-->", " ", joined).split())
    return count
