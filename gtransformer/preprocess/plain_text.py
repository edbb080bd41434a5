"""Translations and references as plain text: one sentence a line, documents opened by ``<d>`` or not marked at all."""

from __future__ import annotations

from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import DOCUMENT, document_lines, is_document_mark

Documents = list[list[str]]


def read_plain(path: str | Path) -> tuple[Documents, bool]:
    """The documents of a file, and whether it marks them; without ``<d>`` the whole file is one document.

    A file that marks documents must open with ``<d>``. Empty lines are empty sentences. Raises UserError, naming file
    and line, for an empty file, for a document without sentences and for text before the first ``<d>``.
    """
    documents: Documents = []
    marked, number, opened = False, 0, 0
    for number, line in enumerate(read_lines(path), 1):
        if is_document_mark(line):
            if number > 1 and not marked:
                raise UserError(f"{path}, line 1: text before the first {DOCUMENT}; put a line {DOCUMENT} before it")
            if marked and not documents[-1]:
                raise UserError(f"{path}, line {opened}: the document opened here is empty; remove this line")
            marked, opened = True, number
            documents.append([])
        else:
            if not documents:
                documents.append([])
            documents[-1].append(line.rstrip("\r"))
    if number == 0:
        raise UserError(f"{path}, line 1: the file is empty")
    if not documents[-1]:
        raise UserError(f"{path}, line {opened}: the document opened here is empty; remove this line")
    return documents, marked


def read_shaped(path: str | Path, shape: list[int], like: str | Path) -> Documents:
    """The documents of a file that must have the shape of another, ``like``: ``shape[i]`` sentences in document i.

    A file without ``<d>`` needs as many lines as there are sentences and is cut accordingly. Raises UserError, naming
    file and line, where the two cannot be aligned.
    """
    documents, marked = read_plain(path)
    if not marked:
        lines, total = documents[0], sum(shape)
        if len(lines) != total:
            raise UserError(
                f"{path}, line {min(len(lines), total + 1)}: the file has {len(lines)} lines, but {like} has {total} "
                "sentences; the two must be aligned line by line"
            )
        rest = iter(lines)
        return [[next(rest) for _ in range(count)] for count in shape]
    line = 1  # of the document's <d>
    for number, (document, count) in enumerate(zip(documents, shape, strict=False)):
        if len(document) != count:
            raise UserError(
                f"{path}, line {line}: document {number} has {len(document)} sentences, but {count} in {like}; the two "
                "must be aligned line by line"
            )
        line += count + 1
    if len(documents) != len(shape):
        raise UserError(
            f"{path}, line {line if len(documents) > len(shape) else line - 1}: the file has {len(documents)} "
            f"documents, but {like} has {len(shape)}; the two must be aligned line by line"
        )
    return documents


def write_documents(path: Path, documents: Documents) -> None:
    """Write documents of sentences in the raw corpus format."""
    with atomic_write(path) as stream:
        stream.writelines(document_lines(documents))
