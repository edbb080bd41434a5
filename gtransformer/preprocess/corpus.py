"""The raw corpus format: two line-aligned files per split, one sentence a line, a line ``<d>`` before each document.

In a text that does not begin with ``<d>``, blank lines separate documents. In a text that begins with ``<d>``, a blank
line is an empty sentence. All commands that read text follow these rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import COMPRESSED, atomic_write, read_lines
from gtransformer.preprocess.characters import DROPPED, is_blank, one_form

BENCHMARKS = ("ted", "news", "europarl")  # the corpora of Maruf et al. (2019), which ``scripts/get_*.sh`` download
DOCUMENT = "<d>"
# How a text marks its documents.
MARKED, BLANK, SINGLE, NONE = "opened by <d>", "separated by blank lines", "one sentence each", "not marked"
# Raw name of a split -> its name in a prepared directory.
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
_RESERVED = ("<d>", "<s>", "</s>")
_NAME = re.compile(r"concatenated_([^_]+)2([^_]+)_(train|dev|test)_([^_]+)\.txt(\.xz|\.gz)?\Z")

# How files of other programs begin: SGM, XML, TMX, HTML, JSON, subtitles.
_OTHER_FORMAT = re.compile(
    r"<\?xml\b|<!DOCTYPE\b|<!--|<\w+\s[^>]*\w\s*=|<(?:url|talkid|keywords|h[1-6]|p)>.*</|<(?:html|head|body|tmx|mteval)>|"
    r"[\[{]\s*(?:[\"\[{]|$)|WEBVTT\b|(?:1\n)?\d+:\d\d:\d\d[,.]\d+ --> \d"
)

Pair = tuple[str, str]


def fault(path: str | Path, line: int, what: str) -> UserError:
    """Return the error for a line of a user's file."""
    return UserError(f"{path}, line {line}: {what}")


class NoLanguagePair(UserError):
    """A raw corpus has no files of a language pair; ``pairs`` are those that it has: "en-fr", ..."""

    def __init__(self, pairs: Sequence[str], message: str):
        super().__init__(message)
        self.pairs = pairs


def raw_file(folder: Path, langs: Sequence[str], split: str, lang: str) -> Path:
    """Return the path of a side of a split (train, dev, test); ``langs``: source and target."""
    return folder / f"concatenated_{langs[0]}2{langs[1]}_{split}_{lang}.txt"


def split_of(name: str) -> str | None:
    """Return the split (train, valid, test) of a raw file, by its name; None for other files."""
    return next((new for old, new in SPLITS.items() if f"_{old}_" in name), None)


def find_splits(raw: str | Path, source_lang: str, target_lang: str) -> dict[str, tuple[Path, Path]]:
    """Find ``concatenated_{src}2{tgt}_{split}_{lang}.txt`` (or .xz, .gz): ``{"train": (source, target), ...}``.

    Files of the opposite direction (``de2en`` for en-de) are accepted, too. Raises UserError if the directory is
    missing, has no files of the language pair or only one side of a split.
    """
    raw, langs = Path(raw), (source_lang, target_lang)
    if not raw.is_dir():
        raise UserError(f"{raw}: no such directory; give the folder that holds the raw corpus files")
    names = {path.name for path in raw.iterdir()}
    splits: dict[str, tuple[Path, Path]] = {}
    for direction in (langs, langs[::-1]):
        for old, new in SPLITS.items():
            sides = [_side(raw_file(raw, direction, old, lang), names) for lang in langs]
            present = [path.name in names for path in sides]
            if any(present) and not all(present):
                missing, other = sides[present.index(False)], sides[present.index(True)]
                raise UserError(f"{missing}: no such file, but its other side {other.name} exists; add it")
            if all(present):
                splits.setdefault(new, (sides[0], sides[1]))
    if not splits:
        pairs = sorted({f"{found[1]}-{found[2]}" for name in names if (found := _NAME.match(name))})
        have = f"it has {', '.join(pairs)}" if pairs else "it has no corpus files at all"
        wanted = raw_file(Path(), langs, "train", source_lang)
        message = f"{raw}: no files for the language pair {'-'.join(langs)} ({wanted} and so on); {have}"
        raise NoLanguagePair(pairs, message)
    return splits


def _side(plain: Path, names: set[str]) -> Path:
    """Return the file of a side, compressed or not."""
    present = (plain.with_name(plain.name + end) for end in ("", *COMPRESSED) if plain.name + end in names)
    return next(present, plain)


def is_document_mark(line: str) -> bool:
    """Return whether a raw line is ``<d>``, ignoring blanks, a carriage return and a byte order mark."""
    return line == DOCUMENT or (DOCUMENT in line and line.strip(" \t\r\ufeff") == DOCUMENT)


def check_reserved(path: str | Path, location: str, line: str) -> str:
    """Return a sentence. Raise UserError if it contains, also after cleaning, a token of the format (``<s>``).

    ``location``: of the sentence in the file, as ``line 3``.
    """
    if "<" in line:
        clean = one_form(DROPPED.sub("", line))
        for token in _RESERVED:
            if token in clean:
                raise UserError(f"{path}, {location}: {token} inside a sentence is reserved; remove or rewrite it")
    return line


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text. Raises UserError as ``read_lines`` and ``without_markup``."""
    return without_markup(read_lines(path), path)


def without_markup(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """Yield the lines of a text. Raise UserError, naming it (``name``), if it begins as another program's files do."""
    opening = ""
    for number, line in enumerate(lines, 1):
        # Subtitles begin with a number and, in the second line, a time.
        if opening.count("\n") < 2 and line.strip() and not is_document_mark(line):
            opening += f"{line.strip()}\n"
            if _OTHER_FORMAT.match(opening):
                raise fault(
                    name,
                    number,
                    f"{line.strip()[:40]!r} begins a file of another format (XML, SGM, JSON, subtitles or the like), "
                    f"not plain text; give a sentence a line, and a line {DOCUMENT} before each document or blank "
                    "lines between them",
                )
        yield line


