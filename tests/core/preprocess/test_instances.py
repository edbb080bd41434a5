"""The greedy rule, instance lines and the way back."""

from __future__ import annotations

import random

import pytest

from gtransformer.data.sidecar import Sidecar, join
from gtransformer.errors import UserError
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.instances import document_instances, instance_line, sentence_costs, split_instance


def whole(source, target, limit, max_sents=None):
    """The instances of a document of which no sentence is dropped."""
    instances, dropped = document_instances(source, target, limit, max_sents)
    assert not dropped
    return instances


@pytest.mark.parametrize(
    ("source", "target", "limit", "expected"),
    [
        ([], [], 10, []),
        ([1], [1], 10, [(0, 1)]),
        # costs 5 + 4 = 9 < 10: together
        ([3, 2], [3, 2], 10, [(0, 2)]),
        # costs 5 + 5 = 10, not below 10: apart
        ([3, 3], [3, 3], 10, [(0, 1), (1, 1)]),
        # the longer side counts, sentence by sentence: 5 + 5, though neither side alone is over
        ([3, 1], [1, 3], 10, [(0, 1), (1, 1)]),
        # too long alone, exactly at the limit and over, at either end and in the middle
        ([8, 1], [1, 1], 10, [(0, 1), (1, 1)]),
        ([1, 50, 1, 1], [1, 1, 1, 1], 10, [(0, 1), (1, 1), (2, 2)]),
        ([1, 1, 9], [1, 1, 1], 10, [(0, 2), (2, 1)]),
        ([50, 50], [50, 50], 10, [(0, 1), (1, 1)]),
        # the limit of 512 is exclusive
        ([253, 253], [1, 1], 512, [(0, 2)]),
        ([254, 253], [1, 1], 512, [(0, 2)]),
        ([254, 254], [1, 1], 512, [(0, 1), (1, 1)]),
        # first fit, not best fit: a new instance never goes back
        ([4, 4, 1, 1], [4, 4, 1, 1], 12, [(0, 1), (1, 2), (3, 1)]),
    ],
)
def test_greedy_rule(source, target, limit, expected):
    assert whole(source, target, limit) == expected


def test_max_sents():
    assert whole([1] * 5, [1] * 5, 512, 1) == [(i, 1) for i in range(5)]
    assert whole([1] * 5, [1] * 5, 512, 2) == [(0, 2), (2, 2), (4, 1)]
    assert whole([4] * 4, [4] * 4, 13, 3) == [(0, 2), (2, 2)]


def test_unequal_sides_are_refused():
    with pytest.raises(ValueError):
        whole([1, 2], [1], 10)


def test_dropped_sentence_closes_the_instance():
    # Longer than 10 is dropped, 10 itself is not.
    cuts, dropped = document_instances([1, 2, 11, 3, 10], [1, 2, 1, 3, 1], 100, max_sentence_tokens=10)
    assert (cuts, dropped) == ([(0, 2), (3, 2)], [2])
    cuts, dropped = document_instances([11, 1, 1, 1], [1, 1, 11, 11], 100, max_sentence_tokens=10)
    assert (cuts, dropped) == ([(1, 1)], [0, 2, 3])
    assert document_instances([99], [99], 100, max_sentence_tokens=10) == ([], [0])
    assert document_instances([99], [99], 100) == ([(0, 1)], [])


def test_rule_on_random_documents():
    random.seed(1)
    for _ in range(200):
        count, limit = random.randint(0, 40), random.randint(3, 120)
        most = random.choice([None, None, 1, 2, 7])
        source = [random.randint(1, 60) for _ in range(count)]
        target = [random.randint(0, 60) for _ in range(count)]
        cuts = whole(source, target, limit, most)
        costs = sentence_costs(source, target)
        assert [i for first, number in cuts for i in range(first, first + number)] == list(range(count))
        for place, (first, number) in enumerate(cuts):
            total = sum(costs[first : first + number])
            assert number == 1 or total < limit
            assert most is None or number <= most
            if place + 1 < len(cuts):  # it was cut for a reason
                assert total + costs[first + number] >= limit or number == most


def test_instance_line_and_back():
    line = instance_line(["a b", "c"])
    assert line == "<s> a b </s> <s> c </s>"
    assert split_instance(line) == ["a b", "c"]
    assert split_instance("<s> </s> <s> x </s>") == ["", "x"]
    assert instance_line(["", "x"]) == "<s> </s> <s> x </s>"
    assert split_instance("") == []


@pytest.mark.parametrize("line", ["a", "<s> a", "<s> a <s> b </s>", "<s> a </s> b", "</s>", "<s> a </s> </s>"])
def test_lines_that_are_no_instances(line):
    with pytest.raises(UserError, match="not an instance"):
        split_instance(line)


def cut(documents, limit, most=None, longest=None):
    """Instance lines of both sides and the sidecar of documents of (source, target) pairs."""
    sidecar = Sidecar("test", "en", "de", documents=len(documents))
    lines = []
    for number, document in enumerate(documents):
        lengths = [[len(sentence.split()) for sentence in pair] for pair in document]
        source, target = [pair[0] for pair in lengths], [pair[1] for pair in lengths]
        cuts, dropped = document_instances(source, target, limit, most, longest)
        for first, count in cuts:
            sidecar.instances.append((number, first, count))
            lines.append([instance_line(pair[side] for pair in document[first : first + count]) for side in (0, 1)])
        sidecar.dropped += [(number, position) for position in dropped]
    return lines, sidecar


def test_splitting_and_joining_random_documents(tmp_path):
    random.seed(2)
    for trial in range(20):
        documents = [
            [
                tuple(" ".join(f"w{random.randint(0, 99)}" for _ in range(random.randint(1, 30))) for _ in range(2))
                for _ in range(random.randint(1, 25))
            ]
            for _ in range(random.randint(1, 12))
        ]
        longest = random.choice([None, 25])
        lines, sidecar = cut(documents, random.randint(5, 150), random.choice([None, 1, 3]), longest)
        path = tmp_path / f"{trial}.json"
        sidecar.save(path)
        assert Sidecar.load(path) == sidecar
        for side in (0, 1):
            joined = join(Sidecar.load(path), [split_instance(line[side]) for line in lines])
            for found, document in zip(joined, documents, strict=True):
                wanted = [
                    None if longest and max(len(part.split()) for part in pair) > longest else pair[side]
                    for pair in document
                ]
                assert found == wanted


@pytest.mark.parametrize("corpus", ["ted", "newstest2019"])
def test_splitting_and_joining_real_documents(shared, corpus):
    files = [shared / corpus / f"concatenated_en2de_test_{lang}.txt.xz" for lang in ("en", "de")]
    documents = [
        [tuple(" ".join(line.split()) for line in pair) for pair in document] for document in read_documents(*files)
    ]
    assert sum(map(len, documents)) > 1900
    lines, sidecar = cut(documents, 512)
    assert len(lines) < sum(map(len, documents)) / 5
    for side in (0, 1):
        joined = join(sidecar, [split_instance(line[side]) for line in lines])
        assert joined == [[pair[side] for pair in document] for document in documents]
