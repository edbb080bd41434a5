"""The raw corpus format: two line-aligned files per split, one sentence a line, a line ``<d>`` opens a document."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import read_lines
from gtransformer.preprocess.unicode_forms import one_form

DOCUMENT = "<d>"
# Raw name of a split -> its name in a prepared directory.
SPLITS = {"train": "train", "dev": "valid", "test": "test"}
_MARKS = ("<d>", "<s>", "</s>")
DROPPED = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]+")  # control characters that cleaning drops
_NAME = re.compile(r"concatenated_([^_]+)2([^_]+)_(train|dev|test)_([^_]+)\.txt(\.xz|\.gz)?\Z")

Pair = tuple[str, str]


class NoLanguagePair(UserError):
    """A raw corpus has no files of a language pair, but of ``pairs``: "en-fr", ..."""

    def __init__(self, pairs: Sequence[str], message: str):
        super().__init__(message)
        self.pairs = pairs


def find_splits(raw: str | Path, source_lang: str, target_lang: str) -> dict[str, tuple[Path, Path]]:
    """Find ``concatenated_{src}2{tgt}_{split}_{lang}.txt`` (or .xz, .gz): ``{"train": (source, target), ...}``.

    Files of the opposite direction (``de2en`` for en-de) serve as well, being the same pairs. Raises UserError if the
    directory is missing, has nothing of the language pair, or has only one side of a split.
    """
    raw = Path(raw)
    if not raw.is_dir():
        raise UserError(f"{raw}: no such directory; give the folder that holds the raw corpus files")
    names = {path.name for path in raw.iterdir()}
    splits: dict[str, tuple[Path, Path]] = {}
    for first, second in ((source_lang, target_lang), (target_lang, source_lang)):
        for old, new in SPLITS.items():
            sides = []
            for lang in (source_lang, target_lang):
                stem = raw_file(raw, (first, second), old, lang).name
                present = [stem + end for end in ("", ".xz", ".gz") if stem + end in names]
                sides.append(raw / (present[0] if present else stem))
            present = [path.name in names for path in sides]
            if any(present) and not all(present):
                missing, other = sides[present.index(False)], sides[present.index(True)]
                raise UserError(f"{missing}: no such file, though its other side {other.name} is there; add it")
            if all(present) and new not in splits:
                splits[new] = (sides[0], sides[1])
    if not splits:
        pairs = sorted({f"{found[1]}-{found[2]}" for name in names if (found := _NAME.match(name))})
        have = f"it has {', '.join(pairs)}" if pairs else "it has no corpus files at all"
        raise NoLanguagePair(
            pairs,
            f"{raw}: no files for the language pair {source_lang}-{target_lang} "
            f"(concatenated_{source_lang}2{target_lang}_train_{source_lang}.txt and so on); {have}",
        )
    return splits


def is_document_mark(line: str) -> bool:
    """Whether a raw line is ``<d>``, blanks, a carriage return and a byte order mark set aside."""
    return line == DOCUMENT or line.strip(" \t\r\ufeff") == DOCUMENT


def raw_file(folder: Path, langs: Sequence[str], split: str, lang: str) -> Path:
    """Where a side of a split (train, dev, test) lies; ``langs``: source and target."""
    return folder / f"concatenated_{langs[0]}2{langs[1]}_{split}_{lang}.txt"


def reserved_mark(line: str) -> str | None:
    """The mark of the format that a sentence must not hold and this one does, or would when it has been cleaned."""
    if "<" not in line:
        return None
    line = one_form(DROPPED.sub("", line))
    return next((mark for mark in _MARKS if mark in line), None)


def read_pairs(source: str | Path, target: str | Path, sentence_pairs: bool = False) -> Iterator[Pair]:
    """Yield the aligned lines of two files; a document opens with the pair ``("<d>", "<d>")``.

    With ``sentence_pairs``, files that do not open with ``<d>`` hold no documents: each sentence is one.

    Raises UserError naming file and line where: the files have unequal numbers of lines; the first line is not
    ``<d>``; a document is empty; ``<d>`` stands on one side only; a sentence holds ``<d>``, ``<s>`` or ``</s>``; bytes
    are not UTF-8; a file is missing or empty. Symbols such as ``[en]`` or ``<mask>`` may occur: tokenising cuts them
    up (``tokenise.disarm``), so they cannot be mistaken for the model's own.
    """
    number, opened, single = 0, 0, False
    both = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(both, 1):
        marks = [line is not None and is_document_mark(line) for line in (left, right)]
        if left is None or right is None or (marks[0] != marks[1] and number > 1):
            _misaligned(source, target, number, left, right, both)
        single = single or (sentence_pairs and number == 1 and not any(marks))
        if number == 1 and not all(marks) and not single:
            path = target if marks[0] else source
            raise UserError(
                f"{path}, line 1: a document must open the file; put a line {DOCUMENT} before this, or give "
                "--sentence-pairs if its sentences belong to no documents"
            )
        if marks[0] and single:
            raise UserError(
                f"{source}, line {number}: {DOCUMENT}, but none opens the file; put a line {DOCUMENT} there"
            )
        if marks[0]:
            if opened and number == opened + 1:
                raise UserError(f"{source}, line {opened}: the document opened here is empty; remove this line")
            opened = number
            yield DOCUMENT, DOCUMENT
            continue
        for path, line in ((source, left), (target, right)):
            if mark := reserved_mark(line):
                raise UserError(f"{path}, line {number}: {mark} inside a sentence is reserved; remove or rewrite it")
        if single:
            yield DOCUMENT, DOCUMENT
        yield left, right
    if number == 0:
        raise UserError(f"{source}, line 1: the file is empty; it must open with a line {DOCUMENT}")
    if number == opened:
        raise UserError(f"{source}, line {opened}: the document opened here is empty; remove this line")


def _misaligned(
    source: str | Path, target: str | Path, number: int, left: str | None, right: str | None, rest: Iterator
) -> None:
    """Raise the error for line ``number``, saying rather that line counts differ, the usual cause, if they do."""
    counts = [int(left is not None), int(right is not None)]
    for pair in rest:
        counts = [count + (line is not None) for count, line in zip(counts, pair, strict=True)]
    left_total, right_total = number - 1 + counts[0], number - 1 + counts[1]
    if left_total != right_total:
        where = f"{source if left_total < right_total else target}, line {min(left_total, right_total)}"
        first = "" if left is None or right is None else f"; {DOCUMENT} first differs in line {number}"
        raise UserError(
            f"{where}: the file ends here, but {target if left_total < right_total else source} has "
            f"{max(left_total, right_total)} lines; the sides must be aligned line by line{first}"
        )
    has, lacks = (source, target) if is_document_mark(left or "") else (target, source)
    raise UserError(f"{lacks}, line {number}: a sentence where {has} has {DOCUMENT}; documents must open on both sides")


def read_documents(source: str | Path, target: str | Path, sentence_pairs: bool = False) -> Iterator[list[Pair]]:
    """Yield documents as lists of (source, target) sentences. Arguments and errors are those of ``read_pairs``."""
    document: list[Pair] = []
    for pair in read_pairs(source, target, sentence_pairs):
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


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.corpus RAW [-s en -t de]``: check a raw corpus and print its size."""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.corpus", description="Check a raw corpus.")
    parser.add_argument("raw", help="directory with concatenated_en2de_{train,dev,test}_{en,de}.txt")
    parser.add_argument("-s", "--source-lang", default="en")
    parser.add_argument("-t", "--target-lang", default="de")
    args = parser.parse_args(argv)
    for split, (source, target) in find_splits(args.raw, args.source_lang, args.target_lang).items():
        documents = sentences = 0
        for document in read_documents(source, target):
            documents, sentences = documents + 1, sentences + len(document)
        print(f"{split}: {documents} documents, {sentences} sentences")


if __name__ == "__main__":
    raise SystemExit(main())
