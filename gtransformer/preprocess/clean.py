"""Cleaning of a raw split: remove characters that would break a line, and training pairs with an
empty side.

Validation and test sets keep every line, so that translations are aligned with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gtransformer.preprocess.characters import clean_line, is_blank
from gtransformer.preprocess.corpus import (
    Pair,
    document_borders,
    fault,
    read_documents,
    write_pairs,
)
from gtransformer.preprocess.parallel import progress

MISSING = "__NULL__"  # in TED's tables, where a translation is missing


@dataclass
class CleanReport:
    """Counts of cleaning one split.

    Attributes:
        dropped: pairs with an empty side, or TED's ``MISSING``.
        dropped_documents: documents that this emptied.
        kept_empty_source, kept_empty_target: pairs that were kept although this side is empty.
    """

    dropped: int = 0
    dropped_documents: int = 0
    documents: int = 0
    sentences: int = 0
    pairs_of_one_text: int = 0
    borders: str = ""
    kept_empty_source: int = 0
    kept_empty_target: int = 0

    def summary(self) -> str:
        """Return one line for the terminal."""
        return (
            f"{self.sentences} sentences in {self.documents} documents ({self.borders}); dropped "
            f"{self.dropped} pairs with a side that is empty or {MISSING} and "
            f"{self.dropped_documents} documents that this emptied"
        )

    def warnings(self, split: str, paths: tuple[Path, Path]) -> Iterator[str]:
        """Yield warnings of likely errors in the text; ``paths``: the raw files of the split."""
        sentences_read = self.sentences + self.dropped
        if 2 * self.pairs_of_one_text > sentences_read:
            yield (
                f"{split}: {self.pairs_of_one_text:,} of {sentences_read:,} sentences are the "
                "same on both sides; check that the files are of two languages"
            )
        if self.kept_empty_source:
            what = "they are kept and are not translated"
            yield f"{paths[0]}: {self.kept_empty_source} sentences without text; {what}"
        if self.kept_empty_target:
            what = "they are kept, and their sources are translated against an empty reference"
            yield f"{paths[1]}: {self.kept_empty_target} sentences without text; {what}"


def clean_documents(
    documents: Iterable[list[Pair]], report: CleanReport, every_line: bool = False
) -> Iterator[list[Pair]]:
    """Yield cleaned documents that are not empty; count in ``report``.

    Args:
        every_line: keep pairs with a blank side; that side becomes empty.
    """
    for document in documents:
        pairs = []
        for pair in document:
            source, target = (
                # TED's mark for a missing translation is no text; a model would learn to write it.
                "" if is_blank(line) or line == MISSING else line
                for line in map(clean_line, pair)
            )
            # Many of them are a sign that both files are of one language.
            report.pairs_of_one_text += source == target != ""
            if every_line:
                report.kept_empty_source += not source
                report.kept_empty_target += not target
            # Dev and test keep their lines, because translations are compared with them line by
            # line.
            if every_line or (source and target):
                pairs.append((source, target))
        report.dropped += len(document) - len(pairs)
        report.sentences += len(pairs)
        if pairs:
            report.documents += 1
            yield pairs
        else:
            report.dropped_documents += 1


def clean_files(
    source: str | Path,
    target: str | Path,
    outputs: tuple[str | Path, str | Path],
    label: str = "clean",
    sentence_pairs: bool = False,
    every_line: bool = False,
) -> CleanReport:
    """Clean a pair of raw files and write them in the raw corpus format, atomically.

    With ``sentence_pairs`` each sentence of files without documents becomes a document.
    ``every_line``: see ``clean_documents``. Raises UserError as ``corpus.read_documents`` does, and
    if nothing is left.
    """
    report = CleanReport(borders=document_borders(source, sentence_pairs))

    def cleaned() -> Iterator[list[Pair]]:
        documents = progress(
            read_documents(source, target, sentence_pairs), label, unit=" documents"
        )
        complete = False
        for document in clean_documents(documents, report, every_line):
            complete = complete or any(source and target for source, target in document)
            yield document
        # Raised while the files are written, so that they are removed.
        if not complete:
            raise fault(source, 1, "no sentence pair has text on both sides; check the files")

    # All counts are made on the way.
    for _ in write_pairs(outputs, cleaned()):
        pass
    return report
