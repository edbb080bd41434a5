"""Training texts of IWSLT (TED talks): a sentence a line, and lines of tags before each talk.

Each language is a file of its own, and both have the same lines. The tags are ``<url>``, ``<keywords>``, ``<speaker>``,
``<talkid>``, ``<title>`` and ``<description>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import fault
from gtransformer.preprocess.formats.documents import Document, Reading, Side, Text
from gtransformer.preprocess.formats.markup import unescaped

TALK_LINES = ("url", "talkid", "keywords", "speaker")  # may begin a file
_TALK = re.compile(rf"\s*<({'|'.join(TALK_LINES)}|title|description|reviewer|translator)\b[^>]*>(.*?)</\1>\s*\Z")
_DOC = re.compile(r"\s*<(/?)(doc|transcript)\b([^>]*)>\s*\Z")
_TAG = re.compile(r"\s*</?[A-Za-z]\w*(\s[^>]*)?>")


def is_talk_line(line: str) -> bool:
    """Return whether a line is one of IWSLT's tags with its text."""
    return _TALK.match(line) is not None


def read_talks(path: Path, reading: Reading) -> Iterator[Document]:
    """Yield the talks, without titles and descriptions, which IWSLT's test sets do not translate either.

    A talk's id is its ``talkid``. Raises UserError, naming file and line, for an unknown tag, and for text before the
    first talk.
    """
    side = Side("")
    document: Document | None = None
    for number, line in enumerate(read_lines(path), 1):
        tag, doc = _TALK.match(line), _DOC.match(line)
        if tag or doc:
            begins = tag and tag[1] == "url"
            if document is None or (begins and document.sides[side].sentences):
                if document is not None:
                    yield document
                document = Document("", path, number, {side: Text()})
            if tag and tag[1] == "talkid":
                document.id = tag[2].strip()
        elif _TAG.match(line):
            raise fault(path, number, f"{line.strip()[:40]!r} is no line of tags of IWSLT; write &lt; for < in text")
        elif document is not None:
            document.sides[side].add(path, number, unescaped(line))
        elif line.strip():
            raise fault(path, number, "text before the first talk; a line with <url> or <doc> opens one")
    if document is not None and document.sides[side].sentences:
        yield document
