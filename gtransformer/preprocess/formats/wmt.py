"""WMT's test sets: XML (from 2021), and SGM (before, and IWSLT's XML).

XML has source and references of a document together; translations of systems are left out:

    <dataset id="wmt24"><doc id="a" origlang="en"><src lang="en"><p><seg id="1">Hi.</seg></p></src>
    <ref lang="de" translator="A">...</ref><hyp lang="de" system="GPT-4">...</hyp></doc></dataset>

An SGM file has one side (``<srcset>``, ``<refset>``) and is no XML: attributes without quotes, lone ``&``. IWSLT's
files are the same in ``<mteval>``. Tags within a segment are left out, their text is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import REFERENCE, SOURCE, Document, Reading, Side, Text
from gtransformer.preprocess.formats.markup import END, START, Event, sgm_events, xml_events

SETS = {"srcset": SOURCE, "refset": REFERENCE}  # of a file of SGM
SIDES = {"src": SOURCE, "ref": REFERENCE}  # of a document of XML
NAMES = ("translator", "sysid", "refid")  # attributes with the name of a reference
BREAKS = ("br", "lb")  # within a segment; they stand for a blank
OUTSIDE = {"doc", "p", "hl", "hyp", *SETS, *SIDES}  # elements that are not within a segment
_CODE = re.compile(r"[A-Za-z]{2,3}([-_]|\Z)")  # of a language; IWSLT also writes its name


def read_xml(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of WMT's XML. Raise UserError, naming file and line, for whatever cannot be read."""
    return iter(_Reader(path, True).documents(xml_events(path)))


def read_sgm(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of SGM or of IWSLT's XML. Raise UserError as ``read_xml``.

    A document that occurs again with another ``sysid`` is another side of the same document.
    """
    return iter(_Reader(path, False).documents(sgm_events(path)))


class _Reader:
    """Reads documents of segments; ``of_xml``: several sides within a document."""

    def __init__(self, path: Path, of_xml: bool):
        self.path, self.of_xml = path, of_xml
        self.found: dict[str, Document] = {}  # by id, or by number
        self.set: dict[str, str] = {}  # attributes of the set
        self.document: Document | None = None
        self.text: Text | None = None
        self.segment: tuple[str, int, list[str]] | None = None  # id, line, parts of its text
        self.tags = 0  # open within the segment

    def documents(self, events: Iterator[Event]) -> list[Document]:
        """Read the whole file."""
        for event in events:
            if event.text in OUTSIDE and event.kind in (START, END) and self.segment:
                raise fault(self.path, self.segment[1], f"<seg> is not closed before <{event.text}>")
            if event.kind == START:
                self._start(event)
            elif event.kind == END:
                self._end(event)
            elif self.segment:
                self.segment[2].append(event.text)
        if self.document:
            raise fault(self.path, self.document.line, "<doc> is not closed")
        return list(self.found.values())

    def _start(self, event: Event) -> None:
        name, given = event.text, event.attributes
        if name in SETS:
            self.set = {**given, "role": SETS[name]}
        elif name == "doc":
            self._open_document(event)
        elif name in SIDES and self.document and self.of_xml:
            self._open_side(event, Side(SIDES[name], given.get("lang", ""), _first(given, NAMES)))
        elif name == "seg" and self.text is not None:
            if self.segment:
                raise fault(self.path, self.segment[1], "<seg> is not closed before the next one")
            self.segment, self.tags = (given.get("id", ""), event.line, []), 0
        elif self.segment:
            self.segment[2].append(" " if name in BREAKS else "")
            self.tags += self.of_xml or name not in BREAKS

    def _open_document(self, event: Event) -> None:
        given = event.attributes
        if self.document:
            raise fault(self.path, event.line, f"<doc> within {self.document.title}, which is not closed")
        identity = _first(given, ("id", "docid"))
        key = identity or f"\n{len(self.found)}"  # a line end is in no id
        if key in self.found and self.of_xml:
            raise fault(self.path, event.line, f"document {identity} occurs again, after line {self.found[key].line}")
        self.document = self.found.setdefault(key, Document(identity, self.path, event.line))
        if not self.of_xml:
            role = self.set.get("role", "")
            lang = self.set.get("srclang" if role == SOURCE else "trglang", "")
            lang = lang if _CODE.match(lang) and lang != "any" else ""
            name = "" if role == SOURCE else _first({**self.set, **given}, NAMES)
            self._open_side(event, Side(role, lang, name))

    def _open_side(self, event: Event, side: Side) -> None:
        if side in self.document.sides:
            raise fault(self.path, event.line, f"{self.document.title} has a {side} already; keep one, or name them")
        self.text = self.document.sides[side] = Text()

    def _end(self, event: Event) -> None:
        name = event.text
        if name == "seg" and self.segment:
            identity, line, parts = self.segment
            if self.tags:
                raise fault(self.path, line, "a tag within <seg> is not closed; write &lt; for < in text")
            self.text.add(self.path, line, "".join(parts), identity)
            self.segment = None
        elif self.segment:
            self.tags -= self.of_xml or name not in BREAKS
        elif name == "doc":
            self.document = self.text = None
        elif name in SIDES and self.of_xml:
            self.text = None


def _first(given: dict[str, str], names: tuple[str, ...]) -> str:
    """Return the first of these attributes that is given, else ""."""
    return next((given[name].strip() for name in names if given.get(name, "").strip()), "")
