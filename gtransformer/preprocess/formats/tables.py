"""Tables with tabs (TSV) and a document id in every row.

Columns are found by their names (``NAMED``); a column may also be named after its language, and ``ref:A`` is of one
translator. Fields have no quotes. A file of sacrebleu (``sacrebleu --echo docid src ref``) has no names, which the user
gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import (
    REFERENCE,
    SOURCE,
    Document,
    Reading,
    Row,
    Side,
    grouped,
    same_language,
)

DOCUMENT, SEGMENT = "document", "segment"
NAMED = {
    DOCUMENT: ("docid", "doc_id", "doc-id", "document_id", "document", "doc"),
    SEGMENT: ("segid", "seg_id", "segment_id"),
    SOURCE: ("src", "source"),
    REFERENCE: ("ref", "reference", "target", "tgt"),
}
_MEANING = {name: meaning for meaning, names in NAMED.items() for name in names}


def columns(names: Sequence[str], langs: Sequence[str]) -> dict[int, str | Side]:
    """Return the meaning of every column that has one: ``DOCUMENT``, ``SEGMENT`` or a side."""
    found: dict[int, str | Side] = {}
    for number, name in enumerate(names):
        name, _, who = name.strip().partition(":")
        meaning = _MEANING.get(name.lower())
        if meaning in (SOURCE, REFERENCE):
            found[number] = Side(meaning, "", who.strip())
        elif meaning:
            found[number] = meaning
        elif any(name and same_language(name, lang) for lang in langs):
            found[number] = Side("", name)
    return found


def is_header(line: str) -> bool:
    """Return whether a line may have the names of columns: a document's is there."""
    names = line.split("\t")
    return len(names) > 1 and DOCUMENT in columns(names, ()).values()


def read_tsv(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a table. Raise UserError, naming file and line, for rows that do not fit."""
    return grouped(path, _rows(path, reading))


def _rows(path: Path, reading: Reading) -> Iterator[Row]:
    lines = enumerate(read_lines(path), 1)
    names = reading.columns or next(lines)[1].split("\t")
    found = columns(names, reading.langs)
    meanings = list(found.values())
    double = [str(meaning) for meaning in meanings if meanings.count(meaning) > 1]
    if double or DOCUMENT not in meanings:
        what = f"two columns of the {double[0]}" if double else "a column docid is needed"
        raise fault(path, 1, f"{what}; the file has {', '.join(names)}")
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(names):
            raise fault(path, number, f"{len(cells)} columns, but {len(names)} are expected ({', '.join(names)})")
        values = {meaning: cells[column] for column, meaning in found.items()}
        document, segment = values.pop(DOCUMENT).strip(), values.pop(SEGMENT, "")
        for text in values.values():
            if '""' in text and text.strip('"') and text.startswith('"') and text.endswith('"'):
                raise fault(path, number, f"{text[:30]!r} is quoted as in CSV; write fields without quotes")
        yield Row(document, number, segment, values)
