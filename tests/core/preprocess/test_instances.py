"""The greedy rule, instance lines and the way back."""

from __future__ import annotations

import random

import pytest

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.preprocess.instances import (
    document_instances,
    instance_line,
    split_instance,
    write_instances,
)


@pytest.mark.parametrize(
    ("source", "target", "limit", "expected"),
    [
        # costs 5 + 4 = 9 < 10: together; 5 + 5 = 10, not below 10: apart
        ([3, 2], [3, 2], 10, [(0, 2)]),
        ([3, 3], [3, 3], 10, [(0, 1), (1, 1)]),
        # the longer side counts, sentence by sentence: 5 + 5, though neither side alone is over
        ([3, 1], [1, 3], 10, [(0, 1), (1, 1)]),
        # too long alone
        ([1, 50, 1, 1], [1, 1, 1, 1], 10, [(0, 1), (1, 1), (2, 2)]),
        # first fit, not best fit: a new instance never goes back
        ([4, 4, 1, 1], [4, 4, 1, 1], 12, [(0, 1), (1, 2), (3, 1)]),
    ],
)
def test_greedy_rule(source, target, limit, expected):
    assert document_instances(source, target, limit, None) == (expected, [])


def first_fit(source, target, limit, most, longest):
    """The rule written out: instances as (first sentence, number), and the sentences that are
    dropped.
    """
    instances, dropped, is_open, total, number = [], [], False, 0, 0
    for place, pair in enumerate(zip(source, target, strict=True)):
        if pair[0] == 0 or (
            longest is not None and max(pair) > longest
        ):  # without a source, or too long
            dropped.append(place)
            is_open = False  # a dropped sentence closes the instance
            continue
        cost = max(pair) + 2
        if is_open and total + cost < limit and number != most:
            total, number = total + cost, number + 1
            instances[-1] = (instances[-1][0], number)
        else:
            total, number, is_open = cost, 1, True
            instances.append((place, 1))
    return instances, dropped


def test_rule_on_random_documents():
    draw = random.Random(1)
    for _ in range(400):
        source, target = ([draw.randint(0, 12) for _ in range(20)] for _ in range(2))
        limits = draw.randint(3, 60), draw.choice([None, 1, 2, 7]), draw.choice([None, 9, 12])
        found = document_instances(source, target, *limits[:2], max_sentence_tokens=limits[2])
        assert found == first_fit(source, target, *limits)


def test_instance_line_and_back():
    line = instance_line(["a b", "c"])
    assert line == "<s> a b </s> <s> c </s>"
    assert split_instance(line) == ["a b", "c"]
    assert split_instance("<s> </s> <s> x </s>") == ["", "x"]
    assert instance_line(["", "x"]) == "<s> </s> <s> x </s>"
    assert split_instance("") == []


@pytest.mark.parametrize(
    "line", ["a", "<s> a", "<s> a <s> b </s>", "<s> a </s> b", "</s>", "<s> a </s> </s>"]
)
def test_lines_that_are_no_instances(line):
    with pytest.raises(UserError, match="not an instance"):
        split_instance(line)


def test_what_is_written_is_the_documents_again(tmp_path):
    """Of random documents, by the instance index; and counted."""
    random.seed(2)
    for trial in range(10):
        documents = [
            [
                [
                    " ".join(f"w{random.randint(0, 99)}" for _ in range(random.randint(1, 30)))
                    for _ in range(2)
                ]
                for _ in range(random.randint(1, 25))
            ]
            for _ in range(random.randint(1, 12))
        ]
        longest, folder = random.choice([None, 25]), tmp_path / f"{trial}"
        folder.mkdir()
        for side, name in enumerate(("source", "target")):
            lines = "".join(
                "<d>\n" + "".join(f"{pair[side]}\n" for pair in document) for document in documents
            )
            (folder / name).write_text(lines)
        limits = {"max_tokens": random.randint(5, 150), "max_sents": random.choice([None, 1, 3])}
        report = write_instances(
            folder / "source",
            folder / "target",
            folder,
            "test",
            ("en", "de"),
            **limits,
            max_sentence_tokens=longest,
        )
        instance_index = InstanceIndex.load(folder / "test.en-de.instances.json")
        assert report.instances == len(instance_index.instances) and report.dropped_too_long == len(
            instance_index.dropped
        )
        for side, lang in enumerate(("en", "de")):
            instances = [
                split_instance(line) for line in (folder / f"test.{lang}").read_text().splitlines()
            ]
            for found, document in zip(join(instance_index, instances), documents, strict=True):
                assert found == [
                    None
                    if longest and max(len(part.split()) for part in pair) > longest
                    else pair[side]
                    for pair in document
                ]
