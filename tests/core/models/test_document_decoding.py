"""The Document Transformer while it decodes: every step, in float64 and in bfloat16, and what search finds."""

from __future__ import annotations

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.common import decoder
from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.common.decoding.state import CachedState
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.models.numpy_oracle import Oracle
from tests.core.models.oracle_checks import arrays, check_every_step
from tests.core.models.test_document_transformer import OPTIONS, beside_model, pairs
from tests.core.models.test_flat_transformer import flat_model
from tests.core.search.conftest import Translator

pytestmark = pytest.mark.slow


@torch.no_grad()
@pytest.mark.parametrize("caches", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_step_equals_the_oracle(dictionary, caches, name):
    model = beside_model(dictionary, **OPTIONS[name])
    oracle = Oracle(model.cfg, arrays(model), dictionary.bos(), dictionary.eos())
    check_every_step(model, dictionary, pairs(dictionary), oracle.logits, caches)


@torch.no_grad()
@pytest.mark.parametrize("name", ["both", "encoder", "prenorm residual decoder"])
@pytest.mark.parametrize("at_once", [0, 2])
def test_search_finds_one_sentence_with_caches_and_without_and_as_fairseqs_loop(dictionary, monkeypatch, name, at_once):
    """Beams change places, finished sentences make room for waiting ones; the context is encoded once for all."""
    model = beside_model(dictionary, **OPTIONS[name])
    sources = [source for source, _ in pairs(dictionary)]
    encoded = []
    model.encoder.context_encoder.layers[0].register_forward_hook(lambda *given: encoded.append(1))
    options = {"beam": 3, "max_len_a": 1, "max_len_b": 2, "nbest": 3}
    found = []
    for caches, fast in ((True, True), (False, True), (True, False)):
        model.decoder.caches = caches
        translate = Translator(dictionary, [model], {"documents_at_once": at_once}, **options)
        assert translate.generator.fast
        translate.generator.fast = fast
        found.append(translate(sources))
        assert len(encoded) == len(found)
    for source, ours, *others in zip(sources, *found, strict=True):
        words = len(source) - 2 - max(i for i, token in enumerate(source) if token == dictionary.bos())
        for one in ours:
            (sentence,) = translate.sentences(one)
            assert len(sentence) <= words + 2
        for other in others:
            assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in other]
            scores = [torch.stack([one["score"] for one in side]).double() for side in (ours, other)]
            assert torch.allclose(*scores, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("whole", [True, False], ids=["parameters", "autocast"])
@pytest.mark.parametrize("name", ["both", "prenorm residual decoder"])
def test_every_step_in_bfloat16_is_near_the_full_pass(dictionary, monkeypatch, whole, name):
    """With parameters in bfloat16, and with products in it alone, whatever the processor has instructions for."""
    monkeypatch.setattr(decoder, "has_bfloat16", lambda: True)
    exact = beside_model(dictionary, **OPTIONS[name])
    rough = beside_model(dictionary, **OPTIONS[name], autocast="none" if whole else "bfloat16")
    for parameter in (*exact.parameters(), *rough.parameters()):
        parameter.mul_(0.5) if parameter.dim() == 2 else None  # with weights drawn wide, rounding grows
    rough = rough.bfloat16() if whole else rough.float()
    for source, target in pairs(dictionary):
        sides = torch.tensor([source]), None, torch.tensor([target])
        expected, full = (model(*sides)[0][0].double() for model in (exact, rough))
        state: dict = {}
        encoded = rough.encoder(sides[0])
        steps = [rough.decoder(sides[2][:, : n + 1], encoded, state)[0][0, 0] for n in range(len(target))]
        assert type(state[decoder.STATE]) is CachedState
        assert {step.dtype for step in steps} == {torch.bfloat16 if whole else torch.float32}
        found = torch.stack(steps).double()
        for one in (full, found):
            assert 0 < (one - expected).abs().mean() / expected.abs().mean() < 0.05
        assert (found - full).abs().mean() / expected.abs().mean() < 0.05


@torch.no_grad()
@pytest.mark.parametrize("at_once", [0, 2])
def test_what_is_found_does_not_depend_on_the_batch(dictionary, at_once):
    """Beams and scores of each sentence by itself, in the batch, and in the batch turned round."""
    for model in (beside_model(dictionary), flat_model(dictionary, current_layers=1)):
        sources = [source for source, _ in pairs(dictionary)]
        translate = Translator(
            dictionary, [model], {"documents_at_once": at_once}, beam=3, max_len_a=1, max_len_b=2, nbest=3
        )
        together, turned = translate(sources), translate(sources[::-1])[::-1]
        for source, *found in zip(sources, together, turned, strict=True):
            (alone,) = translate([source])
            for other in found:
                assert [one["tokens"].tolist() for one in alone] == [one["tokens"].tolist() for one in other]
                scores = [[float(one["score"]) for one in side] for side in (alone, other)]
                assert scores[0] == pytest.approx(scores[1], abs=1e-6)


@torch.no_grad()
def test_an_ensemble_of_two_and_one_that_cannot_be(dictionary):
    model, other = beside_model(dictionary), beside_model(dictionary, context_in="decoder")
    sources = [source for source, _ in pairs(dictionary)]
    one, two = (
        Translator(dictionary, models, beam=2, max_len_a=1, max_len_b=2)(sources)
        for models in ([model, model], [model])
    )
    for ours, theirs in zip(one, two, strict=True):
        assert ours[0]["tokens"].tolist() == theirs[0]["tokens"].tolist()
    Translator(dictionary, [model, other], beam=2, max_len_a=1, max_len_b=2)(sources)
    documents = beside_model(dictionary, InstanceTransformerModel, DocumentModelConfig)
    with pytest.raises(UserError, match="make no ensemble"):
        Translator(dictionary, [documents, model], beam=2)
