"""Word dropout on training inputs (Bao et al. 2021, appendix C.1, after Bowman et al. 2016), and CoWord.

CoWord is word dropout on the current source sentence alone (Fernandes et al. 2021, "Measuring and Increasing Context
Usage in Context-Aware Machine Translation"). The model must find missing words in the context, which is unchanged.
"""

from __future__ import annotations

import numpy
import torch
from torch import Tensor


class WordDropout:
    """Replaces words by ``<mask>``, each with the same probability, never a protected symbol.

    Args:
        probability: of replacing a word (``--doc-noise-mask``).
        mask: index of ``<mask>``.
        protected: (n,) int64 indices that are never replaced: ``<s>``, ``</s>``, ``<unk>``, padding, languages.
        seed: draws depend on (seed, epoch, instance) alone, not on the batch or on the order of loading.
    """

    def __init__(self, probability: float, mask: int, protected: Tensor, seed: int):
        self.probability, self.mask, self.protected, self.seed = probability, mask, protected, seed

    def __call__(self, tokens: Tensor, epoch: int, instance: int, side: int) -> Tensor:
        """Return a copy of tokens (length,) int64 with words dropped.

        ``side`` separates draws of one instance: 0 for the source, 1 for the target input, 2 for the current source.
        """
        # A generator of its own, not numpy's global one: with --num-workers 0 fairseq loads in a thread parallel to the
        # training. fairseq's data_utils.numpy_seed makes the same seed from these numbers.
        source = numpy.random.RandomState(int(hash((self.seed, epoch, instance, side)) % 1e6))
        draw = torch.from_numpy(source.random_sample(len(tokens)))
        chosen = (draw < self.probability) & ~torch.isin(tokens, self.protected)
        return tokens.masked_fill(chosen & self.where(tokens, epoch + instance), self.mask)

    def where(self, tokens: Tensor, turn: int) -> Tensor:
        """Mark the tokens that may be replaced, (length,) bool: all; ``turn`` changes in every epoch."""
        return torch.ones_like(tokens, dtype=torch.bool)


class CurrentWordDropout(WordDropout):
    """Replaces words of current sentences alone (``--coword-dropout``).

    If the last sentence of an instance is the current one, its words are replaced. If all are current, as in a whole
    document, sentences take turns (our choice): the first, third, ... in one epoch, the second, fourth, ... in the
    next. So the neighbours of a sentence with masks are unchanged, and half of the words may be replaced. An instance
    of a single sentence has no context, and no masks.

    Args:
        opening: index of ``<s>``, which every sentence begins with.
        last: only the last sentence of an instance is current.
    """

    def __init__(self, probability: float, mask: int, protected: Tensor, seed: int, opening: int, last: bool):
        super().__init__(probability, mask, protected, seed)
        self.opening, self.last = opening, last

    def where(self, tokens: Tensor, turn: int) -> Tensor:
        """Mark the tokens of the sentences that are current in this turn, (length,) bool."""
        sentence = tokens.eq(self.opening).cumsum(dim=0)
        if len(sentence) and sentence[-1] == 1:  # there is no context in which its words could be found
            return torch.zeros_like(tokens, dtype=torch.bool)
        return sentence.eq(sentence[-1:]) if self.last else (sentence + turn) % 2 == 1
