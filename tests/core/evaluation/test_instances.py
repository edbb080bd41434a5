"""The instances in which sentences are scored: what a model's options ask for, and what is cut; scores by hand."""

from __future__ import annotations

import json
import random
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from gtransformer.cli.contrastive import main
from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.data.sentences import SentenceSpan
from gtransformer.errors import UserError
from gtransformer.evaluation.contrastive import IN_VIEW, Item, read_items, score_items
from gtransformer.evaluation.instances import Capacity, capacity_of, corpus_instances, default_placement
from gtransformer.evaluation.load_model import load_scorer
from gtransformer.evaluation.sentence_scores import Request, SentenceScorer
from gtransformer.files import read_lines
from gtransformer.preprocess.chain import read_settings
from gtransformer.preprocess.instances import split_instance
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.translation_doc import TranslationDocTask
from tests.core.evaluation.any_system import SYSTEMS, make_system, score_by_hand
from tests.support import ROOT, tiny_model

PREPARED = ROOT / "tests" / "prepared" / "len48"
SMALL_MODEL = ROOT / "tests" / "small_model"
PAIR = {"source_lang": "en", "target_lang": "de"}


def doc_task(prepared: Path = PREPARED, **options) -> TranslationDocTask:
    """The task of a model with these options."""
    cfg = TranslationDocConfig(data=str(prepared / "bin"), dataset_impl=None, train_subset="train", **PAIR, **options)
    return TranslationDocTask.setup_task(cfg)


def fairseq_task() -> TranslationTask:
    """fairseq's own."""
    return TranslationTask.setup_task(TranslationConfig(data=str(PREPARED / "bin"), **PAIR))


def text(task, split: str) -> tuple[InstanceIndex, list[list[list[list[int]]]]]:
    """The instance index, and of both sides the stored instances as sentences of indices, read from the text."""
    sides = []
    for lang, dictionary in (("en", task.source_dictionary), ("de", task.target_dictionary)):
        lines = map(split_instance, read_lines(PREPARED / "instances" / f"{split}.{lang}"))
        sides.append([[[dictionary.index(w) for w in sentence.split()] for sentence in one] for one in lines])
    return InstanceIndex.load(PREPARED / "bin" / f"{split}.en-de.instances.json"), sides


@pytest.mark.parametrize("make", [doc_task, fairseq_task])
@pytest.mark.parametrize("split", ["test", "train"])
def test_as_prepared(make, split):
    """Every instance that lies there, in training, too, where words are dropped otherwise; and of fairseq's task."""
    task = make(doc_noise_mask=0.9) if make is doc_task else make()
    instance_index, (sources, targets) = text(task, split)
    found = corpus_instances(task, PREPARED, split)
    assert list(found.spans) == [SentenceSpan(*row) for row in instance_index.instances]
    assert [found.read(number) for number in range(len(found.spans))] == list(zip(sources, targets, strict=True))


def test_context_of_the_source_alone():
    task = doc_task(instances="current", context_sentences=2, doc_mode="full")
    instance_index, sides = text(task, "test")
    found = corpus_instances(task, PREPARED, "test")
    source, target = (join(instance_index, side) for side in sides)
    place = next(number for number, place in enumerate(found.spans) if place.current[0] == 3)
    document = found.spans[place].document
    assert found.spans[place] == SentenceSpan(document, 3, 1, (3, 1))
    assert found.read(place) == (source[document][1:4], [target[document][3]])


def test_what_is_missing_or_damaged(tmp_path):
    with pytest.raises(UserError, match="no split 'dev'"):
        corpus_instances(doc_task(), PREPARED, "dev")
    prepared = shutil.copytree(PREPARED, tmp_path / "prepared")
    path = prepared / "bin" / "test.en-de.instances.json"
    instance_index = InstanceIndex.load(path)
    document, first, count = instance_index.instances[0]
    instance_index.instances[0] = (document, first, count + 1)
    for instances in (instance_index.instances, instance_index.instances[:-1]):
        instance_index.instances = instances
        instance_index.save(path)
        with pytest.raises(UserError, match="prepare the corpus again"):
            corpus_instances(doc_task(prepared), prepared, "test").read(0)


