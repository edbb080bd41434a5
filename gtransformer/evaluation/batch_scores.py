"""Scores by models that read their batch: what is scored is the last of several consecutive sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.sentence_numbers import FIRST_SENTENCE
from gtransformer.evaluation.sentence_scores import Beside, Request, SentenceScorer, pad_rows, size


class BatchScorer(SentenceScorer):
    """Each request is a batch of its own: what stands before it, whose targets are given, then itself.

    What reads the batch stands in front of the layers, so these go through the last row alone.

    Args:
        together: most sentences of a batch, the one in question included.
        max_tokens: of the targets that go through the layers together, padded.
    """

    in_batches = True

    def __init__(
        self, model: torch.nn.Module, source: Dictionary, target: Dictionary, together: int, max_tokens: int = 4096
    ) -> None:
        super().__init__(model, source, target, max_tokens)
        self.together = together

    def reach(self, before: Sequence[Beside]) -> tuple[int, int]:
        """How many sentences back the others of a batch are read, as sources and as targets; 0: they are not.

        ``before``: instances whose current sentences follow each other up to the one in question.
        """
        whole = self.model.reads_contexts
        found = [0, 0]
        for back, one in zip(range(len(before), 0, -1), before, strict=True):
            sides = ((one.source, self.model.reads_sources), (one.target, self.model.reads_targets))
            for side, (sentences, read) in enumerate(sides):
                if read:
                    found[side] = max(found[side], back + (len(sentences) - 1 if whole else 0))
        return found[0], found[1]

    def batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Requests that follow each other and have source and batch in common, which are encoded once."""

        def same(number: int) -> tuple[int, int]:
            return id(requests[number].source), id(requests[number].before)

        for _, numbers in groupby(range(len(requests)), same):
            batch: list[int] = []
            for number in numbers:
                width = max(size(requests[one].target) for one in (*batch, number))
                if batch and width * (len(batch) + 1) > self.max_tokens:
                    yield batch
                    batch = []
                batch.append(number)
            yield batch

    def features(self, requests: Sequence[Request], read: Sequence[Sequence[int]]) -> tuple[Tensor, dict]:
        first, device = requests[0], next(self.model.parameters()).device
        encoder, decoder = self.model.encoder, self.model.decoder
        before, after = self.layouts
        rows = [*((one.source, one.number) for one in first.before), (first.source, first.number)]
        sources = [before.source(source) for source, _ in rows]
        numbers = torch.tensor([number for _, number in rows], device=device)
        encoder_out = encoder(
            pad_rows(sources, self.source.pad(), device),
            src_lengths=torch.tensor([len(source) for source in sources], device=device),
            last_row=True,
            **{FIRST_SENTENCE: numbers},
        )
        encoder_out = encoder.reorder_encoder_out(encoder_out, torch.zeros_like(numbers[:1]).expand(len(read)))
        if not self.model.reads_targets:
            return decoder(pad_rows(read, self.target.pad(), device), encoder_out=encoder_out, features_only=True)
        given = [after.target(one.target, len(one.source))[0] for one in first.before]
        targets = pad_rows([row for own in read for row in (*given, own)], self.target.pad(), device)
        of = torch.arange(len(read), device=device).repeat_interleave(len(rows))
        states = decoder.last_rows(targets, numbers.repeat(len(read)), of, encoder_out["memory"][0])
        return states, {"attn": [None]}
