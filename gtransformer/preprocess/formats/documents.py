"""What every reader of a format returns: documents with an id and one or several sides.

A side is a source or a reference, in a language, by a translator. Formats that tell only the language of a text (TMX)
leave its role open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gtransformer.preprocess.corpus import DOCUMENT, Pair, check_reserved, fault, is_document_mark

SOURCE, REFERENCE = "source", "reference"
_BLANKS = re.compile(r"[ \t\r\n]+")


class Side(NamedTuple):
    """A text of a document. ``role``: as above, or "" if the format does not say; ``name``: the translator."""

    role: str
    lang: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as in messages: ``reference refA (de)``."""
        return " ".join(filter(None, (self.role or "text", self.name, self.lang and f"({self.lang})")))

    def matches(self, wanted: Side) -> bool:
        """Return whether it may be ``wanted``, whose name may be "" (any)."""
        if self.role not in ("", wanted.role) or wanted.name not in ("", self.name):
            return False
        return not self.lang or same_language(self.lang, wanted.lang)


@dataclass
class Text:
    """The sentences of a side; of each its segment id ("" where the file gives none) and its line in the file."""

    sentences: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, path: Path, line: int, text: str, segment: str = "") -> None:
        """Append a sentence, on one line. Raise UserError for one that would begin a document in the raw format."""
        if is_document_mark(text):
            raise fault(path, line, f"the sentence {DOCUMENT} is reserved; remove or rewrite it")
        self.sentences.append(one_line(text))
        self.ids.append(segment)
        self.lines.append(line)


@dataclass
class Document:
    """A document: its id ("" where the file gives none), where it begins, and its sides."""

    id: str
    path: Path
    line: int
    sides: dict[Side, Text] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The document in messages."""
        return f"document {self.id}" if self.id else "the document that begins here"

    def find(self, wanted: Side) -> Text | None:
        """Return the text of a side, None if it is missing. Raise UserError, listing them, if several match."""
        found = [side for side in self.sides if side.matches(wanted)]
        if len(found) > 1:
            what = f"{self.title} has several texts of the {wanted.role} ({', '.join(map(str, found))})"
            raise fault(self.path, self.line, f"{what}; name one with --reference")
        return self.sides[found[0]] if found else None

    def get(self, wanted: Side) -> Text:
        """Return the text of a side. Raise UserError as ``find``, and if it is missing."""
        text = self.find(wanted)
        if text is None:
            listed = ", ".join(map(str, self.sides)) or "no text"
            raise fault(self.path, self.line, f"{self.title} has no {wanted}; it has {listed}")
        return text


@dataclass(frozen=True)
class Reading:
    """Options of reading.

    Attributes:
        langs: source and target language.
        columns: the names of a table's columns; (): they are its first line.
        document_property: name of TMX's property with the document; None: any usual one; "": the file is a document.
        left_out: what readers leave out, counted by its name in messages.
    """

    langs: tuple[str, str]
    columns: tuple[str, ...] = ()
    document_property: str | None = None
    left_out: Counter[str] = field(default_factory=Counter)


def one_line(text: str) -> str:
    """Return text with single blanks in place of line ends, tabs and blanks; no-break spaces are kept."""
    return _BLANKS.sub(" ", text).strip(" ")


def same_language(lang: str, wanted: str) -> bool:
    """Return whether a language is the wanted one: ``en-US`` is ``en``, but not ``en-GB``."""
    lang, wanted = (one.lower().replace("_", "-") for one in (lang, wanted))
    return wanted == (lang if "-" in wanted else lang.partition("-")[0])


def aligned(document: Document, wanted: Side, others: Document, other: Side) -> list[Pair]:
    """Return the sentence pairs of a document, for a corpus.

    Raises UserError if a side is missing, their segments differ, or one has a token of the raw format.
    """
    left, right = document.get(wanted), others.get(other)
    for number, (one, two) in enumerate(zip(left.ids, right.ids, strict=False)):
        if one and two and one != two:
            what = f"segment {two}, but {document.path} has segment {one} here, in line {left.lines[number]}"
            raise fault(others.path, right.lines[number], f"{what}; both sides must have the same segments")
    counts = len(left.sentences), len(right.sentences)
    if counts[0] != counts[1]:
        what = f"{others.title} has {counts[1]} segments here, but {counts[0]} in {document.path}"
        raise fault(others.path, others.line, f"{what}; both sides must have the same segments")
    for path, text in ((document.path, left), (others.path, right)):
        for line, sentence in zip(text.lines, text.sentences, strict=True):
            check_reserved(path, f"line {line}", sentence)
    return list(zip(left.sentences, right.sentences, strict=True))


def paired(documents: Iterable[Document], source: Side, target: Side, left_out: Counter[str]) -> Iterator[list[Pair]]:
    """Yield the sentence pairs of documents of one file. Documents without one of the sides are left out and counted.

    Raises UserError as ``aligned``, for a document whose source and target would be the same text, and if none has
    both.
    """
    lacking, complete = [], False
    for document in documents:
        texts = [document.find(side) for side in (source, target)]
        if None in texts:
            left_out["documents that lack a side"] += 1
            lacking.append(document)
            continue
        complete = True
        if texts[0] is texts[1]:
            raise fault(document.path, document.line, f"{document.title} has one text only; give both files")
        yield aligned(document, source, document, target)
    if lacking and not complete:
        for side in (source, target):
            lacking[0].get(side)


def matched(left: Sequence[Document], right: Sequence[Document], source: Side, target: Side) -> Iterator[list[Pair]]:
    """Yield the sentence pairs of documents of two files, in the source's order.

    Documents are matched by their ids, or by order where a file has none. Raises UserError as ``aligned``, and for
    a document that only one file has.
    """
    by_id = {document.id: document for document in right}
    if all(document.id for document in [*left, *right]):
        for one, others in ((left, by_id), (right, {document.id for document in left})):
            missing = next((document for document in one if document.id not in others), None)
            if missing:
                what = f"{missing.title} is not in the other file; both must have the same documents"
                raise fault(missing.path, missing.line, what)
        right = [by_id[document.id] for document in left]
    if len(left) != len(right):
        extra = max(left, right, key=len)[min(len(left), len(right))]
        raise fault(extra.path, extra.line, f"{extra.title} is one more than the other file has")
    for one, two in zip(left, right, strict=True):
        yield aligned(one, source, two, target)


class Row(NamedTuple):
    """A line of a table: its document, its line, its segment id and its texts."""

    document: str
    line: int
    id: str
    texts: dict[Side, str]


def grouped(path: Path, rows: Iterable[Row]) -> Iterator[Document]:
    """Yield documents: consecutive rows with the same document id.

    Raises UserError, naming file and line, for a row without id and for an id that occurs again after another one.
    """
    ended: set[str] = set()
    document: Document | None = None
    for row in rows:
        if not row.document:
            raise fault(path, row.line, "no document id; every line of text needs one")
        if document is None or row.document != document.id:
            if document is not None:
                ended.add(document.id)
                yield document
            if row.document in ended:
                what = f"document {row.document} occurs again after another one; sort the lines by document"
                raise fault(path, row.line, what)
            document = Document(row.document, path, row.line)
        for side, text in row.texts.items():
            document.sides.setdefault(side, Text()).add(path, row.line, text, row.id)
    if document is not None:
        yield document
