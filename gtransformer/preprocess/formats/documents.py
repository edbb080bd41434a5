"""What every reader of a format returns: documents with an id and one or several sides.

A side is a source, a reference or a hypothesis, in a language, by a translator or system. Formats that tell only the
language of a text (TMX) leave its role open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gtransformer.preprocess.corpus import DOCUMENT, Pair, check_reserved, fault, is_document_mark

SOURCE, REFERENCE, HYPOTHESIS = "source", "reference", "hypothesis"
# What to do with a document that occurs again after another one.
REFUSE, GATHER, FIRST, NEW = "refuse", "gather", "first", "new"
RETURNING_ID, RETURNING_OPUS = (REFUSE, GATHER, NEW), (REFUSE, FIRST, NEW)
CHAPTER, SPEAKER = BY = ("chapter", "speaker")  # what is a document of Europarl
_BLANKS = re.compile(r"[ \t\r\n]+")


class Side(NamedTuple):
    """A text of a document. ``role``: as above, or "" if the format does not say; ``name``: translator or system."""

    role: str
    lang: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return it as in messages: ``reference refA (de)``."""
        return " ".join(filter(None, (self.role or "text", self.name, self.lang and f"({self.lang})")))

    def is_in(self, lang: str) -> bool:
        """Return whether it may be in this language; "" is any."""
        return not self.lang or not lang or same_language(self.lang, lang)

    def matches(self, wanted: Side) -> bool:
        """Return whether it is ``wanted``, whose language and name may be "" (any)."""
        return self.role == wanted.role and self.is_in(wanted.lang) and wanted.name in ("", self.name)


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
        """Return the text of a side, None if it is missing.

        A text whose role the format does not tell is found by its language. The only side of a document is taken where
        role or language are not known; a reference or hypothesis stands for the other. Raises UserError, listing the
        sides, if several match.
        """
        found = [side for side in self.sides if side.matches(wanted)]
        if not found and wanted.lang:
            found = [side for side in self.sides if side.matches(wanted._replace(role=""))]
        if not found and len(self.sides) == 1 and not wanted.name:
            found = [side for side in self.sides if side.is_in(wanted.lang) and self._stands_for(side, wanted)]
        if len(found) > 1:
            what = f"{self.title} has several texts of the {wanted.role} ({', '.join(map(str, found))})"
            raise fault(self.path, self.line, f"{what}; name one: corpus convert --reference, score --test-set")
        return self.sides[found[0]] if found else None

    @staticmethod
    def _stands_for(side: Side, wanted: Side) -> bool:
        return not side.role or not wanted.role or SOURCE not in (side.role, wanted.role)

    def get(self, wanted: Side) -> Text:
        """Return the text of a side. Raises UserError as ``find``, and if it is missing."""
        text = self.find(wanted)
        if text is None:
            listed = ", ".join(map(str, self.sides)) or "no text"
            raise fault(self.path, self.line, f"{self.title} has no {wanted}; it has {listed}")
        return text


@dataclass
class LeftOut:
    """Counts of what a reader leaves out.

    Attributes:
        links: of OPUS with an empty side; ``empty``: groups without other links; ``returned``: groups of documents that
            occurred again.
        units: translation units (TMX) that lack a language.
        documents: documents that lack a side.
    """

    links: int = 0
    empty: int = 0
    returned: int = 0
    units: int = 0
    documents: int = 0


@dataclass(frozen=True)
class Reading:
    """Options of reading.

    Attributes:
        langs: wanted languages, "" for any.
        returning: what to do with a document id that occurs again, one of ``RETURNING_ID``.
        columns: the names of a table's columns; (): they are its first line.
        document_property: name of TMX's property with the document; None: any usual one; "": the file is a document.
        by: what is a document of Europarl, one of ``BY``.
        left_out: counts, to which readers add.
        systems: whose outputs to read of WMT's folder; None: all.
    """

    langs: tuple[str, ...] = ()
    returning: str = REFUSE
    columns: tuple[str, ...] = ()
    document_property: str | None = None
    by: str = CHAPTER
    left_out: LeftOut = field(default_factory=LeftOut)
    systems: tuple[str, ...] | None = None


def one_line(text: str) -> str:
    """Return text with single blanks in place of line ends, tabs and blanks; no-break spaces are kept."""
    return _BLANKS.sub(" ", text).strip(" ")


def same_language(lang: str, wanted: str) -> bool:
    """Return whether a language is the wanted one: ``en-US`` is ``en``, but not ``en-GB``."""
    lang, wanted = (one.lower().replace("_", "-") for one in (lang, wanted))
    return wanted == (lang if "-" in wanted else lang.partition("-")[0])


def check_ids(path: Path, text: Text, other_path: Path, other: Text, line: int) -> None:
    """Raise UserError, naming file and line, unless two texts have the same segments.

    ``line``: named if ``text`` has no segment.
    """
    for number, (mine, theirs) in enumerate(zip(text.ids, other.ids, strict=False)):
        if mine and theirs and mine != theirs:
            where = f"line {other.lines[number]}" + ("" if path == other_path else f" of {other_path}")
            what = f"segment {mine}, but the other side has segment {theirs} here, in {where}; both must have the same"
            raise fault(path, text.lines[number], f"{what} segments")
    if len(text.sentences) != len(other.sentences):
        at = (text.lines or [line])[-1]
        said = "" if path == other_path else f" in {other_path}"
        what = f"{len(text.sentences)} segments end here, but the other side has {len(other.sentences)}{said}"
        raise fault(path, at, f"{what}; both must have the same segments")


