"""The greedy rule, instance lines and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtransformer.data.instance_index import InstanceIndex, join
from gtransformer.errors import UserError
from gtransformer.preprocess.instances import (
    document_instances,
    instance_line,
    split_instance,
    write_instances,
)


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


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=20),
    st.integers(3, 60),
    st.sampled_from([None, 1, 2, 7]),
    st.sampled_from([None, 9, 12]),
)
def test_rule_on_random_documents(pairs, limit, most, longest):
    source, target = map(list, zip(*pairs, strict=True))
    found = document_instances(source, target, limit, most, max_sentence_tokens=longest)
    assert found == first_fit(source, target, limit, most, longest)


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


def words(sentence: str) -> int:
    return len(sentence.split())


SENTENCE = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(" ".join)
DOCUMENT = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=9)


@given(
    st.lists(DOCUMENT, min_size=1, max_size=9),
    st.integers(5, 50),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 7]),
)
def test_what_is_written_is_the_documents_again(tmp_path_factory, documents, limit, most, longest):
    """Of random documents, by the instance index; and counted."""
    folder = tmp_path_factory.mktemp("instances")
    for side, name in enumerate(("source", "target")):
        texts = ["".join(f"{pair[side]}\n" for pair in document) for document in documents]
        (folder / name).write_text("".join(f"<d>\n{text}" for text in texts))
    sides = folder / "source", folder / "target"
    report = write_instances(
        *sides, folder, "test", ("en", "de"), limit, most, max_sentence_tokens=longest
    )
    index = InstanceIndex.load(folder / "test.en-de.instances.json")
    assert report.instances == len(index.instances)
    assert report.dropped_too_long == len(index.dropped)
    for side, lang in enumerate(("en", "de")):
        lines = (folder / f"test.{lang}").read_text().splitlines()
        expected = [
            [None if longest and max(map(words, pair)) > longest else pair[side] for pair in one]
            for one in documents
        ]
        assert join(index, map(split_instance, lines)) == expected
