"""Fields of a batch in addition to fairseq's: positions of its instances in documents, and which
targets count.

A model whose ``needs`` request a position field receives it as an input of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# (batch,) int64, the number of each instance's first sentence in its document, from 1. In batches
# in document order.
FIRST_SENTENCE = "first_sentence"
# (batch,) int64, the number of context tokens of each decoder input, which do not count in the
# loss; their sum, an int. What the criterion reads instead where not all targets count: ``target``,
# ``ntokens`` and ROWS.
COUNTED = "counted"
ROWS = "rows"  # (n,) int64, the targets that count among all real ones, row by row


def first_sentences(numbers: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """Return (batch,) int64; instances with unknown positions begin their documents."""
    return torch.ones(batch, dtype=torch.int64, device=device) if numbers is None else numbers


def with_counted_targets(
    batch: dict, padding: int, context: Tensor | None = None, unpredicted: Sequence[int] = ()
) -> dict:
    """Return the batch with what ``counted`` reads; unchanged if all targets count.

    With ``--context-loss off`` only targets of the current sentences count: their words, each
    ``</s>``, each further ``<s>`` and the language symbol. Their first ``<s>`` is given, as in an
    instance without context, and does not count. ``target`` stays whole, for comparison and
    scoring.

    Args:
        context: (batch,) int64, the number of first targets of each row that do not count.
        unpredicted: symbols that do not count, since the model has no choice of them.
    """
    if context is None and not len(unpredicted):
        return batch
    target = batch["target"]
    real = target.ne(padding)
    counts = real & ~torch.isin(target, torch.tensor(list(unpredicted), dtype=target.dtype))
    if context is not None:
        counts &= real.cumsum(dim=1) > context.unsqueeze(1)
    loss = {
        "target": target.where(counts, padding),
        "ntokens": int(counts.sum()),
        ROWS: counts[real].nonzero()[:, 0],
    }
    return batch | {COUNTED: loss}


def counted(batch: dict) -> dict:
    """Return the batch for the criterion: targets that do not count are padding and not in
    ``ntokens``.
    """
    return batch | batch.get(COUNTED, {})
