"""Translations written back in the format of their source: WMT's XML, TSV, JSON lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.preprocess.formats import JSONL, TSV, WMT_XML, detect, read, read_one_side
from gtransformer.preprocess.formats.documents import HYPOTHESIS, Reading, Side
from gtransformer.preprocess.formats.tables import add_translation
from gtransformer.preprocess.formats.wmt import add_hypothesis

WRITABLE = (WMT_XML, TSV, JSONL)


def check_writable(path: Path, source: Side, lang: str, system: str) -> None:
    """Raise UserError for a file of another format, and for one that has a translation by this system already.

    ``lang``: of the translation of the side ``source``. Tables have no name of a system: they must not have a column
    ``hyp``.
    """
    kind = detect(path)
    if kind not in WRITABLE:
        found = kind or "text" if path.is_file() else "no file"
        raise UserError(
            f"{path}: is {found}; only {', '.join(WRITABLE)} can be written back, so leave out --format input"
        )
    side = Side(HYPOTHESIS, lang, system) if kind == WMT_XML else Side(HYPOTHESIS)
    for document in read(path, Reading(), kind):
        if side in document.sides:
            raise UserError(f"{path}, line {document.line}: {document.title} has a {side} already; rename one of them")
    deque(_added(path, source, [[""] * len(one) for one, _ in read_one_side(path, source)], lang, system), maxlen=0)


def _added(path: Path, source: Side, documents: list[list[str]], lang: str, system: str) -> Iterator[bytes]:
    """Yield the content of a file with the sentences of its documents as a translation."""
    kind = detect(path)
    if kind == WMT_XML:
        return add_hypothesis(path, documents, lang, system, source.lang)
    return (line.encode() for line in add_translation(path, documents, kind == JSONL))


def write_back(path: Path, source: Side, lines: Iterable[str], output: Path, lang: str, system: str) -> None:
    """Write a file in the format of its source, with the translation as one text more.

    Args:
        path: of the source; ``source``: its side that was translated.
        lines: the translation as ``plain_text.input_lines`` gives the source: a line before each document.

    Raises UserError as ``check_writable``, and for another number of lines.
    """
    lines = iter(lines)
    documents = []
    for sentences, _ in read_one_side(path, source):
        next(lines, None)
        documents.append(list(islice(lines, len(sentences))))
        if len(documents[-1]) < len(sentences):
            raise UserError(f"{path}: has more sentences than were translated; start again with --restart")
    if next(lines, None) is not None:
        raise UserError(f"{path}: has fewer sentences than were translated; start again with --restart")
    with atomic_write(output, "wb") as stream:
        stream.writelines(_added(path, source, documents, lang, system))
