"""Every system starts from a sentence Transformer: on single sentences it is that Transformer."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional

from gtransformer.models.common.blocks import AttentionBlock, BySentence
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.transformer import (
    InstanceTransformerModel,
    LstTransformerConfig,
    LstTransformerModel,
)
from gtransformer.models.window import ALIGNMENTS, WindowTransformerConfig, WindowTransformerModel
from tests.core.search.systems import LastSentences
from tests.support import drawn, pad_batch, random_document


class TopicDecoder(DocumentDecoder):
    """With a vector that is added to every word."""

    def __init__(self, cfg, dictionary, embed_tokens, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.topic = nn.Embedding(1, cfg.decoder_embed_dim)

    def embed_batch(self, tokens, layout, per_document):
        return super().embed_batch(tokens, layout, per_document) + self.topic.weight[0]


class TopicModel(InstanceTransformerModel):
    """A system from outside, which needs nothing but its declaration."""

    decoder_class = TopicDecoder

    @classmethod
    def decoder_blocks(cls, cfg):
        own = AttentionBlock("self_attn", ((BySentence(),),))
        cross = AttentionBlock("encoder_attn", ((LastSentences(1),),), memory="source")
        return [(own, cross)] * cfg.decoder_layers


# Words; a window of 10 sees every token of 9 words and two marks from any other.
LENGTHS = 5, 1, 9, 0, 7
WINDOW = {"window": 10, "window_positions": "absolute", "length_ratio": 1.2}
# Model, configuration, options; what is new.
SYSTEMS = {
    "LST": (LstTransformerModel, LstTransformerConfig, {}, []),
    "LST by sentence": (
        LstTransformerModel,
        LstTransformerConfig,
        {"translation_locality": True},
        [],
    ),
    **{
        f"windows aligned {one}": (
            WindowTransformerModel,
            WindowTransformerConfig,
            {**WINDOW, "train_alignment": one},
            [],
        )
        for one in ALIGNMENTS
    },
    "flat": (FlatTransformerModel, FlatTransformerConfig, {}, ["encoder.embed_segments.weight"]),
    "own": (TopicModel, DocumentModelConfig, {}, ["decoder.topic.weight"]),
}


def loss_and_gradient(model, dictionary, pairs) -> tuple[float, torch.Tensor]:
    """Mean negative log-likelihood of a target token, and its gradient at the encoder's
    embeddings.
    """
    pad = dictionary.pad()
    source = pad_batch([one for one, _ in pairs], pad, left=True)
    target = pad_batch([one for _, one in pairs], pad, left=False)
    logits, _ = model(source, None, target[:, :-1])
    loss = functional.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=pad)
    (gradient,) = torch.autograd.grad(loss, [model.encoder.embed_tokens.weight])
    return loss.item(), gradient


@pytest.mark.parametrize("name", SYSTEMS)
def test_loss_and_gradient_are_the_sentence_models(dictionary, name):
    kind, config, options, new = SYSTEMS[name]
    sentences = drawn(dictionary, InstanceTransformerModel)
    system = drawn(dictionary, kind, config, seed=2, load_partial=True, **options)
    before = {name: system.get_parameter(name).clone() for name in new}
    system.load_state_dict(sentences.state_dict())
    assert [key for key, _ in system.named_parameters() if system.learns_as_new(key)] == new
    for name, value in before.items():
        assert system.get_parameter(name).equal(value)
        system.get_parameter(name).data.zero_()
    draw = random.Random(1)
    pairs, two = (
        [tuple(random_document(draw, dictionary, one) for _ in "st") for one in lengths]
        for lengths in ([[length] for length in LENGTHS], [[4, 12]])
    )
    (expected, slope), (loss, own) = (
        loss_and_gradient(one, dictionary, pairs) for one in (sentences, system)
    )
    assert loss == pytest.approx(expected, abs=1e-10)
    assert torch.allclose(own, slope, atol=1e-10, rtol=0)
    # Beyond one sentence, or one window, they differ: the equality above is not one of all
    # documents.
    alone, beyond = (loss_and_gradient(one, dictionary, two)[0] for one in (sentences, system))
    assert abs(alone - beyond) > 1e-3
