"""A G-Transformer that starts from a sentence Transformer (section 5.1, appendix C.1)."""

from __future__ import annotations

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.common.pretrained import is_transformers
from tests.core.models import fairseq_models
from tests.support import relative_error, tiny_dictionary, tiny_model

SHARED = {"share_all_embeddings": True}


@pytest.fixture
def sentence_model(dictionary):
    """fairseq's own Transformer."""
    return fairseq_models.build(dictionary, **SHARED)


def loaded(dictionary, state, seed=2, **options):
    model = tiny_model(dictionary, seed, **{"load_partial": True, **options})
    model.load_state_dict(dict(state))
    return model


def test_group_attention_is_the_transformers_and_the_rest_stays_fresh(dictionary, sentence_model):
    fresh = tiny_model(dictionary, seed=2, load_partial=True)
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    state = sentence_model.state_dict()
    model = loaded(dictionary, state)
    copied = 0
    for name, value in model.state_dict().items():
        if not is_transformers(name):
            assert torch.equal(value, before[name])
        elif name in state:
            assert torch.equal(value, state[name])
            copied += "layers" in name
        elif "_local." in name:
            assert torch.equal(value, state[name.replace("_local.", ".")])
            copied += 1
    assert copied == sum("layers" in name for name in state)
    new = [name for name in before if not is_transformers(name)]
    assert len(new) == 3 * 2 * (8 + 2)  # three attentions, two layers, four projections and a gate


def test_global_from_local(dictionary, sentence_model):
    options = {"load_partial": False, "load_partial_global_from_local": True}
    fresh = tiny_model(dictionary, seed=2)
    model = loaded(dictionary, sentence_model.state_dict(), **options).state_dict()
    for name, value in model.items():
        if "_global." in name:
            assert torch.equal(value, model[name.replace("_global.", "_local.")])
        if "_gate." in name:
            assert torch.equal(value, fresh.state_dict()[name])


def test_full_mode_takes_fairseqs_transformer_whole(dictionary, sentence_model, make_pairs):
    """Nothing is new in ``--doc-mode full``, and the logits are fairseq's."""
    model = loaded(dictionary, sentence_model.state_dict(), doc_mode="full")
    pairs = make_pairs(4, [1, 2])
    with torch.no_grad():
        lengths = pairs.source.ne(dictionary.pad()).sum(1)
        expected = sentence_model(pairs.source, lengths, pairs.previous)[0]
        found = model(pairs.source, None, pairs.previous)[0]
    real = pairs.previous.ne(dictionary.pad())
    assert relative_error(found[real], expected[real]) < 1e-5


def bad(state: dict, change: str) -> dict:
    state = {name: value.clone() for name, value in state.items()}
    if change == "missing":
        del state["encoder.layers.1.fc1.bias"], state["decoder.layers.0.encoder_attn.q_proj.weight"]
    if change == "unexpected":
        state["encoder.layer_norm.weight"] = state["decoder.adapter.bias"] = torch.zeros(16)
    if change == "shape":
        state["encoder.layers.1.fc1.weight"] = torch.zeros(30, 16)
    if change == "untied":
        state["decoder.embed_tokens.weight"] += 1
    return state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing", "it lacks encoder.layers.1.fc1.bias"),
        (
            "unexpected",
            "its encoder.layer_norm.weight is (16,), this model's None (differences: 2)",
        ),
        ("shape", "its encoder.layers.1.fc1.weight is (30, 16), this model's (24, 16)"),
        ("dictionary", "its encoder.embed_tokens.weight is (16, 16), this model's (19, 16)"),
        ("untied", "decoder.embed_tokens.weight"),
    ],
)
def test_what_does_not_fit_is_named(dictionary, sentence_model, change, words):
    if change == "dictionary":
        sentence_model = fairseq_models.build(tiny_dictionary(9), **SHARED)
    with pytest.raises(UserError) as error:
        loaded(dictionary, bad(sentence_model.state_dict(), change))
    assert words in str(error.value)
