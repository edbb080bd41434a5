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
from gtransformer.models.common.decoding.plan import Plan
from gtransformer.models.common.decoding.view import FillingView, StepView
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import Memory, on_device


class CachedState:
    """The state of decoding: what it stores of its hypotheses, and one step.

    Args:
        decoder: the decoder, in evaluation mode.
        plan: of its steps.
        memory: encoder output.
        documents: (groups,) int64, the document that each group of hypotheses translates.
        beam: how many hypotheses form a group. Several groups may translate sentences of one
            document.
    """

    def __init__(
        self,
        decoder: DocumentEmbedding,
        plan: Plan,
        memory: Memory,
        documents: np.ndarray,
        beam: int,
    ):
        self.decoder, self.plan, self.memory, self.beam = decoder, plan, memory, beam
        self.device = memory.states.device
        groups = self._padded(documents)
        self.documents = documents[groups]
        dtype = decoder.key_dtype()
        self.view = StepView(plan, len(groups), beam, memory.by_name(), decoder.layers, dtype)
        self.prefixes = self.view.prefixes
        self.batch_keys = decoder.batch_keys(memory, beam)
        self.vocabulary = len(decoder.output_projection.weight)
        # A state of the decoder's own may precede the words; it has no position.
        self.before = int(decoder.state_before(memory) is not None)
        if self.before:
            nothing = torch.zeros(0, dtype=torch.int64, device=self.device)
            self.force([nothing] * memory.layout.batch)

    def _padded(self, groups: np.ndarray) -> np.ndarray:
        """Return which of these groups each is that is computed: the last one repeats to the
        plan's size.
        """
        return np.minimum(np.arange(self.plan.size(len(groups))), len(groups) - 1)

    def advance(self, tokens: np.ndarray, tags: np.ndarray) -> None:
        """Plan a step that reads a new last token of every hypothesis, both (groups, beam)
        int64; ``tags``: the number of its sentence.
        """
        own = self.prefixes.own
        if len(own) and len(own) % SHARED_BLOCK == 0 and not self.plan.fixed:
            own.store_once()
        self.plan.begin()
        groups = self._padded(tags)
        self.tokens = self.plan.put(tokens[groups].reshape(-1, 1))
        own.add(tags[groups].ravel())
        self.view.advance(self.documents, self.batch_keys)
        table = self.decoder.embed_positions
        if table is not None:
            table.grow(self.view.newest.positions(self.decoder.restarts)[1])
            self.plan.depends_on(*((one.data_ptr(), len(one)) for one in table.buffers()))

    def compute(self) -> Tensor:
        """Return the top states of the new tokens, (hypotheses, channels)."""
        self.view.prepare()
        x = self.decoder.embed_batch(self.tokens, self.view.newest, self.memory.per_document)
        return self.decoder.run_layers(x, self.view)

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
        shared, dtype = self.prefixes.shared, self.prefixes.own.dtype
        shared.sides = {
            module: torch.stack(sides).to(dtype) for module, sides in shared.sides.items()
        }
        self.prefixes.place(counts[self.documents] + self.before)
        self.prefixes.skipped = np.full(len(document), -self.before)
        return x

    def begin_at(self, groups: np.ndarray, lengths: np.ndarray) -> None:
        """Begin new groups in place of the old, after ``force`` and before any step. Those of one
        old group begin in different sentences.

        Args:
            groups: (new groups,) int64, the old group whose document each translates.
            lengths: (new groups,) int64, with how many tokens of that document's target it begins.
        """
        self.reorder((groups[:, None] * self.beam + np.arange(self.beam)).ravel())
        self.prefixes.place((lengths + self.before)[self._padded(lengths)])

    def skip(self, positions: np.ndarray) -> None:
        """Begin each group at a position of its document, (groups,) int64, without what precedes
        it.
        """
        self.prefixes.skipped = (positions - self.before)[self._padded(positions)]

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits, (n, channels) -> (n, vocabulary)."""
        return self.decoder.output_layer(features)

    def reorder(self, order: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; documents may leave, hypotheses of one
        may swap.
        """
        order = order.reshape(-1, self.beam)
        order = order[self._padded(order)].ravel()
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
