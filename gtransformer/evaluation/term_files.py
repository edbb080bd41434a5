"""Consistency of terms of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.terms import COUNTS, MOST, SCORES, consistency, differences, make_lexicon, ratios
from gtransformer.files import sha256
from gtransformer.preprocess.corpus import NONE
from gtransformer.preprocess.plain_text import Documents, read_plain, read_shaped

REFERENCE = "reference"  # as a system among the results


def score_files(
    source: Path, reference: Path, systems: Mapping[str, Path], training: tuple[Path, Path] | None, most: float = MOST
) -> dict:
    """The consistency of terms in the files of all systems, and in the reference, as a JSON object.

    The lexicon is of ``training``, source and target text, alone: with the test set in it, the best translation of a
    rare term would be whatever the reference has, and who differs from that, even if always alike, would have none.
    Without ``training`` it is of source and reference, for want of others. Every system but the first is tested
    against the first. Raises UserError for what is no plain text, for files that are not aligned, and for text without
    terms.
    """
    for path in systems.values():
        if path.suffix == ".jsonl":
            raise UserError(f"{path}: plain text is needed; give the PREFIX.txt that the score command writes")
    original, borders = read_plain(source)
    if borders == NONE:
        raise UserError(
            f"{source}: terms are compared within documents; put a line <d> before each, or blank lines between them"
        )
    shape = [len(document) for document in original]
    texts = {name: read_shaped(path, shape, source) for name, path in systems.items()}
    wanted = read_shaped(reference, shape, source)
    pairs = _pairs((original, wanted) if training is None else _read(*training))
    lexicon = make_lexicon(pairs, original, [wanted, *texts.values()], most)
    rows = {name: consistency(original, text, lexicon, most) for name, text in {**texts, REFERENCE: wanted}.items()}
    if not rows[REFERENCE][:, COUNTS.index("terms")].sum():
        raise UserError(
            f"{source}: no document has a term, a word of few sentences in all that several of its own hold; give "
            "longer documents, more text with --training, or a larger --max-share"
        )
    first, *others = texts
    return {
        "version": 3,
        "lexicon_sentences": lexicon.sentences,
        "max_share": most,
        "documents": len(original),
        "borders": borders,
        "sha256": {str(path): sha256(path) for path in (source, reference, *systems.values(), *(training or ()))},
        "systems": {name: _scores(rows[name]) for name in texts},
        REFERENCE: _scores(rows[REFERENCE]),
        "significance": {
            name: {key: found.to_json() for key, found in differences(rows[first], rows[name]).items()}
            for name in others
        },
    }


def _read(source: Path, target: Path) -> tuple[Documents, Documents]:
    ours, _ = read_plain(source)
    return ours, read_shaped(target, [len(document) for document in ours], source)


def _pairs(sides: tuple[Documents, Documents]) -> list[tuple[str, str]]:
    return [pair for documents in zip(*sides, strict=True) for pair in zip(*documents, strict=True)]


def _scores(rows: np.ndarray) -> dict[str, float | int]:
    """Scores in per cent, and what was counted."""
    counts = rows.sum(axis=0)[len(SCORES) :].astype(int).tolist()
    return dict(zip(COUNTS, [*(100 * ratios(rows)).tolist(), *counts], strict=True))
