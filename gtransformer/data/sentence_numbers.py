"""Where the instances of a batch stand in documents, for models that read it: sentence numbers, and stretches."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# In a batch: (batch,) int64, the number in its document, from 1, of the sentence that each instance begins with.
# Batches in the order of documents have it; a model that needs ``numbers`` is given it as an input of this name.
FIRST_SENTENCE = "first_sentence"
# In a batch that may hold several documents: (batch,) int64, ascending from 0, which stretch of a document each
# instance is of. A model that needs ``batch`` is given it likewise, and reads each stretch as a batch.
STRETCH = "stretch"
# In a batch of training that may have been drawn from the whole corpus: (batch,) bool, whether each instance stands
# among those of its document. A model that needs ``order`` is given it likewise.
IN_ORDER = "in_order"


def with_input(sample: dict, name: str, wanted: bool) -> dict:
    """The batch with one of the above as the model's input; as it is where that is not wanted or not known."""
    if not wanted or name not in sample:
        return sample
    return sample | {"net_input": sample["net_input"] | {name: sample[name]}}


def first_sentences(given: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """(batch,) int64; instances of which nothing is known begin their documents."""
    return torch.ones(batch, dtype=torch.int64, device=device) if given is None else given


def stretches(documents: np.ndarray) -> np.ndarray:
    """The stretch that each instance of a batch is of; ``documents`` (batch,) int64, of each instance in order."""
    return np.cumsum(np.diff(documents, prepend=documents[:1]) != 0)
