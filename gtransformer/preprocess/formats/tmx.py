"""Translation memories (TMX 1.4) whose units name their document in a property.

    <tu><prop type="x-document">a.html</prop><tuv xml:lang="en"><seg>Hi <bpt i="1">&lt;b></bpt>you.</seg></tuv> ...

Codes of the original format (``<bpt>``, ``<ept>``, ``<it>``, ``<ph>``, ``<ut>``) are left out, but that of a line break
is a blank; highlighted text (``<hi>``) is kept. Consecutive units of a document belong together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import Document, Reading, Row, Side, grouped, same_language
from gtransformer.preprocess.formats.markup import END, START, TEXT, xml_events

CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
BREAKS = frozenset(("lb", "x-lb", "br", "x-br", "linebreak"))  # types of <ph> that stand for a blank
PROPERTIES = (
    "x-document", "document", "x-doc", "docid", "x-filename", "filename", "x-file", "file", "source-document",
    "txt::doc. no.",
)  # fmt: skip


@dataclass
class Unit:
    """A translation unit: its line, its id, its properties and its texts by language."""

    line: int
    id: str
    properties: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def read_tmx(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a translation memory; units that lack a wanted language are left out and counted.

    Raises UserError, naming file and line, for a unit without document or with two texts in a language.
    """
    return grouped(path, _rows(path, reading))


def _rows(path: Path, reading: Reading) -> Iterator[Row]:
    for unit in _units(path):
        found = {}
        for wanted in reading.langs:
            same = [lang for lang in unit.texts if same_language(lang, wanted)]
            if len(same) > 1:
                raise fault(path, unit.line, f"texts in {' and '.join(same)} are both {wanted}; name one of them")
            found |= {Side("", wanted): unit.texts[lang] for lang in same}
        if len(found) < len(reading.langs):
            reading.left_out["translation units that lack a language"] += 1
            continue
        yield Row(_document(path, unit, reading.document_property), unit.line, unit.id, found)


def _document(path: Path, unit: Unit, wanted: str | None) -> str:
    """Return the document that a unit's properties name; with ``wanted`` "" the file is one document."""
    if wanted == "":
        return path.name
    for name in (wanted.lower(),) if wanted else PROPERTIES:
        if unit.properties.get(name):
            return unit.properties[name]
    what = f"the unit names no document (its properties: {', '.join(unit.properties) or 'none'})"
    raise fault(path, unit.line, f"{what}; give --document-property NAME, or --one-document if the file is one")


def _units(path: Path) -> Iterator[Unit]:
    unit = Unit(0, "")
    lang, kind = "", ""  # of a text; of a property
    parts: list[str] = []  # of a segment or a property
    codes = 0  # that are open
    for event in xml_events(path):
        name, given = event.text, event.attributes
        if event.kind == START and name in CODES:
            codes += 1
            if given.get("type", "").lower() in BREAKS:
                parts.append(" ")
        elif event.kind == START and name == "tu":
            unit = Unit(event.line, given.get("tuid", ""))
        elif event.kind == START and name == "tuv":
            lang = given.get("xml:lang") or given.get("lang") or ""
            if lang in unit.texts:
                raise fault(path, event.line, f"two texts in {lang}; correct the unit of line {unit.line}")
        elif event.kind == START and name in ("prop", "seg"):
            kind, parts = given.get("type", "").lower(), []
        elif event.kind == END and name in CODES:
            codes -= 1
        elif event.kind == END and name == "prop":
            unit.properties.setdefault(kind, " ".join("".join(parts).split()))
        elif event.kind == END and name == "seg":
            unit.texts[lang] = "".join(parts)
        elif event.kind == END and name == "tu":
            yield unit
        elif event.kind == TEXT and not codes:
            parts.append(event.text)
        elif event.kind == TEXT and "<br" in event.text.lower():
            parts.append(" ")
