"""Where a window lies: the centre b_i for each position i of the queries (Herold and Ney 2023, section 3.3).

Pure functions of indices, each in two forms that agree: for whole documents, and for one position at a time as in
decoding, where the own length is not known yet. As in the paper, positions count from 1 inside the formulas, halves are
rounded up and centres are clamped to [1, J], J being the length of the key document; arguments and results count from
0. Row i of the target is the one that predicts e_i, having read e_{i-1}: the first row has read the first ``<s>``.

Arrays are int64 on the host, one entry a query; in the step form numbers will do as well. In a document without keys
the centre is 0.
"""

from __future__ import annotations

import numpy as np

from gtransformer.modules.ragged import Ragged


def one_to_one(queries: Ragged, keys: Ragged) -> np.ndarray:
    """b_i = i, for whole documents -> (Nq,) positions in the key document. Self-attention always has it."""
    return one_to_one_step(queries.position, keys.doc_lengths[queries.doc])


def one_to_one_step(position: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """b_i = i for queries at ``position``, over documents of ``keys`` tokens."""
    return np.clip(position, 0, np.maximum(np.asarray(keys) - 1, 0))


def linear(queries: Ragged, keys: Ragged, ratio: float | None = None) -> np.ndarray:
    """b_i = round(J / I * i), for whole documents of I queries and J keys -> (Nq,).

    With ``ratio`` in place of J / I it is what ``linear_step`` computes in decoding.
    """
    lengths = keys.doc_lengths[queries.doc]
    if ratio is not None:
        return linear_step(queries.position, lengths, ratio)
    own = queries.doc_lengths[queries.doc]
    # floor(J i / I + 1 / 2) in whole numbers, so that halves are halves.
    return one_to_one_step((2 * lengths * (queries.position + 1) + own) // (2 * own) - 1, lengths)


def linear_step(position: np.ndarray, keys: np.ndarray, ratio: float) -> np.ndarray:
    """b_i = round(r i) for queries at ``position``, over documents of ``keys`` tokens; r: keys for each query."""
    return one_to_one_step(np.floor(ratio * (np.asarray(position) + 1) + 0.5).astype(np.int64) - 1, keys)


def sentence_aligned(queries: Ragged, keys: Ragged) -> np.ndarray:
    """The first token of the source sentence where a target sentence begins, else b_{i-1} + 1 -> (Nq,).

    A target sentence begins at the row that has read its first token (its tag differs from that before) and belongs to
    the source sentence of its tag; one beyond the source's sentences goes on as if it had not begun.
    """
    starts = sentence_starts(keys)
    start = starts[queries.doc, np.minimum(queries.tag, starts.shape[1] - 1)]
    row = np.arange(queries.total)
    begins = np.diff(queries.tag, prepend=-1) != 0
    anchors = (queries.position == 0) | (begins & (start >= 0))
    anchor = np.maximum.accumulate(np.where(anchors, row, 0))
    return one_to_one_step(np.maximum(start[anchor], 0) + row - anchor, keys.doc_lengths[queries.doc])


def by_sentence_step(before: np.ndarray, begins: np.ndarray, start: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The centre of the next row from that of the row before it.

    Args:
        before: b_{i-1}; -1 in front of the first row.
        begins: bool, whether this row has read the first token of a target sentence, as the first row has.
        start: first token of the source sentence that belongs to it, -1 if there is none (``sentence_starts``).
        keys: length of the source.
    """
    jumps = np.asarray(begins) & (np.asarray(start) >= 0)
    return one_to_one_step(np.where(jumps, start, np.asarray(before) + 1), keys)


def sentence_starts(tokens: Ragged) -> np.ndarray:
    """(documents, sentences + 2) int64: position of the first token with each tag, -1 where there is none.

    The last column is always -1: tags beyond the sentences may be cut to it.
    """
    starts = np.full((tokens.batch, int(tokens.tag.max(initial=0)) + 2), -1)
    backwards = np.arange(tokens.total)[::-1]  # the first token of a sentence is written last
    starts[tokens.doc[backwards], tokens.tag[backwards]] = tokens.position[backwards]
    return starts
