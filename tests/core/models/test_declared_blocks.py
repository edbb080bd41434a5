"""A system is its layers' declaration: full pass, decoding with caches and decoding without follow from it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.common import layer as layer_module
from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.layer import Layer
from gtransformer.models.common.model import DocumentModel, make_embedding
from gtransformer.modules.attention import Gate
from gtransformer.modules.kernels import Linear
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_window
from tests.core.models.test_own_system import TopicModel
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.full_passes import step_by_step, use_caches
from tests.support import drawn, random_document, relative_error, tiny_config, tiny_model

SENTENCE, DOCUMENT = BySentence(), ByDocument()
TOLERANCE = 1e-11  # float64


@dataclass(frozen=True)
class Near(Scope):
    """At most ``width`` tokens to either side of the same place."""

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
    source = target = make_embedding(dictionary, cfg.encoder_embed_dim)
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
@pytest.mark.parametrize("name", [*SYSTEMS, *DECLARED, "topic"])
def test_search_finds_the_same_without_caches(dictionary, name):
    """Through the task, several documents, of which finished ones leave."""
    build = {**SYSTEMS, "topic": lambda dictionary: drawn(dictionary, TopicModel)}
    model = build.get(name, lambda dictionary: declared_model(dictionary, *DECLARED[name]))(dictionary)
    draw = random.Random(3)
    sources = [random_document(draw, dictionary, lengths) for lengths in ([3, 1], [2], [1, 4, 2])]
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    found = []
    for caches in (True, False):
        use_caches(model, caches)
        translate = Translator(dictionary, [model], **options)
        found.append(translate(sources))
    for ours, slow in zip(*found, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in slow]
        scores = [torch.stack([one["score"] for one in side]) for side in (ours, slow)]
        assert torch.allclose(*scores, atol=1e-9)


class Scaled(DocumentDecoder):
    def output_layer(self, features, **unused):
        return 3.0 * super().output_layer(features)


class Preceded(DocumentDecoder):
    def state_before(self, memory):
        return memory.states[: memory.layout.batch]


class Adapted(Linear):
    """As LoRA and adapters do it."""

    def forward(self, x):
        return super().forward(x) + 0.5 * x.sum(dim=-1, keepdim=True)


class AdaptedGate(Gate):
    def forward(self, both):
        return super().forward(both) ** 2


def adapted(decoder: DocumentDecoder, name: str) -> None:
    """Put another module in the place of a projection."""
    old = decoder.get_submodule(name)
    new = Adapted(old.in_features, old.out_features, bias=old.bias is not None).double()
    new.load_state_dict(old.state_dict())
    decoder.set_submodule(name, new)


def hooked(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).register_forward_hook(lambda module, given, found: 2.0 * found)


def gated(decoder: DocumentDecoder, name: str) -> None:
    decoder.get_submodule(name).__class__ = AdaptedGate


class Doubled(Layer):
    def forward(self, x, view):
        return 2.0 * super().forward(x, view)


class Restless(Layer):
    def add(self, x, found):
        return super().add(x, found) + 0.5 * x


OWN, CROSS = AttentionBlock("self_attn", ((DOCUMENT,),), causal=True), AttentionBlock("cross", ((DOCUMENT,),), "source")
MORE = {
    "nothing": (DocumentDecoder, Layer, (OWN, CROSS)),
    "residual": (DocumentDecoder, Restless, (OWN, CROSS)),
    "output layer": (Scaled, Layer, (OWN, CROSS)),
    "a state before the words": (Preceded, Layer, (OWN, CROSS)),
    "layer": (DocumentDecoder, Doubled, (OWN, CROSS)),
    "causal cross-attention": (DocumentDecoder, Layer, (OWN, replace(CROSS, causal=True))),
}


CHANGED = [
    (adapted, "layers.1.fc1"),
    (adapted, "layers.1.self_attn_local.q_proj"),
    (adapted, "layers.1.cross_gate.0"),
    (gated, "layers.1.cross_gate"),
    (adapted, "output_projection"),
    (hooked, "layers.1.self_attn_local"),
    (hooked, "output_projection"),
]


@torch.no_grad()
@pytest.mark.parametrize(("change", "name"), CHANGED)
def test_modules_that_compute_more_are_called(dictionary, change, name):
    cfg = tiny_config()
    torch.manual_seed(4)
    embedding = make_embedding(dictionary, cfg.decoder_embed_dim)
    two = replace(CROSS, scopes=((SENTENCE,), (DOCUMENT,)))
    decoder = DocumentDecoder(cfg, dictionary, embedding, [(OWN, two)] * 2).double().eval()
    change(decoder, name)
    model = tiny_model(dictionary).double()
    draw = random.Random(2)
    source, target = (torch.tensor([random_document(draw, dictionary, [3, 2])]) for _ in range(2))
    encoder_out = model.encoder(source)
    full = decoder(target, encoder_out)[0][0]
    states = decoder(target, encoder_out, ragged=True)[0]
    for length in (1, 4, target.shape[1]):
        found = step_by_step(decoder, target[:, :length], encoder_out["memory"][0], {})[0]
        assert relative_error(found, full[length - 1]) < TOLERANCE
    if decoder.output_is_product:
        assert relative_error(states @ decoder.output_projection.weight.t(), full) < TOLERANCE
    assert decoder.output_is_product == (name != "output_projection")


@torch.no_grad()
@pytest.mark.parametrize("name", MORE)
def test_a_decoder_that_does_more(dictionary, monkeypatch, name):
    """Decoding runs its own layers."""
    decoder_class, layer_class, blocks = MORE[name]
    monkeypatch.setattr(layer_module, "Layer", layer_class)
    cfg = tiny_config()
    torch.manual_seed(4)
    embedding = make_embedding(dictionary, cfg.decoder_embed_dim)
    decoder = decoder_class(cfg, dictionary, embedding, [blocks] * 2).double().eval()
    model = tiny_model(dictionary).double()
    draw = random.Random(2)
    source, target = (torch.tensor([random_document(draw, dictionary, [3, 2])]) for _ in range(2))
    encoder_out = model.encoder(source)
    full = decoder(target, encoder_out)[0][0]
    for length in (1, 4, target.shape[1]):
        found = step_by_step(decoder, target[:, :length], encoder_out["memory"][0], {})[0]
        assert relative_error(found, full[length - 1]) < TOLERANCE


def decoder_of(dictionary, blocks, kind=DocumentDecoder) -> DocumentDecoder:
    cfg = tiny_config()
    return kind(cfg, dictionary, make_embedding(dictionary, cfg.decoder_embed_dim), blocks)


def test_a_decoder_that_sees_what_it_is_to_predict_is_refused(dictionary):
    with pytest.raises(UserError, match="layer 2, self_attn: .*causal=True"):
        decoder_of(dictionary, [(OWN, CROSS), (replace(OWN, causal=False), CROSS)])


def test_a_decoder_whose_forward_nobody_calls_is_refused(dictionary):
    kind = type("Numbered", (DocumentDecoder,), {"forward": lambda self, *given, **more: None})
    with pytest.raises(UserError, match="Numbered overrides forward.*embed_batch"):
        decoder_of(dictionary, [(OWN, CROSS)], kind)
