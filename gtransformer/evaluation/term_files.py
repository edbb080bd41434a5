"""Consistency of terms of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.terms import COUNTS, MOST, SCORES, consistency, make_lexicon, paired_bootstrap, ratios
from gtransformer.files import sha256
from gtransformer.preprocess.plain_text import Documents, read_plain, read_shaped

REFERENCE = "reference"  # as a system among the results


def score_files(
    source: Path, reference: Path, systems: Mapping[str, Path], training: tuple[Path, Path] | None, most: float = MOST
) -> dict:
    """The consistency of terms in the files of all systems, and in the reference, as a JSON object.

    The lexicon is of ``training``, source and target text, and of source and reference. Every system but the first is
    tested against the first. Raises UserError for what is no plain text, for files that are not aligned, and for text
    without terms.
    """
    for path in systems.values():
        if path.suffix == ".jsonl":
            raise UserError(f"{path}: plain text is needed; give the PREFIX.txt that the score command writes")
    original, marked = read_plain(source)
    if not marked:
        raise UserError(f"{source}: terms are compared within documents; put a line <d> before each")
    shape = [len(document) for document in original]
    texts = {name: read_shaped(path, shape, source) for name, path in systems.items()}
    wanted = read_shaped(reference, shape, source)
    lexicon = make_lexicon(_pairs(training, original, wanted), original, [wanted, *texts.values()])
    rows = {name: consistency(original, text, lexicon, most) for name, text in {**texts, REFERENCE: wanted}.items()}
    if not rows[REFERENCE][:, COUNTS.index("terms")].sum():
        raise UserError(
            f"{source}: no document has a term, a word of few sentences in all that several of its own hold; give "
            "longer documents, more text with --training, or a larger --max-share"
        )
    first, *others = texts
    return {
        "version": 1,
        "lexicon_sentences": lexicon.sentences,
        "max_share": most,
        "documents": len(original),
        "sha256": {str(path): sha256(path) for path in (source, reference, *systems.values(), *(training or ()))},
        "systems": {name: _scores(rows[name]) for name in texts},
        REFERENCE: _scores(rows[REFERENCE]),
        "significance": {
            name: dict(zip(SCORES, paired_bootstrap(rows[first], rows[name]).tolist(), strict=True)) for name in others
        },
    }


def _pairs(training: tuple[Path, Path] | None, *texts: Documents) -> Iterator[tuple[str, str]]:
    sides = [texts]
    if training is not None:
        ours, _ = read_plain(training[0])
        sides.append((ours, read_shaped(training[1], [len(document) for document in ours], training[0])))
    for one, other in sides:
        for document, translated in zip(one, other, strict=True):
            yield from zip(document, translated, strict=True)


def _scores(rows: np.ndarray) -> dict[str, float | int]:
    """Scores in per cent, and what was counted."""
    counts = rows.sum(axis=0)[len(SCORES) :].astype(int).tolist()
    return dict(zip(COUNTS, [*(100 * ratios(rows)).tolist(), *counts], strict=True))
