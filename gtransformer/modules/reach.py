"""Who sees whom: every query sees an interval of the keys of its document, in reading order. Pure
functions of indices, on the host.

Group attention (Bao et al. 2021, Eq. 6-7), global attention (Eq. 5) and windows around an aligned
position all have this form; the engines compute it. Causality only cuts the interval's end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtransformer.modules.ragged import Ragged


@dataclass
class Reach:
    """The keys that each query sees: query i sees the keys first[i] to last[i] - 1, none if the
    interval is empty.

    Attributes:
        queries, keys: layouts of the two sides (the same object in self-attention).
        first, last: (Nq,) int64, in the order of the batch; an interval never leaves the query's
            document.
    """

    queries: Ragged
    keys: Ragged
    first: np.ndarray
    last: np.ndarray


def by_document(queries: Ragged, keys: Ragged, causal: bool = False) -> Reach:
    """Return the reach of global attention: all keys of the query's document, if ``causal`` up to
    its own position.
    """
    first, end = keys.doc_starts[queries.doc], keys.doc_starts[queries.doc + 1]
    return interval(queries, keys, first, end, causal)


def by_sentence(queries: Ragged, keys: Ragged, causal: bool = False) -> Reach:
    """Return the reach of group attention: the keys of its document with the query's tag (Bao et
    al. 2021, Eq. 7).

    If ``causal``, every query is one of the keys, and sees those up to itself.
    """
    if causal:
        own = _own_key(queries, keys)
        return Reach(queries, keys, own - queries.within, own + 1)
    # Tags never descend in a document, since they count <s>. So these numbers ascend.
    first, end = (
        np.searchsorted(keys.sentence, queries.sentence, side) for side in ("left", "right")
    )
    return Reach(queries, keys, first, end)


def by_window(
    queries: Ragged, keys: Ragged, centres: np.ndarray, width: int, causal: bool = False
) -> Reach:
    """Return the reach of window attention: keys at most ``width`` positions from the centre, |j -
    b_i| <= w.

    Args:
        centres: (Nq,) int64, positions in the key document from 0 (see ``alignment``); may jump.
        width: w, from 0.
        causal: only keys up to the query's own position.
    """
    # Clipping to the document keeps windows at its borders short instead of moving them.
    starts, lengths = keys.doc_starts[queries.doc], keys.doc_lengths[queries.doc]
    centres = np.asarray(centres, dtype=np.int64)
    first = starts + np.clip(centres - width, 0, lengths)
    end = starts + np.clip(centres + width + 1, 0, lengths)
    return interval(queries, keys, first, end, causal)


def interval(
    queries: Ragged, keys: Ragged, first: np.ndarray, end: np.ndarray, causal: bool
) -> Reach:
    """Return the reach in which query i sees the keys first[i] to end[i] - 1, if ``causal`` none
    behind its own position.

    ``first``, ``end``: (Nq,) int64, within the query's document.
    """
    last = np.clip(_own_key(queries, keys) + 1, first, end) if causal else end
    return Reach(queries, keys, first, last)


def _own_key(queries: Ragged, keys: Ragged) -> np.ndarray:
    """Return (Nq,) int64: the key at each query's own position in its document, as if documents had
    no end.
    """
    return keys.doc_starts[queries.doc] + queries.position
