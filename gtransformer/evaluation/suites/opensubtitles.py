"""The sentences around a ContraPro example, from the documents of OpenSubtitles2018 (one segment a line)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_lines

# Where the side LANG of document ID may lie below the directory; each may be compressed, too.
PATTERNS = ("{id}.{lang}", "{id}_{lang}", "{lang}/{id}", "{id}/{lang}")
ENDINGS = ("", ".txt", ".xz", ".gz", ".txt.xz", ".txt.gz")


class Subtitles:
    """The documents of one language pair; the last one read is remembered, as examples come by document."""

    def __init__(self, folder: str | Path, langs: tuple[str, str] = ("en", "de")):
        self.folder, self.langs = Path(folder), langs
        if not self.folder.is_dir():
            raise UserError(f"{self.folder}: no such directory; give the documents of OpenSubtitles2018")
        self._read: dict[str, list[tuple[str, str]]] = {}

    def lines(self, identity: str) -> list[tuple[str, str]]:
        """The aligned segments of a document; UserError if a side is missing or their numbers of lines differ."""
        if identity not in self._read:
            sides = [[line.strip() for line in read_lines(self._path(identity, lang))] for lang in self.langs]
            if len(sides[0]) != len(sides[1]):
                raise UserError(
                    f"{self._path(identity, self.langs[1])}: {len(sides[1])} lines, but {len(sides[0])} in "
                    f"{self._path(identity, self.langs[0])}; the two must be aligned line by line"
                )
            self._read = {identity: list(zip(*sides, strict=True))}
        return self._read[identity]

    def _path(self, identity: str, lang: str) -> Path:
        for pattern in PATTERNS:
            for ending in ENDINGS:
                path = self.folder / (pattern.format(id=identity, lang=lang) + ending)
                if path.is_file():
                    return path
        raise UserError(
            f"{self.folder / f'{identity}.{lang}'}: no such file; the documents are looked for as "
            f"{', '.join(pattern.format(id='ID', lang='LANG') for pattern in PATTERNS)} by their 'document id'"
        )


def find_base(documents: Subtitles, places: Sequence[tuple[str, int, str]]) -> int:
    """Whether segment ids count from 1 or from 0: under which more segments are the line they name.

    ``places`` are (document id, segment id, source segment). Raises UserError if most segments are found under neither:
    the documents are then not those that the suite was made from.
    """
    found = {1: 0, 0: 0}
    for identity, segment, text in places:
        lines = documents.lines(identity)
        for base in found:
            index = segment - base
            found[base] += 0 <= index < len(lines) and lines[index][0].split() == text.split()
    base = max(found, key=lambda key: found[key])
    if 2 * found[base] <= len(places):
        raise UserError(
            f"{documents.folder}: only {found[base]} of {len(places)} segments are the line that their 'segment id' "
            "names; give the OpenSubtitles2018 documents that ContraPro was made from, one segment a line"
        )
    return base


def context_around(
    documents: Subtitles, identity: str, index: int, before: int, behind: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Up to so many pairs of segments before line ``index`` (from 0) of a document, and behind it.

    Those empty on both sides are left out. A line that the document does not have has no context.
    """
    lines = documents.lines(identity)
    if not 0 <= index < len(lines):
        return [], []
    earlier, later = ([pair for pair in part if any(pair)] for part in (lines[:index], lines[index + 1 :]))
    return earlier[max(0, len(earlier) - before) :], later[:behind]
