"""Cleaning of a raw split: remove characters that would break a line, and training pairs with an empty side.

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


@dataclass
class CleanReport:
    """Counts of cleaning one split.

    ``kept_incomplete``: pairs with an empty side that were kept.
    """

    documents_read: int = 0
    sentences_read: int = 0
    dropped_empty_source: int = 0
    dropped_empty_target: int = 0
    dropped_empty_both: int = 0
    dropped_documents: int = 0
    documents: int = 0
    sentences: int = 0
    pairs_of_one_text: int = 0
    borders: str = ""
    kept_incomplete: int = 0
    kept_empty_source: int = 0
    kept_empty_target: int = 0

    def summary(self) -> str:
        """Return one line for the terminal."""
        empty = self.dropped_empty_source + self.dropped_empty_target + self.dropped_empty_both
        return (
            f"{self.sentences} sentences in {self.documents} documents ({self.borders}); dropped "
            f"{empty} pairs with an empty side and {self.dropped_documents} documents that this emptied; kept "
            f"{self.kept_incomplete}"
        )

    def warnings(self, split: str, paths: tuple[Path, Path]) -> Iterator[str]:
        """Yield warnings of likely errors in the text; ``paths``: the raw files of the split."""
        if 2 * self.pairs_of_one_text > self.sentences_read:
            yield (
                f"{split}: {self.pairs_of_one_text:,} of {self.sentences_read:,} sentences are the same on both sides; "
                "check that the files are of two languages"
            )
        if self.kept_empty_source:
            yield f"{paths[0]}: {self.kept_empty_source} sentences without text; they are kept and are not translated"
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
        report.documents_read += 1
        kept = []
        for pair in document:
            report.sentences_read += 1
            source, target = clean_line(pair[0]), clean_line(pair[1])
            no_source, no_target = is_blank(source), is_blank(target)
            report.pairs_of_one_text += source == target and not no_source
            if not (no_source or no_target):
                kept.append((source, target))
            elif every_line:
                report.kept_incomplete += 1
                report.kept_empty_source += no_source
                report.kept_empty_target += no_target
                kept.append(("" if no_source else source, "" if no_target else target))
            else:
                report.dropped_empty_both += no_source and no_target
                report.dropped_empty_source += no_source and not no_target
                report.dropped_empty_target += no_target and not no_source
        if kept:
            report.documents += 1
            report.sentences += len(kept)
            yield kept
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

    With ``sentence_pairs`` each sentence of files without documents becomes a document. ``every_line``: see
    ``clean_documents``. Raises UserError as ``corpus.read_documents`` does, and if nothing is left.
    """
    report = CleanReport(borders=document_borders(source, sentence_pairs))

    def cleaned() -> Iterator[list[Pair]]:
        documents = progress(read_documents(source, target, sentence_pairs), label, unit=" documents")
        yield from clean_documents(documents, report, every_line)
        # Raised while the files are written, so that they are removed.
        if report.sentences == report.kept_incomplete:
            raise fault(source, 1, "no sentence pair has text on both sides; check the files")

    for _ in write_pairs(outputs, cleaned()):
        pass
    return report
