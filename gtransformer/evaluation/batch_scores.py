"""Scores by models that read their batch: what is scored is the last of several consecutive sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.sentence_numbers import FIRST_SENTENCE
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer, pad_rows


class BatchScorer(SentenceScorer):
    """Each request is a batch of its own: what stands before it, whose targets are given, then itself.

    Args:
        together: most sentences of a batch, the one in question included.
    """

    in_batches = True

    def __init__(
        self, model: torch.nn.Module, source: Dictionary, target: Dictionary, together: int, max_tokens: int = 4096
    ) -> None:
        super().__init__(model, source, target, max_tokens)
        self.together = together

    def batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Requests that follow each other and have source and batch in common, which are encoded once."""

        def same(number: int) -> tuple[int, int]:
            return id(requests[number].source), id(requests[number].before)

        return (list(numbers) for _, numbers in groupby(range(len(requests)), same))

    def features(self, requests: Sequence[Request], read: Sequence[Sequence[int]]) -> tuple[Tensor, dict]:
        first, device = requests[0], next(self.model.parameters()).device
        before, after = self.layouts
        rows = [*((one.source, one.number) for one in first.before), (first.source, first.number)]
        sources = [before.source(source) for source, _ in rows]
        encoder_out = self.model.encoder(
            pad_rows(sources, self.source.pad(), device),
            src_lengths=torch.tensor([len(source) for source in sources], device=device),
            **{FIRST_SENTENCE: torch.tensor([number for _, number in rows], device=device)},
        )
        given = [after.target(one.target, len(one.source))[0] for one in first.before]
        found = []
        for own in read:
            targets = pad_rows([*given, own], self.target.pad(), device)
            features, extra = self.model.decoder(targets, encoder_out=encoder_out, features_only=True)
            found.append(features[-1, : len(own)])
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True), extra
