"""Corpora with a document id for every line, as those of WMT: files of text, and one of ids beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_lines
from gtransformer.preprocess.convert import check_sentence
from gtransformer.preprocess.corpus import Pair, text_lines

REFUSE, GATHER, NEW = RETURNING = ("refuse", "gather", "new")


def read_with_ids(
    source: Path, target: Path, ids: Path, target_ids: Path | None = None, returning: str = REFUSE
) -> Iterator[list[Pair]]:
    """Documents: lines that follow each other and have the same id, which is a line of ``ids`` as it stands.

    Args:
        target_ids: the target's own. They may be called otherwise, but change at the same lines.
        returning: of an id that stands again after another one, ``RETURNING``: refuse it, gather its lines into the
            document that it had before, or take it for a new document.

    Raises UserError, naming file and line, for files of unequal length, for a line without id, for borders that the
    sides do not share, for an id that comes back and for text with marks of the raw format.
    """
    paths = [path for path in (source, target, ids, target_ids) if path is not None]
    _check_lengths(paths)
    documents: dict[object, list[Pair]] = {}
    ended: dict[str, int] = {}  # id -> last line
    before: list[str] | None = None
    key: object = None
    texts = (text_lines(path) if path in (source, target) else read_lines(path) for path in paths)
    for number, row in enumerate(zip(*texts, strict=True), 1):
        left, right = (check_sentence(path, number, line) for path, line in zip(paths, row[:2], strict=False))
        names = [name.strip(" \t") for name in row[2:]]
        for path, name in zip(paths[2:], names, strict=True):
            if not name:
                raise UserError(f"{path}, line {number}: no document id; every line of text needs one")
        changed = [before is None or one != other for one, other in zip(names, before or names, strict=True)]
        if len(set(changed)) > 1:
            has, lacks = (paths[2], paths[3]) if changed[0] else (paths[3], paths[2])
            raise UserError(
                f"{has}, line {number}: a document begins here, but not in {lacks}; sides must share their borders"
            )
        name = names[0]
        if changed[0]:
            if name in ended and returning == REFUSE:
                raise UserError(
                    f"{ids}, line {number}: document {name} comes back, having ended on line {ended[name]}; give "
                    "--returning gather to put its lines together, or --returning new for a document each time"
                )
            key = (name, number) if returning == NEW else name
            documents.setdefault(key, [])
            if returning != GATHER:  # what is complete is handed on
                yield from (documents.pop(one) for one in list(documents) if one != key)
        documents[key].append((left, right))
        ended[name], before = number, names
    yield from documents.values()


def _check_lengths(paths: list[Path]) -> None:
    """UserError for the first file that ends before the others."""
    for number, row in enumerate(zip_longest(*map(read_lines, paths)), 1):
        if None in row:
            short = paths[row.index(None)]
            longer = next(path for path, line in zip(paths, row, strict=True) if line is not None)
            raise UserError(
                f"{short}, line {number - 1}: the file ends here, but {longer} goes on; text and ids must be aligned "
                "line by line"
            )
