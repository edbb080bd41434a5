"""A system is its layers' declaration: full pass, decoding with caches and decoding without follow from it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
import torch

from gtransformer.models.common import layer as layer_module
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.decoding.state import CachedState, PrefixState
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import Layer, View
from gtransformer.models.common.model import DocumentModel, make_embeddings
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_window
from tests.core.models.test_own_system import TopicModel
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.support import drawn, random_document, relative_error, tiny_config, tiny_model

SENTENCE, DOCUMENT = BySentence(), ByDocument()
TOLERANCE = 1e-11  # float64


@dataclass(frozen=True)
class Near(Scope):
    """A scope without a cache: at most ``width`` tokens to either side of the same place."""

    width: int = 2
    name = "near"

    def reach(self, queries: Ragged, keys: Ragged, causal: bool) -> Reach:
        longest = keys.doc_lengths[queries.doc] - 1
        centres = (torch.arange(queries.total).numpy() - queries.doc_starts[queries.doc]).clip(max=longest)
        return by_window(queries, keys, centres, self.width, causal)


DECLARED = {
    "concatenated": (((SENTENCE, DOCUMENT),), ((DOCUMENT,),)),  # as LST does
    "gated, concatenated": (((SENTENCE,), (DOCUMENT, SENTENCE)), ((SENTENCE, DOCUMENT), (DOCUMENT,))),
    "near": (((Near(),),), ((Near(3),),)),
    "near and whole": (((Near(), DOCUMENT),), ((SENTENCE,), (Near(1),))),
    "relative": (((DOCUMENT,),), ((DOCUMENT,),), 3),
    "near, relative": (((Near(),),), ((Near(3),),), 2),
}


def declared_model(dictionary, own, cross, relative=None, **options) -> DocumentModel:
    """A model whose layers all declare the same scopes, with weights drawn wide."""
    torch.manual_seed(1)
    cfg = tiny_config(**options)
    source, target = make_embeddings(cfg, dictionary, dictionary)
    inner = [(AttentionBlock("self_attn", own, relative=relative),)] * 2
    first = AttentionBlock("self_attn", own, causal=True, relative=relative)
    outer = [(first, AttentionBlock("encoder_attn", cross, memory="source"))] * 2
    encoder = DocumentEncoder(cfg, dictionary, source, inner)
    model = DocumentModel(cfg, encoder, DocumentDecoder(cfg, dictionary, target, outer))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0) if parameter.dim() == 2 else parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "at_once"), [*((name, 2) for name in [*SYSTEMS, *DECLARED, "topic"]), ("gtransformer", 0), ("topic", 0)]
)
def test_search_finds_the_same_without_caches(dictionary, name, at_once):
    """Through the task, several documents at once, finished ones making room for waiting ones."""
    build = {**SYSTEMS, "topic": lambda dictionary: drawn(dictionary, TopicModel)}
    model = build.get(name, lambda dictionary: declared_model(dictionary, *DECLARED[name]))(dictionary)
    draw = random.Random(3)
    sources = [random_document(draw, dictionary, lengths) for lengths in ([3, 1], [2], [1, 4, 2])]
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    memory = model.encoder(torch.tensor(sources[:1]))["memory"][0]
    uncached = name in DECLARED and ("near" in name or "relative" in name)  # nobody has to write a cache
    assert type(model.decoder.begin(memory, 1)) is (PrefixState if uncached else CachedState)
    found = []
    for caches in (True, False):
        model.decoder.caches = caches
        translate = Translator(dictionary, [model], {"documents_at_once": at_once}, **options)
        found.append(translate(sources))
    for ours, slow in zip(*found, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in slow]
        scores = [torch.stack([one["score"] for one in side]) for side in (ours, slow)]
        assert torch.allclose(*scores, atol=1e-9)


class Scaled(DocumentDecoder):
    def output_layer(self, features, **unused):
        return 3.0 * super().output_layer(features)


class Shifted(DocumentDecoder):
    def extract_ragged(self, prev_output_tokens, layout, memory):
        return 1.0 + super().extract_ragged(prev_output_tokens, layout, memory)


class Twice(DocumentDecoder):
    def run_layers(self, x, view):
        return super().run_layers(super().run_layers(x, view), view)


class Doubled(Layer):
    def forward(self, x, view):
        return 2.0 * super().forward(x, view)


class Further(Layer):
    def attend(self, block, h, view):
        return super().attend(block, h, view) + h


class Bent(Layer):
    def feed_forward(self, h):
        return super().feed_forward(h).tanh()


class Restless(Layer):
    """What decoding uses as it is may be overridden without a loss."""

    def residual(self, x, block, norm, gate=None):
        return super().residual(x, block, norm, gate) + 0.5 * x


OWN, CROSS = AttentionBlock("self_attn", ((DOCUMENT,),), causal=True), AttentionBlock("cross", ((DOCUMENT,),), "source")
MORE = {
    "nothing": (DocumentDecoder, Layer, (OWN, CROSS), CachedState),
    "residual": (DocumentDecoder, Restless, (OWN, CROSS), CachedState),
    "output layer": (Scaled, Layer, (OWN, CROSS), PrefixState),
    "full pass": (Shifted, Layer, (OWN, CROSS), PrefixState),
    "layers run otherwise": (Twice, Layer, (OWN, CROSS), PrefixState),
    "layer": (DocumentDecoder, Doubled, (OWN, CROSS), PrefixState),
    "attention": (DocumentDecoder, Further, (OWN, CROSS), PrefixState),
    "feed-forward": (DocumentDecoder, Bent, (OWN, CROSS), PrefixState),
    "causal cross-attention": (DocumentDecoder, Layer, (OWN, replace(CROSS, causal=True)), PrefixState),
    "another memory": (DocumentDecoder, Layer, (OWN, replace(CROSS, memory="context")), PrefixState),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MORE)
def test_a_decoder_that_does_more_goes_through_the_prefix(dictionary, monkeypatch, name):
    """Without a word from whoever writes it: caches are for what they compute, too."""
    decoder_class, layer_class, blocks, state_class = MORE[name]
    monkeypatch.setattr(layer_module, "Layer", layer_class)
    cfg = tiny_config()
    torch.manual_seed(4)
    embedding = make_embeddings(cfg, dictionary, dictionary)[1]
    decoder = decoder_class(cfg, dictionary, embedding, [blocks] * 2).double().eval()
    if name == "another memory":
        monkeypatch.setattr(layer_module, "View", lambda e, own, all_: View(e, own, {"context": all_.get("source")}))
    model = tiny_model(dictionary).double()
    draw = random.Random(2)
    source, target = (torch.tensor([random_document(draw, dictionary, [3, 2])]) for _ in range(2))
    encoder_out = model.encoder(source)
    full = decoder(target, encoder_out)[0][0]
    assert type(decoder.begin(encoder_out["memory"][0], 1)) is state_class
    for length in (1, 4, target.shape[1]):
        found = decoder(target[:, :length], encoder_out, {})[0][0, 0]
        assert relative_error(found, full[length - 1]) < TOLERANCE


def test_the_fused_criterion_asks_for_an_output_layer_that_is_one_product(dictionary):
    cfg = tiny_config()
    embedding = make_embeddings(cfg, dictionary, dictionary)[1]
    products = [
        kind(cfg, dictionary, embedding, [(OWN,)]).output_is_product for kind in (DocumentDecoder, Shifted, Scaled)
    ]
    assert products == [True, True, False]


def test_a_scope_without_a_name_is_refused():
    with pytest.raises(TypeError, match="Nameless: a scope needs a name"):
        type("Nameless", (Scope,), {})
