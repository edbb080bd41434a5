"""Cleaning a raw split: characters that would break a line go, and from a training set pairs with an empty side.

Text that is translated keeps every line, so that its translation lines up with it.
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gtransformer.errors import UserError, cli_main
from gtransformer.files import atomic_write, read_lines
from gtransformer.preprocess.corpus import (
    DROPPED,
    MARKED,
    Pair,
    document_borders,
    document_lines,
    is_blank,
    is_document_mark,
    read_documents,
)
from gtransformer.preprocess.parallel import progress
from gtransformer.preprocess.unicode_forms import one_form

# What some program takes for the end of a line: vertical tab, form feed, the ASCII separators, next line, line and
# paragraph separator. They become blanks, as do tabs; other control characters say nothing and are dropped.
_BREAKS = re.compile("[\t\x0b\x0c\x1c-\x1f\x85\u2028\u2029]+")
_ANY = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_ENTITY = re.compile(r"&(?:quot|apos|amp|lt|gt|nbsp|#\d+|#x[0-9a-fA-F]+);")
MANY = 0.01  # of a corpus's lines: more are no accident
WHOLE = (0, 1)  # the share of a corpus that is all of it


@dataclass
class CleanReport:
    """What cleaning found in one split and what it left.

    ``empty``: of text that keeps its lines, (line of the raw file, whether the source is empty, whether the target is).
    ``first``: the line of the raw file with which the first document opens.
    """

    documents_read: int = 0
    sentences_read: int = 0
    dropped_empty_source: int = 0
    dropped_empty_target: int = 0
    dropped_empty_both: int = 0
    dropped_documents: int = 0
    lines_with_carriage_return: int = 0
    lines_with_control_character: int = 0
    documents: int = 0
    sentences: int = 0
    lines_encoded_twice: int = 0
    lines_escaped: int = 0
    pairs_of_one_text: int = 0
    borders: str = ""
    first: int = 1
    empty: list[tuple[int, bool, bool]] = field(default_factory=list)

    def summary(self) -> str:
        """One line for the terminal."""
        empty = self.dropped_empty_source + self.dropped_empty_target + self.dropped_empty_both
        return (
            f"{self.sentences} sentences in {self.documents} documents ({self.borders}); dropped "
            f"{empty} pairs with an empty side and {self.dropped_documents} documents that this emptied; kept "
            f"{len(self.empty)}; {self.lines_with_carriage_return} lines had carriage returns inside, "
            f"{self.lines_with_control_character} other control characters"
        )

    def warnings(self) -> Iterator[str]:
        """What looks wrong with many lines and cannot be put right here."""
        for count, what in (
            (
                self.lines_encoded_twice,
                "look like UTF-8 that was read as Latin-1 and encoded again ('MÃ¤dchen'); decode",
            ),
            (self.lines_escaped, "hold escaped characters ('&quot;', '&amp;'), which would be words; unescape"),
        ):
            if count > MANY * 2 * self.sentences_read:
                yield f"{count:,} of {2 * self.sentences_read:,} lines {what} the text"
        if 2 * self.pairs_of_one_text > self.sentences_read:
            yield (
                f"{self.pairs_of_one_text:,} of {self.sentences_read:,} sentences are the same on both sides; check "
                "that the files are of two languages"
            )


def is_encoded_twice(line: str) -> bool:
    """Whether a line's letters are the bytes of UTF-8, each of them taken for a letter."""
    if line.isascii():
        return False
    for encoding in ("cp1252", "latin-1"):
        with contextlib.suppress(UnicodeError):
            line.encode(encoding).decode("utf-8")
            return True
    return False


def clean_line(line: str) -> str:
    """A sentence on one line, in one form of Unicode, without control characters and blanks at its ends."""
    if _ANY.search(line):
        line = DROPPED.sub("", _BREAKS.sub(" ", line.rstrip("\r").replace("\r", " ")))
    return one_form(line).strip()


