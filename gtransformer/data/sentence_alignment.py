"""Sentences of a translation that has another number of them than its reference, by order."""

from __future__ import annotations

from collections.abc import Sequence


def align_sentences(hypothesis: Sequence[str], count: int, from_end: bool = False) -> list[str]:
    """Exactly ``count`` sentences: missing ones are empty, surplus ones are joined to the last.

    With ``from_end`` the last of ``hypothesis`` is the last: missing ones are the first, and surplus ones are joined
    to the first. Only a plain Transformer over the document needs this: nothing ties its sentences to those of the
    source. For ``count`` 0 there is no sentence to join to, and the result is empty.
    """
    if count == 0:
        return []
    missing, surplus = [""] * (count - len(hypothesis)), max(len(hypothesis) - count, 0)
    if from_end:
        aligned = [*missing, *hypothesis[surplus:]]
        if surplus:
            aligned[0] = " ".join(hypothesis[: surplus + 1])
    else:
        aligned = [*hypothesis[:count], *missing]
        if surplus:
            aligned[-1] = " ".join(hypothesis[count - 1 :])
    return aligned
