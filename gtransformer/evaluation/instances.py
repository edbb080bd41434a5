"""The largest input of a trained model, to which the context of a scored sentence is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gtransformer.data.instances import STORED, Instances, InstanceScheme, Ranges
from gtransformer.preprocess.chain import read_settings


@dataclass(frozen=True)
class Capacity:
    """The longest instance that a model was trained on; a single sentence is never too long.

    Attributes:
        sentences, target_sentences: most sentences of source and target; None: any number.
        tokens: most tokens, including ``<s>`` and ``</s>``; None: any number.
        longer_side: count a sentence's tokens on its longer side; else on the target side.
    """

    sentences: int | None = None
    target_sentences: int | None = None
    tokens: int | None = None
    longer_side: bool = False

    def last_ones(self, source: np.ndarray, target: np.ndarray, runs: Ranges) -> Instances:
        """Return an instance for each sentence, which is its last, with as many previous sentences
        as fit.

        Args:
            source, target: (sentences,) lengths in tokens, ``<s>`` and ``</s>`` included.
            runs: [first, last) ranges of consecutive sentences of a document; they cover all
                sentences in order.
        """
        end = np.arange(1, len(source) + 1)
        firsts, ends = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        begin = np.repeat(firsts, ends - firsts)
        if self.tokens is not None:
            costs = np.maximum(source, target) if self.longer_side else target
            borders = np.concatenate([[0], np.cumsum(costs)])  # tokens in front of each sentence
            earliest = np.searchsorted(
                borders, borders[1:] - self.tokens
            )  # from here on the tokens fit
            begin = np.maximum(begin, np.minimum(earliest, end - 1))
        sides = [
            begin if most is None else np.maximum(begin, end - most)
            for most in (self.sentences, self.target_sentences)
        ]
        return Instances(
            *(np.stack([first, end], 1) for first in sides), np.stack([end - 1, end], 1)
        )

    def before(self, source: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
        """Return how many source and target sentences the last one is scored with, itself included.

        ``source``, ``target``: lengths in tokens, ``<s>`` and ``</s>`` included, of as many
        sentences.
        """
        lengths = [np.array(side, dtype=np.int64) for side in (source, target)]
        made = self.last_ones(*lengths, [(0, len(source))])
        return len(source) - int(made.source[-1, 0]), len(source) - int(made.target[-1, 0])


def capacity_of(scheme: InstanceScheme, prepared: Path) -> Capacity:
    """Return the capacity that follows from the options saved with a model.

    Args:
        scheme: of the model's task.
        prepared: a corpus prepared like the training corpus. It gives the length of stored
            instances.
    """
    if scheme.kind == STORED:
        settings = read_settings(prepared)
        most, tokens = settings.get("max_sents"), settings.get("max_instance_tokens")
        return Capacity(most, most, None if tokens is None else tokens - 1, longer_side=True)
    if scheme.kind == "greedy":
        return Capacity(tokens=scheme.tokens - 1, longer_side=True)
    if scheme.kind == "parts":
        return Capacity(tokens=scheme.tokens)
    most = scheme.context + 1
    if scheme.kind == "current":
        return Capacity(most, (scheme.target_context or 0) + 1)
    return Capacity(most, most)
