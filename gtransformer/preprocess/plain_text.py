"""Translations and references as plain text: a sentence a line, documents as in ``corpus`` or not marked at all."""

from __future__ import annotations

import unicodedata
from itertools import accumulate, groupby
from pathlib import Path

from gtransformer.files import atomic_write
from gtransformer.preprocess.characters import clean_line, is_blank, one_form
from gtransformer.preprocess.corpus import (
    BLANK,
    DOCUMENT,
    MARKED,
    NONE,
    document_lines,
    fault,
    is_document_mark,
    text_lines,
)

Documents = list[list[str]]


def read_plain(path: str | Path) -> tuple[Documents, str]:
    """Read the documents of a file, cleaned, and how it marks them: ``corpus.MARKED``, ``BLANK`` or ``NONE``.

    Without marks the whole file is one document. Raises UserError, naming file and line, for an empty file, for a
    document without sentences, for text before the first ``<d>`` and for markup.
    """
    lines = read_sentences(path)
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
    """Documents that are opened by ``<d>``; a blank line is an empty sentence."""
    documents: Documents = []
    opened = 0
    for number, line in enumerate([*lines, None], 1):
        if line is None:
            if documents and not documents[-1]:
                raise fault(path, opened, "the document opened here is empty; remove this line")
            documents.append([])
            opened = number
        elif documents:
            documents[-1].append(line)
        elif not is_blank(line):
            raise fault(path, number, f"text before the first {DOCUMENT}; put a line {DOCUMENT} before it")
    return documents[:-1]


def _blocks(lines: list[str]) -> Documents:
    """What blank lines separate."""
    return [list(group) for blank, group in groupby(lines, is_blank) if not blank]


def read_shaped(path: str | Path, shape: list[int], like: str | Path) -> Documents:
    """Read a file that must have the shape of another, ``like``: ``shape[i]`` sentences in document i.

    A file without ``<d>`` needs as many lines as there are sentences, blank ones being empty sentences, or has blank
    lines between its documents besides. Raises UserError, naming file and line, where the two cannot be aligned.
    """
    lines = read_sentences(path)
    if None not in lines:
        return _placed(path, lines, shape, like)
    documents = _marked(path, lines)
    line = lines.index(None) + 1  # of the document's <d>
    aligned = "the two must be aligned line by line"
    for number, (document, count) in enumerate(zip(documents, shape, strict=False)):
        if len(document) != count:
            what = f"document {number} has {len(document)} sentences, but {count} in {like}; {aligned}"
            raise fault(path, line, what)
        line += count + 1
    if len(documents) != len(shape):
        line -= len(documents) < len(shape)
        raise fault(path, line, f"the file has {len(documents)} documents, but {like} has {len(shape)}; {aligned}")
    return documents


def _placed(path: str | Path, lines: list[str], shape: list[int], like: str | Path) -> Documents:
    """Lines without ``<d>`` in a shape: each a sentence, or with one blank line between documents, or with any number
    of them where no sentence is empty. Blank lines that may be either are refused.
    """
    total, ends = sum(shape), list(accumulate(shape))
    between = [end + number for number, end in enumerate(ends[:-1])]  # where single blank lines would stand
    places, blocks = set(between), _blocks(lines)
    if len(lines) != total and len(lines) == total + len(between) and all(is_blank(lines[at]) for at in between):
        lines = [line for at, line in enumerate(lines) if at not in places]
    elif len(lines) != total and set(accumulate(map(len, blocks))) <= set(ends) and sum(map(len, blocks)) == total:
        lines = [line for block in blocks for line in block]
    elif len(lines) == total and len(shape) == len(blocks) == total - sum(map(len, blocks)) + 1 > 1:
        raise fault(
            path,
            list(map(is_blank, lines)).index(True) + 1,
            "blank, which may separate documents as well as be a sentence without translation, since the file has as "
            f"many lines as {like} has sentences; open each document by a line {DOCUMENT}",
        )
    if len(lines) != total:
        blank = f"; where blank lines are empty sentences, open each document by a line {DOCUMENT} in both"
        raise fault(
            path,
            min(len(lines), total + 1),
            f"the file has {len(lines)} lines, but {like} has {total} sentences in {len(shape)} documents; the two "
            f"must be aligned line by line{blank if between else ''}",
        )
    rest = iter(lines)
    return [[next(rest) for _ in range(count)] for count in shape]


def write_documents(path: Path, documents: Documents) -> None:
    """Write documents of sentences in the raw corpus format."""
    with atomic_write(path) as stream:
        stream.writelines(document_lines(documents))


def bare(text: str) -> str:
    """Lower-cased, without punctuation, single blanks between the words."""
    kept = "".join(letter for letter in one_form(text).lower() if not unicodedata.category(letter).startswith("P"))
    return " ".join(kept.split())
