"""Which of the target's tokens count in the loss.

With ``--context-loss off`` those of the current sentences; of models that cannot predict ``<s>`` and the language
symbol, which leave no choice, all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# In a batch: (batch,) int64, how many tokens of each decoder input are context, and their sum, an int.
CONTEXT, CONTEXT_TOTAL = "context_tokens", "context_total"
MASKED = "masked_targets"  # in a batch as the criterion shall see it: there is padding among the targets


def without_context(sample: dict, padding: int) -> dict:
    """The batch as the criterion shall see it: targets that do not count are padding, ``ntokens`` are those that do.

    The current sentences' own ``<s>`` is given, like the first one of an instance without context, and does not count:
    what counts are their words, each ``</s>``, each further ``<s>`` and the language symbol. A batch whose tokens all
    count comes back as it is. The whole target stays in ``sample``, for what compares with it or scores it.
    """
    if CONTEXT not in sample:
        return sample
    context, target = sample[CONTEXT], sample["target"]
    number = target.ne(padding).cumsum(dim=1)  # of each target in its instance, from 1, wherever the padding is
    masked = target.masked_fill(number <= context.unsqueeze(1), padding)
    return sample | {"target": masked, "ntokens": sample["ntokens"] - sample[CONTEXT_TOTAL], MASKED: True}


def without_forced(sample: dict, forced: Sequence[int], padding: int) -> dict:
    """The batch as the criterion shall see it: ``forced`` symbols are padding among the targets, and do not count."""
    chosen = torch.isin(sample["target"], torch.tensor(forced, device=sample["target"].device))
    target, ntokens = sample["target"].masked_fill(chosen, padding), sample["ntokens"] - int(chosen.sum())
    return sample | {"target": target, "ntokens": ntokens, MASKED: True}


def counted(features: Tensor, targets: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Only the rows of features (tokens, channels) and targets (tokens,) whose target is not padding."""
    rows = targets.ne(padding).nonzero().squeeze(1)  # once for both: on a GPU it waits
    return features.index_select(0, rows), targets.index_select(0, rows)
