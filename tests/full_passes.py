"""Decoding by a full pass over the prefix at every step: what decoding with caches is compared
to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.plan import Plan
from gtransformer.modules.ragged import Memory


class FullPasses:
    """The state of decoding, without caches (see ``CachedState``)."""

    def __init__(self, decoder, memory: Memory, documents: np.ndarray, beam: int):
        self.decoder, self.memory, self.beam = decoder, memory, beam
        self.vocabulary = len(decoder.output_projection.weight)
        self.plan = Plan(memory.states.device, False)
        documents = torch.from_numpy(documents.repeat(beam)).to(self.plan.device)
        self.rows = documents  # of each hypothesis
        self.read = [documents.new_zeros(0)] * len(documents)

    def advance(self, tokens: np.ndarray, tags: np.ndarray) -> None:
        new = torch.from_numpy(tokens.ravel()).to(self.plan.device).split(1)
        self.read = [torch.cat(both) for both in zip(self.read, new, strict=True)]

    def compute(self) -> Tensor:
        return torch.cat(
            [
                self.states(one, document)[-1:]
                for one, document in zip(self.read, self.rows, strict=True)
            ]
        )

    def states(self, tokens: Tensor, document: Tensor) -> Tensor:
        """Top states of a prefix."""
        with self.decoder.autocast():
            layout = self.decoder.layout(tokens.unsqueeze(0))
            layout.whole = False
            memory = replace(self.memory, documents=document.view(1)).expanded()
            return self.decoder.extract_ragged(tokens.unsqueeze(0), layout, memory)

    def force(self, targets: list[Tensor]) -> Tensor:
        self.read = [targets[document] for document in self.rows.tolist()]
        documents = [number for number, target in enumerate(targets) if len(target)]
        return torch.cat([self.states(targets[one], torch.tensor(one)) for one in documents])

    def begin_at(self, groups: np.ndarray, lengths: np.ndarray) -> None:
        self.reorder((groups[:, None] * self.beam + np.arange(self.beam)).ravel())
        self.read = [
            one[:length] for one, length in zip(self.read, lengths.repeat(self.beam), strict=True)
        ]

    def logits(self, features: Tensor) -> Tensor:
        return self.decoder.output_layer(features)

    def reorder(self, order: np.ndarray) -> None:
        self.read, self.rows = [self.read[one] for one in order.tolist()], self.rows[order]

    def finish(self, document: int, tokens: Tensor) -> None:
        pass


def step(state, tokens: np.ndarray, tags: np.ndarray) -> Tensor:
    """Top states of one more token of every hypothesis, both (groups, beam)."""
    state.advance(tokens, tags)
    state.plan.send()
    return state.compute()


def use_caches(model, caches: bool) -> None:
    """Let a model decode with caches, or by full passes."""
    for name in ("begin", "independent_sentences"):
        vars(model.decoder).pop(name, None)
    if not caches:
        model.decoder.independent_sentences = lambda memory: (
            False
        )  # nothing begins in the middle of a document
        model.decoder.begin = lambda *given: FullPasses(model.decoder, *given)
