"""What a batch holds beside fairseq's entries: where its instances stand in documents, and which targets count.

A model whose ``needs`` say so is given the former as inputs of the same names (``with_input``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# (batch,) int64, the number in its document, from 1, of the sentence that each instance begins with: in batches in the
# order of documents.
FIRST_SENTENCE = "first_sentence"
# (batch,) int64, ascending from 0, which document of the batch each instance is of: in batches that may hold several
# documents. A model that reads its batch reads the instances of each document as a batch.
DOCUMENT_INDEX = "document_index"
# (batch,) bool, whether each instance stands among those of its document: in batches of training that may have been
# drawn from the whole corpus.
IN_ORDER = "in_order"
# (batch,) int64, how many tokens of each decoder input are context that does not count in the loss; their sum, an int.
CONTEXT, CONTEXT_TOTAL = "context_tokens", "context_total"
MASKED = "masked_targets"  # in a batch as the criterion shall see it: there is padding among the targets


def with_input(sample: dict, name: str, wanted: bool) -> dict:
    """Return the batch with one entry as the model's input; as it is where that is not wanted or not known."""
    if not wanted or name not in sample:
        return sample
    return sample | {"net_input": sample["net_input"] | {name: sample[name]}}


def first_sentences(given: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """(batch,) int64; instances of which nothing is known begin their documents."""
    return torch.ones(batch, dtype=torch.int64, device=device) if given is None else given


def without_context_loss(sample: dict, padding: int) -> dict:
    """Return the batch as the criterion shall see it: targets that do not count are padding and not in ``ntokens``.

    With ``--context-loss off`` those of the current sentences count. Their own ``<s>`` is given, like the first one of
    an instance without context, and does not count: what counts are their words, each ``</s>``, each further ``<s>``
    and the language symbol. A batch whose tokens all count comes back as it is. The whole target stays in ``sample``,
    for what compares with it or scores it.
    """
    if CONTEXT not in sample:
        return sample
    context, target = sample[CONTEXT], sample["target"]
    number = target.ne(padding).cumsum(dim=1)  # of each target in its instance, from 1, wherever the padding is
    masked = target.masked_fill(number <= context.unsqueeze(1), padding)
    return sample | {"target": masked, "ntokens": sample["ntokens"] - sample[CONTEXT_TOTAL], MASKED: True}


def without_unpredicted(sample: dict, unpredicted: Sequence[int], padding: int) -> dict:
    """Return the batch as the criterion of a model that cannot predict ``unpredicted`` symbols shall see it.

    They leave no choice, are padding among the targets, and do not count.
    """
    chosen = torch.isin(sample["target"], torch.tensor(unpredicted, device=sample["target"].device))
    target, ntokens = sample["target"].masked_fill(chosen, padding), sample["ntokens"] - int(chosen.sum())
    return sample | {"target": target, "ntokens": ntokens, MASKED: True}


def counted(features: Tensor, targets: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return only the rows of features (tokens, channels) and targets (tokens,) whose target is not padding."""
    rows = targets.ne(padding).nonzero().squeeze(1)  # once for both: on a GPU it waits
    return features.index_select(0, rows), targets.index_select(0, rows)
