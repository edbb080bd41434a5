"""Scores of a translation by document and by position of the sentence in its document."""

from __future__ import annotations

from gtransformer.evaluation.contrastive import bucket_name
from gtransformer.evaluation.levels import check_metrics
from gtransformer.evaluation.metrics import BLEU_LC
from gtransformer.evaluation.segments import Segments

# Positions in a document, from 1: (first, last) of each row; the last row is open.
POSITIONS = ((1, 1), (2, 2), (3, 3), (4, 6), (7, 12), (13, 24), (25, 48), (49, None))
KEYS = {"bleu": "s_bleu", BLEU_LC: "s_bleu_lc", "chrf": "chrf", "ter": "ter"}
OF_DOCUMENTS = {"bleu": "d_bleu", BLEU_LC: "d_bleu_lc"}


def position_name(position: int) -> str:
    """The row that a position belongs to: ``"1"``, ``"4-6"``, ``"49+"`` ..."""
    return bucket_name(position, POSITIONS)


def by_document(segments: Segments, metrics: tuple[str, ...]) -> list[dict]:
    """Per document: its number (from 0), its sentences, s-BLEU, chrF and TER over these, d-BLEU of the whole.

    And both BLEU scores lower-cased, if asked for.
    """
    groups: dict[int, list[int]] = {}
    for index, (document, _) in enumerate(segments.places):
        groups.setdefault(document, []).append(index)
    rows = _rows(segments, metrics, [groups[number] for number in segments.numbers])
    for name in (name for name in OF_DOCUMENTS if name in metrics):
        whole = segments.statistics(name, "documents")
        for index, row in enumerate(rows):
            row[OF_DOCUMENTS[name]] = whole.score([index])
    return [{"document": number, **row} for number, row in zip(segments.numbers, rows, strict=True)]


def by_position(segments: Segments, metrics: tuple[str, ...]) -> list[dict]:
    """Per range of positions in the document, counted from 1: the sentences there, and scores over them alone.

    Whether sentences deep in a document gain from context, or suffer from its length, shows here.
    """
    groups: dict[str, list[int]] = {}
    for index in sorted(range(len(segments.places)), key=lambda index: segments.places[index][1]):
        groups.setdefault(position_name(segments.places[index][1]), []).append(index)
    rows = _rows(segments, metrics, list(groups.values()))
    return [{"position": name, **row} for name, row in zip(groups, rows, strict=True)]


def _rows(segments: Segments, metrics: tuple[str, ...], groups: list[list[int]]) -> list[dict]:
    check_metrics(metrics)
    rows: list[dict] = [{"sentences": len(group)} for group in groups]
    for name in metrics:
        statistics = segments.statistics(name, "sentences")
        for row, group in zip(rows, groups, strict=True):
            row[KEYS[name]] = statistics.score(group)
    return rows
