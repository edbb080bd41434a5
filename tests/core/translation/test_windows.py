"""Windows: every line once, and the instances of the greedy rule."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtransformer.data.instances import BOUNDARY_TOKENS, greedy
from gtransformer.translation.lines import MOST_LINES, cut, read_text, windows

LIMIT = 30


def words(sentences: list[str]) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def by_comma(line: str) -> list[str]:
    return [part for part in line.split(",") if part.strip()]


@given(
    st.lists(st.lists(st.integers(1, 40), max_size=4), max_size=40),
    st.sampled_from([1, 100, 10**9]),
    st.sampled_from([None, 1, 3]),
)
def test_instances_are_the_greedy_ones_whatever_the_windows(lines, window_tokens, max_sents):
    """Of lines that have several sentences or, between documents, none."""
    text = [",".join("w " * length for length in line) for line in lines]
    found = list(windows(read_text(text, words, by_comma), LIMIT, window_tokens, max_sents))
    assert [line.text for window in found for line in window.lines] == text
    documents: list[list[int]] = [[]]
    for line in lines:
        documents[-1] += line
        if not line:
            documents.append([])
    expected = []
    for document in documents:
        costs = [length + BOUNDARY_TOKENS for length in document]
        expected += [document[first:last] for first, last in greedy(costs, LIMIT, max_sents)]
    assert expected == [
        [len(window.tokens(position)) for position in one]
        for window in found
        for one in window.instances
    ]


def test_memory_is_bounded():
    """A window of an endless document holds little more than was asked for, and endless blank lines
    end, too.
    """

    def endless(text: str):
        while True:
            yield text

    (first,) = islice(windows(read_text(endless("w w w w w w"), words), 512, 4000), 1)
    assert 4000 <= sum(len(line.tokens[0]) + 2 for line in first.lines) < 4000 + 512
    (blank,) = islice(windows(read_text(endless(""), words), 512, 4000), 1)
    assert len(blank.lines) == MOST_LINES and blank.instances == []


@pytest.mark.parametrize(
    ("text", "one_document", "places"),
    [
        (
            ["", "a", "b", "", "\u200b", "c", " <d> ", "d", "\r", "e"], False,
            {1: (1, 1), 2: (1, 2), 5: (2, 1), 7: (3, 1), 9: (4, 1)},
        ),
        # Blank lines of a text that opens with a mark are empty sentences.
        (["\u200b", "<d>", "a", "", "b", "<d>", "c"], False, {2: (1, 1), 3: (1, 2), 4: (1, 3),
         6: (2, 1)}),
        (["", "a", "", "b", "<d>", "c"], True, {0: (1, 1), 1: (1, 2), 2: (1, 3), 3: (1, 4), 5: (2,
         1)}),
    ],
)  # fmt: skip
def test_places(text, one_document, places):
    """Document and sentence of every line that is no border; a line in the text for each line."""
    lines = list(read_text(text, words, one_document=one_document))
    assert [line.text for line in lines] == text
    found = [(line.document, line.sentence) for line in lines]
    assert {number: found[number] for number, line in enumerate(lines) if not line.breaks} == places
    assert [line.number for line in lines if not line.breaks] == [number + 1 for number in places]
    assert all(
        line.tokens == ([[text[number]]] if text[number].isalpha() else [])
        for number, line in enumerate(lines)
    )


def test_sentences_that_are_too_long_are_cut_in_parts():
    """Nothing is lost, parts are about equally long, and the line remains one line with one
    place.
    """
    tokens = [str(number) for number in range(23)]
    assert cut(tokens, None) == cut(tokens, 23) == [tokens] and cut([], 5) == []
    for longest in range(1, 23):
        parts = cut(tokens, longest)
        assert [token for part in parts for token in part] == tokens and len(parts) == -(
            -23 // longest
        )
        assert max(map(len, parts)) <= longest and max(map(len, parts)) - min(map(len, parts)) <= 1
    subwords = "a@@ b c@@ d@@ e f g@@ h".split()
    assert cut(subwords, 5) == [["a@@", "b"], ["c@@", "d@@", "e"], ["f", "g@@", "h"]]
    assert cut(subwords, 2)[1] == ["c@@", "d@@"], "part of a word that is too long"
    assert cut("▁a b ▁c d , ▁e f ▁g h".split(), 7) == ["▁a b ▁c d ,".split(), "▁e f ▁g h".split()]
    assert cut("a ##b c ##d ##e f g h".split(), 4) == [
        ["a", "##b"],
        ["c", "##d", "##e"],
        ["f", "g", "h"],
    ]
    assert cut("▁你 好 ， 世 界 。 再 见".split(), 6) == [
        "▁你 好 ，".split(),
        "世 界 。 再 见".split(),
    ]
    lines = list(read_text(["a b c", "d e f g h", ""], words, longest=3))
    assert [line.tokens for line in lines] == [[["a", "b", "c"]], [["d", "e", "f"], ["g", "h"]], []]
    assert lines[1].sentences == ["d e f g h"]
    (window,) = windows(lines, 6, 1000)
    assert window.instances == [[(0, 0)], [(1, 0)], [(1, 1)]]


def test_a_sentence_without_tokens_is_no_text():
    """As ``>>deu<<`` alone."""
    lines = [
        *read_text(["a,b,c", "b", "- b"], lambda text: words(t.strip("b") for t in text), by_comma)
    ]
    assert [line.tokens for line in lines] == [[["a"], ["c"]], [], []]
    assert [line.start for line in lines] == ["", "", "- "]


def test_blocks_of_code(caplog):
    """One that does not end goes on to the end of the document, with a warning."""
    code = ["```js {1} a=1", "x", "~~~", "x", "```", "y", "``` is a word", "```", "z", "<d>", "y"]
    code += ["~~~~", "y", "~~~", "z"]
    lines = list(read_text(code, words))
    assert [line.text for line in lines if line.tokens] == ["y", "``` is a word", "y", "y"]
    warned = [record.getMessage().partition(" begins")[0] for record in caplog.records]
    assert warned == ["line 8", "line 14"]


def test_list_marks_are_no_text():
    text = ["  - A dog.", "## Title", "3. May", "-", "1) x", " * > y", "  ", "#1"]
    lines = list(read_text(text, words))
    assert [line.start for line in lines] == [
        "  - ",
        "## ",
        "",
        "-",
        "1) ",
        " * > ",
        "",
        "#1",
    ]
    assert [line.sentences for line in lines] == [
        ["A dog."],
        ["Title"],
        ["3. May"],
        [],
        ["x"],
        ["y"],
        [],
        [],
    ]
