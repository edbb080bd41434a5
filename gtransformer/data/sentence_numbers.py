"""The numbers that sentences have in their document, from 1, for models that read them."""

from __future__ import annotations

import torch
from torch import Tensor

# In a batch: (batch,) int64, the number of the sentence that each instance begins with. Batches in the order of
# documents have it; a model with ``reads_numbers`` set is given it as an input of the same name.
FIRST_SENTENCE = "first_sentence"


def with_numbers(sample: dict, wanted: bool) -> dict:
    """The batch as a model reads it that wants sentence numbers; as it is where they are not wanted or not known."""
    if not wanted or FIRST_SENTENCE not in sample:
        return sample
    return sample | {"net_input": sample["net_input"] | {FIRST_SENTENCE: sample[FIRST_SENTENCE]}}


def first_sentences(given: Tensor | None, batch: int, device: torch.device) -> Tensor:
    """(batch,) int64; instances of which nothing is known begin their documents."""
    return torch.ones(batch, dtype=torch.int64, device=device) if given is None else given
