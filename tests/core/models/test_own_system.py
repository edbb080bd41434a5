"""A system from outside: a module and a cross-attention of its own need nothing but their
declaration.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, BySentence
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.search.systems import LastSentences
from tests.support import drawn


class TopicDecoder(DocumentDecoder):
    """With a vector that is added to every word."""

    def __init__(self, cfg, dictionary, embed_tokens, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.topic = nn.Embedding(1, cfg.decoder_embed_dim)

    def embed_batch(self, tokens, layout, per_document):
        return super().embed_batch(tokens, layout, per_document) + self.topic.weight[0]


class TopicModel(InstanceTransformerModel):
    decoder_class = TopicDecoder

    @classmethod
    def decoder_blocks(cls, cfg):
        own = AttentionBlock("self_attn", ((BySentence(),),))
        return [
            (own, AttentionBlock("encoder_attn", ((LastSentences(1),),), memory="source"))
        ] * cfg.decoder_layers


def test_it_starts_from_a_pretrained_model_that_lacks_its_module(dictionary):
    start, model = (
        drawn(dictionary, InstanceTransformerModel),
        drawn(dictionary, TopicModel, load_partial=True),
    )
    own = model.decoder.topic.weight.clone()
    model.load_state_dict(start.state_dict())
    assert torch.equal(model.decoder.topic.weight, own)
    assert torch.equal(model.encoder.layers[0].fc1.weight, start.encoder.layers[0].fc1.weight)
    assert model.learns_as_new("decoder.topic.weight") and not model.learns_as_new(
        "encoder.layers.0.fc1.weight"
    )
    incomplete = {name: value for name, value in start.state_dict().items() if "fc1" not in name}
    with pytest.raises(UserError, match=r"encoder\.layers\.0\.fc1\.weight"):
        model.load_state_dict(incomplete)
