"""Tags and text of marked-up files, with their lines: XML (strict), and SGM, which is no XML (lenient)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from gtransformer.files import open_bytes, read_lines
from gtransformer.preprocess.corpus import fault

START, END, TEXT = "start", "end", "text"
BLOCK = 1 << 16  # bytes
_AMPERSAND = re.compile(r"&(?!(?:\w+|#\d+|#[xX][0-9a-fA-F]+);)")  # which begins no entity; HTML knows &copy without ;


class Event(NamedTuple):
    """A start tag, an end tag or some text; ``text``: the tag's name or the text."""

    kind: str
    text: str
    attributes: dict[str, str]
    line: int


def unescaped(text: str) -> str:
    """Return text with entities (``&amp;``, ``&#233;``) as characters; a lone ``&`` is kept."""
    return unescape(_lone(text))


def _lone(text: str) -> str:
    return _AMPERSAND.sub("&amp;", text)


def xml_events(path: Path) -> Iterator[Event]:
    """Yield the events of an XML file. Raise UserError, with the line, for damaged XML.

    The parser fetches nothing, so an entity that another file defines is refused.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    found: list[Event] = []

    def add(kind: str, text: str, attributes: dict[str, str] | None = None) -> None:
        found.append(Event(kind, text, attributes or {}, parser.CurrentLineNumber))

    def undefined(name: str, *_: object) -> None:
        # With a document type in another file, expat would leave out the entity without an error.
        what = f"the entity &{name}; is not defined in this file; write the character itself"
        raise fault(path, parser.CurrentLineNumber, what)

    parser.SkippedEntityHandler = parser.ExternalEntityRefHandler = undefined
    parser.StartElementHandler = lambda name, attributes: add(START, name, attributes)
    parser.EndElementHandler = lambda name: add(END, name)
    parser.CharacterDataHandler = lambda text: add(TEXT, text)
    with open_bytes(path) as stream:
        try:
            block = None
            while block != b"":
                block = stream.read(BLOCK)
                parser.Parse(block, not block)
                yield from found
                found.clear()
        except expat.ExpatError as error:
            raise fault(path, error.lineno, f"damaged XML ({expat.ErrorString(error.code)})") from None


def sgm_events(path: Path) -> Iterator[Event]:
    """Yield the events of an SGM file in UTF-8; names of tags and attributes in lower case.

    Attributes need no quotes, and a lone ``&`` or ``<`` is text.
    """
    parser = _Tags(path)
    for line in read_lines(path):
        parser.feed(_lone(f"{line}\n"))
        yield from parser.found
        parser.found.clear()
    parser.close()
    yield from parser.found


class _Tags(HTMLParser):
    """Python's parser for markup with errors; ``found``: events since it was last emptied."""

    CDATA_CONTENT_ELEMENTS = RCDATA_CONTENT_ELEMENTS = ()  # no element's content is special, as in HTML

    def __init__(self, path: Path):
        super().__init__(convert_charrefs=True)
        self.path, self.found = path, []

    def _add(self, kind: str, text: str, attributes: dict[str, str] | None = None) -> None:
        self.found.append(Event(kind, text, attributes or {}, self.getpos()[0]))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(START, tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        self._add(END, tag)

    def handle_data(self, data: str) -> None:
        self._add(TEXT, data)

    def parse_bogus_comment(self, i: int, report: int = 1) -> int:
        """Raise UserError for ``</3`` and ``<!x>``, whose text would be lost."""
        raise fault(self.path, self.getpos()[0], f"{self.rawdata[i : i + 10]!r} in text; write &lt; for <")

    def unknown_decl(self, data: str) -> None:
        """Raise UserError for ``<![CDATA[``, whose text would be lost."""
        raise fault(self.path, self.getpos()[0], f"'<![{data[:7]}' in text; write &lt; for <")
