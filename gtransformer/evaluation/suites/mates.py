"""Which other examples are an example's batch, where each holds its own context alone (ContraPro)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

SEED = 1
# What a result file says of them.
DRAWN = {"from": "permutation of all examples", "seed": SEED, "left_out": "its sentence or context in common"}


def mates(own: Sequence[AbstractSet[str]], context: Sequence[AbstractSet[str]], count: int) -> list[list[int]]:
    """For each example the numbers of ``count`` others, or of all that may be, in the order of their batch.

    They are those before it in one permutation of all examples, whose beginning follows its end. In a file's own order
    neighbours have the same answer and quote each other, and a decoder that reads its batch would read it there.

    Args:
        own: the texts of each example's sentence, in both languages.
        context: those of the sentences around it. No mate's sentence is one of the example's, nor the other way round.
    """
    order = np.random.RandomState(SEED).permutation(len(own)).tolist()
    found: list[list[int]] = [[] for _ in own]
    for place, number in enumerate(order):
        chosen = found[number]
        for back in range(1, len(order)):
            if len(chosen) == count:
                break
            other = order[place - back]
            if own[other].isdisjoint(own[number] | context[number]) and own[number].isdisjoint(context[other]):
                chosen.append(other)
        chosen.reverse()
    return found
