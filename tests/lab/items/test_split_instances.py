"""The instances in which the sentences of a split are scored: what a model's options ask for; scores by hand."""

from __future__ import annotations

import random
from itertools import product

import pytest

from gtransformer.evaluation.instances import capacity_of
from gtransformer.evaluation.sentence_scores import SentenceScorer
from gtransformer.lab.items.items import Item, score_items
from gtransformer.lab.items.split_instances import corpus_instances
from gtransformer.plugin.sentences import SentenceSpan
from tests.core.evaluation.any_system import SYSTEMS, make_system, score_by_hand
from tests.core.evaluation.corpus_tasks import (
    PREPARED,
    Sides,
    doc_task,
    fairseq_task,
    longer,
    sentences_of,
    text,
    tokens,
)


@pytest.mark.parametrize("make", [doc_task, fairseq_task])
@pytest.mark.parametrize("split", ["test", "train"])
def test_as_prepared(make, split):
    """Every instance that lies there, in training, too, where words are dropped otherwise; and of fairseq's task."""
    task = make(doc_noise_mask=0.9) if make is doc_task else make()
    instance_index, (sources, targets) = text(task, split)
    found = corpus_instances(task, PREPARED, split)
    assert list(found.spans) == [SentenceSpan(*row) for row in instance_index.instances]
    assert [found.read(number) for number in range(len(found.spans))] == list(zip(sources, targets, strict=True))


# The options of a model, and whether a text is short enough for it.
KINDS = {
    "sentences": ({"instances": "disjoint", "context_sentences": 0}, lambda s, t: len(s) <= 1),
    "disjoint": ({"instances": "disjoint", "context_sentences": 1}, lambda s, t: len(s) <= 2),
    "sliding": ({"instances": "sliding", "context_sentences": 2}, lambda s, t: len(s) <= 3),
    "parts": ({"instances": "parts", "instance_tokens": 60}, lambda s, t: tokens(t) <= 60),
    "greedy": ({"instances": "greedy", "instance_tokens": 70}, lambda s, t: longer(s, t) < 70),
    "stored": ({}, lambda s, t: longer(s, t) < 48),
}


def behind_context(corpus, document: int, sentence: int, fits) -> Sides:
    """The sentence and, one by one, what stands before it as long as it fits."""
    first = sentence
    while (document, first - 1) in corpus:
        longer_text = [corpus[document, number] for number in range(first - 1, sentence + 1)]
        if not fits(*map(list, zip(*longer_text, strict=True))):
            break
        first -= 1
    return tuple(map(list, zip(*(corpus[document, number] for number in range(first, sentence + 1)), strict=True)))


@pytest.mark.parametrize("split", ["test", "train"])  # one of training has a gap
@pytest.mark.parametrize("kind", KINDS)
def test_instances(kind, split):
    options, fits = KINDS[kind]
    task, corpus = doc_task(**options), sentences_of(split)
    found = corpus_instances(task, PREPARED, split, capacity_of(task.options.scheme, PREPARED))
    assert len(found.spans) == len(corpus)
    lengths = []
    for number, place in enumerate(found.spans):
        sentence, one = place.current
        assert one == 1 and sentence == place.first_sentence + place.sentences - 1
        assert found.read(number) == behind_context(corpus, place.document, sentence, fits)
        lengths.append(place.sentences)
    assert max(lengths) == 1 if kind == "sentences" else len(set(lengths)) > 1


@pytest.mark.parametrize(
    ("system", "kind"), [*product(SYSTEMS, ["sliding"]), *product(["gtransformer"], KINDS), ("window linear", "parts")]
)
def test_scores_by_hand(system, kind):
    """Right and wrong, for every sentence of a document; some wrong ones are longer, some shorter."""
    options, fits = KINDS[kind]
    task, corpus = doc_task(**options), sentences_of("test")
    dictionary, draw = task.target_dictionary, random.Random(1)
    model = make_system(system, dictionary)
    items, spell = [], lambda sentence: " ".join(dictionary[token] for token in sentence)
    for document, sentence in sorted(corpus)[1:9:3]:
        target = corpus[document, sentence][1]
        wrong = tuple(spell(one) for one in ([*target, target[0]], target[1:], draw.choices(range(5, 40), k=4)))
        items.append(Item(len(items), "pronoun", "", document, sentence, 1, spell(target), wrong))
    instances = corpus_instances(task, PREPARED, "test", capacity_of(task.options.scheme, PREPARED))
    scorer = SentenceScorer(model, dictionary, dictionary, max_tokens=300)
    encode = lambda texts: [[dictionary.index(word) for word in one.split()] for one in texts]  # noqa: E731
    seen = set()
    for score in score_items(scorer, items, instances.spans, instances.read, encode):
        item = score.item
        source, target = behind_context(corpus, item.document, item.sentence, fits)
        texts = encode([item.correct, *item.wrong])
        expected = [score_by_hand(model, dictionary, source, [*target[:-1], one], len(target) - 1) for one in texts]
        assert [score.correct, *score.wrong] == pytest.approx(expected, abs=1e-9)
        seen.add(len(source))
    assert seen == {1} if kind == "sentences" else max(seen) > 1
