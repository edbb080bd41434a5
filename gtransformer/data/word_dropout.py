"""Word dropout on training inputs (Bao et al. 2021, appendix C.1, after Bowman et al. 2016)."""

from __future__ import annotations

import numpy
import torch
from torch import Tensor


class WordDropout:
    """Replaces words by ``<mask>``, each with the same probability, never a protected symbol.

    Args:
        probability: of replacing a word (``--doc-noise-mask``).
        mask: index of ``<mask>``.
        protected: (n,) int64 indices that are never replaced: ``<s>``, ``</s>``, ``<unk>``,
            padding, languages.
        epochs: N of ``--doc-noise-epochs``: epochs 1 to N - 1 have word dropout, as in the release.
        seed: draws depend on (seed, epoch, instance) alone, not on the batch or on the order of
            loading.
    """

    def __init__(self, probability: float, mask: int, protected: Tensor, epochs: int, seed: int):
        self.probability, self.mask, self.protected = probability, mask, protected
        self.epochs, self.seed = epochs, seed

    def __call__(self, tokens: Tensor, epoch: int, instance: int, side: int) -> Tensor:
        """Return a copy of tokens (length,) int64 with words dropped.

        ``side`` separates draws of one instance: 0 for the source, 1 for the target input.
        """
        if epoch >= self.epochs:
            return tokens
        # A generator of its own, not numpy's global one: with --num-workers 0 fairseq loads in a
        # thread parallel to the training. fairseq's data_utils.numpy_seed makes the same seed from
        # these numbers.
        source = numpy.random.RandomState(int(hash((self.seed, epoch, instance, side)) % 1e6))
        draw = torch.from_numpy(source.random_sample(len(tokens)))
        chosen = (draw < self.probability) & ~torch.isin(tokens, self.protected)
        return tokens.masked_fill(chosen, self.mask)
