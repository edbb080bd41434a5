"""When translations have as many sentences as their source."""

import random

import pytest
import torch

from gtransformer.errors import UserError
from tests.core.search.conftest import Translator
from tests.core.search.systems import SYSTEMS
from tests.support import tiny_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SYSTEMS)
@torch.no_grad()
def test_the_sentence_rule_is_an_option(dictionary, documents, name):
    """On and off for every system, whatever its mode; auto is on for those that are not --doc-mode
    full.
    """
    batch, found = documents(random.Random(9), [[2, 3, 1], [4], [1, 1, 1, 1]]), {}
    model = SYSTEMS[name](dictionary)
    for rule in ("auto", "on", "off"):
        translate = Translator(
            dictionary, [model], {"sentence_rule": rule}, beam=3, max_len_a=1, max_len_b=3
        )
        assert (translate.generator.free) == (rule == "off")
        found[rule] = [best["tokens"].tolist() for best, *_ in translate(batch)]
        assert all(tokens[-1] == dictionary.index("[de]") for tokens in found[rule])
    assert found["auto"] == found["on"] and found["on"] != found["off"]
    assert [tokens.count(dictionary.eos()) for tokens in found["on"]] == [3, 1, 4]
    assert [tokens.count(dictionary.eos()) for tokens in found["off"]] != [3, 1, 4]


def test_an_ensemble_keeps_to_the_sentences_if_a_member_needs_it(dictionary):
    """In whatever order its members are named."""
    models = {mode: tiny_model(dictionary, doc_mode=mode) for mode in ("partial", "full")}
    for names in (("partial", "full"), ("full", "partial"), ("partial",)):
        assert Translator(dictionary, [models[name] for name in names]).generator.free is False
    assert Translator(dictionary, [models["full"]] * 2).generator.free


@pytest.mark.parametrize("prefixes", [("w3", None), (None, "w3"), ("w3", "w2")])
def test_models_of_an_ensemble_begin_sentences_alike(dictionary, prefixes):
    models = [tiny_model(dictionary, target_prefix=prefix) for prefix in prefixes]
    with pytest.raises(UserError, match="ensemble"):
        Translator(dictionary, models)
    assert Translator(dictionary, models[:1] * 2).generator.rule.prefix == (
        None if prefixes[0] is None else dictionary.index(prefixes[0])
    )


@torch.no_grad()
def test_a_model_that_has_not_learned_marks_keeps_to_the_sentences(dictionary, documents):
    """Also a Transformer over documents, whose sentences would else be its own."""
    model = tiny_model(dictionary, doc_mode="full", marks_loss="off")
    translate = Translator(
        dictionary, [model], {"doc_mode": "full"}, beam=2, max_len_a=1, max_len_b=2
    )
    ((best, *_),) = translate(documents(random.Random(1), [[2, 1, 3]]))
    assert len(translate.sentences(best)) == 3