def clean_documents(
    documents: Iterable[list[Pair]], report: CleanReport, share: tuple[int, int] = WHOLE, every_line: bool = False
) -> Iterator[list[Pair]]:
    """Yield the cleaned documents that have sentences left, counting in ``report``.

    ``share`` (i, n): of these documents every n-th, from the i-th on, as if there were no others. ``every_line``: a
    side of which nothing can be seen becomes an empty one, and the pair is kept.
    """
    number, (own, shards) = 0, share
    marks = report.borders == MARKED
    for document in documents:
        if number % shards != own:
            number += any(not is_blank(clean_line(one)) and not is_blank(clean_line(other)) for one, other in document)
            continue
        report.documents_read += 1
        report.sentences_read += len(document)
        kept = []
        for pair in document:
            report.pairs_of_one_text += pair[0] == pair[1] and not is_blank(pair[0])
            for line in pair:
                report.lines_encoded_twice += is_encoded_twice(line)
                report.lines_escaped += "&" in line and bool(_ENTITY.search(line))
                if _ANY.search(line):
                    report.lines_with_carriage_return += "\r" in line
                    report.lines_with_control_character += bool(_ANY.search(line.replace("\r", "").replace("\t", "")))
            source, target = clean_line(pair[0]), clean_line(pair[1])
            no_source, no_target = is_blank(source), is_blank(target)
            if every_line and (no_source or no_target):
                line = report.sentences_read - len(document) + report.documents_read * marks + len(kept) + report.first
                report.empty.append((line, no_source, no_target))
                kept.append(("" if no_source else source, "" if no_target else target))
                continue
            report.dropped_empty_both += no_source and no_target
            report.dropped_empty_source += no_source and not no_target
            report.dropped_empty_target += no_target and not no_source
            if not (no_source or no_target):
                kept.append((source, target))
        if kept:
            number += 1
            report.documents += 1
            report.sentences += len(kept)
            yield kept
        else:
            report.dropped_documents += 1


def clean_files(
    source: str | Path,
    target: str | Path,
    source_output: str | Path,
    target_output: str | Path,
    label: str = "clean",
    sentence_pairs: bool = False,
    share: tuple[int, int] = WHOLE,
    every_line: bool = False,
) -> CleanReport:
    """Clean a pair of raw files into two others in the format of documents, both written whole or not at all.

    With ``sentence_pairs`` each sentence of files that hold no documents becomes one. ``share``, ``every_line``: see
    ``clean_documents``. Raises UserError as ``corpus.read_pairs`` does, and if nothing is left.
    """
    report = CleanReport(borders=document_borders(source, sentence_pairs))
    if report.borders == MARKED:
        report.first = next(number for number, line in enumerate(read_lines(source), 1) if is_document_mark(line))
    with atomic_write(source_output) as source_stream, atomic_write(target_output) as target_stream:
        documents = read_documents(source, target, sentence_pairs)
        for document in clean_documents(progress(documents, label, unit=" documents"), report, share, every_line):
            source_stream.writelines(document_lines([[pair[0] for pair in document]]))
            target_stream.writelines(document_lines([[pair[1] for pair in document]]))
        if not report.sentences and share[0]:
            raise UserError(
                f"{source}: has no {share[0] + 1} documents for as many shards; give a smaller N (--shard I/N)"
            )
        if report.sentences == len(report.empty):
            raise UserError(f"{source}, line 1: no sentence pair has text on both sides; check the files")
    return report


@cli_main
def main(argv: list[str] | None = None) -> None:
    """``python -m gtransformer.preprocess.clean SOURCE TARGET SOURCE_OUTPUT TARGET_OUTPUT``"""
    parser = argparse.ArgumentParser(prog="gtransformer.preprocess.clean", description="Clean a pair of raw files.")
    for name in ("source", "target", "source_output", "target_output"):
        parser.add_argument(name)
    args = parser.parse_args(argv)
    report = clean_files(args.source, args.target, args.source_output, args.target_output)
    for name, value in asdict(report).items():
        print(f"{name}\t{value}")


if __name__ == "__main__":
    raise SystemExit(main())