Sides = tuple[list[list[int]], list[list[int]]]


def tokens(side) -> int:
    return sum(len(sentence) + 2 for sentence in side)


def longer(source, target) -> int:
    return sum(max(len(one), len(other)) + 2 for one, other in zip(source, target, strict=True))


# The options of a model, and whether a text is short enough for it.
KINDS = {
    "sentences": ({"instances": "disjoint", "context_sentences": 0}, lambda s, t: len(s) <= 1),
    "disjoint": ({"instances": "disjoint", "context_sentences": 1}, lambda s, t: len(s) <= 2),
    "sliding": ({"instances": "sliding", "context_sentences": 2}, lambda s, t: len(s) <= 3),
    "parts": ({"instances": "parts", "instance_tokens": 60}, lambda s, t: tokens(t) <= 60),
    "greedy": ({"instances": "greedy", "instance_tokens": 70}, lambda s, t: longer(s, t) < 70),
    "stored": ({}, lambda s, t: longer(s, t) < 48),
}


def sentences_of(split: str) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """By document and place in it, source and target, from the text files."""
    instance_index, sides = text(doc_task(), split)
    found = {}
    for (document, first, count), source, target in zip(instance_index.instances, *sides, strict=True):
        for number in range(count):
            found[document, first + number] = source[number], target[number]
    return found


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
    found = corpus_instances(task, PREPARED, split, capacity_of(task, PREPARED))
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
    instances = corpus_instances(task, PREPARED, "test", capacity_of(task, PREPARED))
    scorer = SentenceScorer(model, dictionary, dictionary, max_tokens=300)
    encode = lambda texts: [[dictionary.index(word) for word in one.split()] for one in texts]  # noqa: E731
    seen = set()
    for score in score_items(scorer, items, instances.spans, instances.read, encode):
        item = score.item
        source, target = behind_context(corpus, item.document, item.sentence, fits)
        texts = encode([item.correct, *item.wrong])
        expected = [score_by_hand(model, dictionary, source, [*target[:-1], one], len(target) - 1) for one in texts]
        assert [score.correct, *score.wrong] == pytest.approx(expected, abs=1e-9)
        assert (score.view == IN_VIEW) == (len(source) > 1)
        seen.add(len(source))
    assert seen == {1} if kind == "sentences" else max(seen) > 1


def test_the_command_places_items(tmp_path):
    """A model of instances as prepared: in them if nothing is said, else with nothing behind the item."""
    found = {}
    for placed in (None, "instance", "last"):
        line = [str(SMALL_MODEL / "prepared"), f"--path={SMALL_MODEL / 'checkpoint.pt'}"]
        line += [f"--output={tmp_path / 'o.json'}"]
        line += [f"--items={SMALL_MODEL / 'contrastive.json'}", "--cpu", *([f"--placed={placed}"] if placed else [])]
        assert main(line) == 0
        found[placed] = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert [result.pop("placed") for result in found.values()] == ["instance", "instance", "last"]
    assert found[None]["items"] == found["instance"]["items"]
    scorer, task = load_scorer(SMALL_MODEL / "prepared", SMALL_MODEL / "checkpoint.pt", 4096, cpu=True)
    split, items = read_items(SMALL_MODEL / "contrastive.json")
    instances, corpus = corpus_instances(task, SMALL_MODEL / "prepared", split), {}
    for number, place in enumerate(instances.spans):
        for sentence, pair in enumerate(zip(*instances.read(number), strict=True), place.first_sentence):
            corpus[place.document, sentence] = pair
    most = read_settings(SMALL_MODEL / "prepared")["max_instance_tokens"]
    for item, inside, last in zip(items, found["instance"]["items"], found["last"]["items"], strict=True):
        fits = lambda source, target: longer(source, target) < most  # noqa: E731
        source, target = behind_context(corpus, item.document, item.sentence, fits)
        expected = score_by_hand(scorer.model, task.target_dictionary, source, target, len(target) - 1)
        assert len(target) > 1 and last["correct"] == pytest.approx(expected, abs=1e-3)
        assert abs(inside["correct"] - last["correct"]) > 1e-3


