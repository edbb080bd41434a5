"""Texts with one sentence a line, and a file with the document of every line: WMT's ids, or those of OPUS.

OPUS gives a parallel text (``moses``) with a file of four columns, with tabs between them: the documents of both sides
and the numbers of the sentences. A document is a run of lines with the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import check_reserved, fault, text_lines
from gtransformer.preprocess.formats.documents import REFUSE, Document, Row, Side, grouped

OPUS_COLUMNS = 4


def read_with_ids(texts: Mapping[Side, Path], ids: Mapping[Side, Path], returning: str = REFUSE) -> Iterator[Document]:
    """Yield documents: consecutive lines with the same id.

    Args:
        texts: the files, by side.
        ids: a file of ids, or several, whose ids may differ but must change at the same lines; the first one counts.
        returning: for an id that occurs again after another one, one of ``RETURNING_ID``.

    Raises UserError, naming file and line, for files of unequal length, for a line without id, for ids that change at
    different lines, for an id that occurs again and for text with tokens of the raw format.
    """
    paths, id_paths = list(texts.values()), list(ids.values())
    return grouped(id_paths[0], _rows(texts, paths, id_paths), returning)


def _rows(texts: Mapping[Side, Path], paths: list[Path], id_paths: list[Path]) -> Iterator[Row]:
    before: list[str] | None = None
    of_opus = False
    lines = (*map(text_lines, paths), *map(read_lines, id_paths))
    for number, row in enumerate(zip_longest(*lines), 1):
        if None in row:
            together = [*paths, *id_paths]
            longer = next(path for path, line in zip(together, row, strict=True) if line is not None)
            what = f"the file ends here, but {longer} is longer; text and ids must be aligned line by line"
            raise fault(together[row.index(None)], number - 1, what)
        names = [name.strip(" \t") for name in row[len(paths) :]]
        found = names[0].count("\t") + 1
        of_opus = number == 1 and found == OPUS_COLUMNS and ".xml" in names[0] or of_opus
        if of_opus and found != OPUS_COLUMNS:
            raise fault(id_paths[0], number, f"{found} columns, but {OPUS_COLUMNS} in the lines before")
        if of_opus:
            names[0] = "\t".join(names[0].split("\t")[:2])
        for path, name in zip(id_paths, names, strict=True):
            if not name:
                raise fault(path, number, "no document id; every line of text needs one")
        changed = [before is None or one != other for one, other in zip(names, before or names, strict=True)]
        if len(set(changed)) > 1:
            has, lacks = id_paths if changed[0] else id_paths[::-1]
            raise fault(has, number, f"a document begins here, but not in {lacks}; both must begin at the same line")
        before = names
        for path, line in zip(paths, row, strict=False):
            check_reserved(path, f"line {number}", line)
        yield Row(names[0], number, "", dict(zip(texts, row, strict=False)))
