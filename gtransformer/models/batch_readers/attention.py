"""Attention across the instances of a batch: token by token (Wu et al. 2023, Eq. 7 to 10), or their means (Eq. 11)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.kernels import Linear
from gtransformer.modules.ragged import Ragged, on_device
from gtransformer.modules.reach import Reach, by_document

CONTINUOUS, DISCRETE, IDENTITY = GATES = ("continuous", "discrete", "identity")


class BatchReader(DocumentEmbedding):
    """A mixin for encoders and decoders that read several batches at once."""

    def batch_layout(self, tokens: Tensor, document_index: Tensor | None) -> Ragged:
        """Return the layout of (batch, length) tokens.

        ``document_index`` (batch,) int64, ascending from 0: the batch of each instance, if there are several; None: all
        form one.
        """
        layout = self.layout(tokens)
        layout.batches = None if document_index is None else document_index.cpu().numpy()
        return layout

    def last_of_each(
        self, tokens: Tensor, layout: Ragged, x: Tensor, *known: Tensor
    ) -> tuple[Tensor, Ragged, Tensor, *tuple[Tensor, ...]]:
        """Return tokens, layout, states (N, channels) and ``known`` (batch, ...) of each batch's last instance."""
        last = layout.last_instances
        chosen = on_device(np.flatnonzero(np.isin(layout.doc, last)), layout.device)
        tokens, *known = (one.index_select(0, on_device(last, one.device)) for one in (tokens, *known))
        return tokens, self.layout(tokens), x.index_select(0, chosen), *known


class FlatBatchAttention(nn.Module):
    """FBA and NCG: the current sentences of a batch, end to end in their order, attend to each other.

    Args:
        cfg: the model's configuration.
        side: "encoder" or "decoder", whose sizes it has.
    """

    def __init__(self, cfg, side: str):
        super().__init__()
        self.attention = attention_of(cfg, side)
        channels = self.attention.out_proj.out_features
        self.gate = None if cfg.context_gate == IDENTITY else Linear(channels, channels)
        self.threshold = cfg.gate_threshold if cfg.context_gate == DISCRETE else None

    def forward(self, x: Tensor, layout: Ragged, engine: Callable[[Reach], Pattern], causal: bool) -> Tensor:
        """Compute x (N, channels) of the batch -> (N, channels); tokens of local context stay as they are.

        ``causal``: in the decoder no token sees later tokens in the order of the sentences.
        """
        if layout.batch_keys is not None:  # a step of decoding
            return self.merged(x, self.attention(x, x, layout.batch_keys))
        chosen = current_tokens(layout)
        documents = layout.doc[chosen]
        batches = None if layout.batches is None else layout.batches[documents]
        flat = end_to_end(documents + 1, layout.device, batches)
        index = on_device(chosen, layout.device)
        own = x.index_select(0, index)
        found = self.attention(own, own, engine(by_document(flat, flat, causal)))
        return x.index_copy(0, index, self.merged(own, found).to(x.dtype))

    def merged(self, own: Tensor, found: Tensor) -> Tensor:
        """Return Eq. 8 and 9, or the sum: H and FBA(H), (n, channels) -> (n, channels)."""
        if self.gate is None:
            return own + found
        g = torch.sigmoid(self.gate(found))
        if self.threshold is not None:  # the gradient goes straight through the step (our choice)
            g = g.ge(self.threshold).to(g.dtype) + (g - g.detach())
        return (1 - g) * own + g * found


class AttentionBetweenInstances(nn.Module):
    """ABD: the means of a batch's instances attend to each other; each result is added to its instance's tokens.

    Arguments are those of ``FlatBatchAttention``.
    """

    def __init__(self, cfg, side: str):
        super().__init__()
        self.attention = attention_of(cfg, side)

    def forward(self, x: Tensor, layout: Ragged, engine: Callable[[Reach], Pattern], causal: bool) -> Tensor:
        """Compute x (N, channels) -> (N, channels). It is never causal, whatever ``causal`` is: Eq. 11 has no mask.

        A mean contains all of an instance's tokens, so in the decoder each token sees later ones.
        """
        means = mean_by_document(x, layout)
        flat = end_to_end(np.arange(1, layout.batch + 1), layout.device, layout.batches)
        found = self.attention(means, means, engine(by_document(flat, flat)))
        return x + found.to(x.dtype).index_select(0, on_device(layout.doc, layout.device))


def attention_of(cfg, side: str) -> MultiheadAttention:
    """Return self-attention of the width of a side's layers."""
    channels, heads = getattr(cfg, f"{side}_embed_dim"), getattr(cfg, f"{side}_attention_heads")
    return MultiheadAttention(channels, heads, cfg.attention_dropout)


def current_tokens(layout: Ragged) -> np.ndarray:
    """Return (n,) int64: the tokens of each instance's last sentence, in the order of the batch."""
    last = np.zeros(layout.batch, dtype=layout.tag.dtype)
    np.maximum.at(last, layout.doc, layout.tag)
    return np.flatnonzero(layout.tag == last[layout.doc])


def end_to_end(tags: np.ndarray, device: torch.device, batches: np.ndarray | None = None) -> Ragged:
    """Return the layout of (n,) tokens as one document, or as one for each of their ``batches``.

    ``batches`` (n,) int64, ascending from 0; ``tags`` (n,) int64 of each token.
    """
    counts = np.array([len(tags)]) if batches is None else np.bincount(batches)
    real = np.arange(counts.max()) < counts[:, None]
    padded = np.zeros(real.shape, dtype=np.int64)
    padded[real] = tags
    return Ragged(on_device(real, device), on_device(padded, device))


def mean_by_document(x: Tensor, layout: Ragged) -> Tensor:
    """Average x (N, channels) -> (batch, channels), over the real tokens of each document; zero without any."""
    lengths = on_device(np.maximum(layout.doc_lengths, 1), layout.device)
    return layout.pad(x).sum(dim=1) / lengths.to(x.dtype).unsqueeze(1)


def mean_by_batch(means: Tensor, batches: np.ndarray) -> Tensor:
    """Average means (documents, channels) -> (batches, channels); ``batches`` (documents,) int64, ascending from 0.

    They are padded and summed: a product of matrices would round to half precision, and index_add is not reproducible
    to the last digits on a GPU.
    """
    counts = np.bincount(batches)
    position = np.arange(len(batches)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = on_device(batches * counts.max() + position, means.device)
    padded = means.new_zeros(len(counts) * counts.max(), means.shape[1]).index_copy(0, index, means)
    sums = padded.view(len(counts), -1, means.shape[1]).sum(dim=1)
    return sums / on_device(counts, means.device).to(means.dtype).unsqueeze(1)
