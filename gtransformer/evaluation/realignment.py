"""Resegment translations whose number of sentences differs from the reference's, by minimal word edit distance.

This is the method of mwerSegmenter (Matusov et al. 2005). The words of a document are cut into as many sentences as the
reference has. The cuts minimise the sum of the sentences' edit distances (insertions, deletions and substitutions of
words, 1 each). That minimum is the edit distance of the whole document, so one dynamic programme over its words finds
it. Among several optima, the one with most cuts at the translation's own boundaries is taken, then the earliest (our
choice).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import UNSPACED
from gtransformer.preprocess.corpus import BLANK, NONE
from gtransformer.preprocess.formats.documents import Side
from gtransformer.preprocess.plain_text import ANY, Documents, read_plain, read_sentences, read_shaped

ORDER, MWER = ALIGNMENTS = ("order", "mwer")
MAX_BYTES = 1 << 31  # bytes of back pointers
INFINITE_COST = 1 << 60  # larger than any path's cost


def cut_points(words: Sequence[str], references: Sequence[Sequence[str]], own: Sequence[int] = ()) -> list[int]:
    """Return where to cut ``words``: (sentences + 1) positions from 0 to len(words); sentence k is between cuts k and k
    + 1.

    Args:
        words: of a document's translation.
        references: the words of each sentence.
        own: positions of the translation's own sentence boundaries.

    The result is exact. Time is O(words * reference words), memory O(words * sentences). Raises UserError if the latter
    exceeds ``MAX_BYTES``.
    """
    count, least = len(words), len(words) + 1
    # One number encodes a path: edits, then cuts not at own boundaries, then the start of the current sentence.
    edit = least * (len(references) + 1)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    given = np.array([numbers[word] for word in words], dtype=np.int64)
    positions = np.arange(least, dtype=np.int64)
    inserted = positions * edit
    strange = np.full(least, least, dtype=np.int64)
    strange[[0, count, *own]] = 0
    kept = np.uint16 if least < 1 << 16 else np.uint32
    if len(references) * least * np.dtype(kept).itemsize > MAX_BYTES:
        raise UserError(
            f"a document of {len(references)} sentences and {count} words is too long to be realigned "
            f"(more than {MAX_BYTES >> 30} GiB); if it is several, open documents by <d>"
        )
    begins = np.empty((len(references), least), dtype=kept)
    path = np.full(least, INFINITE_COST, dtype=np.int64)
    path[0] = 0
    step = np.empty(count, dtype=np.int64)

    def insert() -> None:
        """Extend paths by inserted words, which are aligned to no reference word."""
        np.subtract(path, inserted, out=path)
        np.minimum.accumulate(path, out=path)
        np.add(path, inserted, out=path)

    for number, sentence in enumerate(references):
        insert()
        for word in sentence:
            np.multiply(given != numbers.get(word, -1), edit, out=step)
            np.add(step, path[:-1], out=step)
            np.add(path, edit, out=path)
            np.minimum(path[1:], step, out=path[1:])
            insert()
        begins[number] = path % least
        path = path - begins[number] + strange + positions
    found = [count]
    for row in begins[::-1]:
        found.append(int(row[found[-1]]))
    return found[::-1]


def realign(sentences: Sequence[str], references: Sequence[str], tokenizer: str = "13a") -> list[str]:
    """Return the text of ``sentences`` cut into ``len(references)`` sentences; some may be empty, no word is lost.

    Words are separated by white space; with sacrebleu's tokenisers for languages without it, they are characters.
    """
    unit = re.compile(r"\S" if tokenizer in UNSPACED else r"\S+")
    text = " ".join(sentences)
    spans = [found.span() for found in unit.finditer(text)]
    own = np.cumsum([len(unit.findall(sentence)) for sentence in sentences], dtype=np.int64).tolist()
    words = [text[first:last] for first, last in spans]
    cuts = cut_points(words, [unit.findall(one) for one in references], own)
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    return [text[spans[first][0] : spans[last - 1][1]] if last > first else "" for first, last in pairs]


def read_realigned(
    path: str | Path, reference: Documents, like: str | Path, tokenizer: str = "13a", wanted: Side = ANY
) -> tuple[Documents, int]:
    """Return plain text in the shape of its reference, and how many documents had to be cut again.

    Documents start with ``<d>`` or are separated by blank lines. Without these, the file has as many lines as the
    reference, or the reference is one document. Raises UserError otherwise. ``wanted``: the side of a file of another
    format.
    """
    documents, borders = read_plain(path, wanted)
    shape = [len(document) for document in reference]
    if borders in (BLANK, NONE) and len(read_sentences(path)) == sum(shape):
        return read_shaped(path, shape, like), 0
    if len(documents) != len(reference):
        raise UserError(
            f"{path}: {len(documents)} document(s) of {sum(map(len, documents))} sentences, but {like} has "
            f"{len(reference)} of {sum(shape)}; sentences can be aligned within documents only, so open each by a line "
            "<d>"
        )
    other = [len(document) != count for document, count in zip(documents, shape, strict=True)]
    aligned = [
        realign(document, wanted, tokenizer) if needed else document
        for document, wanted, needed in zip(documents, reference, other, strict=True)
    ]
    return aligned, sum(other)
