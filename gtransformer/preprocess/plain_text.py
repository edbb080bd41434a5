"""Translations and references as plain text: a sentence a line, documents marked as in ``corpus``
or not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import accumulate, groupby, takewhile
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, decode_lines
from gtransformer.preprocess.characters import clean_line, is_blank
from gtransformer.preprocess.corpus import (
    BLANK,
    DOCUMENT,
    MARKED,
    NONE,
    document_lines,
    fault,
    is_document_mark,
    text_lines,
    without_markup,
)

Documents = list[list[str]]


def input_lines(name: str) -> Iterator[str]:
    """Return ``text_lines`` of a file, or of standard input for ``-``. Raise UserError as
    ``text_lines``.
    """
    if name != "-":
        return text_lines(name)
    return without_markup(decode_lines(sys.stdin.buffer, "standard input"), "standard input")


def read_plain(path: str | Path) -> tuple[Documents, str]:
    """Read the cleaned documents of a file, and how it marks them: ``corpus.MARKED``, ``BLANK`` or
    ``NONE``.

    Without marks the file is one document. Raises UserError, naming file and line, for an empty
    file, text before the first ``<d>`` and markup.
    """
    return divided(path, read_sentences(path))


def divided(path: str | Path, lines: list[str | None]) -> tuple[Documents, str]:
    """Return the documents of a text's lines, and how it marks them; arguments and errors as of
    ``read_plain``.
    """
    if None in lines:
        return _marked(path, lines), MARKED
    documents = _blocks(lines)
    if not documents:
        raise fault(path, 1, "the file is empty")
    return documents, BLANK if len(documents) > 1 else NONE


def read_sentences(path: str | Path) -> list[str | None]:
    """Read the lines of a text, cleaned; None for ``<d>``. Raises UserError as ``read_plain``."""
    lines = [None if is_document_mark(line) else clean_line(line) for line in text_lines(path)]
    if not lines:
        raise fault(path, 1, "the file is empty")
    return lines


def _marked(path: str | Path, lines: list[str | None]) -> Documents:
    """Return the documents of a file with ``<d>`` that have sentences; a blank line is an empty
    one.
    """
    documents: Documents = []
    for number, line in enumerate(lines, 1):
        if line is None:
            documents.append([])
        elif documents:
            documents[-1].append(line)
        elif not is_blank(line):
            raise fault(
                path, number, f"text before the first {DOCUMENT}; put a line {DOCUMENT} before it"
            )
    return list(filter(None, documents))


def _blocks(lines: list[str]) -> Documents:
    """Return the blocks of lines between blank lines."""
    return [list(group) for blank, group in groupby(lines, is_blank) if not blank]


def read_shaped(path: str | Path, shape: list[int], like: str | Path) -> Documents:
    """Read a file that must have the shape of another, ``like``: ``shape[i]`` sentences in document
    i.

    A file without ``<d>`` needs a line for each sentence, where a blank line is an empty sentence;
    or it has additional blank lines between its documents. Raises UserError, naming file and line,
    if the two cannot be aligned.
    """
    lines = read_sentences(path)
    if None not in lines:
        return placed(path, lines, shape, like)
    documents = _marked(path, lines)
    sizes = [len(document) for document in documents]
    if sizes != shape:
        # The first document that differs is what a user has to look at.
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(sizes, shape, strict=False))
        raise UserError(
            f"{path}: {len(sizes)} documents of {sum(sizes)} sentences, but {like} has "
            f"{len(shape)} of {sum(shape)}; the two must be aligned line by line, and differ first "
            f"in document {len(list(equal)) + 1}"
        )
    return documents


def placed(path: str | Path, lines: list[str], shape: list[int], like: str | Path) -> Documents:
    """Divide lines without ``<d>`` into documents of the given numbers of sentences.

    Each line is a sentence; or there is one blank line between documents, or any number of them if
    no sentence is empty.
    """
    total, ends = sum(shape), list(accumulate(shape))
    # Where blank lines between documents would be, if there is one after each but the last.
    between = {end + number for number, end in enumerate(ends[:-1])}
    # A blank line may also be an empty sentence. So first exactly one between documents is tried,
    # which leaves other blank lines alone; then any number, if no sentence is empty.
    blocks = _blocks(lines)
    if len(lines) == total + len(between) and all(is_blank(lines[at]) for at in between):
        lines = [line for at, line in enumerate(lines) if at not in between]
    elif sum(map(len, blocks)) == total and set(accumulate(map(len, blocks))) <= set(ends):
        lines = [line for block in blocks for line in block]
    if len(lines) != total:
        blank = (
            f"; if blank lines are sentences, put a line {DOCUMENT} before each document in both"
        )
        raise fault(
            path,
            min(len(lines), total + 1),
            f"the file has {len(lines)} lines, but {like} has {total} sentences in {len(shape)} "
            f"documents; the two must be aligned line by line{blank if between else ''}",
        )
    rest = iter(lines)
    return [[next(rest) for _ in range(count)] for count in shape]


def write_documents(path: Path, documents: Documents) -> None:
    """Write documents of sentences in the raw corpus format."""
    with atomic_write(path) as stream:
        stream.writelines(document_lines(documents))
