"""Fields of a batch in addition to fairseq's: positions of its instances in documents, and which targets count.

A model whose ``needs`` request a position field receives it as an input of the same name (``with_input``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# (batch,) int64, the number of each instance's first sentence in its document, from 1. In batches in document order.
FIRST_SENTENCE = "first_sentence"
# A list of pairs: the number of each instance's document in the text, and of its first sentence in the document. When
# plain text is translated: sampling draws other words at another position.
TEXT_POSITION = "text_position"
# (batch,) int64, the number of context tokens of each decoder input, which do not count in the loss; their sum, an int.
CONTEXT, CONTEXT_TOTAL = "context_tokens", "context_total"
MASKED = "masked_targets"  # in a batch for the criterion: there is padding among the targets


def with_input(sample: dict, name: str, wanted: bool) -> dict:
    """Return the batch with one entry as an input of the model; unchanged if the entry is not wanted or missing."""
    if not wanted or name not in sample:
        return sample
    return sample | {"net_input": sample["net_input"] | {name: sample[name]}}


def first_sentences(given: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """Return (batch,) int64; instances with unknown positions begin their documents."""
    return torch.ones(batch, dtype=torch.int64, device=device) if given is None else given


def without_context_loss(sample: dict, padding: int) -> dict:
    """Return the batch for the criterion: targets that do not count are padding and not in ``ntokens``.

    With ``--context-loss off`` only targets of the current sentences count: their words, each ``</s>``, each further
    ``<s>`` and the language symbol. Their first ``<s>`` is given, as in an instance without context, and does not
    count. A batch whose tokens all count is returned unchanged. ``sample`` keeps the whole target, for comparison and
    scoring.
    """
    if CONTEXT not in sample:
        return sample
    context, target = sample[CONTEXT], sample["target"]
    number = target.ne(padding).cumsum(dim=1)  # of each target in its instance, from 1, whatever the padding
    masked = target.masked_fill(number <= context.unsqueeze(1), padding)
    return sample | {"target": masked, "ntokens": sample["ntokens"] - sample[CONTEXT_TOTAL], MASKED: True}


def without_unpredicted(sample: dict, unpredicted: Sequence[int], padding: int) -> dict:
    """Return the batch for the criterion of a model that does not predict the ``unpredicted`` symbols.

    These have no alternative. They become padding among the targets and do not count.
    """
    chosen = torch.isin(sample["target"], torch.tensor(unpredicted, device=sample["target"].device))
    target, ntokens = sample["target"].masked_fill(chosen, padding), sample["ntokens"] - int(chosen.sum())
    return sample | {"target": target, "ntokens": ntokens, MASKED: True}


def counted(features: Tensor, targets: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return only the rows of features (tokens, channels) and targets (tokens,) whose target is not padding."""
    rows = targets.ne(padding).nonzero().squeeze(1)  # once for both: it synchronises with a GPU
    return features.index_select(0, rows), targets.index_select(0, rows)
