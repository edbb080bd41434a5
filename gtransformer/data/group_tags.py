"""Group tags: which sentence of its document a token belongs to (Bao et al. 2021, Eq. 3)."""

from __future__ import annotations

import torch
from torch import Tensor


def group_tags(tokens: Tensor, bos: int, untagged: Tensor) -> Tensor:
    """Tag every token with the number of ``<s>`` up to and including it; ``untagged`` symbols get 0.

    Args:
        tokens: (batch, length) int64 token indices, padded on either side.
        bos: index of ``<s>``.
        untagged: (n,) int64 indices that carry tag 0 wherever they stand: padding and the language symbols.

    Returns:
        (batch, length) int64. A query with tag 0 sees every position, one with tag k > 0 only keys with tag k.
    """
    tags = tokens.eq(bos).cumsum(dim=1)
    return tags.masked_fill(torch.isin(tokens, untagged), 0)


def last_tags(prefixes: Tensor, bos: int, untagged: Tensor) -> Tensor:
    """The last column of ``group_tags``, (rows,), without the others: what one step of decoding needs."""
    return prefixes.eq(bos).sum(dim=1).masked_fill(torch.isin(prefixes[:, -1], untagged), 0)
