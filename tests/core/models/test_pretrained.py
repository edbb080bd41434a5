"""A G-Transformer that starts from a sentence Transformer (section 5.1, appendix C.1)."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("copied", [False, True])
def test_group_attention_is_the_transformers_and_the_rest_stays_fresh(
    dictionary, sentence_model, copied
):
    """Or global attention is a copy of it."""
    fresh = tiny_model(dictionary, seed=2, load_partial=True)
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    state, taken = sentence_model.state_dict(), set()
    options = {"load_partial": not copied, "load_partial_global_from_local": copied}
    for name, value in loaded(dictionary, state, **options).state_dict().items():
        origin = re.sub("_(local|global)[.]" if copied else "_local[.]", ".", name)
        if origin in state:
            taken.add(origin)
        assert torch.equal(value, state.get(origin, before[name])), name
    assert taken == state.keys()
    new = [name for name in before if not is_transformers(name)]
    assert len(new) == 3 * 2 * (8 + 2)  # three attentions, two layers, four projections and a gate


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
        state["encoder.layer_norm.weight"] = torch.zeros(16)
    if change == "untied":
        state["decoder.embed_tokens.weight"] += 1
    return state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing", 'Missing key(s) in state_dict: "encoder.layers.1.fc1.bias"'),
        ("unexpected", 'Unexpected key(s) in state_dict: "encoder.layer_norm.weight"'),
        ("dictionary", "size mismatch for encoder.embed_tokens.weight"),
        ("untied", "decoder.embed_tokens.weight"),
    ],
)
def test_what_does_not_fit_is_named(dictionary, sentence_model, change, words):
    if change == "dictionary":
        sentence_model = fairseq_models.build(tiny_dictionary(9), **SHARED)
    with pytest.raises(UserError) as error:
        loaded(dictionary, bad(sentence_model.state_dict(), change))
    assert words in str(error.value)
