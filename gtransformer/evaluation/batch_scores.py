"""Scores by models that read their batch: the last of several consecutive sentences is scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtransformer.data.batch_fields import DOCUMENT_INDEX, FIRST_SENTENCE
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer, pad_rows, size


class BatchScorer(SentenceScorer):
    """Scorer that makes each request a batch: the previous instances with their given targets, then the request.

    Only modules in front of the layers read the batch, so the layers compute the last row only.

    Args:
        together: most sentences of a batch, including the scored one.
        max_tokens: most padded target tokens that go through the layers at once; four times as many go through the
            modules in front of them.
    """

    in_batches = True

    def __init__(
        self, model: torch.nn.Module, source: Dictionary, target: Dictionary, together: int, max_tokens: int = 4096
    ) -> None:
        super().__init__(model, source, target, max_tokens)
        self.together, self.most_in_front = together, 4 * max_tokens

    def reach(self, before: Sequence[Request]) -> tuple[int, int]:
        """Return how many sentences back the batch is read, on the source and on the target side; 0: not at all.

        ``before``: instances whose current sentences are consecutive and end in front of the scored one.
        """
        needs, found = self.model.needs, [0, 0]
        for back, one in zip(range(len(before), 0, -1), before, strict=True):
            sides = ((one.source, needs.sources), (one.target, needs.targets))
            for side, (sentences, read) in enumerate(sides):
                if read:
                    found[side] = max(found[side], back + (len(sentences) - 1 if needs.contexts else 0))
        return found[0], found[1]

    def batches(self, requests: Sequence[Request]) -> Iterator[list[int]]:
        """Yield indices of consecutive requests, several batches at once; a shared batch is encoded once."""
        batch: list[int] = []
        inside = [size(request.target) for request in requests]  # goes through the layers
        rows = [len(request.before) + 1 for request in requests]
        sources, targets = (
            [max(size(getattr(one, side)) for one in (*request.before, request)) for request in requests]
            for side in ("source", "target")
        )
        targets = targets if self.model.needs.targets else inside
        for number in range(len(requests)):
            grown = [*batch, number]
            groups = {same(requests[one]): rows[one] for one in grown}
            layers = len(grown) * max(inside[one] for one in grown)
            encoder = sum(groups.values()) * max(sources[one] for one in grown)
            decoder = sum(rows[one] for one in grown) * max(targets[one] for one in grown)
            if batch and (layers > self.max_tokens or max(encoder, decoder) > self.most_in_front):
                yield batch
                grown = [number]
            batch = grown
        if batch:
            yield batch

    def features(self, requests: Sequence[Request], read: Sequence[Sequence[int]]) -> tuple[Tensor, dict]:
        device, (before, after) = next(self.model.parameters()).device, self.layouts
        encoder, decoder = self.model.encoder, self.model.decoder
        groups: dict[tuple[int, int], Request] = {}  # the first request about each batch
        for request in requests:
            groups.setdefault(same(request), request)
        rows = [(i, one) for i, request in enumerate(groups.values()) for one in (*request.before, request)]
        sources = [before.source(one.source) for _, one in rows]
        encoder_out = encoder(
            pad_rows(sources, self.source.pad(), device),
            src_lengths=torch.tensor([len(source) for source in sources], device=device),
            last_instances=True,
            **{
                FIRST_SENTENCE: torch.tensor([one.number for _, one in rows], device=device),
                DOCUMENT_INDEX: torch.tensor([i for i, _ in rows], device=device),
            },
        )
        group_index = {key: i for i, key in enumerate(groups)}
        order = torch.tensor([group_index[same(request)] for request in requests], device=device)
        encoder_out = encoder.reorder_encoder_out(encoder_out, order)
        if not self.model.needs.targets:
            return decoder(pad_rows(read, self.target.pad(), device), encoder_out=encoder_out, features_only=True)
        targets, numbers, of = [], [], []
        for i, (request, own) in enumerate(zip(requests, read, strict=True)):
            targets += [*(after.target(one.target, len(one.source))[0] for one in request.before), own]
            numbers += [one.number for one in (*request.before, request)]
            of += [i] * (len(request.before) + 1)
        states = decoder.last_instances(
            pad_rows(targets, self.target.pad(), device),
            torch.tensor(numbers, device=device),
            torch.tensor(of, device=device),
            encoder_out["memory"][0],
        )
        return states, {"attn": [None]}


def same(request: Request) -> tuple[int, int]:
    """Return a key that requests with the same batch and source share."""
    return id(request.source), id(request.before)
