"""The view of a prepared corpus by sentences."""

import random

import numpy as np
import pytest

from gtransformer.data.dictionaries import RESERVED, Vocabulary
from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.instances import InstanceScheme, build_instances
from gtransformer.data.sentences import (
    RunDataset,
    Sentences,
    SideSentences,
    sentence_spans,
    tokens_between,
)
from gtransformer.errors import UserError
from gtransformer.plugin.loading import read_side
from tests.support import write_binary

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


def side(stored, folder=None, words=70_000):
    """A side in memory, or binarised in a folder."""
    dictionary = Vocabulary(map(str, range(words - len(RESERVED))))
    if folder is None:
        return SideSentences(
            np.array(sum(stored, []), dtype=int), np.array([*map(len, stored)]), dictionary, "x"
        )
    write_binary(folder / "side", stored, 70_000)
    return read_side(str(folder / "side"), dictionary)


def instance_index(spans=PLACES, documents=2, dropped=()):
    return InstanceIndex("test", "en", "de", documents, list(spans), list(dropped))


@pytest.mark.parametrize(
    ("spans", "dropped", "runs"),
    [
        (PLACES, [], [(0, 3), (3, 5)]),
        ([PLACES[i] for i in (3, 1, 0, 2)], [], [(0, 3), (3, 5)]),
        # A sentence that was dropped breaks a run.
        ([(0, 0, 1), (0, 2, 1), (1, 0, 2)], [(0, 1)], [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_sentences_of_documents(spans, dropped, runs):
    """Whatever the order in which they are stored."""
    index = instance_index(spans, dropped=dropped)
    view = Sentences(side(lines(spans)), side(lines(spans)), index, "x")
    places = [(document, first + i) for document, first, count in spans for i in range(count)]
    found = zip(view.document.tolist(), view.position.tolist(), strict=True)
    assert list(found) == sorted(places) and view.runs() == runs
    expected = sum(lines(sorted(spans), twice=False), [])
    assert view.target.tokens(0, len(view)).tolist() == expected


def test_without_an_instance_index_an_instance_is_a_document():
    view = Sentences(side(lines()), None, None, "x")
    assert view.document.tolist() == [0, 0, 1, 2, 3] and view.position.tolist() == [0, 1, 0, 0, 0]
    assert view.runs() == [(0, 2), (2, 3), (3, 4), (4, 5)] and view.target is None


@pytest.mark.parametrize("mapped", [False, True])
def test_borders_of_random_instances(tmp_path, mapped):
    """Against a search in each line; a second </s> at its end is dropped."""
    draw = random.Random(3)
    for number in range(30):
        stored, expected = [], []
        for _ in range(draw.randint(1, 8)):
            counts = [draw.randint(0, 3) for _ in range(draw.randint(1, 3))]
            sentences = [
                [S, *(draw.randint(A, 70_000 - 1) for _ in range(count)), E] for count in counts
            ]
            stored.append(
                [token for sentence in sentences for token in sentence] + [E] * draw.randint(0, 1)
            )
            expected.append(sentences)
        (tmp_path / str(number)).mkdir()
        found = side(stored, tmp_path / str(number) if mapped else None)
        flat = [sentence for sentences in expected for sentence in sentences]
        assert [found.tokens(i, i + 1).tolist() for i in range(len(flat))] == flat
        assert found.lengths.tolist() == list(map(len, flat)) and found.counts.tolist() == list(
            map(len, expected)
        )
        sizes = [sum(map(len, one)) for one in expected]
        instances = RunDataset(found, found.stored_ranges())
        assert instances.sizes.tolist() == sizes
        ranges = np.array([(0, 0), (0, len(flat))])
        assert tokens_between(found.lengths, ranges).tolist() == [0, sum(sizes)]
        assert [instances[i].tolist() for i in range(len(stored))] == [
            sum(one, []) for one in expected
        ]


@pytest.mark.parametrize(
    ("source", "target", "given", "message"),
    [
        (
            PLACES,
            [(0, 0, 2), (0, 2, 1), (1, 0, 2), (1, 1, 1)],
            None,
            r"x\*: instance 2 has 1 source but 2 target sent",
        ),
        (
            PLACES,
            None,
            [*PLACES[:3], (1, 0, 1)],
            "xinstances.json: has sentence 0 of document 1 twice; prepare",
        ),
    ],
)
def test_files_that_do_not_belong_together(source, target, given, message):
    with pytest.raises(UserError, match=message):
        Sentences(
            side(lines(source)),
            target and side(lines(target)),
            given and instance_index(given),
            "x",
        )


def test_open_beginnings_and_foreign_words(tmp_path):
    for line in ([A], [B, A, E, E], []):
        with pytest.raises(UserError, match="instance 1 does not begin with <s>"):
            side([[S, A, E], line, [S]], tmp_path)
    assert len(side([[S, B, E]], words=B + 1).lengths) == 1
    with pytest.raises(
        UserError, match=f"holds the word number {B}, but the dictionary ends at {B - 1}"
    ):
        side([[S, B, E]], words=B)


def word_view(spans, dropped=()):
    """Sentences of one word in stored instances (document, first sentence, sentences)."""
    sides = (side([[S, A, E] * count for *_, count in spans]) for _ in range(2))
    return Sentences(*sides, instance_index(spans, 3, dropped), "x")


def spans_of_scheme(sentences, *scheme):
    made = build_instances(
        InstanceScheme(*scheme),
        sentences.source.lengths,
        sentences.target.lengths,
        sentences.runs(),
    )
    return sentence_spans(sentences, made).tolist()


def test_spans_are_those_of_the_instance_index():
    """Sentence 2 of document 0 was left out as too long; document 1 was left out whole."""
    sentences = word_view([(0, 0, 2), (0, 3, 1), (2, 0, 1)], dropped=[(0, 2), (1, 0)])
    alone = [[0, 3, 1, 3, 1], [2, 0, 1, 0, 1]]
    found = spans_of_scheme(sentences, "sliding", None, 1)
    assert found == [[0, 0, 1, 0, 1], [0, 0, 2, 1, 1], *alone]
    found = spans_of_scheme(sentences, "current", None, 2, 0)
    assert found == [[0, 0, 1, 0, 1], [0, 1, 1, 1, 1], *alone]
    assert spans_of_scheme(sentences, "greedy", 100) == [[0, 0, 2, 0, 2], *alone]
    made = build_instances(
        InstanceScheme("sliding", None, 1), np.zeros(0, int), np.zeros(0, int), []
    )
    assert sentence_spans(sentences, made).shape == (0, 5)
