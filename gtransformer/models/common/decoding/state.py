"""Decoding token by token with caches.

A step runs the layers' own ``forward`` on the newest token of every hypothesis; a view (view.py)
gives their attention the keys and values of before. The ``beam`` hypotheses of a document are
adjacent and form a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from gtransformer.models.common.decoding.caches import SHARED_BLOCK
from gtransformer.models.common.decoding.view import FillingView, Prefixes, StepView
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import Memory, on_device


class CachedState:
    """The state of decoding: what it stores of its hypotheses, and one step.

    Args:
        decoder: the decoder, in evaluation mode.
        memory: encoder output.
        documents: (groups,) int64, the document that each group of hypotheses translates.
        beam: how many hypotheses form a group. Several groups may translate sentences of one
            document.
    """

    def __init__(
        self, decoder: DocumentEmbedding, memory: Memory, documents: np.ndarray, beam: int
    ):
        self.decoder, self.memory, self.beam = decoder, memory, beam
        self.device, dtype = memory.states.device, decoder.embed_tokens.weight.dtype
        self.documents = documents
        self.prefixes = Prefixes(len(self.documents), beam, self.device, dtype)
        self.view = StepView(self.prefixes, memory.by_name())
        self.batch_keys = decoder.batch_keys(memory, beam)
        self.vocabulary = len(decoder.output_projection.weight)
        # A state of the decoder's own may precede the words; it has no position.
        self.before = int(decoder.state_before(memory) is not None)
        if self.before:
            nothing = torch.zeros(0, dtype=torch.int64, device=self.device)
            self.force([nothing] * memory.layout.batch)

    def step(self, tokens: Tensor, tags: np.ndarray) -> Tensor:
        """Read a new last token of every hypothesis.

        Args:
            tokens: (hypotheses,) int64 on the device.
            tags: (groups, beam) int64, the number of its sentence.

        Returns:
            top states of the new tokens, (hypotheses, channels).
        """
        self.prefixes.own.add(tags.ravel())
        self.view.advance(self.documents, self.batch_keys)
        x = self.decoder.embed_batch(
            tokens.unsqueeze(1), self.view.newest, self.memory.per_document
        )
        x = self.decoder.run_layers(x, self.view)
        if len(self.prefixes.own) % SHARED_BLOCK == 0:
            self.prefixes.own.store_once()
        return x

    def force(self, targets: Sequence[Tensor]) -> Tensor:
        """Read what the hypotheses of each group begin with, before the first step, by one full
        pass.

        Args:
            targets: for each document of the memory (length,) int64 on the device, whole sentences,
                possibly none.

        Returns:
            top states of all tokens of the targets, document by document, (N, channels).
        """
        decoder, counts = (
            self.decoder,
            np.array([len(target) for target in targets], dtype=np.int64),
        )
        read = np.arange(len(targets)) if self.before else np.flatnonzero(counts)
        tokens = torch.nn.utils.rnn.pad_sequence(
            [targets[one] for one in read], True, decoder.padding
        )
        memory = replace(self.memory, documents=on_device(read, self.device)).expanded()
        # Groups whose documents have no target begin with nothing of any.
        document = np.searchsorted(read, self.documents).clip(max=len(read) - 1)
        with decoder.autocast():
            layout = decoder.layout(tokens)
            layout.whole = False
            x = decoder.extract_ragged(
                tokens, layout, memory, partial(FillingView, self.prefixes, document)
            )
        shared, dtype = self.prefixes.shared, self.prefixes.dtype
        shared.sides = {
            module: torch.stack(sides).to(dtype) for module, sides in shared.sides.items()
        }
        self.prefixes.place(counts[self.documents] + self.before)
        self.prefixes.skipped = np.full(len(document), -self.before)
        return x

    def begin_at(self, groups: np.ndarray, lengths: np.ndarray) -> None:
        """Begin new groups in place of the old, after ``force`` and before any step.

        Args:
            groups: (new groups,) int64, the old group whose document each translates.
            lengths: (new groups,) int64, with how many tokens of that document's target it begins.
        """
        self.reorder((groups[:, None] * self.beam + np.arange(self.beam)).ravel())
        self.prefixes.place(lengths + self.before)

    def skip(self, positions: np.ndarray) -> None:
        """Begin each group at a position of its document, (groups,) int64, without what precedes
        it.
        """
        self.prefixes.skipped = positions - self.before

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits, (n, channels) -> (n, vocabulary)."""
        return self.decoder.output_layer(features)

    def reorder(self, order: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; documents may leave, hypotheses of one
        may swap.
        """
        groups = order[:: self.beam] // self.beam
        self.prefixes.reorder(order, groups)
        self.documents = self.documents[groups]
        if self.batch_keys is not None:
            self.batch_keys.reorder(order, groups)

    def finish(self, document: int, tokens: Tensor) -> None:
        """Receive a document's translation, (n,) int64 without the language symbol, before the
        ``reorder`` that removes it; other documents may still read it.
        """
        if self.batch_keys is not None:
            self.batch_keys.finish(document, tokens)
