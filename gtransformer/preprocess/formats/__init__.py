"""File formats of parallel documents: one reader for each, told apart by their content.

All readers return ``Document``s: an id and one or several sides. ``detect`` names the format of a file, None for plain
text. ``read`` reads it. Preparing, converting, translating and scoring use these two.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from lzma import LZMAError
from pathlib import Path

from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.files import NO_JSON, open_bytes, read_lines
from gtransformer.preprocess.corpus import Pair, raw_file, read_documents, write_pairs
from gtransformer.preprocess.formats.documents import (
    CHAPTER,
    REFERENCE,
    REFUSE,
    SOURCE,
    Document,
    LeftOut,
    Reading,
    Side,
    check_ids,
    in_order_of,
    matched,
    not_empty,
    paired,
)
from gtransformer.preprocess.formats.tables import columns, is_header, json_line, read_jsonl, read_tsv
from gtransformer.preprocess.formats.tagged import TALK_LINES, is_talk_line, read_europarl, read_talks
from gtransformer.preprocess.formats.tmx import read_tmx
from gtransformer.preprocess.formats.wmt import is_layout, read_layout, read_sgm, read_xml

WMT_XML, SGM, TALKS, EUROPARL, TMX, TSV, JSONL, LAYOUT = FORMATS = (
    "WMT XML", "SGM", "IWSLT's training text", "Europarl", "TMX", "TSV", "JSON lines", "WMT's folder",
)  # fmt: skip
_READERS: dict[str, Callable[[Path, Reading], Iterator[Document]]] = dict(
    zip(
        FORMATS,
        (read_xml, read_sgm, read_talks, read_europarl, read_tmx, read_tsv, read_jsonl, read_layout),
        strict=True,
    )
)
_ROOTS = {
    **dict.fromkeys(("dataset", "collection"), WMT_XML),
    **dict.fromkeys(("srcset", "refset", "tstset", "mteval"), SGM),
    "tmx": TMX,
}
_HEAD = 1 << 16  # bytes that tell the format
_TAG = re.compile(r"<([A-Za-z]\w*)\b([^>]*)>?")
_PROLOGUE = re.compile(r"\s*(?:<\?.*?\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>\s*)*", re.DOTALL)
_ATTRIBUTE = re.compile(r"\w\s*=")


def detect(path: str | Path) -> str | None:
    """Return which of ``FORMATS`` a file or folder has; None for plain text, whose readers refuse other markup.

    A pipe is not read, as it can be read once only; it is taken for text.
    """
    path = Path(path)
    if path.is_dir():
        return LAYOUT if is_layout(path) else None
    if not path.is_file():
        return None
    head = _head(path)
    start = head[_PROLOGUE.match(head).end() :]
    if start.startswith("{"):
        try:
            line = next(line for line in read_lines(path) if line.strip())
            found = columns(_keys(path, line)).values()
        except (UserError, *NO_JSON):
            return None
        return JSONL if "document" in found and any(isinstance(one, Side) for one in found) else None
    tag = _TAG.match(start)
    if tag:
        return _of_tag(tag[1].lower(), tag[2], start)
    return TSV if is_header(start.partition("\n")[0].rstrip("\r").split("\t")) else None


def _head(path: Path) -> str:
    with open_bytes(path) as stream:
        try:
            head = stream.read(_HEAD)
        except (OSError, EOFError, zlib.error, LZMAError):
            return ""  # its reader tells
    utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return head.decode("utf-16" if utf16 else "utf-8", errors="replace").removeprefix("\ufeff").lstrip()


def _keys(path: Path, line: str) -> Iterable[str]:
    value = json_line(path, 1, line)
    inner = value.get("translation")
    return [*value, *(inner if isinstance(inner, dict) else ())]


def _of_tag(name: str, attributes: str, start: str) -> str | None:
    """Return the format of a text that begins with this tag."""
    if name == "doc" and _ATTRIBUTE.search(attributes):
        inside = re.search(r"<(seg|src|ref|hyp)\b", start, re.IGNORECASE)
        return TALKS if not inside else SGM if inside[1].lower() == "seg" else WMT_XML
    if name == "speaker" and _ATTRIBUTE.search(attributes):
        return EUROPARL
    if name in TALK_LINES:  # a whole line; text may begin with <url>, too
        return TALKS if is_talk_line(start.partition("\n")[0]) else None
    if name in ("chapter", "p"):
        return EUROPARL if re.search(r"<(CHAPTER|SPEAKER)\s[^>]*ID\s*=", start, re.IGNORECASE) else None
    return _ROOTS.get(name)


def read(path: Path, reading: Reading, kind: str | None = None) -> Iterator[Document]:
    """Yield the documents of a file in one of ``FORMATS`` (``kind``; None: by its content).

    Raises UserError, naming file and line, for what cannot be read, documents without segments and a file without any.
    """
    kind = kind or detect(path) or (TSV if reading.columns else None)
    if kind is None:
        raise UserError(f"{path}: none of the formats {', '.join(FORMATS)}")
    _check_options(path, kind, reading)
    return not_empty(path, kind, _READERS[kind](path, reading))


def _check_options(path: Path, kind: str | None, reading: Reading) -> None:
    """Raise UserError for options that have no effect on this format."""
    of_tmx = "document-property" if reading.document_property else "one-document"
    for given, only, name in (
        (reading.columns, TSV, "columns"),
        (reading.document_property is not None, TMX, of_tmx),
        (reading.by != CHAPTER, EUROPARL, "by"),
    ):
        if given and kind != only:
            raise UserError(f"{path}: is {kind or 'plain text'}, but --{name} is for {only}; leave it out")
    if reading.returning != REFUSE and kind not in (TMX, TSV, JSONL, LAYOUT):
        raise UserError(f"{path}: --returning is for formats with an id in every line or unit; leave it out")


def read_one_side(path: Path, wanted: Side) -> Iterator[tuple[list[str], int]]:
    """Yield the sentences of one side of every document, and the line where the document begins.

    Raises UserError as ``read``, and for documents that lack the side or have several like it.
    """
    for document in read(path, Reading((wanted.lang,))):
        yield document.get(wanted).sentences, document.line


@dataclass(frozen=True)
class KnownDocuments:
    """A text that has been read: its path, for messages, and its documents."""

    path: Path
    documents: list[Document]

    def __str__(self) -> str:
        return str(self.path)


Like = str | Path | KnownDocuments | None  # the file whose documents another has, or these themselves


def read_like(path: Path, like: Like, wanted: Side, same_segments: bool = False) -> list[Document]:
    """Return the documents of a file, by their ids in the order of another, if that is in a format with ids, too.

    ``same_segments``: ``wanted``, or the only text, must have the other file's segments. Raises UserError as ``read``,
    and for a file that has other documents or segments.
    """
    documents = list(read(path, Reading((wanted.lang,))))
    if isinstance(like, KnownDocuments):
        others = like.documents
    elif like is None or not detect(like):
        return documents
    else:
        others = list(read(Path(like), Reading()))
    documents = in_order_of(others, documents)
    for one, other in zip(documents, others, strict=True) if same_segments else ():
        check_ids(path, one.get(wanted), other.path, next(iter(other.sides.values())), one.line)
    return documents


def read_parallel(paths: Sequence[Path], reading: Reading, reference: str = "") -> Iterator[list[Pair]]:
    """Yield the sentence pairs of the documents in one file with both sides, or in two with one side each.

    Args:
        paths: plain text, too, if there are two.
        reading: ``langs``: source and target.
        reference: name of the translator or system, if there are several references.

    Raises UserError, naming file and line, for what cannot be read or aligned.
    """
    kinds = [detect(path) or (TSV if reading.columns and path.is_file() else None) for path in paths]
    source, target = Side(SOURCE, reading.langs[0]), Side(REFERENCE, reading.langs[1], reference)
    if len(paths) == 2 and not any(kinds):
        _check_options(paths[0], None, reading)
        if reference:
            raise UserError(f"{paths[1]}: is plain text, which names no reference; leave out --reference {reference}")
        return read_documents(*paths)
    if None in kinds:
        raise UserError(_unknown(paths[kinds.index(None)], len(paths)))
    if len(paths) == 1:
        reading = replace(reading, systems=())
        return paired(read(paths[0], reading, kinds[0]), source, target, reading.left_out)
    sides = (
        read(path, replace(reading, langs=(lang,)), kind)
        for path, lang, kind in zip(paths, reading.langs, kinds, strict=True)
    )
    return matched(*sides, source, target)


def read_split(
    files: tuple[Path, Path], langs: tuple[str, str], sentence_pairs: bool = False, left_out: LeftOut | None = None
) -> Iterator[list[Pair]]:
    """Yield the documents of a raw corpus's split (``corpus.find_splits``): two plain texts, or a file with both sides.

    ``left_out``: counts of what is left out. Raises UserError as ``corpus.read_pairs`` and ``read_parallel``.
    """
    if files[0] == files[1]:
        return read_parallel(files[:1], Reading(langs, left_out=left_out or LeftOut()))
    return read_documents(*files, sentence_pairs)


def _unknown(path: Path, files: int) -> str:
    if path.is_dir():
        return f"{path}: not WMT's folder, which has sources, references and documents, also within txt"
    if not path.exists():
        return f"{path}: no such file"
    names = _head(path).partition("\n")[0].rstrip("\r").split("\t")
    if len(names) > 1 and any(isinstance(one, Side) for one in columns(names).values()):
        return f"{path}, line 1: a column docid is needed; the file has {', '.join(names)}"
    more = "; give its other side, too, or name its columns with corpus convert files --columns" if files == 1 else ""
    return f"{path}: plain text, or a table without names of its columns{more}"


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
