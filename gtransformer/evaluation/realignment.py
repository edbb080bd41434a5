"""Resegment translations whose number of sentences differs from the reference's, by minimal word
edit distance.

This is the method of mwerSegmenter (Matusov et al. 2005). The words of a document are cut into as
many sentences as the reference has. The cuts minimise the sum of the sentences' edit distances
(insertions, deletions and substitutions of words, 1 each). That minimum is the edit distance of the
whole document, so one dynamic programme over its words finds it. Among several optima, the one with
most cuts at the translation's own boundaries is taken, then the earliest (our choice).

In languages without blanks a word is a character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from gtransformer.data.unspaced import SIGNS
from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import UNSPACED
from gtransformer.preprocess.plain_text import Documents, divided, placed, read_sentences

ORDER, MWER = ALIGNMENTS = (
    "order",
    "mwer",
)  # how sentences are aligned if their number differs from the source's
INFINITE_COST = 1 << 60  # larger than any path's cost


def cut_points(
    words: Sequence[str], references: Sequence[Sequence[str]], own: Sequence[int] = ()
) -> list[int]:
    """Return where to cut ``words``: (sentences + 1) positions from 0 to len(words); sentence k is
    between cuts k and k + 1.

    Args:
        words: of a document's translation.
        references: the words of each sentence.
        own: positions of the translation's own sentence boundaries.

    The result is exact. Time is O(words * reference words), memory O(words * sentences).
    """
    count, least = len(words), len(words) + 1
    # One number encodes a path: edits, then cuts not at own boundaries, then the start of the
    # current sentence.
    edit = least * (len(references) + 1)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    given = np.array([numbers[word] for word in words], dtype=np.int64)
    positions = np.arange(least, dtype=np.int64)
    inserted = positions * edit
    strange = np.full(least, least, dtype=np.int64)
    strange[[0, count, *own]] = 0
    begins = np.empty((len(references), least), dtype=np.int32)
    path = np.full(least, INFINITE_COST, dtype=np.int64)
    path[0] = 0

    def with_insertions(path: np.ndarray) -> np.ndarray:
        """Extend paths by inserted words, which are aligned to no reference word."""
        return np.minimum.accumulate(path - inserted) + inserted

    for number, sentence in enumerate(references):
        path = with_insertions(path)
        for word in sentence:
            aligned = path[:-1] + edit * (given != numbers.get(word, -1))
            path += edit
            path[1:] = np.minimum(path[1:], aligned)
            path = with_insertions(path)
        begins[number] = path % least
        path = path - begins[number] + strange + positions
    found = [count]
    for row in begins[::-1]:
        found.append(int(row[found[-1]]))
    return found[::-1]


def realign(
    sentences: Sequence[str], references: Sequence[str], tokenizer: str = "13a"
) -> list[str]:
    """Return the text of ``sentences`` cut into ``len(references)`` sentences; some may be empty,
    no word is lost.

    Words are separated by white space; with sacrebleu's tokenisers for languages without it, each
    character of their scripts is one, and Latin words and numbers stay whole.
    """
    word = re.compile(rf"[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s]" if tokenizer in UNSPACED else r"\S+")
    text = " ".join(sentences)
    spans = [found.span() for found in word.finditer(text)]
    own = list(accumulate(len(word.findall(sentence)) for sentence in sentences))
    cuts = cut_points(
        word.findall(text), [word.findall(reference) for reference in references], own
    )
    return [
        text[spans[first][0] : spans[last - 1][1]] if last > first else ""
        for first, last in pairwise(cuts)
    ]


def read_any_number(path: str | Path, shape: list[int], like: Path) -> Documents:
    """Return documents of plain text that may have other numbers of sentences than ``shape``, those
    of a reference.

    Documents start with ``<d>`` or are separated by blank lines. Without these, the file has as
    many lines as the reference. Raises UserError otherwise. ``like``: the reference's file.
    """
    lines = read_sentences(path)  # once: it may be a pipe
    if len(lines) == sum(shape) and None not in lines:
        return placed(path, lines, shape, like)
    documents, _ = divided(path, lines)
    if len(documents) != len(shape):
        raise UserError(
            f"{path}: {len(documents)} document(s), but {like} has {len(shape)}; sentences can be "
            "aligned within "
            "documents only, so open each by a line <d>"
        )
    return documents
