"""What a translation without errors would score: text through its tokens and back, against itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU

from gtransformer.files import read_lines
from gtransformer.preprocess.corpus import DOCUMENT
from gtransformer.preprocess.parallel import map_chunks
from gtransformer.preprocess.unspaced import bleu_tokenizer

MOST = 10_000  # sentences: more say the same


def ceiling(
    text: Path, tokens: Path, lang: str, undo: Callable[[Sequence[str]], list[str]], workers: int = 1
) -> dict[str, Any]:
    """Measure how much of a split comes back from its tokens, blanks of all kinds being one.

    Args:
        text: the cleaned sentences of a language, in the raw corpus format; ``tokens``: their subwords.
        undo: subwords to plain text, as many lines as go in.

    Returns ``sentences``, how many are ``unchanged``, and the ``bleu`` (0 to 100) of the whole.
    """
    plain, cut = ((line for line in read_lines(path) if line != DOCUMENT) for path in (text, tokens))
    wanted = [" ".join(line.split()) for line in islice(plain, MOST)]
    made = [line for part in map_chunks(undo, islice(cut, MOST), workers, label="ceiling") for line in part]
    unchanged = sum(one == other for one, other in zip(wanted, made, strict=True))
    metric = BLEU(tokenize=bleu_tokenizer(lang, wanted))
    return {
        "sentences": len(wanted),
        "unchanged": unchanged,
        "bleu": round(metric.corpus_score(made, [wanted]).score, 2),
        "signature": str(metric.get_signature()),
    }


def said(split: str, lang: str, found: dict[str, Any]) -> str:
    """A line for the terminal."""
    share = found["unchanged"] / found["sentences"]
    return (
        f"{split}, {lang}: {share:.1%} of {found['sentences']:,} sentences come back from their tokens as they were; a "
        f"translation without errors would have {found['bleu']:.2f} BLEU"
    )
