"""``--no-repeat-ngram-size``: no words in a row come twice in a sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RepeatedNgrams(nn.Module):
    """Called as fairseq's ``NGramRepeatBlock``, which compares with padding at the end of the hypotheses' buffer.

    That one would also count ``<s>`` and ``</s>``, of which documents have many: n-grams begin anew with each sentence,
    as the limits on its length do. Names and terms may come again in the next one.

    Args:
        size: n, how many words in a row.
        bos: index of ``<s>``, which opens a sentence.
    """

    def __init__(self, size: int, bos: int):
        super().__init__()
        self.size, self.bos = size, bos

    def forward(self, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int) -> Tensor:
        """``lprobs`` (bsz * beam_size, vocabulary), -inf at words that would end an n-gram which is there already.

        A word that is forced (``--prefix-size``) stays: all others are -inf already, and nothing would be left.

        ``tokens``: (bsz * beam_size, longest) int64 prefixes, of which ``step`` + 1 tokens are written.
        """
        forced = lprobs.isfinite().sum(dim=1).le(1).tolist()
        for row, prefix in enumerate(tokens[:, : step + 1].tolist()):
            banned = [] if forced[row] else self.banned(prefix)
            if banned:
                lprobs[row, banned] = -torch.inf
        return lprobs

    def banned(self, prefix: list[int]) -> list[int]:
        """What may not come next, behind a prefix."""
        opened = len(prefix) - prefix[::-1].index(self.bos) if self.bos in prefix else 0
        sentence, before = prefix[opened:], self.size - 1
        newest = sentence[len(sentence) - before :]
        starts = range(len(sentence) - before) if len(sentence) >= before else ()
        return [sentence[start + before] for start in starts if sentence[start : start + before] == newest]
