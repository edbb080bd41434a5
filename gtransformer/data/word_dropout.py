"""Word dropout on the inputs of training (Bao et al. 2021, appendix C.1, after Bowman et al. 2016)."""

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
        """tokens (length,) int64 -> a copy with words dropped; ``side`` 0 is the source, 1 the target input."""
        # A generator of its own, not numpy's for all: with --num-workers 0 fairseq loads in a thread beside the
        # training. The seed is the one that fairseq's data_utils.numpy_seed makes of these numbers.
        source = numpy.random.RandomState(int(hash((self.seed, epoch, instance, side)) % 1e6))
        draw = torch.from_numpy(source.random_sample(len(tokens)))
        chosen = (draw < self.probability) & ~torch.isin(tokens, self.protected)
        return tokens.masked_fill(chosen, self.mask)
