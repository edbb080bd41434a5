"""Decoding for decoders with sentence numbers, which may read the other sentences of their batch.

The sentences of a batch are decoded in parallel, one token of each at a time. Flat-batch attention sees the sentence's
own prefix. Of each earlier sentence of the batch it sees the translation, if it is complete, else the best hypothesis
at the same step. It sees nothing of later sentences. States are never recomputed, even if another hypothesis of an
earlier sentence becomes the best. (Wu et al. 2023, section 3.5, say "partially translated"; the rest is our choice.)
With one hypothesis a sentence the mask lets token t of sentence i see token s of sentence j if j <= i and s <= t.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gtransformer.data.batch_fields import FIRST_SENTENCE
from gtransformer.models.batch_readers.attention import FlatBatchAttention
from gtransformer.models.common.decoding.history import ForcedPrefixes, visible_to_score
from gtransformer.models.common.decoding.layer_step import Pack
from gtransformer.models.common.decoding.state import InputStep
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.ragged import Memory, on_device


class FrontStep(InputStep):
    """``FrontEmbedding.embed_batch`` step by step; the forced prefix is local context. Arguments: of ``InputStep``.

    The documents of ``memory`` are the sentences of a batch, in their order.
    """

    def __init__(self, decoder: DocumentEmbedding, memory: Memory, documents: np.ndarray, beam: int, pack: Pack):
        super().__init__(decoder, memory, documents, beam, pack)
        self.front, self.documents, self.beam = decoder.batch_front, documents, beam
        self.first = memory.per_document[FIRST_SENTENCE]
        self.flat = None if self.front.across is None else FlatStep(self.front.across, beam, pack)
        self.opened: dict[int, tuple[int, int]] = {}  # by sentence: offset and tag of the <s> that opened it

    def step(self, tokens: Tensor, offsets: np.ndarray, opens: np.ndarray, tags: np.ndarray) -> Tensor:
        """See ``InputStep``.

        Raises ValueError for a second sentence if the decoder reads the batch: it reads the last sentence of each
        instance, so the previous ones must be forced.
        """
        x = self._embed(tokens, offsets, opens.ravel(), np.repeat(self.documents, self.beam), tags.ravel())
        if self.flat is not None:
            if not self.flat.began:
                opened = zip(offsets[:: self.beam].tolist(), tags[:, 0].tolist(), strict=True)
                self.opened = dict(zip(self.documents.tolist(), opened, strict=True))
            elif opens.any():
                raise ValueError("a decoder that reads its batch is given all sentences but the last")
            x = self.flat.step(x, self.documents)
        return self.front.layer_norm(x)

    def force(self, forced_prefixes: ForcedPrefixes) -> Tensor:
        layout = forced_prefixes.layout
        documents = forced_prefixes.documents[layout.doc]
        opens = forced_prefixes.tokens.cpu().numpy() == self.decoder.bos
        return self.front.layer_norm(self._embed(forced_prefixes.tokens, layout.position, opens, documents, layout.tag))

    def reorder(self, groups: np.ndarray, beams: np.ndarray) -> None:
        self.documents = self.documents[groups]
        if self.flat is not None:
            self.flat.reorder((groups[:, None] * self.beam + beams).ravel())

    def finish(self, document: int, tokens: Tensor) -> None:
        if self.flat is None:
            return
        offset, tag = self.opened[document]
        tokens = torch.cat([tokens.new_tensor([self.decoder.bos]), tokens])
        position = np.arange(len(tokens))
        same = np.full(len(tokens), document), np.full(len(tokens), tag)
        self.flat.finish(document, self._embed(tokens, offset + position, position == 0, *same))

    def _embed(
        self, tokens: Tensor, offsets: np.ndarray, opens: np.ndarray, documents: np.ndarray, tags: np.ndarray
    ) -> Tensor:
        """Return H: tokens (n,) with numbers and positions, (n, channels); the arrays are (n,)."""
        opened = np.flatnonzero(opens)
        x = self.decoder.numbered(tokens, self.first, opened, documents[opened], tags[opened])
        where = on_device(offsets, tokens.device)
        return self.decoder.add_positions(x, where, int(offsets.max(initial=0)) + 1)


class FlatStep:
    """Flat-batch attention of the newest token of every hypothesis.

    Args:
        across: the module.
        beam: hypotheses of a sentence; the first one is the best.
        pack: as of ``InputStep``.
    """

    def __init__(self, across: FlatBatchAttention, beam: int, pack: Pack):
        self.across, self.attention, self.beam = across, across.attention, beam
        self.into = pack(*(getattr(across.attention, name) for name in ("q_proj", "k_proj", "v_proj")))
        self.out = pack(across.attention.out_proj)
        self.gate = None if across.gate is None else pack(across.gate)
        self.own: list[Tensor] = []  # keys and values of own tokens, (hypotheses, heads, tokens, dim)
        self.translated: dict[int, list[Tensor]] = {}  # by sentence: keys and values (heads, tokens, dim)

    @property
    def began(self) -> bool:
        """Whether a token was read."""
        return bool(self.own)

    def step(self, x: Tensor, sentences: np.ndarray) -> Tensor:
        """Apply to x (hypotheses, channels) -> (hypotheses, channels); ``sentences`` (groups,) int64, ascending, of
        each group.
        """
        q, *new = self.attention.split_parts(self.into(x))
        new = [side.unsqueeze(2) for side in new]
        self.own = [torch.cat(pair, dim=2) for pair in zip(self.own, new, strict=True)] if self.own else new
        return self.across.merged(x, self.out(self._attend(q, sentences)), self.gate)

    def _attend(self, q: Tensor, sentences: np.ndarray) -> Tensor:
        """Attend with q (hypotheses, heads, dim) -> (hypotheses, channels), to own tokens and those of earlier
        sentences.
        """
        keys, values = self.own
        q = q * q.shape[-1] ** -0.5
        scores = [torch.einsum("rhd,rhtd->rht", q, keys)]
        held, of = self._held(sentences)
        if len(of):
            seen = of < np.repeat(sentences, self.beam)[:, None, None]
            mask = visible_to_score(seen, q.device, q.dtype)
            others = torch.einsum("rhd,hnd->rhn", q, held[0])
            scores.append(others if mask is None else others + mask)
        exact = torch.float64 if q.dtype == torch.float64 else torch.float32
        weights = torch.cat(scores, dim=-1).softmax(dim=-1, dtype=exact).to(q.dtype)
        own, others = weights.split([keys.shape[2], len(of)], dim=-1)
        found = torch.einsum("rht,rhtd->rhd", own, values)
        if len(of):
            found = found + torch.einsum("rhn,hnd->rhd", others, held[1])
        return found.flatten(1)

    def _held(self, sentences: np.ndarray) -> tuple[list[Tensor], np.ndarray]:
        """Return keys and values (heads, n, dim) that other sentences may read, and the sentence of each, (n,) int64.

        These are translations, or best hypotheses, of the sentences before the last unfinished one.
        """
        last = int(sentences.max(initial=0))
        done = [number for number in sorted(self.translated) if number < last]
        going = sentences[:-1]
        length = self.own[0].shape[2]
        parts = [[self.translated[number][side] for number in done] for side in (0, 1)]
        if len(going):
            for part, side in zip(parts, self.own, strict=True):
                part.append(side[:: self.beam][:-1].transpose(0, 1).flatten(1, 2))
        counts = [*(self.translated[number][0].shape[1] for number in done), *[length] * len(going)]
        of = np.repeat(np.concatenate([np.array(done, dtype=np.int64), going]), counts)
        return [torch.cat(part, dim=1) for part in parts if part], of

    def reorder(self, order: np.ndarray) -> None:
        """Continue with hypothesis ``order[i]`` as hypothesis i."""
        if self.own and not (len(order) == len(self.own[0]) and (order == np.arange(len(order))).all()):
            index = on_device(order, self.own[0].device)
            self.own = [side.index_select(0, index) for side in self.own]

    def finish(self, sentence: int, x: Tensor) -> None:
        """Store the keys and values of a translation, ``<s>`` included; x (n, channels)."""
        _, *sides = self.attention.split_parts(self.into(x))
        self.translated[sentence] = [side.transpose(0, 1) for side in sides]
