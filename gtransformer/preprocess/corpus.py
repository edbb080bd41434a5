"""The raw corpus format: two line-aligned files per split, one sentence a line, a line ``<d>``
before each document.

In a text that does not begin with ``<d>``, blank lines separate documents. In a text that begins
with ``<d>``, a blank line is an empty sentence. All commands that read text follow these rules.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.files import atomic_write, either_form, read_lines
from gtransformer.preprocess.characters import DROPPED, is_blank, one_form

DOCUMENT = "<d>"
# How a text marks its documents.
MARKED, BLANK, SINGLE, NONE = (
    "opened by <d>",
    "separated by blank lines",
    "one sentence each",
    "not marked",
)
# Raw name of a split -> its name in a prepared directory.
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
_RESERVED = ("<d>", "<s>", "</s>")

# How files of other programs begin: SGM, XML, TMX, HTML, JSON, subtitles.
_OTHER_FORMAT = re.compile(
    r"<\?xml\b|<!DOCTYPE\b|<!--|<\w+\s[^>]*\w\s*=|"  # markup with attributes
    r"<(?:url|talkid|keywords|h[1-6]|p)>.*</|"
    r"<(?:html|head|body|tmx|mteval)>|<(?:div|table|ul|ol|resources|doc|dataset)>\n|"  # markup
    r"\[\s*(?:[\"{]|$)|\{\s*(?:\"|$)|msgid \"|msgctxt \"|"  # JSON, gettext's PO
    r"\"[^\"]+\"\s*=\s*\".*\";$|"  # Apple's strings
    r"(?:[\w-]+(?:\.[\w-]+)+\s*=.*\n){2}|"  # Java's properties
    r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}|(?:\d+\n)?\d+:\d\d:\d\d[,.]\d+ --> \d",  # subtitles
    re.IGNORECASE,
)

_NOT_PLAIN = (
    "begins a file of another format, not plain text with a sentence a line; gtransformer convert "
    "files reads XML, SGM, TMX, TSV and subtitles (.srt, .vtt, .ass); of JSON take a field, as "
    "jq -r .translation"
)

Pair = tuple[str, str]
LeftOut = defaultdict[str, list[str]]  # names of what a reader left out, by kind


def fault(path: str | Path, line: int, what: str) -> UserError:
    """Return the error for a line of a user's file."""
    return UserError(f"{path}, line {line}: {what}")


def raw_file(folder: Path, langs: Sequence[str], split: str, lang: str) -> Path:
    """Return the path of a side of a split (train, dev, test); ``langs``: source and target."""
    return folder / f"concatenated_{langs[0]}2{langs[1]}_{split}_{lang}.txt"


def find_splits(
    raw: str | Path, source_lang: str, target_lang: str
) -> dict[str, tuple[Path, Path]]:
    """Find the files of a raw corpus, compressed or not: ``{"train": (source, target), ...}``.

    Files of the opposite direction (``de2en`` for en-de) are accepted, too. So are those of ISO
    639-1 (``en``) for a pretrained model's codes (``en_XX``), if these have none. Raises UserError
    if the directory is missing, has no files of the language pair or only one side of a split.
    """
    raw, langs = Path(raw), (source_lang, target_lang)
    if not raw.is_dir():
        raise UserError(
            f"{raw}: no such directory; give the folder that holds the raw corpus files"
        )
    splits: dict[str, tuple[Path, Path]] = {}
    short = two_letters(source_lang), two_letters(target_lang)
    # Few files are named by codes such as en_XX. But pt_PT and pt_BR would both be pt.
    for pair in (langs, short) if short[0] != short[1] else (langs,):
        # A corpus serves both directions, as fairseq's binaries do.
        for direction in (pair, pair[::-1]):
            for old, new in SPLITS.items():
                sides = [either_form(raw_file(raw, direction, old, lang)) for lang in pair]
                present = [path.is_file() for path in sides]
                if any(present) and not all(present):
                    missing, other = sides[present.index(False)], sides[present.index(True)]
                    raise UserError(
                        f"{missing}: no such file, but its other side {other.name} exists; add it"
                    )
                if all(present):
                    splits.setdefault(new, (sides[0], sides[1]))
        if splits:
            return splits
    names = sorted(path.name for path in raw.iterdir())
    example = raw_file(Path(), langs, "train", source_lang)
    raise UserError(
        f"{raw}: no files for the language pair {'-'.join(langs)} ({example} and so on); it has "
        f"{', '.join(names[:8]) or 'no files at all'}"
    )


def is_document_mark(line: str) -> bool:
    """Return whether a raw line is ``<d>``, ignoring blanks and a byte order mark."""
    return line == DOCUMENT or (DOCUMENT in line and line.strip(" \t\r\ufeff") == DOCUMENT)


