"""Decoding for decoders that read the other sentences of their batch.

The sentences of a batch are decoded in parallel, one token of each at a time. Flat-batch attention
sees the sentence's own prefix. Of each earlier sentence of the batch it sees the translation, if it
is complete, else the best hypothesis at the same step. It sees nothing of later sentences. States
are never recomputed, even if another hypothesis of an earlier sentence becomes the best. (Wu et al.
2023, section 3.5, say "partially translated"; the rest is our choice.) With one hypothesis a
sentence the mask lets token t of sentence i see token s of sentence j if j <= i and s <= t.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gtransformer.models.common.decoding.caches import (
    OwnKeys,
    OwnReading,
    Reading,
    attended,
    by_group,
    by_hypothesis,
    mask_of,
)
from gtransformer.models.common.decoding.view import NewestTokens
from gtransformer.modules.attention import MultiheadAttention
from gtransformer.modules.ragged import Memory, on_device


class BatchKeys:
    """The pattern of flat-batch attention of the newest tokens (``modules.attention.Pattern``).

    Args:
        decoder: a ``FrontDecoder``.
        memory: its documents are the sentences of a batch, in their order.
        beam: hypotheses of a sentence; the first one is the best.
    """

    def __init__(self, decoder, memory: Memory, beam: int):
        self.decoder, self.memory, self.beam = decoder, memory, beam
        self.own: OwnKeys | None = None
        # By sentence: keys and values of its translation, (2, heads, tokens, dim).
        self.translated: dict[int, Tensor] = {}

    def advance(self, newest: NewestTokens) -> None:
        """Go to the newest token of every hypothesis; sentences before the last of each instance
        must be forced.
        """
        self.queries, self.sentences = newest, newest.doc[:: self.beam]
        if self.own is None:
            dtype = self.decoder.key_dtype()
            self.own = OwnKeys(newest.plan, len(self.sentences), self.beam, dtype)
            self.own.sides[self.decoder.batch_front.across.attention] = None
            self.reading = OwnReading(self.own)
            # Position and tag of the <s> that opens each sentence.
            self.begins = newest.position[:: self.beam], newest.tag[:: self.beam]
        self.own.add(newest.tag)
        self.reading.look(np.zeros(len(newest.tag), dtype=np.int64))

    def project(self, module: MultiheadAttention, x: Tensor, memory: Tensor) -> tuple:
        """Store keys and values of the newest tokens; return queries, keys and values of own
        tokens, and those of other sentences.
        """
        q, k, v = module.project(x, memory, self.queries.tags, self.queries.tags)
        own = self.own.append(module, k, v)
        return q, own, self._others(own)

    def attend(
        self, q: Tensor, k: Tensor, v: tuple, dropout: float, relative: Tensor | None = None
    ) -> Tensor:
        """Attend with q (hypotheses, heads, dim) -> (hypotheses, channels), to own tokens and those
        of earlier sentences; k and v are those of ``project``.
        """
        (keys, values), of = v
        later, others = (of >= self.sentences[:, None])[:, None, None], Reading()
        others.mask = mask_of(on_device(later, q.device), q.dtype)
        self.reading.prepare()
        parts = [self.reading.part(k), (others, keys, values)]
        return by_hypothesis(attended(by_group(q.to(self.own.dtype), self.beam), parts)).flatten(1)

    def _others(self, own: Tensor) -> tuple[Tensor, np.ndarray]:
        """Return keys and values (2, heads, n, dim) that other sentences may read, and the sentence
        (n,) of each.

        These are translations, or best hypotheses, of the sentences before the last unfinished one.
        """
        last = int(self.sentences.max(initial=0))
        parts = {number: sides for number, sides in self.translated.items() if number < last}
        best = self.own.of_first(own)
        parts |= {
            number: best[:, group] for group, number in enumerate(self.sentences[:-1].tolist())
        }
        of = np.repeat(
            np.array(list(parts), dtype=np.int64), [sides.shape[2] for sides in parts.values()]
        )
        return torch.cat([best[:, 0, :, :0], *parts.values()], dim=2), of

    def reorder(self, order: np.ndarray, groups: np.ndarray) -> None:
        """Continue hypothesis ``order[i]`` as hypothesis i; these are of the old groups
        ``groups``.
        """
        if self.own is not None:
            self.own.reorder(order, groups)

    def finish(self, sentence: int, tokens: Tensor) -> None:
        """Store the keys and values of a translation; ``tokens`` (n,) int64 after the given
        ``<s>``.
        """
        begin, tag = (one[sentence] for one in self.begins)
        tokens = functional.pad(tokens, (1, 0), value=self.decoder.bos).to(self.own.plan.device)
        within = np.arange(len(tokens))
        same = np.full(len(tokens), sentence), np.full(len(tokens), tag)
        layout = NewestTokens(*same, begin + within, within).put(self.own.plan)
        x = self.decoder.numbered(tokens.unsqueeze(1), layout, self.memory.per_document)
        sides = self.decoder.batch_front.across.attention.keys_and_values(x, layout.tag)
        self.translated[sentence] = torch.stack(sides).transpose(1, 2)
