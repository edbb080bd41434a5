"""--no-repeat-ngram-size: no n words in a row twice in a sentence, and nothing else is changed."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.search.generator import RepeatedNgrams
from tests.core.search.conftest import Translator
from tests.support import tiny_model

SHAPES = [[9, 4], [7, 8, 9]]


def twice(sentence: list[str], size: int) -> bool:
    grams = [tuple(sentence[at : at + size]) for at in range(len(sentence) - size + 1)]
    return len(set(grams)) < len(grams)


@torch.no_grad()
@pytest.mark.parametrize("mode", ["partial", "full"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_words_in_a_row_come_twice_in_a_sentence(dictionary, documents, size, mode):
    given = documents(random.Random(4), SHAPES)
    model = tiny_model(dictionary, doc_mode=mode).double()
    limits = {"beam": 3, "max_len_a": 1, "max_len_b": 3, "min_len": 6 if mode == "partial" else 1}
    found = {}
    for blocked in (0, size):
        options = {**limits, "no_repeat_ngram_size": blocked}
        translate = Translator(dictionary, [model], {"doc_mode": mode}, **options)
        best = [hypotheses[0]["tokens"].tolist() for hypotheses in translate(given)]
        found[blocked] = [sentences(tokens, dictionary) for tokens in best]
    assert any(twice(one, size) for document in found[0] for one in document)
    assert not any(twice(one, size) for document in found[size] for one in document)
    if mode == "partial":
        assert [len(document) for document in found[size]] == [len(shape) for shape in SHAPES]


def sentences(tokens: list[int], dictionary) -> list[list[int]]:
    """The words between the boundaries, whatever a model in full mode puts there."""
    parts, marks = [[]], {dictionary.bos(), dictionary.eos()}
    for token in tokens[:-1]:
        parts.append([]) if token in marks else parts[-1].append(token)
    return [part for part in parts if part]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_what_may_not_come_next(size):
    """By brute force: a word is banned if the sentence with it would have an n-gram twice."""
    draw, bos, eos, words = random.Random(size), 0, 2, range(4, 8)
    block = RepeatedNgrams(size, bos)
    for _ in range(200):
        lengths = [draw.randint(0, 6) for _ in range(draw.randint(1, 3))]
        prefix = [token for length in lengths for token in (bos, *draw.choices(words, k=length), eos)][:-1]
        sentence = prefix[len(prefix) - prefix[::-1].index(bos) :]
        if twice(sentence, size):
            continue
        assert set(block.banned(prefix)) == {word for word in words if twice([*sentence, word], size)}


def test_padding_behind_the_prefix_does_not_count(dictionary):
    """fairseq hands over its whole buffer, the rest of which is padding."""
    tokens = torch.tensor([[0, 4, 5, 4, 1, 1], [0, 4, 5, 6, 1, 1]])
    lprobs = torch.zeros(2, len(dictionary))
    found = RepeatedNgrams(2, 0)(tokens, lprobs, 1, 2, 3)
    assert found[0].isneginf().nonzero().flatten().tolist() == [5] and not found[1].isneginf().any()


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 2])
def test_what_is_forced_may_come_twice(dictionary, documents, size):
    """A prefix of --prefix-size is no choice of the search: it stays, and only what follows is held to the option."""
    bos, word = dictionary.bos(), dictionary.index("w1")
    prefix = [word] * 4
    for mode, min_len in (("partial", 6), ("full", 1)):
        options = {"beam": 3, "max_len_a": 1, "max_len_b": 6, "min_len": min_len, "no_repeat_ngram_size": size}
        translate = Translator(dictionary, [tiny_model(dictionary, doc_mode=mode)], {"doc_mode": mode}, **options)
        for hypotheses in translate(documents(random.Random(4), SHAPES), [prefix, prefix]):
            assert hypotheses
            found = hypotheses[0]["tokens"].tolist()
            assert found[:4] == prefix and bos not in prefix
            first = sentences(found, dictionary)[0]
            assert mode == "full" or len(first) > 4
            assert not twice(first[4 - size + 1 :], size) or mode == "full"
