"""File formats of parallel documents: one reader for each, told apart by their content.

All readers return ``Document``s: an id and one or several sides. ``gtransformer convert`` reads them and writes the raw
corpus format, which all other commands read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.files import open_bytes
from gtransformer.preprocess.corpus import Pair, fault, raw_file, read_documents, write_pairs
from gtransformer.preprocess.formats.documents import REFERENCE, SOURCE, Document, Reading, Side, matched, paired
from gtransformer.preprocess.formats.tables import is_header, read_tsv
from gtransformer.preprocess.formats.talks import TALK_LINES, is_talk_line, read_talks
from gtransformer.preprocess.formats.tmx import read_tmx
from gtransformer.preprocess.formats.wmt import read_sgm, read_xml

WMT_XML, SGM, TALKS, TMX, TSV = "WMT XML", "SGM", "IWSLT's training text", "TMX", "TSV"
_READERS = {WMT_XML: read_xml, SGM: read_sgm, TALKS: read_talks, TMX: read_tmx, TSV: read_tsv}
_ROOTS = {"dataset": WMT_XML, "collection": WMT_XML, "srcset": SGM, "refset": SGM, "mteval": SGM, "tmx": TMX}
_HEAD = 1 << 16  # bytes that tell the format
_TAG = re.compile(r"<([A-Za-z]\w*)\b([^>]*)>?")
_PROLOGUE = re.compile(r"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>\s*)*", re.DOTALL)


def detect(path: Path) -> str | None:
    """Return the format of a file; None for plain text, whose readers refuse other markup."""
    with open_bytes(path) as stream:
        head = stream.read(_HEAD)
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff").lstrip()
    text = text[_PROLOGUE.match(text).end() :]
    first = text.partition("\n")[0].rstrip("\r")
    tag = _TAG.match(text)
    if tag is None:
        return TSV if is_header(first) else None
    name = tag[1].lower()
    if name == "doc" and "=" in tag[2]:
        inside = re.search(r"<(seg|src|ref|hyp)\b", text, re.IGNORECASE)
        return TALKS if not inside else SGM if inside[1].lower() == "seg" else WMT_XML
    if name in TALK_LINES:  # a whole line; text may begin with <url>, too
        return TALKS if is_talk_line(first) else None
    return _ROOTS.get(name)


def read(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a file in the format that its content, or ``reading.columns``, tells.

    Raises UserError, naming file and line, for what cannot be read, documents without segments and a file without any.
    """
    kind = TSV if reading.columns else detect(path)
    if kind is None:
        raise UserError(f"{path}: none of the formats {', '.join(_READERS)}, or a table without names of its columns")
    document = None
    for document in _READERS[kind](path, reading):
        if not any(text.sentences for text in document.sides.values()):
            raise fault(document.path, document.line, f"{document.title} has no segment; remove it")
        yield document
    if document is None:
        raise UserError(f"{path}: read as {kind}, but no document was found")


def read_parallel(paths: Sequence[Path], reading: Reading, reference: str = "") -> Iterator[list[Pair]]:
    """Yield the sentence pairs of the documents in one file with both sides, or in two with one side each.

    Args:
        paths: plain text, too, if there are two.
        reference: name of the translator, if there are several references.

    Raises UserError, naming file and line, for what cannot be read or aligned.
    """
    source, target = Side(SOURCE, reading.langs[0]), Side(REFERENCE, reading.langs[1], reference)
    if len(paths) == 1:
        return paired(read(paths[0], reading), source, target, reading.left_out)
    if not reading.columns and not any(map(detect, paths)):
        return read_documents(*paths)
    left, right = (list(read(path, reading)) for path in paths)
    return matched(left, right, source, target)


@dataclass
class Written:
    """The files that were written, source first, and counts; ``half_empty``: pairs with an empty side."""

    files: list[Path]
    documents: int = 0
    sentences: int = 0
    half_empty: int = 0


def write_split(output: Path, split: str, langs: Sequence[str], documents: Iterable[list[Pair]]) -> Written:
    """Write both sides of documents; after an error neither file exists.

    ``split``: train, dev or test; ``langs``: source and target, of which the names of the files have no country.
    Raises UserError if there is no document.
    """
    langs = list(map(plain_language, langs))
    written = Written([raw_file(output, langs, split, lang) for lang in langs])

    def some() -> Iterator[list[Pair]]:
        yield from documents
        if not written.documents:
            raise UserError(f"{output}: no document was found for {split}; check the input")

    for document in write_pairs(written.files, some()):
        written.documents += 1
        written.sentences += len(document)
        written.half_empty += sum(not (left.strip() and right.strip()) for left, right in document)
    return written
