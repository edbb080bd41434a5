"""Document Flattening (Wu et al. 2023), and attention between datapoints as their appendix C adapts
it.

Instances are pseudo-documents, ``--instances sliding --context-sentences K --context-loss off``;
batches are consecutive sentences of a document, ``--batch-order document``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.data.batch_fields import FIRST_SENTENCE, first_sentences
from gtransformer.models.batch_readers.step import BatchKeys
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.embedding import DocumentEmbedding
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import Needs, register
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.modules.attention import MultiheadAttention, Pattern
from gtransformer.modules.kernels import Linear, dropout
from gtransformer.modules.positions import SentenceNumbers
from gtransformer.modules.ragged import Memory, Ragged, on_device
from gtransformer.modules.reach import Reach, by_document

ENCODER, DECODER, BOTH_SIDES, NONE = SIDES = ("encoder", "decoder", "both", "none")
CONTINUOUS, DISCRETE, IDENTITY = GATES = ("continuous", "discrete", "identity")
WHERE = (
    "which sides attend to the other instances of the batch; none: a pseudo-document Transformer "
    "with the same norm"
)


@dataclass
class BatchAttentionConfig(DocumentModelConfig):
    """A Transformer over pseudo-documents that reads the batch before its first layers."""

    batch_attention_in: str = option(BOTH_SIDES, f"{WHERE} (Table 3)", SIDES)


@dataclass
class DocFlatConfig(BatchAttentionConfig):
    """Flat-batch attention; defaults are the paper's DocFlat C."""

    context_gate: str = option(
        CONTINUOUS,
        "how the result of batch attention is added. continuous: by a gate (DocFlat C); discrete: "
        "by a gate of 0 or 1 (D); identity: as it is (I)",
        GATES,
    )
    gate_threshold: float = option(0.5, "gamma: where discrete gates open")


@dataclass
class AbdConfig(BatchAttentionConfig):
    """Attention between datapoints, by default only in the encoder."""

    batch_attention_in: str = option(
        ENCODER,
        f"{WHERE} (Table 7); in the decoder, as printed, it reads the target that is to be "
        "predicted",
        SIDES,
    )


class FlatBatchAttention(nn.Module):
    """FBA and NCG: the current sentences of a batch, end to end in their order, attend to each
    other.

    Args:
        cfg: the model's configuration.
        attention: as wide as the layers of its side.
    """

    def __init__(self, cfg: DocFlatConfig, attention: MultiheadAttention):
        super().__init__()
        self.attention = attention
        channels = attention.out_proj.out_features
        self.gate = None if cfg.context_gate == IDENTITY else Linear(channels, channels)
        self.threshold = cfg.gate_threshold if cfg.context_gate == DISCRETE else None

    def forward(
        self, x: Tensor, layout: Ragged, engine: Callable[[Reach], Pattern], causal: bool
    ) -> Tensor:
        """Compute x (N, channels) of the batch -> (N, channels); tokens of local context stay as
        they are.

        ``causal``: in the decoder no token sees later tokens in the order of the sentences.
        """
        if layout.batch_keys is not None:  # a step of decoding
            return self.merged(x, self.attention(x, x, layout.batch_keys))
        # The current sentence is the one with the largest tag of its instance.
        tokens = np.flatnonzero(layout.tag == layout.tags.max(axis=1)[layout.doc])
        # All current sentences become one document, in the order of the batch, so that the usual
        # engine computes attention across instances.
        flat = Ragged.of_tags(layout.doc[None, tokens], layout.device)
        index = on_device(tokens, layout.device)
        h = x.index_select(0, index)
        context = self.attention(h, h, engine(by_document(flat, flat, causal)))
        return x.index_copy(0, index, self.merged(h, context).to(x.dtype))

    def merged(self, h: Tensor, context: Tensor) -> Tensor:
        """Combine h = H and context = FBA(H), (n, channels) each -> (n, channels).

        g = sigmoid(W FBA(H) + b), result (1 - g) H + g FBA(H) (Eq. 8 and 9); without a gate
        H + FBA(H).
        """
        if self.gate is None:
            return h + context
        g = torch.sigmoid(self.gate(context))
        if self.threshold is not None:
            # 0 or 1. A step has no gradient, so that of the sigmoid takes its place (our choice).
            g = g.ge(self.threshold).to(g.dtype) + (g - g.detach())
        return (1 - g) * h + g * context


class AttentionBetweenInstances(nn.Module):
    """ABD: the means of a batch's instances attend to each other; each result is added to its
    instance's tokens.

    Arguments are those of ``FlatBatchAttention``.
    """

    def __init__(self, cfg: AbdConfig, attention: MultiheadAttention):
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Tensor, layout: Ragged, engine: Callable[[Reach], Pattern], causal: bool
    ) -> Tensor:
        """Compute x (N, channels) -> (N, channels). It is never causal, whatever ``causal`` is: Eq.
        11 has no mask.

        A mean contains all of an instance's tokens, so in the decoder each token sees later ones.
        """
        # One vector for each instance; together they are a document of as many tokens as the batch
        # has instances.
        means = mean_by_document(x, layout)
        flat = Ragged.of_tags(np.arange(layout.batch)[None], layout.device)
        context = self.attention(means, means, engine(by_document(flat, flat)))
        return x + context.to(x.dtype).index_select(0, on_device(layout.doc, layout.device))


