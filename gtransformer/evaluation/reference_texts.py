"""Texts to score against: references in files, and test sets with sources, references and outputs of systems.

A test set is a folder in WMT's layout or one file with several sides, as WMT's XML (``preprocess.formats``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.preprocess.characters import clean_line
from gtransformer.preprocess.formats import KnownDocuments, Like, detect, read
from gtransformer.preprocess.formats.documents import HYPOTHESIS, REFERENCE, SOURCE, Document, Reading, Side, check_ids
from gtransformer.preprocess.formats.wmt import layout_files
from gtransformer.preprocess.plain_text import Documents, read_plain, read_shaped


@dataclass(frozen=True)
class GivenText:
    """A translation that has been read: the file it is from, and its documents."""

    path: Path
    documents: Documents


@dataclass(frozen=True)
class References:
    """One or several references of the same documents.

    Attributes:
        path: the file of the first one.
        texts: the documents of each reference.
        borders: how the file marks documents (``corpus.MARKED`` ..., or a format).
        langs: source and target language, None if unknown.
        source: the documents of the source, None if unknown.
        scored: of a test set with documents that lack a reference: the numbers of the others, from 0.
        shape: sentences of every document of the test set.
        documents: of a test set, all its documents, whose ids may be in another file than its texts.
    """

    path: Path
    texts: list[Documents]
    borders: str
    langs: tuple[str | None, str | None] = (None, None)
    source: Documents | None = None
    scored: list[int] | None = None
    shape: tuple[int, ...] = ()
    documents: list[Document] | None = None

    @property
    def like(self) -> Like:
        """The documents that translations must have."""
        return self.path if self.documents is None else KnownDocuments(self.path, self.documents)


def read_references(paths: Sequence[Path]) -> References:
    """Read references from files, of the same shape; a file with several references counts as several.

    Raises UserError, naming file and line, for files that cannot be read or aligned.
    """
    first, *others = paths
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError(f"{first}: the same reference is given twice")
    found = [read_plain(first, side) for side in _reference_sides(first)]
    texts, borders = [text for text, _ in found], found[0][1]
    shape = [len(document) for document in texts[0]]
    for path in others:
        texts += [read_shaped(path, shape, first, side) for side in _reference_sides(path)]
    return References(first, texts, borders)


def has_hypothesis(path: Path) -> bool:
    """Return whether a file has texts of systems besides others."""
    sides = next(read(path, Reading())).sides if detect(path) else {}
    return len(sides) > 1 and any(side.role == HYPOTHESIS for side in sides)


def _reference_sides(path: Path) -> list[Side]:
    """Return the references of a file; the only text counts as one. Raises UserError for several without roles."""
    sides = _sides(list(read(path, Reading()))) if detect(path) else []
    found = [side for side in sides if side.role == REFERENCE]
    if len(sides) > 1 and not found:
        raise UserError(
            f"{path}: has {', '.join(map(str, sides))}, but does not tell which is the reference; give that text "
            "alone, as gtransformer convert writes it"
        )
    return found or [Side(REFERENCE)]


def _sides(documents: Sequence[Document]) -> list[Side]:
    """Return the sides of documents, in order."""
    return list(dict.fromkeys(side for document in documents for side in document.sides))


def _text(documents: Sequence[Document], side: Side) -> Documents:
    return [[clean_line(one) for one in document.get(side).sentences] for document in documents]


def read_test_set(
    path: Path, langs: tuple[str, str], references: Sequence[str] = (), systems: Sequence[str] | None = None
) -> tuple[References, list[tuple[str, GivenText]]]:
    """Read a test set: references, and the outputs of systems by name.

    Args:
        references, systems: names of those to read; () or None: all.

    Documents that lack a reference are not scored. Raises UserError for unknown names, listing those that there are,
    and for documents without source or output, and sides that are not aligned.
    """
    kind = detect(path)
    if kind is None:
        raise UserError(
            f"{path}: no test set; give a folder with txt/sources, references, documents and system-outputs, or WMT XML"
        )
    files = layout_files(path, "-".join(langs))[0] if path.is_dir() else {}
    documents = list(read(path, Reading(langs, systems=tuple(systems) if systems else None), kind))
    sides = [*files, *_sides(documents)]
    wanted = _named(path, sides, Side(REFERENCE, langs[1]), references)
    outputs = _named(path, sides, Side(HYPOTHESIS, langs[1]), systems)
    if not wanted:
        raise UserError(f"{path}: no reference in {langs[1]}; give references with --reference-file and texts alone")
    scored = [number for number, one in enumerate(documents) if all(side in one.sides for side in wanted)]
    if not scored:
        raise UserError(f"{path}: no document has {' and '.join(map(str, wanted))}")
    source = Side(SOURCE, langs[0])
    some = [documents[number] for number in scored]
    for document in some:
        for side in (*wanted, *outputs):
            check_ids(path, document.get(side), path, document.get(source), document.line)
    shape = tuple(len(document.get(source).sentences) for document in documents)
    return (
        References(
            files.get(wanted[0], path),
            [_text(some, side) for side in wanted],
            f"of {kind}",
            langs,
            _text(some, source),
            scored if len(scored) < len(documents) else None,
            shape,
            documents,
        ),
        [(side.name or "system", GivenText(files.get(side, path), _text(some, side))) for side in outputs],
    )


def _named(path: Path, sides: Sequence[Side], wanted: Side, names: Sequence[str] | None) -> list[Side]:
    """Return the sides of a role and language with these names, in their order; all if there are no names."""
    found = list(dict.fromkeys(side for side in sides if side.matches(wanted)))
    if not names:
        return found
    named = {side.name: side for side in found}
    for name in names:
        if name not in named:
            listed = ", ".join(named) or "none"
            raise UserError(f"{path}: no {wanted.role} {name!r} in {wanted.lang}; there are: {listed}")
    return [named[name] for name in dict.fromkeys(names)]
