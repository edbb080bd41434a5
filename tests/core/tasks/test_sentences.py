"""The view of a prepared corpus by sentences."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import ListDataset, indexed_dataset

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import InstanceScheme, build_instances
from gtransformer.errors import UserError
from gtransformer.plugin import stored as module
from gtransformer.plugin.sentences import RunDataset, Sentences, SentenceSpan, regrouped_spans, tokens_between
from gtransformer.plugin.stored import InstanceDataset

S, E, A, B, C = 0, 2, 4, 5, 6
DOCUMENTS = [[[A], [B, C], []], [[C, C, C], [A, B]]]  # sentences of words
PLACES = [(0, 0, 2), (0, 2, 1), (1, 0, 1), (1, 1, 1)]


def lines(spans=PLACES, documents=DOCUMENTS, twice=True):
    """Instances as fairseq-preprocess stores them."""
    found = []
    for document, first, count in spans:
        sentences = documents[document][first : first + count]
        found.append([token for words in sentences for token in (S, *words, E)] + [E] * twice)
    return found


def side(stored, folder=None, prepend_bos=False):
    """A side in memory, or binarised in a folder."""
    if folder is None:
        dataset = ListDataset([torch.tensor(line) for line in stored], list(map(len, stored)))
        return InstanceDataset(dataset, list(map(len, stored)), S, E, prepend_bos)
    prefix = Path(folder) / "side"
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=70_000)
    for line in stored:
        builder.add_item(torch.tensor(line, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    dataset = indexed_dataset.MMapIndexedDataset(str(prefix))
    return InstanceDataset(dataset, dataset.sizes, S, E, prepend_bos)


def instance_index(spans=PLACES, documents=2, dropped=()):
    return InstanceIndex("test", "en", "de", documents, list(spans), list(dropped))


@pytest.mark.parametrize("twice", [True, False])
@pytest.mark.parametrize("binarised", [False, True])
def test_sentences_of_documents(tmp_path, binarised, twice):
    one = side(lines(twice=twice), tmp_path if binarised else None)
    view = Sentences(one, one, "x", instance_index())
    assert view.document.tolist() == [0, 0, 0, 1, 1] and view.position.tolist() == [0, 1, 2, 0, 1]
    assert view.source.lengths.tolist() == [3, 4, 2, 5, 4] and view.runs() == [(0, 3), (3, 5)]
    assert len(view) == 5
    assert view.target.tokens(0, 3).tolist() == [S, A, E, S, B, C, E, S, E]
    assert view.source.tokens(1, 3).tolist() == [S, B, C, E, S, E]
    assert [view.source.tokens(i, i + 1).tolist() for i in (0, 2, 3)] == [[S, A, E], [S, E], [S, C, C, C, E]]


def test_without_an_instance_index_an_instance_is_a_document():
    view = Sentences(side(lines()), None, "x")
    assert view.document.tolist() == [0, 0, 1, 2, 3] and view.position.tolist() == [0, 1, 0, 0, 0]
    assert view.runs() == [(0, 2), (2, 3), (3, 4), (4, 5)] and view.target is None


def test_a_sentence_that_was_dropped_breaks_a_run():
    spans = [(0, 0, 1), (0, 2, 1), (1, 0, 2)]
    view = Sentences(side(lines(spans)), None, "x", instance_index(spans, dropped=[(0, 1)]))
    assert view.position.tolist() == [0, 2, 0, 1] and view.runs() == [(0, 1), (1, 2), (2, 4)]


def test_instances_may_be_stored_in_any_order():
    spans = [PLACES[i] for i in (3, 1, 0, 2)]
    view = Sentences(side(lines(spans)), side(lines(spans)), "x", instance_index(spans))
    assert view.document.tolist() == [0, 0, 0, 1, 1] and view.runs() == [(0, 3), (3, 5)]
    assert view.target.tokens(0, 5).tolist() == [t for line in lines(twice=False) for t in line]


def test_runs_of_sentences_have_exact_sizes(tmp_path):
    view = Sentences(side(lines(), tmp_path), None, "x", instance_index())
    ranges = np.array([(0, 1), (0, 2), (0, 3), (3, 5), (1, 3)])
    dataset = RunDataset(view.source, ranges)
    assert len(dataset) == 5 and dataset.sizes.tolist() == [3, 7, 9, 9, 6]
    assert [len(dataset[i]) for i in range(5)] == dataset.sizes.tolist()
    assert tokens_between(view.source.lengths, np.array([(2, 2), (0, 5)])).tolist() == [0, 18]


@pytest.mark.parametrize("prepend_bos", [False, True])
def test_memory_mapped_files_are_searched_as_instances_are_read(tmp_path, prepend_bos, monkeypatch):
    """Against instances read one by one: random ones, some with an open beginning."""
    monkeypatch.setattr(module, "SEARCHED_AT_ONCE", 7)
    draw = random.Random(3)
    for number in range(30):
        stored = []
        for _ in range(draw.randint(1, 8)):
            words = [
                [draw.randint(A, 70_000 - 1) for _ in range(draw.randint(0, 3))] for _ in range(draw.randint(1, 3))
            ]
            line = [token for sentence in words for token in (S, *sentence, E)] + [E] * draw.randint(0, 1)
            stored.append(line[1:] if prepend_bos and draw.random() < 0.6 else line)
        (tmp_path / str(number)).mkdir()
        mapped = side(stored, tmp_path / str(number), prepend_bos=prepend_bos)
        found = mapped.sentence_borders()
        expected = [
            (number, begin)
            for number in range(len(stored))
            for begin in np.flatnonzero(mapped[number].numpy() == S).tolist()
        ]
        assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
        for instance, begin, length in zip(*map(np.ndarray.tolist, found), strict=True):
            tokens = mapped[instance][begin : begin + length]
            assert tokens[0] == S and len(tokens) == length and not tokens[1:].eq(S).any()
        assert np.bincount(found[0], found[2]).tolist() == [len(mapped[i]) for i in range(len(stored))]


@pytest.mark.parametrize(
    ("source", "target", "given", "message"),
    [
        (PLACES, [(0, 0, 2), (0, 2, 1), (1, 0, 2), (1, 1, 1)], None, r"x\*: instance 2 has 1 source but 2 target sent"),
        (PLACES, None, PLACES[:2], "y: describes 2 instances, the data has 4; prepare the corpus again"),
        (PLACES, None, [*PLACES[:2], (1, 0, 2), (1, 1, 1)], "y: instance 2 has 2 sentences, in the data it has 1"),
        (PLACES, None, [*PLACES[:3], (1, 0, 1)], "y: has sentence 0 of document 1 twice; prepare the corpus again"),
    ],
)
def test_files_that_do_not_belong_together(source, target, given, message):
    with pytest.raises(UserError, match=message):
        Sentences(
            side(lines(source)),
            target and side(lines(target)),
            "x",
            given and instance_index(given),
            given and Path("y"),
        )


@pytest.mark.parametrize("binarised", [False, True])
def test_beginnings_and_foreign_words_of_stored_instances(tmp_path, binarised):
    opened = [[S, A, E, E], [S, E, E]]
    found = side([[S, A, E], [A], [B, A, E, E], [S]], tmp_path if binarised else None)
    assert found.first_without_bos() == 1
    assert side(opened).first_without_bos() is None and side([[A, E]], prepend_bos=True).first_without_bos() is None
    assert side([*opened, []]).first_without_bos() == 2
    assert found.invalid_token(B + 1) is None and found.invalid_token(B) == B


def word_view(spans, dropped=()):
    """Sentences of one word in stored instances (document, first sentence, sentences)."""
    one = side([[S, A, E] * count for *_, count in spans])
    return Sentences(one, one, "x", instance_index(spans, 3, dropped))


def spans_of_scheme(sentences, *scheme):
    made = build_instances(
        InstanceScheme(*scheme), sentences.source.lengths, sentences.target.lengths, sentences.runs()
    )
    return regrouped_spans(sentences, made)


def test_spans_are_those_of_the_instance_index():
    """Sentence 2 of document 0 was left out as too long; document 1 was left out whole."""
    sentences = word_view([(0, 0, 2), (0, 3, 1), (2, 0, 1)], dropped=[(0, 2), (1, 0)])
    assert spans_of_scheme(sentences, "sliding", None, 1) == [
        SentenceSpan(0, 0, 1, (0, 1)),
        SentenceSpan(0, 0, 2, (1, 1)),
        SentenceSpan(0, 3, 1, (3, 1)),
        SentenceSpan(2, 0, 1, (0, 1)),
    ]
    assert spans_of_scheme(sentences, "current", None, 2, 0) == [
        SentenceSpan(0, 0, 1, (0, 1)),
        SentenceSpan(0, 1, 1, (1, 1)),
        SentenceSpan(0, 3, 1, (3, 1)),
        SentenceSpan(2, 0, 1, (0, 1)),
    ]
    whole = spans_of_scheme(sentences, "greedy", 100)
    assert whole == [SentenceSpan(0, 0, 2, (0, 2)), SentenceSpan(0, 3, 1, (3, 1)), SentenceSpan(2, 0, 1, (0, 1))]
    numbers = [number for place in whole for number in (place.document, place.first_sentence, *place.current)]
    assert all(type(number) is int for number in numbers)  # what a file of translations can hold
    made = build_instances(InstanceScheme("sliding", None, 1), np.zeros(0, int), np.zeros(0, int), [])
    assert regrouped_spans(sentences, made) == []