def check_reserved(path: str | Path, location: str, line: str) -> str:
    """Return a sentence. Raise UserError if it contains, also after cleaning, a token of the format
    (``<s>``).

    ``location``: of the sentence in the file, as ``line 3``.
    """
    if "<" in line:
        # Cleaning comes later and could make such a token of a line that has none: <s, an invisible
        # character, >.
        clean = one_form(DROPPED.sub("", line))
        for token in _RESERVED:
            if token in clean:
                raise UserError(
                    f"{path}, {location}: {token} inside a sentence is reserved; remove or rewrite "
                    "it"
                )
    return line


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text. Raises UserError as ``read_lines`` and ``without_markup``."""
    return without_markup(read_lines(path), path)


def without_markup(lines: Iterable[str], name: str | Path) -> Iterator[str]:
    """Yield the lines of a text. Raise UserError, naming it (``name``), if it begins as another
    program's files do.
    """
    opening = ""
    for number, line in enumerate(lines, 1):
        # Subtitles begin with a number and, in the second line, a time; PO files with comments.
        is_text = line.strip() and not line.startswith("#") and not is_document_mark(line)
        if is_text and opening.count("\n") < 2:
            opening += f"{line.strip()}\n"
            if _OTHER_FORMAT.match(opening):
                raise fault(name, number, f"{line.strip()[:40]!r} {_NOT_PLAIN}")
        yield line


def document_borders(path: str | Path, sentence_pairs: bool = False) -> str:
    """Return how a file marks its documents: ``MARKED``, ``BLANK`` or ``SINGLE``."""
    # Some files begin with an empty line.
    first = next((line for line in read_lines(path) if not is_blank(line)), "")
    return MARKED if is_document_mark(first) else SINGLE if sentence_pairs else BLANK


def read_documents(
    source: str | Path, target: str | Path, sentence_pairs: bool = False, raw: bool = True
) -> Iterator[list[Pair]]:
    """Yield the documents of two files that are aligned by line, as lists of (source, target)
    sentences.

    In files that do not begin with ``<d>``, lines that are blank on both sides separate documents;
    there must be some. With ``sentence_pairs`` each sentence of such files is a document. ``raw``:
    refuse files that are not plain text.

    Documents without sentences are passed over.

    Raises UserError with file and line if: the files have unequal numbers of lines; documents are
    not marked; ``<d>`` or a separating blank line is on one side only; a sentence contains ``<d>``,
    ``<s>`` or ``</s>``; a file is of another format, not UTF-8, missing or empty. Symbols such as
    ``[en]`` or ``<mask>`` may occur: they are split (``pieces.as_tokens``), so they cannot be
    mistaken for the model's own.
    """
    # The source alone decides, so that the two sides are not read by different rules.
    borders = document_borders(source, sentence_pairs)
    read = text_lines if raw else read_lines
    document: list[Pair] = []
    documents = 0
    opened = False  # by the first <d>
    # Not zip(strict=True): the message tells which file ends, and where.
    for number, (left, right) in enumerate(zip_longest(read(source), read(target)), 1):
        if left is None or right is None:
            short, longer = (source, target) if left is None else (target, source)
            raise fault(
                short,
                number - 1,
                f"the file ends here, but {longer} is longer; sides must be aligned by line",
            )
        if borders != MARKED and (is_document_mark(left) or is_document_mark(right)):
            raise fault(
                source,
                1,
                f"a text with lines {DOCUMENT} must begin with one, on both sides; put it there",
            )
        is_border = _is_border((source, target), number, (left, right), borders)
        if document and (is_border or borders == SINGLE):
            documents += 1
            yield document
            document = []
        if is_border:
            opened = True
            continue
        if borders == MARKED and not opened:  # in the source nothing but blank lines
            if not is_blank(right):
                raise fault(
                    target,
                    number,
                    f"text before the first {DOCUMENT}; sides must be aligned by line",
                )
            continue
        for path, line in ((source, left), (target, right)):
            check_reserved(path, f"line {number}", line)
        document.append((left, right))
    if document:
        documents += 1
        yield document
    if not documents:
        raise fault(source, 1, f"the file is empty; it must begin with a line {DOCUMENT}")
    if borders == BLANK and documents == 1:
        raise fault(
            source,
            1,
            f"documents are not marked; put a line {DOCUMENT} before each, or a blank line "
            "between them on both sides, or give --sentence-pairs if the sentences belong to no "
            "documents",
        )


def _is_border(paths: tuple[str | Path, str | Path], number: int, pair: Pair, borders: str) -> bool:
    """Return whether a line separates documents. Raise UserError if it does on one side only."""
    if borders == SINGLE:
        return False
    test = is_document_mark if borders == MARKED else is_blank
    left, right = test(pair[0]), test(pair[1])
    if left != right:
        has, lacks = paths if left else paths[::-1]
        if borders == MARKED:
            raise fault(
                lacks,
                number,
                f"a sentence, but {has} has {DOCUMENT} here; sides must be aligned by line",
            )
        what = f"if blank lines are empty sentences, put a line {DOCUMENT} before each document"
        raise fault(
            has, number, f"blank, which separates documents, but {lacks} has text here; {what}"
        )
    return left


def document_lines(documents: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines, newline included, of one side of documents in the raw corpus format."""
    for document in documents:
        yield f"{DOCUMENT}\n"
        for sentence in document:
            yield f"{sentence}\n"


def write_pairs(
    paths: Sequence[str | Path], documents: Iterable[list[Pair]]
) -> Iterator[list[Pair]]:
    """Write both sides of documents and yield each document; after an error neither file exists."""
    with ExitStack() as stack:
        streams = [stack.enter_context(atomic_write(path)) for path in paths]
        for document in documents:
            for stream, side in zip(streams, zip(*document, strict=True), strict=True):
                stream.writelines(document_lines([side]))
            yield document