def mean_by_document(x: Tensor, layout: Ragged) -> Tensor:
    """Average x (N, channels) -> (batch, channels), over the real tokens of each document; zero
    without any.
    """
    lengths = on_device(np.maximum(layout.doc_lengths, 1), layout.device)
    return layout.pad(x).sum(dim=1) / lengths.to(x.dtype).unsqueeze(1)


class BatchFront(nn.Module):
    """Sentence numbers, attention across the batch, norm; each side of a model has its own.

    A side without such attention has the norm, too, so that models with and without it differ in
    nothing else (our choice).

    Args:
        cfg: the model's configuration; it says whether the attention is DocFlat's or ABD's.
        side: "encoder" or "decoder".
    """

    def __init__(self, cfg: BatchAttentionConfig, side: str):
        super().__init__()
        channels, heads = getattr(cfg, f"{side}_embed_dim"), getattr(cfg, f"{side}_attention_heads")
        self.numbers = SentenceNumbers(channels)
        self.across = None
        if cfg.batch_attention_in in (side, BOTH_SIDES):
            # Only DocFlat has gates.
            is_docflat = hasattr(cfg, "context_gate")
            kind = FlatBatchAttention if is_docflat else AttentionBetweenInstances
            self.across = kind(cfg, MultiheadAttention(channels, heads, cfg.attention_dropout))
        self.layer_norm = nn.LayerNorm(channels)


class FrontEmbedding(DocumentEmbedding):
    """A mixin for encoder and decoder; all instances that they receive form the batch."""

    def __init__(self, cfg: BatchAttentionConfig, *inputs):
        super().__init__(cfg, *inputs)
        self.batch_front = BatchFront(cfg, self.side)

    def embed_batch(
        self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]
    ) -> Tensor:
        """Embed as other models do; dropout follows the norm, as in embeddings with a norm (our
        choice).
        """
        front, x = self.batch_front, self.numbered(tokens, layout, per_document)
        # What decoding begins with is local context, which does not read the batch.
        if front.across is not None and (layout.whole or layout.batch_keys is not None):
            x = front.across(x, layout, self.engine, self.side == "decoder")
        return dropout(front.layer_norm(x), self.cfg.dropout, self.training)

    def numbered(self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]) -> Tensor:
        """Embed tokens with positions, with the number of its sentence instead of every ``<s>`` ->
        (N, channels).
        """
        x, begins = self.words(layout.pack(tokens)), np.flatnonzero(layout.within == 0)
        if len(begins):
            doc = on_device(layout.doc[begins], x.device)
            tag = on_device(layout.tag[begins], x.device)
            # Tags count from 1 in each instance, numbers go on through the document.
            numbers = per_document[FIRST_SENTENCE].index_select(0, doc) + tag - 1
            embedded = self.batch_front.numbers(numbers, x.dtype).to(x.dtype)
            x = x.index_copy(0, on_device(begins, x.device), embedded)
        return self.add_positions(x, layout.offset, layout.length)


class FrontEncoder(FrontEmbedding, DocumentEncoder):
    """Encoder of pseudo-documents. Arguments are those of ``DocumentEncoder``."""

    def forward(
        self, src_tokens: Tensor, first_sentence: Tensor | None = None, **unused
    ) -> dict[str, list]:
        """Encode as ``DocumentEncoder.forward``.

        ``first_sentence`` (batch,) int64: the number of each instance's first sentence in its
        document, on both sides;
        None: all begin their documents.
        """
        first = first_sentences(first_sentence, len(src_tokens), src_tokens.device)
        with self.autocast():
            # The decoder numbers its sentences from the same one.
            layout, per_document = self.layout(src_tokens), {FIRST_SENTENCE: first}
            x = self.embed_batch(src_tokens, layout, per_document)
            return self.output(layout, self.run_layers(x, self.view(layout)), per_document)


class FrontDecoder(FrontEmbedding, DocumentDecoder):
    """Decoder of pseudo-documents. Arguments are those of ``DocumentDecoder``.

    If it reads the batch, the documents of a memory are decoded together (``step.py``): they must
    be the sentences of a batch.
    """

    def batch_keys(self, memory: Memory, beam: int) -> BatchKeys | None:
        # A decoder that does not read the batch decodes documents apart from each other.
        return None if self.batch_front.across is None else BatchKeys(self, memory, beam)


class BatchAttentionModel(InstanceTransformerModel):
    """A Transformer over pseudo-documents, with attention across the batch before its layers."""

    encoder_class, decoder_class = FrontEncoder, FrontDecoder

    @property
    def needs(self) -> Needs:
        """Return the requirements: the batch, on the sides that attend to it."""
        sides = self.cfg.batch_attention_in
        return Needs(batch=sides != NONE, targets=sides in (DECODER, BOTH_SIDES), numbers=True)


@register("docflat", DocFlatConfig)
class DocFlatModel(BatchAttentionModel):
    """Flat-batch attention with a gate."""


@register("abd", AbdConfig)
class AbdModel(BatchAttentionModel):
    """Attention between the means of instances (Kossen et al. 2021); in the decoder, of whole
    targets.
    """

    @property
    def needs(self) -> Needs:
        """Return the requirements: in the decoder also tokens that are to be predicted, since a
        mean contains a whole target (Eq. 11).
        """
        return replace(super().needs, future=super().needs.targets)
