"""Mini-batch embedding (Morishita et al. 2021): the mean of a part of a document, in addition to
the words.

Instances and batches are those of ``docflat``. The paper's classifier of batches is left out.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gtransformer.models.batch_readers.docflat import mean_by_document
from gtransformer.models.common.blocks import AttentionBlock
from gtransformer.models.common.config import DocumentModelConfig, option
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import LayerStack
from gtransformer.models.common.model import Needs, register
from gtransformer.models.transformer import WHOLE, InstanceTransformerModel
from gtransformer.modules.kernels import dropout
from gtransformer.modules.ragged import Memory, Ragged

ENCODER, DECODER, BOTH_SIDES = SIDES = ("encoder", "decoder", "both")


@dataclass
class MbeConfig(DocumentModelConfig):
    """A Transformer, and which of its sides see the vector of the batch."""

    batch_vector_in: str = option(BOTH_SIDES, "which sides see the vector of the batch", SIDES)
    doc_encoder_layer_norm: bool = option(
        False,
        "layer norm over the encoder's words and vector, before its layers, as in the authors' "
        "scripts",
    )
    doc_decoder_layer_norm: bool = option(False, "the same over the decoder's vector and words")


VECTOR = "batch_vector"  # a memory's tensor of its documents' batch vectors


class BatchVector(LayerStack):
    """One more encoder layer, then the mean over the tokens of each instance and the mean over
    instances.
    """

    def __init__(self, cfg: MbeConfig):
        super().__init__()
        self.init_layers(cfg, "encoder", [(AttentionBlock("self_attn", WHOLE),)])

    def forward(self, x: Tensor, layout: Ragged) -> Tensor:
        """Compute the vector (batch, channels) from embeddings (N, channels) of a batch's
        sources.
        """
        # Over real tokens; the public code averages over padding alone, as its mask is inverted.
        means = mean_by_document(self.run_layers(x, self.view(layout)), layout)
        # First over the words of an instance, so that each counts equally, however long it is.
        vector = means.sum(dim=0, keepdim=True) / len(means)
        # The same elements are dropped for all instances.
        vector = dropout(vector, self.cfg.dropout, self.training)
        return vector.expand(layout.batch, -1)


class VectorEncoder(DocumentEncoder):
    """Encoder of instances, followed by the vector of their batch, which has no position.

    Arguments are those of ``DocumentEncoder``. The result has one more token a document, unless
    only the decoder sees the vector.
    """

    def __init__(self, cfg: MbeConfig, *inputs):
        super().__init__(cfg, *inputs)
        self.batch_vector = BatchVector(cfg)
        self.batch_vector_norm: nn.Module = nn.Identity()
        if cfg.doc_encoder_layer_norm:
            self.batch_vector_norm = nn.LayerNorm(cfg.encoder_embed_dim)

    def forward(self, src_tokens: Tensor, **unused) -> dict[str, list]:
        """Encode as ``DocumentEncoder.forward``."""
        with self.autocast():
            layout = self.layout(src_tokens)
            x = self.embed_batch(src_tokens, layout, {})
            vectors = self.batch_vector(x, layout)
            if self.cfg.batch_vector_in != DECODER:
                # The vector stands behind the words as one more token of the last sentence.
                padded = torch.cat([layout.pad(x), vectors.to(x.dtype).unsqueeze(1)], dim=1)
                tags = np.column_stack([layout.tags, layout.tags.max(axis=1)])
                layout = Ragged.of_tags(tags, layout.device, whole=True)
                x = layout.pack(padded)
            x = self.run_layers(self.batch_vector_norm(x), self.view(layout))
            return self.output(layout, x, {VECTOR: vectors})


class VectorDecoder(DocumentDecoder):
    """Decoder of instances after the vector of their batch, which has no position; nothing is
    predicted from it.
    """

    def __init__(self, cfg: MbeConfig, *inputs):
        super().__init__(cfg, *inputs)
        self.batch_vector_norm: nn.Module = nn.Identity()
        if cfg.doc_decoder_layer_norm:
            self.batch_vector_norm = nn.LayerNorm(cfg.decoder_embed_dim)

    def embed_batch(
        self, tokens: Tensor, layout: Ragged, per_document: dict[str, Tensor]
    ) -> Tensor:
        """Embed as other decoders do, then normalise as the vector."""
        return self.batch_vector_norm(super().embed_batch(tokens, layout, per_document))

    def state_before(self, memory: Memory) -> Tensor | None:
        """Return the vectors, (documents, channels), unless only the encoder sees them."""
        if self.cfg.batch_vector_in == ENCODER:
            return None
        return self.batch_vector_norm(memory.per_document[VECTOR])


@register("mbe", MbeConfig)
class MbeModel(InstanceTransformerModel):
    """A Transformer with the vector of the batch as one more token on either side."""

    encoder_class, decoder_class = VectorEncoder, VectorDecoder
    needs = Needs(batch=True)  # the vector is a mean over all sources
