"""The centre b_i of the window for each position i of the queries (Herold and Ney 2023, section
3.3).

All functions are pure functions of indices. As in the paper, formulas count positions from 1, round
halves up and clamp centres to [1, J], J being the length of the key document. Arguments and results
count from 0. Row i of the target predicts e_i and has read e_{i-1}: the first row has read the
first ``<s>``.

Arrays are int64 on the host, one entry a query. In a document without keys the centre is 0.
"""

from __future__ import annotations

import numpy as np

from gtransformer.modules.ragged import Ragged


def one_to_one(queries: Ragged, keys: Ragged) -> np.ndarray:
    """Return b_i = i for whole documents -> (Nq,) positions in the key document. Self-attention
    always uses it.
    """
    return _within(queries.position, keys.doc_lengths[queries.doc])


def _within(position: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return positions clamped to documents of these lengths."""
    return np.clip(position, 0, np.maximum(lengths - 1, 0))


def linear(queries: Ragged, keys: Ragged, ratio: float | None = None) -> np.ndarray:
    """Return b_i = round(J / I * i) for whole documents of I queries and J keys -> (Nq,).

    ``ratio``: instead of J / I in decoding, where I is not known.
    """
    i, key_lengths = queries.position + 1, keys.doc_lengths[queries.doc]
    if ratio is not None:
        return _within(np.floor(ratio * i + 0.5).astype(np.int64) - 1, key_lengths)
    query_lengths = queries.doc_lengths[queries.doc]
    # floor(J i / I + 1 / 2) in integers, so that halves are exact.
    centres = (2 * key_lengths * i + query_lengths) // (2 * query_lengths)
    return _within(centres - 1, key_lengths)


def sentence_aligned(queries: Ragged, keys: Ragged) -> np.ndarray:
    """Return the first token of the source sentence where a target sentence begins, else b_{i-1} +
    1 -> (Nq,).

    A target sentence begins at the row that has read its first token (its tag differs from the one
    before). It belongs to the source sentence with the same tag. A sentence beyond the source's
    sentences continues without a jump.
    """
    # Tags beyond the source's sentences go to the last column, which is -1: no jump.
    starts, (tokens, asked) = sentence_starts(keys), queries.history()
    start = starts[tokens.doc, np.minimum(tokens.tag, starts.shape[1] - 1)]
    row = np.arange(tokens.total)
    begins = np.diff(tokens.sentence, prepend=-1) != 0
    anchors = (tokens.position == 0) | (begins & (start >= 0))
    # The last jump at or before each row: from there on the centre moves one key a row.
    anchor = np.maximum.accumulate(np.where(anchors, row, 0))
    centres = np.maximum(start[anchor], 0) + row - anchor
    return _within(centres[asked], keys.doc_lengths[queries.doc])


def sentence_starts(tokens: Ragged) -> np.ndarray:
    """Return (documents, sentences + 2) int64: position of the first token with each tag, -1 if
    there is none.

    The last column is always -1: tags beyond the sentences may be clipped to it.
    """
    starts = np.full((tokens.batch, int(tokens.tag.max(initial=0)) + 2), -1)
    backwards = np.arange(tokens.total)[::-1]  # the first token of a sentence is written last
    starts[tokens.doc[backwards], tokens.tag[backwards]] = tokens.position[backwards]
    return starts
