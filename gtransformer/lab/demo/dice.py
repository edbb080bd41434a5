"""Random choices that come out the same on every machine and Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


class Dice:
    """Choices drawn from ``random.Random.random()`` alone.

    Python promises the sequence of ``random()`` for an integer seed, but not that of ``choice`` or ``shuffle``, and
    hashes of strings change from run to run: so the key is hashed with SHA-256 and the choices are written out here.
    """

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256(":".join(str(part) for part in key).encode("utf-8")).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "big"))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def choice(self, items: Sequence[Choice]) -> Choice:
        """One of the items."""
        return items[self.between(0, len(items) - 1)]

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        """The items in random order (Fisher and Yates), as a new list."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = self.between(0, last)
            result[last], result[other] = result[other], result[last]
        return result
