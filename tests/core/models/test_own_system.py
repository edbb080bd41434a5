"""A system from outside: a module and a cross-attention of its own need nothing but their declaration."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from gtransformer.errors import UserError
from gtransformer.models.common.blocks import AttentionBlock, BySentence
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.decoding.cached_memory import CachedIntervals
from gtransformer.models.common.decoding.state import CachedState, InputStep, PrefixState
from gtransformer.models.common.model import DocumentModel
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.search.systems import LastSentences
from tests.support import drawn, random_document, random_lengths


@dataclass(frozen=True)
class Around(LastSentences):
    """Of a memory: the sentence of the query's number, and so many before it."""

    name = "around"
    cached_memory = CachedIntervals
    prefix_sentences = None

    def reach(self, queries, keys, causal):
        return super().reach(queries, keys, causal)


class TopicStep(InputStep):
    def step(self, tokens, offsets, opens, tags):
        return super().step(tokens, offsets, opens, tags) + self.decoder.topic.weight[0]

    def force(self, forced_prefixes):
        return super().force(forced_prefixes) + self.decoder.topic.weight[0]


class TopicDecoder(DocumentDecoder):
    """With a vector that is added to every word, and what this is step by step."""

    input_step = TopicStep

    def __init__(self, cfg, dictionary, embed_tokens, blocks):
        super().__init__(cfg, dictionary, embed_tokens, blocks)
        self.topic = nn.Embedding(1, cfg.decoder_embed_dim)

    def embed_batch(self, tokens, layout, per_document):
        return super().embed_batch(tokens, layout, per_document) + self.topic.weight[0]


class TopicModel(InstanceTransformerModel):
    decoder_class = TopicDecoder
    cross = Around(1)

    @classmethod
    def decoder_blocks(cls, cfg):
        own = AttentionBlock("self_attn", ((BySentence(),),), causal=True)
        return [(own, AttentionBlock("encoder_attn", ((cls.cross,),), memory="source"))] * cfg.decoder_layers


@dataclass(frozen=True)
class Undeclared(Around):
    name = "undeclared"
    cached_memory = None


class UndeclaredModel(TopicModel):
    cross = Undeclared(1)


def documents(dictionary, seed=3) -> list[list[int]]:
    draw = random.Random(seed)
    return [random_document(draw, dictionary, random_lengths(draw, sentences, 4)) for sentences in (3, 1, 5)]


def test_it_starts_from_a_pretrained_model_that_lacks_its_module(dictionary):
    start, model = drawn(dictionary, InstanceTransformerModel), drawn(dictionary, TopicModel, load_partial=True)
    own = model.decoder.topic.weight.clone()
    model.load_state_dict(start.state_dict())
    assert torch.equal(model.decoder.topic.weight, own)
    assert torch.equal(model.encoder.layers[0].fc1.weight, start.encoder.layers[0].fc1.weight)
    assert model.learns_as_new("decoder.topic.weight") and not model.learns_as_new("encoder.layers.0.fc1.weight")
    incomplete = {name: value for name, value in start.state_dict().items() if "fc1" not in name}
    with pytest.raises(UserError, match=r"encoder\.layers\.0\.fc1\.weight"):
        model.load_state_dict(incomplete)


@torch.no_grad()
def test_decoding_without_caches_is_said_once_with_layer_and_scope(dictionary, caplog):
    cached, slow = drawn(dictionary, TopicModel), drawn(dictionary, UndeclaredModel)
    source = torch.tensor([documents(dictionary)[0]])
    with caplog.at_level(logging.WARNING):
        assert type(cached.decoder.begin(cached.encoder(source)["memory"][0], 1)) is CachedState
        slow.decoder.caches = False  # asked for: nothing to be said
        assert type(slow.decoder.begin(slow.encoder(source)["memory"][0], 1)) is PrefixState
        assert not caplog.messages
        slow.decoder.caches = True
        for _ in range(2):
            assert type(slow.decoder.begin(slow.encoder(source)["memory"][0], 1)) is PrefixState
    (said,) = caplog.messages
    assert all(word in said for word in ("layer 1", "encoder_attn", "undeclared", "cached_memory"))


def wrong(declared: dict, memory: str | None = None) -> type[DocumentModel]:
    """A system whose layers declare of a scope what its reach does not keep to."""
    scope = type("Wrong", (LastSentences,), {"name": "wrong", "reach": LastSentences.reach, **declared})(2)
    block = AttentionBlock("some_attn", ((scope,),), memory=memory, causal=memory is None)
    blocks = classmethod(lambda cls, cfg: [(block,)] * cfg.decoder_layers)
    return type("WrongModel", (InstanceTransformerModel,), {"decoder_blocks": blocks})


class OwnSentenceOnly(CachedIntervals):
    def advance(self, opens, tags, position):
        super().advance(opens, tags, position)
        self.look(self.index.numpy()[..., :1], (self.index.numpy() >= 0)[..., :1])


@pytest.mark.parametrize(
    ("declared", "memory"),
    [
        ({"prefix_sentences": 2}, None),
        ({"prefix_tokens": 4, "prefix_sentences": None}, None),
        ({"cached_memory": OwnSentenceOnly}, "source"),
    ],
)
def test_a_declaration_that_the_reach_does_not_keep_to_is_refused(dictionary, declared, memory):
    """It would change translations and nothing else. What is right is built, and draws the same random numbers."""
    with pytest.raises(UserError, match="wrong"):
        drawn(dictionary, wrong(declared, memory))
    right = {"prefix_sentences": 3, "cached_memory": CachedIntervals}
    states = []
    for more in ({}, right):
        states.append(drawn(dictionary, wrong({"prefix_sentences": None, **more}, memory)).state_dict())
    assert all(torch.equal(one, states[1][name]) for name, one in states[0].items())
