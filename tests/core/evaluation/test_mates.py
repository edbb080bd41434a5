"""Whose batch an example of a suite stands in: others drawn, none of which gives it away."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gtransformer.evaluation.suites.mates import mates
from gtransformer.evaluation.suites.read import read_suite
from tests.support import SHARED

CONTRAPRO = SHARED / "data" / "contrapro"


def test_all_stand_beside_as_many_others_of_any_part_of_the_file():
    """Each is a mate of as many, never its own, and neighbours of a batch are not those of the file."""
    own = [{str(number)} for number in range(200)]
    found = mates(own, [set()] * 200, 15)
    assert found == mates(own, [set()] * 200, 15)
    assert all(len(set(one)) == 15 and number not in one for number, one in enumerate(found))
    assert set(Counter(other for one in found for other in one).values()) == {15}
    near = sum(abs(other - number) <= 15 for number, one in enumerate(found) for other in one)
    assert near < 0.3 * 200 * 15  # of 15 of 200, drawn, some 15 % are; in the file's order all
    for number, one in enumerate(found):  # a batch is the longer one's end
        assert mates(own, [set()] * 200, 3)[number] == one[-3:]


def test_none_has_its_sentence():
    """In either language, as its own or as context; another takes its place."""
    draw = random.Random(1)
    own = [{f"e{draw.randrange(30)}", f"d{draw.randrange(30)}"} for _ in range(100)]
    context = [{f"e{draw.randrange(30)}", f"d{draw.randrange(30)}"} for _ in range(100)]
    found = mates(own, context, 15)
    for number, one in enumerate(found):
        assert len(one) == 15
        for other in one:
            assert not own[other] & (own[number] | context[number]) and not own[number] & context[other]


def test_fewer_where_there_are_no_more():
    assert mates([{"a"}, {"a"}, {"b"}], [set(), {"b"}, set()], 5)[0] == [2]
    assert mates([{"a"}, {"a"}, {"b"}], [set(), {"b"}, set()], 5)[1:] == [[], [0]]
    assert mates([{"a"}], [set()], 5) == [[]] and mates([], [], 5) == []


@pytest.mark.slow
@pytest.mark.skipif(not CONTRAPRO.is_dir(), reason="ContraPro is not there")
def test_mates_do_not_give_contrapros_pronoun_away():
    """In the file's order most have the answer of the item in question."""
    examples = read_suite([CONTRAPRO]).examples
    answers = [example.groups["phenomenon"] for example in examples]
    sides = [(one.source, one.candidates[one.correct]) for one in examples]
    own = [{side[-1] for side in pair} for pair in sides]
    context = [{sentence for side in pair for sentence in side[:-1]} for pair in sides]
    drawn = mates(own, context, 15)

    def share(beside: list[list[int]]) -> float:
        pairs = [(number, other) for number, one in enumerate(beside) for other in one]
        return sum(answers[number] == answers[other] for number, other in pairs) / len(pairs)

    def most_frequent(beside: list[list[int]]) -> float:
        found = [Counter(answers[other] for other in one).most_common(1)[0][0] for one in beside]
        return sum(one == answer for one, answer in zip(found, answers, strict=True)) / len(answers)

    before = [list(range(max(0, number - 15), number)) or [1] for number in range(len(answers))]
    assert share(before) > 0.6 and most_frequent(before) > 0.6
    assert share(drawn) < 0.35 and most_frequent(drawn) < 0.37
    assert all(len(one) == 15 for one in drawn)
    assert all(own[number].isdisjoint(own[other]) for number, one in enumerate(drawn) for other in one)
