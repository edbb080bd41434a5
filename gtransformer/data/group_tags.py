"""Group tags: the sentence of its document that a token belongs to (Bao et al. 2021, Eq. 3).

A token's tag is the number of ``<s>`` up to and including it. All modules use this rule.
"""

from __future__ import annotations

from torch import Tensor


def group_tags(tokens: Tensor, bos: int, padding: int | None = None) -> Tensor:
    """Tag every token with the number of ``<s>`` up to and including it, padding with 0.

    Args:
        tokens: (batch, length) int64 token indices, padded on either side; each row begins with
            ``<s>``.
        bos, padding: indices of ``<s>`` and of padding; without the latter, tags of padding are
        arbitrary.

    Returns:
        (batch, length) int64. A query sees keys with its own tag.
    """
    tags = tokens.eq(bos).cumsum(dim=1)
    return tags if padding is None else tags.masked_fill(tokens.eq(padding), 0)


def last_sentences(tokens: Tensor, bos: int, padding: int) -> Tensor:
    """Mark the last sentence of each row; (batch, length) int64 as for ``group_tags`` -> bool."""
    tags = group_tags(tokens, bos, padding)
    return tags.eq(tags.amax(dim=1, keepdim=True)) & tokens.ne(padding)


def pad_context(tokens: Tensor, bos: int, padding: int) -> Tensor:
    """Return the last sentence of each row at its position, padding before it; (batch, length)
    int64.
    """
    return tokens.where(last_sentences(tokens, bos, padding), padding)


def compacted(values: Tensor, keep: Tensor, padding: int) -> Tensor:
    """Return the values (batch, length) that each row keeps, in order, padded on the right to the
    longest row.
    """
    # A stable sort by "left out" moves what is kept to the front, in its order.
    order = keep.logical_not().byte().argsort(dim=1, stable=True)
    return values.where(keep, padding).gather(1, order)[:, : int(keep.sum(dim=1).max())]


def tag_of_newest(prefixes: Tensor, bos: int) -> Tensor:
    """Return the tag of each row's last token; for a whole document this is its number of
    sentences.

    Args:
        prefixes: (..., length) int64; padding before a prefix or after a document changes nothing.

    Returns:
        (...) int64.
    """
    return prefixes.eq(bos).sum(dim=-1)
