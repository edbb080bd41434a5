"""Group tags: which sentence of its document a token belongs to (Bao et al. 2021, Eq. 3).

The rule, for all who need it: a token's tag is the number of ``<s>`` up to and including it.
"""

from __future__ import annotations

from torch import Tensor


def group_tags(tokens: Tensor, bos: int, padding: int | None = None) -> Tensor:
    """Tag every token with the number of ``<s>`` up to and including it, padding with 0.

    Args:
        tokens: (batch, length) int64 token indices, padded on either side; each row begins with ``<s>``.
        bos, padding: indices of ``<s>`` and of padding; without the latter, padding has some tag.

    Returns:
        (batch, length) int64. A query sees keys with its own tag.
    """
    tags = tokens.eq(bos).cumsum(dim=1)
    return tags if padding is None else tags.masked_fill(tokens.eq(padding), 0)


def last_sentences(tokens: Tensor, bos: int, padding: int) -> Tensor:
    """Where the last sentence of each row is; (batch, length) int64 as for ``group_tags`` -> bool."""
    tags = group_tags(tokens, bos, padding)
    return tags.eq(tags.amax(dim=1, keepdim=True)) & tokens.ne(padding)


def pad_context(tokens: Tensor, bos: int, padding: int) -> Tensor:
    """Return the last sentence of each row at its position, padding before it; (batch, length) int64."""
    return tokens.where(last_sentences(tokens, bos, padding), padding)


def compacted(values: Tensor, keep: Tensor, padding: int) -> Tensor:
    """The values (batch, length) that each row keeps, in their order, padded on the right to the longest row."""
    order = keep.logical_not().byte().argsort(dim=1, stable=True)
    return values.where(keep, padding).gather(1, order)[:, : int(keep.sum(dim=1).max())]


def tag_of_newest(prefixes: Tensor, bos: int) -> Tensor:
    """The tag of each row's last token; of a whole document, the number of its sentences.

    Args:
        prefixes: (..., length) int64; padding on the left, or behind a document, changes nothing.

    Returns:
        (...) int64.
    """
    return prefixes.eq(bos).sum(dim=-1)
