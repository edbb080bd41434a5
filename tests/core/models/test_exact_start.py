"""Before its first update a G-Transformer whose positions restart at each sentence is the sentence model."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.errors import UserError
from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.search.rules import FreeText
from tests.core.search.conftest import Translator
from tests.support import encoded, pad_batch, random_document, random_lengths, relative_error, tiny_config, tiny_model

SHUT, NEARLY = 1e3, 6.0  # biases of gates; the former's sigmoid is exactly 1
PRENORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
LAYOUTS = {
    "joined, sinusoidal, post-norm": {},
    "pre-norm": PRENORM,
    "separate dictionaries' tables": {"share_all_embeddings": False},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True, "max_source_positions": 40},
    "mBART's": {**PRENORM, "layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "gelu"},
}
WHOLE = {"positions": "sentence", "load_partial": True, "doc_mode": "partial"}


def build(dictionary, seed: int = 2, **options):
    """With weights as training begins with them."""
    torch.manual_seed(seed)
    return GTransformerModel.build(tiny_config(**options), dictionary, dictionary).double().eval()


def started(dictionary, sentence_model, seed: int = 2, **options):
    """A G-Transformer that has taken over a sentence model."""
    model = build(dictionary, seed, **{**WHOLE, **options})
    model.load_state_dict(dict(sentence_model.state_dict()))
    return model


def random_pairs(dictionary, seed: int = 1, sentences=(4, 1, 3), most: int = 7):
    """Documents of sentence pairs as lists of words."""
    draw = random.Random(seed)
    return [
        [[random_document(draw, dictionary, random_lengths(draw, 1, most))[1:-1] for _ in "st"] for _ in range(count)]
        for count in sentences
    ]


def losses(model, dictionary, documents) -> list[torch.Tensor]:
    """Of every sentence the negative log likelihood of its words and ``</s>``, (words + 1,), in order."""
    d = dictionary
    sides = [
        [[token for pair in document for token in (d.bos(), *pair[side], d.eos())] for document in documents]
        for side in (0, 1)
    ]
    logits = model(pad_batch(sides[0], d.pad(), True), None, pad_batch(sides[1], d.pad(), False))[0]
    lprobs = model.get_normalized_probs((logits, {}), log_probs=True)
    found = []
    for row, document in enumerate(documents):
        begin = 0
        for _, target in document:
            goal = torch.tensor([*target, d.eos()])
            found.append(-lprobs[row, begin : begin + len(goal)].gather(1, goal.unsqueeze(1)).squeeze(1))
            begin += len(goal) + 1
    return found


def alone(documents):
    """Each pair as a document of its own."""
    return [[pair] for document in documents for pair in document]


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_token_of_a_sentence_costs_what_it_costs_alone(dictionary, layout):
    """With gates that are shut, and with neutral ones however open; a sentence model of this package."""
    options = LAYOUTS[layout]
    teacher = tiny_model(dictionary, doc_mode="full", **options).double()
    documents = random_pairs(dictionary)
    expected = torch.cat(losses(teacher, dictionary, alone(documents)))
    found = torch.cat(losses(started(dictionary, teacher, gate_bias=SHUT, **options), dictionary, documents))
    assert relative_error(found, expected) < 1e-12
    for bias in (None, -1.0, 3.0):
        model = started(dictionary, teacher, gate_bias=bias, **options, neutral_gates=True)
        assert relative_error(torch.cat(losses(model, dictionary, documents)), expected) < 1e-6  # sigmoids are float32
        assert {p[0].item() for name, p in model.named_parameters() if name.endswith("gate.0.bias")} == {bias or 0.0}
    # The paper's positions are another model, and so are open gates: the test can fail.
    for change in ({"positions": "document"}, {"gate_bias": None}):
        other = started(dictionary, teacher, **{**options, "gate_bias": SHUT, **change})
        assert relative_error(torch.cat(losses(other, dictionary, documents)), expected) > 1e-4


def test_behind_neutral_gates_all_learns_from_the_second_update(dictionary):
    """And resumed, or loaded, it is as it was: only what begins at random is made neutral."""
    teacher = tiny_model(dictionary, doc_mode="full")
    model = started(dictionary, teacher, neutral_gates=True)
    for update in (1, 2):
        model.zero_grad()
        torch.cat(losses(model, dictionary, random_pairs(dictionary))).mean().backward()
        still = [name for name, p in model.named_parameters() if not p.grad.any()]
        assert bool(still) == (update == 1)
        assert all("_global." in name and "out_proj" not in name for name in still)
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
    copy = started(dictionary, model, neutral_gates=True)
    assert all(p.equal(copy.state_dict()[name]) for name, p in model.state_dict().items())


@torch.no_grad()
def test_numbers_tell_global_attention_where_a_sentence_stands(dictionary):
    """Without them the sentences of a document are a set: in another order each is encoded as before."""
    draw = random.Random(4)
    sentences = [random_document(draw, dictionary, [length]) for length in (3, 5, 2)]
    orders = (0, 1, 2), (2, 0, 1)
    model = tiny_model(dictionary, positions="sentence").double()

    def first_and_turned():
        rows = []
        for order in orders:
            states = encoded(model, torch.tensor([sum((sentences[i] for i in order), [])]))[0]
            parts = dict(zip(order, states.split([len(sentences[i]) for i in order]), strict=True))
            rows.append(torch.cat([parts[i] for i in range(3)]))
        return rows

    one, other = first_and_turned()
    assert relative_error(other, one) > 1e-3
    for name, parameter in model.named_parameters():
        if "numbers" in name:
            parameter.zero_()
    one, other = first_and_turned()
    assert relative_error(other, one) < 1e-12


@torch.no_grad()
def test_translations_keep_to_the_positions_of_a_sentence(dictionary):
    """Whatever --max-len-b says; the document may be longer than the table."""
    learned = {"decoder_learned_pos": True, "max_target_positions": 6}
    model = tiny_model(dictionary, positions="sentence", **learned)
    model.decoder.output_projection.weight[dictionary.eos()] -= 5.0  # it would run on
    documents = [random_document(random.Random(3), dictionary, [2, 3, 1])]
    translate = Translator(dictionary, [model], beam=2, max_len_a=0, max_len_b=20)
    lengths = [len(sentence) for sentence in translate.sentences(translate(documents)[0][0])]
    assert len(lengths) == 3 and max(lengths) == 4 and sum(lengths) + 2 * 3 > 6


@torch.no_grad()
def test_a_model_that_has_not_learned_marks_keeps_to_the_sources_sentences(dictionary):
    """Also a Transformer over documents, whose sentences would else be its own; asked for that, it refuses."""
    documents = [random_document(random.Random(1), dictionary, [2, 1, 3])]
    for marks, kept in (("on", False), ("off", True)):
        model = tiny_model(dictionary, doc_mode="full", marks_loss=marks)
        assert model.leaves_unpredicted_out is kept
        translate = Translator(dictionary, [model], {"doc_mode": "full"}, beam=2, max_len_a=1, max_len_b=2)
        assert isinstance(translate.generator.rule, FreeText) is not kept
    assert len(translate.sentences(translate(documents)[0][0])) == 3
    for options, more, word in (
        ({"sentence_rule": "off"}, {}, "--sentence-rule off"),
        ({}, {"score_reference": True}, "--score-reference"),
    ):
        with pytest.raises(UserError, match=f"{word}: the model has not learned to predict the <s>"):
            Translator(dictionary, [model], {"doc_mode": "full", **options}, beam=2, **more)
