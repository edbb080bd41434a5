"""The Flat-Transformer against NumPy: full pass, derivatives, every step of decoding; what its layers see."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.models.common.config import DocumentModelConfig
from gtransformer.models.flat_transformer import FlatTransformerConfig, FlatTransformerModel
from gtransformer.models.transformer import InstanceTransformerModel
from tests.core.models.numpy_oracle import FlatOracle
from tests.core.models.oracle_checks import TOLERANCE, arrays, batch, check_derivatives, check_every_step
from tests.core.models.test_document_transformer import NORMS, beside_model, pairs
from tests.core.search.conftest import Translator
from tests.support import random_document, relative_error, with_engine

OPTIONS = {
    "default": {"encoder_layers": 3},
    "one": {"current_layers": 1, **NORMS},
    "all": {"current_layers": 2},
    "none": {"current_layers": 0},
}


def flat_model(dictionary, **options) -> FlatTransformerModel:
    return beside_model(dictionary, FlatTransformerModel, FlatTransformerConfig, **options)


@pytest.mark.parametrize(("engine", "name"), [*(("packed", name) for name in OPTIONS), ("dense", "default")])
def test_forward_and_backward_equal_the_oracle(dictionary, engine, name):
    """In a batch of different lengths, padded on either side."""
    model = with_engine(flat_model(dictionary, **OPTIONS[name]), engine)
    check_derivatives(model, dictionary, pairs(dictionary), FlatOracle, extra=1)


@torch.no_grad()
@pytest.mark.parametrize("caches", [True, False])
def test_every_step_equals_the_oracle_and_search_finds_one_sentence(dictionary, caches):
    model = flat_model(dictionary, current_layers=1)
    oracle = FlatOracle(model.cfg, arrays(model), dictionary.bos(), dictionary.eos())
    check_every_step(model, dictionary, pairs(dictionary), oracle.logits, caches)
    translate = Translator(dictionary, [model], beam=3, max_len_a=1, max_len_b=2)
    for found in translate([source for source, _ in pairs(dictionary)]):
        assert len(translate.sentences(found[0])) == 1


@torch.no_grad()
def test_the_context_enters_through_the_bottom_layers_alone(dictionary):
    draw = random.Random(3)
    source = random_document(draw, dictionary, [2, 1, 3])
    other = list(source)
    other[1] = other[1] % 12 + 4
    for layers in range(3):
        model = flat_model(dictionary, current_layers=layers)
        states = [model.encoder(torch.tensor([one]))["memory"][0].states for one in (source, other)]
        assert states[0].shape[0] == 5  # the current sentence with its marks
        assert torch.equal(*states) == (layers == 2)


@torch.no_grad()
def test_it_starts_from_a_sentence_model(dictionary):
    """Without segments and on single sentences it computes what that does; segments are all that is new."""
    sentence = beside_model(dictionary, InstanceTransformerModel, DocumentModelConfig)
    model = flat_model(dictionary, load_partial=True)
    model.load_state_dict(sentence.state_dict())
    assert [name for name, _ in model.named_parameters() if not model.is_pretrained(name)] == [
        "encoder.embed_segments.weight"
    ]
    model.encoder.embed_segments.weight.zero_()
    source, target = batch(dictionary, [one for one in pairs(dictionary) if one[0].count(dictionary.bos()) == 1])
    assert relative_error(model(source, None, target)[0], sentence(source, None, target)[0]) < TOLERANCE
