"""Translation memories (TMX 1.4) whose units name their document in a property.

    <tu><prop type="x-document">a.html</prop><tuv xml:lang="en"><seg>Hi <bpt i="1">&lt;b></bpt>you.</seg></tuv> ...

Codes of the original format (``<bpt>``, ``<ept>``, ``<it>``, ``<ph>``, ``<ut>``) are left out, but that of a line break
is a blank; highlighted text (``<hi>``) is kept. Consecutive units of a document belong together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import Document, Reading, Row, Side, grouped, same_language
from gtransformer.preprocess.formats.markup import END, START, xml_events

CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
BREAKS = frozenset(("lb", "x-lb", "br", "x-br", "linebreak"))  # types of <ph> that stand for a blank
_BREAK = re.compile(r"\s*<br\b", re.IGNORECASE)
PROPERTIES = (
    "x-document", "document", "x-doc", "docid", "x-filename", "filename", "x-file", "file", "source-document",
    "txt::doc. no.",
)  # fmt: skip


def read_tmx(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the documents of a translation memory; units that lack a wanted language are left out and counted.

    Raises UserError, naming file and line, for a unit without document, with a language twice or, without wanted
    languages, with other languages than the first.
    """
    return grouped(path, _rows(path, reading), reading.returning)


def _rows(path: Path, reading: Reading) -> Iterator[Row]:
    wanted = [lang for lang in reading.langs if lang]
    first: set[str] | None = None
    some = not wanted
    for line, identity, properties, texts in _units(path):
        if wanted:
            found = {}
            for lang in wanted:
                same = [one for one in texts if same_language(one, lang)]
                if len(same) > 1:
                    raise fault(path, line, f"texts in {' and '.join(same)} are both {lang}; name one of them")
                found |= {Side("", lang): texts[one] for one in same}
            if len(found) < len(wanted):
                reading.left_out.units += 1
                continue
        else:
            first = first or set(texts)
            if set(texts) != first:
                raise fault(
                    path, line, f"languages {', '.join(texts)}, but {', '.join(first)} before; name those to read"
                )
            found = {Side("", lang): text for lang, text in texts.items()}
        some = True
        yield Row(_document(path, line, properties, reading.document_property), line, identity, found)
    if not some and reading.left_out.units:
        raise fault(path, line, f"no unit has {' and '.join(wanted)}; this one has {', '.join(texts) or 'no text'}")


def _document(path: Path, line: int, properties: dict[str, str], wanted: str | None) -> str:
    """Return the document that a unit's properties name; with ``wanted`` "" the file is one document."""
    if wanted == "":
        return path.name
    for name in (wanted.lower(),) if wanted else PROPERTIES:
        if properties.get(name):
            return properties[name]
    listed = ", ".join(properties) or "none"
    raise fault(
        path,
        line,
        f"the unit names no document (its properties: {listed}); give corpus convert files --document-property NAME, "
        "or --one-document if the file is one",
    )


def _units(path: Path) -> Iterator[tuple[int, str, dict[str, str], dict[str, str]]]:
    """Yield line, id, properties (of the unit or its first text that has them) and texts by language of every unit."""
    line, identity, lang, kind = 0, "", "", ""
    properties: dict[str, str] = {}
    texts: dict[str, str] = {}
    parts: list[str] | None = None  # of a segment, a property
    depth, code = 0, ""  # of codes; text of the innermost one
    for event in xml_events(path):
        name, given = event.text, event.attributes
        if event.kind == START:
            if name == "tu":
                line, identity, properties, texts = event.line, given.get("tuid", ""), {}, {}
            elif name == "tuv":
                lang = given.get("xml:lang") or given.get("lang") or ""
                if not lang or lang in texts:
                    what = f"two texts in {lang}" if lang else "a text without xml:lang"
                    raise fault(path, event.line, f"{what}; correct the unit of line {line}")
            elif name == "prop":
                kind, parts = given.get("type", "").lower(), []
            elif name == "seg":
                parts = []
            if name in CODES:
                depth, code = depth + 1, "<br " if given.get("type", "").lower() in BREAKS else ""
        elif event.kind == END:
            if name in CODES:
                depth -= 1
                if parts is not None and name == "ph" and _BREAK.match(code):
                    parts.append(" ")
            elif name == "prop":
                properties.setdefault(kind, " ".join("".join(parts).split()))
                parts = None
            elif name == "seg":
                texts[lang], parts = "".join(parts), None
            elif name == "tu":
                yield line, identity, properties, texts
        elif depth:
            code += event.text
        elif parts is not None:
            parts.append(event.text)