@pytest.mark.parametrize(
    "capacity",
    [
        Capacity(),
        Capacity(3, 3),
        Capacity(1, 1),
        Capacity(tokens=20),
        Capacity(tokens=20, longer_side=True),
        Capacity(4, 4, 25, True),
        Capacity(2, 2, behind=False),
        Capacity(tokens=1),
    ],
)
def test_around_a_sentence(capacity):
    """Sentence by sentence: first those before it, the nearest first, then those behind it."""
    draw = random.Random(4)

    def fits(source, target) -> bool:
        costs = map(max, source, target) if capacity.longer_side else target
        return (capacity.sentences is None or len(source) <= capacity.sentences) and (
            capacity.tokens is None or sum(costs) <= capacity.tokens
        )

    for _ in range(200):
        source, target = ([draw.randint(2, 9) for _ in range(6)] for _ in range(2))
        at = draw.randrange(6)
        first, end = at, at + 1
        while first > 0 and fits(source[first - 1 : end], target[first - 1 : end]):
            first -= 1
        while capacity.behind and end < 6 and fits(source[first : end + 1], target[first : end + 1]):
            end += 1
        assert capacity.around(source, target, at) == (range(first, end), range(first, end))


def test_sides_of_unequal_length():
    task = doc_task(instances="current", context_sentences=2, target_context_sentences=1, doc_mode="full")
    capacity = capacity_of(task, PREPARED)
    assert capacity.around([5] * 6, [5] * 6, 4) == (range(2, 5), range(3, 5))
    assert capacity.around([5] * 6, [5] * 6, 0) == (range(1), range(1))
    made = capacity.last_ones(np.full(4, 5), np.full(4, 5), [(0, 1), (1, 4)])
    assert made.source.tolist() == [[0, 1], [1, 2], [1, 3], [1, 4]]
    assert made.target.tolist() == [[0, 1], [1, 2], [1, 3], [2, 4]]
    assert made.current.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


def test_where_items_usually_stand():
    usual = [default_placement(doc_task(**options)) for options, _ in KINDS.values()]
    assert usual == ["last", "last", "last", "last", "instance", "instance"]
    assert default_placement(fairseq_task()) == "instance"
    assert capacity_of(fairseq_task(), PREPARED) == Capacity(tokens=47, longer_side=True)


def test_an_item_longer_than_the_model(dictionary):
    """Before anything is scored, and with its name."""
    learned = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    model = tiny_model(dictionary, **learned, max_source_positions=12, max_target_positions=9)
    scorer = SentenceScorer(model, dictionary, dictionary)
    short = Request([[4]], [[5]], name="contrastive item 1")
    assert scorer.score([short, Request([[4] * 10], [[5] * 7])])
    for sides, said in (
        (([[4] * 11], [[5]]), "item 7: 13 source tokens"),
        (([[4]], [[5], [6] * 5]), "item 7: 10 target"),
    ):
        with pytest.raises(UserError, match=said):
            scorer.score([short, Request(*sides, name="item 7")], lambda batches: pytest.fail("too late"))


def test_a_model_that_has_diverged_is_not_scored(dictionary):
    """Numbers that are none compare as false: every item would be wrong, at an accuracy of 0 %."""
    model = make_system("gtransformer", dictionary)
    request = Request([[5, 6], [7]], [[5], [6, 7]], (1,), "item 3")
    scorer = SentenceScorer(model, dictionary, dictionary)
    assert np.isfinite(scorer.score([request])).all()
    next(model.decoder.layers[-1].parameters()).data.fill_(np.nan)
    for score in (scorer.score, scorer.score_tokens):
        with pytest.raises(UserError, match="item 3"):
            score([request])
