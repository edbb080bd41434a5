"""The rows of a beam: those of a document stand together as a group."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from gtransformer.models.common.memory import Memory


def documents_of(memory: Memory, rows: int) -> np.ndarray:
    """The document of each group of ``rows`` rows, (groups,) int64."""
    return group_rows(np.arange(rows) if memory.rows is None else memory.rows.cpu().numpy())


def group_rows(documents: np.ndarray) -> np.ndarray:
    """The document of each group, if rows (n,) stand in groups of equal size, document by document; else one a row."""
    if not len(documents):
        return documents
    begins = np.flatnonzero(np.diff(documents, prepend=documents[0] - 1))
    sizes = np.diff(begins, append=len(documents))
    values = documents[begins]
    return values if (sizes == sizes[0]).all() and len(np.unique(values)) == len(values) else documents


def regrouped(order: Tensor, beam: int) -> tuple[np.ndarray, np.ndarray]:
    """Old group of each new one (groups,), and which of its rows each row was (groups, beam).

    Raises ValueError if rows of several documents would become one group.
    """
    host = order.cpu().numpy()
    origin, beams = (host // beam).reshape(-1, beam), (host % beam).reshape(-1, beam)
    groups = origin[:, 0]
    if (origin != groups[:, None]).any():
        raise ValueError("the rows of a document must stay together")
    return groups, beams
