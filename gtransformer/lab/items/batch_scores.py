"""Scores by models that read their batch: the last of several consecutive sentences is scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.batch_fields import FIRST_SENTENCE
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer, pad_rows
from gtransformer.plugin.load_model import load_model, load_scorer
from gtransformer.tasks.options import BATCH, wants_document


@dataclass(frozen=True)
class BatchRequest(Request):
    """A request with the rest of its batch.

    Attributes:
        before: the previous instances, for models that read their batch.
        number: for these models, the position of the first sentence in its document, from 1.
    """

    before: tuple[BatchRequest, ...] = ()
    number: int = 1


class BatchScorer(SentenceScorer):
    """Scorer that makes each request a batch: the previous instances with their given targets, then the request.

    ``together``: most sentences of a batch, including the scored one.
    """

    def __init__(self, model: torch.nn.Module, source: Dictionary, target: Dictionary, together: int) -> None:
        super().__init__(model, source, target)
        self.together = together

    def batches(self, requests: Sequence[BatchRequest]) -> Iterator[list[int]]:
        """Yield indices of consecutive requests with one source and one batch (the same objects)."""
        for _, group in groupby(enumerate(requests), key=lambda pair: (id(pair[1].source), id(pair[1].before))):
            yield [number for number, _ in group]

    def features(self, requests: Sequence[BatchRequest], read: Sequence[Sequence[int]]) -> tuple[Tensor, dict]:
        device, (before, after) = next(self.model.parameters()).device, self.layouts
        encoder, decoder = self.model.encoder, self.model.decoder
        rows = [*requests[0].before, requests[0]]
        sources = [before.document(one.source)[0] for one in rows]
        encoder_out = encoder(
            pad_rows(sources, self.source.pad(), device),
            src_lengths=torch.tensor([len(source) for source in sources], device=device),
            **{FIRST_SENTENCE: torch.tensor([one.number for one in rows], device=device)},
        )
        states = []
        for request, own in zip(requests, read, strict=True):
            targets = [*(after.target(one.target)[0] for one in request.before), own]
            targets = pad_rows(targets, self.target.pad(), device)
            states.append(decoder(targets, encoder_out=encoder_out, features_only=True)[0][-1])
        return torch.nn.utils.rnn.pad_sequence(states, batch_first=True), {"attn": [None]}


def load_item_scorer(
    prepared: Path, checkpoint: Path, max_tokens: int, cpu: bool, together: int = BATCH
) -> tuple[SentenceScorer, object]:
    """Return a scorer with a checkpoint's model, and the model's task.

    ``together``: number of sentences in a batch, for models that read their batch.
    """
    model, task = load_model(prepared, checkpoint, cpu)
    if not wants_document(model):
        return load_scorer(prepared, checkpoint, max_tokens, cpu)
    if not model.needs.batch:
        together = 1
    return BatchScorer(model, task.source_dictionary, task.target_dictionary, together), task