def document_borders(path: str | Path, sentence_pairs: bool = False) -> str:
    """Return how a file marks its documents when it is read: ``MARKED``, ``BLANK`` or ``SINGLE``."""
    first = next((line for line in read_lines(path) if not is_blank(line)), "")
    return MARKED if is_document_mark(first) else SINGLE if sentence_pairs else BLANK


def read_pairs(
    source: str | Path, target: str | Path, sentence_pairs: bool = False, raw: bool = True
) -> Iterator[Pair]:
    """Yield the aligned lines of two files; the pair ``("<d>", "<d>")`` comes before each document.

    In files that do not begin with ``<d>``, lines that are blank on both sides separate documents; there must be some.
    With ``sentence_pairs`` each sentence of such files is a document. ``raw``: refuse files that are not plain text.

    Raises UserError with file and line if: the files have unequal numbers of lines; documents are not marked; a
    document is empty; ``<d>`` or a separating blank line is on one side only; a sentence contains ``<d>``, ``<s>`` or
    ``</s>``; a line is markup; bytes are not UTF-8; a file is missing or empty. Symbols such as ``[en]`` or ``<mask>``
    may occur: tokenising splits them (``tokenise.disarm``), so they cannot be mistaken for the model's own.
    """
    number, opened, borders, inside, documents = 0, 0, "", False, 0
    half_empty: tuple[str | Path, str | Path, int] | None = None  # first line with one blank side: that file, the other
    read = text_lines if raw else read_lines
    for number, (left, right) in enumerate(zip_longest(read(source), read(target)), 1):
        marks = [line is not None and is_document_mark(line) for line in (left, right)]
        if left is None or right is None or (marks[0] != marks[1] and borders):
            raise _misaligned((source, target), number, (left, right))
        blank = is_blank(left), is_blank(right)
        if not borders:
            if all(blank) and not sentence_pairs:
                continue
            if marks[0] != marks[1]:
                has, lacks = (source, target) if marks[0] else (target, source)
                raise fault(lacks, number, f"the file must begin with {DOCUMENT}, as {has} does; put that line there")
            borders = MARKED if marks[0] else SINGLE if sentence_pairs else BLANK
        if marks[0]:
            if borders != MARKED:
                raise fault(source, number, f"{DOCUMENT}, but the file does not begin with one; put it there")
            if opened and number == opened + 1:
                raise _empty(source, opened)
            opened = number
            yield DOCUMENT, DOCUMENT
            continue
        if borders == BLANK:
            if all(blank):
                inside = False
                continue
            if any(blank):
                half_empty = half_empty or (*((source, target) if blank[0] else (target, source)), number)
            if not inside:
                inside, documents = True, documents + 1
                yield DOCUMENT, DOCUMENT
        for path, line in ((source, left), (target, right)):
            check_reserved(path, f"line {number}", line)
        if borders == SINGLE:
            yield DOCUMENT, DOCUMENT
        yield left, right
    if not borders:
        raise fault(source, 1, f"the file is empty; it must begin with a line {DOCUMENT}")
    if borders == BLANK and documents == 1:
        raise fault(
            source,
            1,
            f"documents are not marked; put a line {DOCUMENT} before each, or a blank line between them on both sides, "
            "or give --sentence-pairs if the sentences belong to no documents",
        )
    if borders == BLANK and half_empty:
        path, other, number = half_empty
        raise fault(
            path,
            number,
            f"blank, but {other} has text there; documents are separated by lines that are blank on both sides; if "
            f"blank lines are empty sentences, put a line {DOCUMENT} before each document",
        )
    if number == opened:
        raise _empty(source, opened)


def _empty(path: str | Path, line: int) -> UserError:
    return fault(path, line, "the document that begins here is empty; remove this line")


def _misaligned(paths: Sequence[str | Path], number: int, lines: Sequence[str | None]) -> UserError:
    """Return the error for line ``number``: one file ends before it (None), or only one has ``<d>`` there."""
    if None in lines:
        short, longer = paths if lines[0] is None else paths[::-1]
        return fault(short, number - 1, f"the file ends here, but {longer} is longer; sides must be aligned by line")
    has, lacks = paths if is_document_mark(lines[0]) else paths[::-1]
    return fault(lacks, number, f"a sentence, but {has} has {DOCUMENT} there; sides must be aligned line by line")


def read_documents(
    source: str | Path, target: str | Path, sentence_pairs: bool = False, raw: bool = True
) -> Iterator[list[Pair]]:
    """Yield documents as lists of (source, target) sentences. Arguments and errors are those of ``read_pairs``."""
    document: list[Pair] = []
    for pair in read_pairs(source, target, sentence_pairs, raw):
        if pair[0] == DOCUMENT:
            if document:
                yield document
            document = []
        else:
            document.append(pair)
    yield document


def document_lines(documents: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines, newline included, of one side of documents in the raw corpus format."""
    for document in documents:
        yield f"{DOCUMENT}\n"
        for sentence in document:
            yield f"{sentence}\n"


def write_pairs(paths: Sequence[str | Path], documents: Iterable[list[Pair]]) -> Iterator[list[Pair]]:
    """Write both sides of documents and yield each document; after an error neither file exists."""
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(path)) for path in paths]
        for document in documents:
            for stream, side in zip(streams, zip(*document, strict=True), strict=True):
                stream.writelines(document_lines([side]))
            yield document
