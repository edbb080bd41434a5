"""The Python interface: shapes, order, scores, and the same translations as fairseq-generate."""

from __future__ import annotations

import pytest

from gtransformer.evaluation.sentence_scores import Request, SentenceScorer
from gtransformer.translation.api import GTransformer
from tests.hard_text import STRANGE
from tests.saved_model import make_model

pytestmark = pytest.mark.slow

DOCUMENT = [
    "The old dog sleeps.",
    "Mary finds her book under two trees.",
    "The river sleeps near a house.",
]


@pytest.fixture(scope="module")
def model(saved_model):
    return GTransformer.from_pretrained(saved_model, device="cpu")


def test_instances_are_as_given_whatever_they_were_in_training(saved_model, tmp_path, model):
    """With options of training that stored instances refuse."""
    trained = ["--instances", "sliding", "--context-sentences", "1", "--batch-order", "document"]
    other = GTransformer.from_pretrained(make_model(tmp_path, *trained), device="cpu")
    single = [
        [sentence] for sentence in DOCUMENT
    ]  # how many stand together goes by the training's instances
    assert other.translate(single) == model.translate(single)


def test_documents_and_sentences(model):
    one = model.translate(DOCUMENT)
    assert len(one) == 3 and all(isinstance(text, str) and text for text in one)
    several = model.translate([DOCUMENT, DOCUMENT[:1], DOCUMENT[::-1]])
    assert several[0] == one
    assert [len(document) for document in several] == [3, 1, 3]
    assert model.translate([]) == []
    assert model.translate([[], DOCUMENT[:1], []]) == [[], several[1], []]


def test_context_is_used_and_a_blank_sentence_keeps_the_document_together(model):
    """The same sentence comes out differently behind another; a blank one between them changes
    nothing.
    """
    alone = [model.translate([sentence])[0] for sentence in DOCUMENT]
    assert alone[1:] != model.translate(DOCUMENT)[1:]
    together = model.translate(DOCUMENT[:2])
    assert model.translate([DOCUMENT[0], " ", DOCUMENT[1]]) == [together[0], "", together[1]]


def test_strange_sentences_stay_in_their_places(model):
    documents = [[text] for text in STRANGE]
    found = model.translate([*documents, list(STRANGE)])
    assert found[:-1] == [model.translate(document) for document in documents]
    assert len(found[-1]) == len(STRANGE)
    assert not any(sign in text for document in found for text in document for sign in "\n\r\t")


def test_scores_are_the_models_log_probabilities(model):
    """Each equals that of forced decoding through the plain forward pass; an independent
    computation.
    """
    nbest = model.nbest([DOCUMENT], nbest=2, beam=3)[0]
    engine = model.engine
    source = [engine.sides.indices(tokens, engine.source) for tokens in model.encode(DOCUMENT)]
    assert (
        sum(len(sentence) + 2 for sentence in source) < model.directory.max_instance_tokens
    )  # one instance
    found = engine.translate([model.encode(DOCUMENT)], model.options.changed(nbest=2, beam=3))[0]
    scorer = SentenceScorer(engine.model, engine.source, engine.target)
    for rank, hypothesis in enumerate(found):
        target = [
            [engine.target.index(word) for word in text.split()] for text in hypothesis.sentences
        ]
        expected = scorer.score([Request(source, target)])[0]
        assert [line[rank].score for line in nbest] == pytest.approx(expected, abs=1e-4)
        length = sum(
            len(sentence) + 2 for sentence in target
        )  # without the first <s>, with the language symbol
        assert hypothesis.score == pytest.approx(sum(expected) / length, abs=1e-5)
    assert found[0].score > found[1].score


def test_shapes_and_mistakes(model):
    assert len(model.nbest([DOCUMENT], nbest=2)[0][0]) == 2
    assert model.nbest([["The dog.", ""]])[0][1] == []
    assert model.nbest([]) == []
    assert model.translate(iter(DOCUMENT)) == model.translate(DOCUMENT)
    for text in ("The dog.", [["The dog."], "The dog."]):
        with pytest.raises(TypeError, match="sentences"):
            model.translate(text)
    with pytest.raises(TypeError, match="sentences"):
        model.nbest(DOCUMENT)
    with pytest.raises(TypeError, match="width"):
        model.translate(DOCUMENT, width=3)


def test_a_model_keeps_its_rule_of_sentences(model, tmp_path):
    """That of its training, until a command says otherwise; with a strategy there is none but
    on.
    """
    trained = GTransformer.from_pretrained(
        make_model(tmp_path, "--sentence-rule", "off"), device="cpu"
    )
    free = model.translate(DOCUMENT, sentence_rule="off")
    assert trained.translate(DOCUMENT) == free != model.translate(DOCUMENT) and len(free) == len(
        DOCUMENT
    )
    assert trained.translate(DOCUMENT, sentence_rule="on") == model.translate(DOCUMENT)
    way = {"strategy": "sequential", "context_sentences": 1}
    assert trained.translate(DOCUMENT, **way) == model.translate(DOCUMENT, **way)
