"""Group tags: which sentence of its document a token belongs to (Bao et al. 2021, Eq. 3)."""

from __future__ import annotations

from torch import Tensor


def group_tags(tokens: Tensor, bos: int, padding: int) -> Tensor:
    """Tag every token with the number of ``<s>`` up to and including it, padding with 0.

    Args:
        tokens: (batch, length) int64 token indices, padded on either side; each row begins with ``<s>``.
        bos, padding: indices of ``<s>`` and of padding.

    Returns:
        (batch, length) int64. A query sees keys with its own tag.
    """
    return tokens.eq(bos).cumsum(dim=1).masked_fill(tokens.eq(padding), 0)
