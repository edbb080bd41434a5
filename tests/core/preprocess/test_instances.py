"""The greedy rule, instance lines and the way back."""

from __future__ import annotations

import random

import pytest

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.preprocess.instances import (
    document_instances,
    instance_line,
    sentence_costs,
    split_instance,
    write_instances,
)


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


def test_what_is_written_is_the_documents_again(tmp_path):
    """Of random documents, by the instance index; and counted."""
    random.seed(2)
    for trial in range(10):
        documents = [
            [
                [" ".join(f"w{random.randint(0, 99)}" for _ in range(random.randint(1, 30))) for _ in range(2)]
                for _ in range(random.randint(1, 25))
            ]
            for _ in range(random.randint(1, 12))
        ]
        longest, folder = random.choice([None, 25]), tmp_path / f"{trial}"
        folder.mkdir()
        for side, name in enumerate(("source", "target")):
            lines = "".join("<d>\n" + "".join(f"{pair[side]}\n" for pair in document) for document in documents)
            (folder / name).write_text(lines)
        limits = {"max_tokens": random.randint(5, 150), "max_sents": random.choice([None, 1, 3])}
        report = write_instances(
            folder / "source", folder / "target", folder, "test", ("en", "de"), **limits, max_sentence_tokens=longest
        )
        instance_index = InstanceIndex.load(folder / "test.en-de.instances.json")
        assert report.instances == len(instance_index.instances) and report.dropped_too_long == len(
            instance_index.dropped
        )
        for side, lang in enumerate(("en", "de")):
            instances = [split_instance(line) for line in (folder / f"test.{lang}").read_text().splitlines()]
            for found, document in zip(join(instance_index, instances), documents, strict=True):
                assert found == [
                    None if longest and max(len(part.split()) for part in pair) > longest else pair[side]
                    for pair in document
                ]
