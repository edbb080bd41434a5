"""Plain text with lines of tags between: Europarl, and the training texts of IWSLT (TED talks).

Each language is a file of its own, and both have the same lines. Europarl (Koehn 2005):

    <CHAPTER ID="1">
    <SPEAKER ID="1" LANGUAGE="DE" NAME="...">
    A sentence.
    <P>

IWSLT: ``<url>``, ``<keywords>``, ``<speaker>``, ``<talkid>``, ``<title>`` and ``<description>`` before each talk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import CHAPTER, SPEAKER, Document, Reading, Side, Text
from gtransformer.preprocess.formats.markup import unescaped

_EUROPARL = re.compile(r"\s*<(CHAPTER|SPEAKER|P|/CHAPTER|/SPEAKER|/P)\b([^>]*)>\s*\Z", re.IGNORECASE)
_IDENTITY = re.compile(r"\bID\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.IGNORECASE)
TALK_LINES = ("url", "talkid", "keywords", "speaker")  # may begin a file
_TALK = re.compile(rf"\s*<({'|'.join(TALK_LINES)}|title|description|reviewer|translator)\b[^>]*>(.*?)</\1>\s*\Z")
_DOC = re.compile(r"\s*<(/?)(doc|transcript)\b([^>]*)>\s*\Z")
_DOC_ID = re.compile(r"\bdocid\s*=\s*[\"']?([^\"'\s>]+)")
_TAG = re.compile(r"\s*</?[A-Za-z]\w*(\s[^>]*)?>")


def is_talk_line(line: str) -> bool:
    """Return whether a line is one of IWSLT's tags with its text."""
    return _TALK.match(line) is not None


def read_europarl(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield chapters or the turns of speakers (``reading.by``). A segment's id is its speaker, paragraph and sentence.

    Blank lines are empty sentences. Raises UserError, naming file and line, for a tag without id and an unknown tag.
    """
    side = Side("")
    document: Document | None = None
    speaker, paragraph, sentence = "", 0, 0
    for number, line in enumerate(read_lines(path), 1):
        tag = _EUROPARL.match(line)
        if tag is None:
            if _TAG.match(line):
                raise fault(path, number, f"{line.strip()[:40]!r} is no tag of Europarl (CHAPTER, SPEAKER, P)")
            if document is None:
                if not line.strip():
                    continue
                document = Document("", path, number, {side: Text()})
            sentence += 1
            document.sides[side].add(path, number, line, f"{speaker}/{paragraph}/{sentence}")
            continue
        name, sentence = tag[1].upper(), 0
        if name in ("P", "/P"):
            paragraph += name == "P"
        elif name in ("CHAPTER", "SPEAKER"):
            found = _IDENTITY.search(tag[2])
            if not found:
                raise fault(path, number, f"<{name}> without ID")
            identity = next(filter(None, found.groups()), "")
            speaker, paragraph = identity if name == "SPEAKER" else "", 0
            if name == "CHAPTER" and reading.by == SPEAKER:  # its title is no speaker's
                yield from _with_text(document)
                document = None
            elif name.lower() == reading.by or (document is None and reading.by == CHAPTER):
                yield from _with_text(document)
                document = Document(identity if name.lower() == reading.by else "", path, number, {side: Text()})
    yield from _with_text(document)


def _with_text(document: Document | None) -> Iterator[Document]:
    """Yield a document unless it has no sentence: chapters without speech are usual."""
    if document is not None and any(text.sentences for text in document.sides.values()):
        yield document


def read_talks(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the talks of a training text of IWSLT; titles and descriptions are left out, as in its test sets' segments.

    A talk's id is its ``talkid``. Raises UserError, naming file and line, for an unknown tag, and for text before the
    first talk.
    """
    side = Side("")
    document: Document | None = None
    for number, line in enumerate(read_lines(path), 1):
        tag, doc = _TALK.match(line), _DOC.match(line)
        if tag or doc:
            begins = (tag and tag[1] == "url" and (document is None or document.sides[side].sentences)) or (
                doc and doc[2] == "doc" and not doc[1]
            )
            if begins or document is None:
                yield from _with_text(document)
                document = Document("", path, number, {side: Text()})
            if doc and (named := _DOC_ID.search(doc[3])):
                document.id = named[1]
            if tag and tag[1] == "talkid":
                document.id = tag[2].strip()
        elif _TAG.match(line):
            raise fault(path, number, f"{line.strip()[:40]!r} is no line of tags of IWSLT; write &lt; for < in text")
        elif document is None:
            if line.strip():
                raise fault(path, number, "text before the first talk; a line with <url> or <doc> opens one")
        else:
            document.sides[side].add(path, number, unescaped(line))
    yield from _with_text(document)