def aligned(document: Document, wanted: Side, others: Document, other: Side) -> list[Pair]:
    """Return the sentence pairs of a document, for a corpus.

    Raises UserError if a side is missing, they are not aligned, or one has a token of the raw format.
    """
    left, right = document.get(wanted), others.get(other)
    check_ids(others.path, right, document.path, left, others.line)
    for path, text in ((document.path, left), (others.path, right)):
        for line, sentence in zip(text.lines, text.sentences, strict=True):
            check_reserved(path, f"line {line}", sentence)
    return list(zip(left.sentences, right.sentences, strict=True))


def paired(documents: Iterable[Document], source: Side, target: Side, left_out: LeftOut) -> Iterator[list[Pair]]:
    """Yield the sentence pairs of documents of one file. Documents without one of the sides are left out and counted.

    Raises UserError as ``aligned``, for a document whose source and target would be the same text, and if none has
    both.
    """
    any_left, first = False, None
    for document in documents:
        texts = [document.find(side) for side in (source, target)]
        if None in texts:
            left_out.documents += 1
            first = first or document
            continue
        any_left = True
        if texts[0] is texts[1]:
            listed = ", ".join(map(str, document.sides))
            raise fault(document.path, document.line, f"{document.title} has one text only ({listed}); give both files")
        yield aligned(document, source, document, target)
    if first and not any_left:
        for side in (source, target):
            first.get(side)


def in_order_of(left: Sequence[Document], right: Sequence[Document]) -> list[Document]:
    """Return the documents of a file, ``right``, in the order of another, by their ids or, without, by order.

    Raises UserError for a document that only one file has.
    """
    named = {document.id: document for document in right}
    known = {document.id for document in left}
    if "" not in known | named.keys() and len(named) == len(right) and len(known) == len(left):
        missing = next((document for document in left if document.id not in named), None)
        missing = missing or next((document for document in right if document.id not in known), None)
        if missing:
            other = (right if missing in left else left)[:1]
            said = f" is not in {other[0].path}" if other else " has no other side"
            raise fault(missing.path, missing.line, f"{missing.title}{said}; both files must have the same documents")
        return [named[document.id] for document in left]
    if len(left) != len(right):
        longer, other = (left, right) if len(left) > len(right) else (right, left)
        extra = longer[len(other)]
        raise fault(
            extra.path, extra.line, f"{extra.title} is the {len(other) + 1}th, but the other file has {len(other)}"
        )
    for one, two in zip(left, right, strict=True):
        if one.id and two.id and one.id != two.id:
            raise fault(two.path, two.line, f"{two.title}, but {one.title} in line {one.line} of {one.path}")
    return list(right)


def matched(
    sources: Iterable[Document], targets: Iterable[Document], source: Side, target: Side
) -> Iterator[list[Pair]]:
    """Yield the sentence pairs of documents of two files, in the source's order.

    Raises UserError as ``aligned`` and ``in_order_of``.
    """
    left = list(sources)
    for one, two in zip(left, in_order_of(left, list(targets)), strict=True):
        yield aligned(one, source, two, target)


class Row(NamedTuple):
    """A line of a table: its document, its line, its segment id and its texts."""

    document: str
    line: int
    id: str
    texts: dict[Side, str]


def grouped(path: Path, rows: Iterable[Row], returning: str = REFUSE) -> Iterator[Document]:
    """Yield documents: consecutive rows with the same document id.

    ``returning``: what to do with an id that occurs again after another one: refuse it, append its rows to the earlier
    document, or begin a new document. Raises UserError, naming file and line, for a row without id and, if refused, for
    an id that occurs again.
    """
    documents: dict[object, Document] = {}
    ended: dict[str, int] = {}  # id -> last line
    before: str | None = None
    key: object = None
    for row in rows:
        if not row.document:
            raise fault(path, row.line, "no document id; every line of text needs one")
        if row.document != before:
            if row.document in ended and returning == REFUSE:
                raise fault(
                    path,
                    row.line,
                    f"document {row.document} occurs again, after it ended on line {ended[row.document]}; its lines "
                    "must stand together (corpus convert --returning gather joins them, new makes two documents)",
                )
            key = (row.document, row.line) if returning == NEW else row.document
            documents.setdefault(key, Document(row.document, path, row.line))
            if returning != GATHER:  # earlier documents are complete
                yield from (documents.pop(one) for one in list(documents) if one != key)
        for side, text in row.texts.items():
            documents[key].sides.setdefault(side, Text()).add(path, row.line, text, row.id)
        ended[row.document], before = row.line, row.document
    yield from documents.values()


def not_empty(path: Path, kind: str, documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents. Raise UserError for one without segments and if there is none; ``kind``: the format."""
    document = None
    for document in documents:
        if not any(text.sentences for text in document.sides.values()):
            raise fault(document.path, document.line, f"{document.title} has no segment; remove it")
        yield document
    if document is None:
        raise fault(path, 1, f"read as {kind}, but no document was found")
