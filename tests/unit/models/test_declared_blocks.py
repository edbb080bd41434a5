"""A system is its layers' declaration: full pass, decoding with caches and decoding without follow from it."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

from gtransformer.models.common.blocks import AttentionBlock, ByDocument, BySentence, Scope
from gtransformer.models.common.decoder import DocumentDecoder
from gtransformer.models.common.decoding.prefix import PrefixState
from gtransformer.models.common.decoding.state import CachedState
from gtransformer.models.common.encoder import DocumentEncoder
from gtransformer.models.common.model import DocumentModel, make_embeddings
from gtransformer.modules.ragged import Ragged
from gtransformer.modules.reach import Reach, by_window
from tests.support import random_document, relative_error, tiny_config, tiny_model
from tests.unit.search.conftest import Translator

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
@pytest.mark.parametrize("name", DECLARED)
def test_engines_agree(dictionary, make_pairs, name):
    pairs = make_pairs(1, [4, 1, 2], surplus=1)
    found = [
        declared_model(dictionary, *DECLARED[name], group_attention=engine)(pairs.source, None, pairs.previous)[0]
        for engine in ("packed", "dense")
    ]
    assert relative_error(*found) < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize("name", DECLARED)
def test_every_step_equals_the_full_pass(dictionary, make_pairs, name):
    """Caches where all scopes have one, the whole prefix where one has none: nobody has to write a cache."""
    model = declared_model(dictionary, *DECLARED[name])
    pairs = make_pairs(2, [3])
    encoder_out = model.encoder(pairs.source)
    state = model.decoder.begin(encoder_out["memory"][0], 1)
    assert type(state) is (PrefixState if "near" in name or "relative" in name else CachedState)
    full = model(pairs.source, None, pairs.previous)[0][0]
    tags = model.decoder.tags(pairs.previous)
    for step, token in enumerate(pairs.previous[0]):
        opens = token.eq(dictionary.bos()).view(1, 1).numpy()
        x = state.step(token.view(1), opens, tags[:, step : step + 1].numpy())
        assert relative_error(state.logits(x)[0], full[step]) < TOLERANCE, step


@torch.no_grad()
@pytest.mark.parametrize("name", [*DECLARED, "gtransformer"])
@pytest.mark.parametrize("at_once", [0, 2])
def test_search_finds_the_same_without_caches(dictionary, name, at_once):
    """Through the task, several documents at once, finished ones making room for waiting ones."""
    build = {"gtransformer": lambda: tiny_model(dictionary).double()}
    model = build.get(name, lambda: declared_model(dictionary, *DECLARED[name]))()
    draw = random.Random(3)
    sources = [random_document(draw, dictionary, lengths) for lengths in ([3, 1], [2], [1, 4, 2])]
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    found = []
    for layers_are_all in (True, False):
        model.decoder.layers_are_all = layers_are_all
        translate = Translator(dictionary, [model], {"documents_at_once": at_once}, **options)
        found.append(translate(sources))
    for ours, slow in zip(*found, strict=True):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in slow]
        scores = [torch.stack([one["score"] for one in side]) for side in (ours, slow)]
        assert torch.allclose(*scores, atol=1e-9)


def test_a_decoder_that_does_more_than_its_layers_goes_through_the_prefix(dictionary):
    class Busy(DocumentDecoder):
        layers_are_all = False

    cfg = tiny_config()
    embedding = make_embeddings(cfg, dictionary, dictionary)[1]
    blocks = [(AttentionBlock("self_attn", ((DOCUMENT,),), causal=True),)]
    decoder = Busy(cfg, dictionary, embedding, blocks)
    model = tiny_model(dictionary)
    memory = model.encoder(torch.tensor([[dictionary.bos(), 5, dictionary.eos()]]))["memory"][0]
    assert type(decoder.begin(memory, 1)) is PrefixState
    assert type(model.decoder.begin(memory, 1)) is CachedState
