"""Texts with one sentence a line, and a file with the document of every line: WMT's ids, or those of OPUS.

OPUS gives a parallel text (``moses``) with a file of four columns, with tabs between them: the documents of both sides
and the numbers of the sentences. A document is a run of lines with the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import check_reserved, fault, text_lines
from gtransformer.preprocess.formats.documents import Document, Row, Side, grouped

OPUS_COLUMNS = 4


def read_with_ids(texts: dict[Side, Path], ids: Path) -> Iterator[Document]:
    """Yield documents: consecutive lines with the same id; ``texts``: the files, by side.

    Raises UserError, naming file and line, for files of unequal length, for a line without id, for an id that occurs
    again and for text with tokens of the raw format.
    """
    return grouped(ids, _rows(texts, ids))


def _rows(texts: dict[Side, Path], ids: Path) -> Iterator[Row]:
    files = (*texts.values(), ids)
    lines = (*map(text_lines, texts.values()), read_lines(ids))
    for number, row in enumerate(zip_longest(*lines), 1):
        if None in row:
            raise fault(files[row.index(None)], number - 1, "the file ends here, but others are longer")
        *sentences, name = row
        columns = name.split("\t")
        if len(columns) == OPUS_COLUMNS:
            name = "\t".join(columns[:2])
        for path, sentence in zip(files, sentences, strict=False):
            check_reserved(path, f"line {number}", sentence)
        yield Row(name.strip(), number, "", dict(zip(texts, sentences, strict=True)))
