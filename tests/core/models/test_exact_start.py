"""Before its first update a G-Transformer whose positions restart at each sentence is the sentence
model.
"""

from __future__ import annotations

import random

import torch

from gtransformer.models.gtransformer import GTransformerModel
from gtransformer.search.rules import FreeText
from tests.core.search.conftest import Translator
from tests.support import pad_batch, random_document, random_lengths, tiny_config, tiny_model

SHUT, NEARLY = 1e3, 6.0  # biases of gates; the former's sigmoid is exactly 1
PRENORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
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
        [
            [random_document(draw, dictionary, random_lengths(draw, 1, most))[1:-1] for _ in "st"]
            for _ in range(count)
        ]
        for count in sentences
    ]


def losses(model, dictionary, documents) -> list[torch.Tensor]:
    """Of every sentence the negative log likelihood of its words and ``</s>``, (words + 1,), in
    order.
    """
    d = dictionary
    sides = [
        [
            [token for pair in document for token in (d.bos(), *pair[side], d.eos())]
            for document in documents
        ]
        for side in (0, 1)
    ]
    logits = model(pad_batch(sides[0], d.pad(), True), None, pad_batch(sides[1], d.pad(), False))[0]
    lprobs = model.get_normalized_probs((logits, {}), log_probs=True)
    found = []
    for row, document in enumerate(documents):
        begin = 0
        for _, target in document:
            goal = torch.tensor([*target, d.eos()])
            found.append(
                -lprobs[row, begin : begin + len(goal)].gather(1, goal.unsqueeze(1)).squeeze(1)
            )
            begin += len(goal) + 1
    return found


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
def test_a_model_that_has_not_learned_marks_keeps_to_the_sources_sentences(dictionary):
    """Also a Transformer over documents, whose sentences would else be its own; asked for that, it
    refuses.
    """
    documents = [random_document(random.Random(1), dictionary, [2, 1, 3])]
    for marks, kept in (("on", False), ("off", True)):
        model = tiny_model(dictionary, doc_mode="full", marks_loss=marks)
        assert model.leaves_unpredicted_out is kept
        translate = Translator(
            dictionary, [model], {"doc_mode": "full"}, beam=2, max_len_a=1, max_len_b=2
        )
        assert isinstance(translate.generator.rule, FreeText) is not kept
    assert len(translate.sentences(translate(documents)[0][0])) == 3
