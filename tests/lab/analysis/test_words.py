"""Attention word by word: sums and means written out, and what is left of them in a page."""

from __future__ import annotations

import base64
import random

import numpy as np
import pytest

from gtransformer.errors import UserError
from gtransformer.lab.analysis.attention import inspect
from gtransformer.lab.analysis.words import KEYS_KEPT, SIDES, WEIGHED, Rows, Side, WordWatch, side_of
from tests.support import random_document, tiny_model

LENGTHS = [3, 4]  # tokens between <s> and </s>
# <s> ab c </s> <s> d efg </s>: words of the tokens.
WORDS = Side(["<s>", "ab", "c", "</s>", "<s>", "d", "efg", "</s>"], [0, 0, 0, 0, 1, 1, 1, 1],
             [0, 1, 1, 2, 3, 4, 5, 6, 6, 6, 7])  # fmt: skip


class Recorder:
    """All weights and gates as they come."""

    def __init__(self):
        self.weights, self.gates = {}, {}

    def see(self, place, weights, queries, keys):
        self.weights[place.part, place.reach, place.layer] = weights.numpy()

    def see_gate(self, part, layer, tokens):
        self.gates[part, layer] = tokens


@pytest.fixture
def seen(dictionary):
    """(what was found, words, the same by token)."""
    draw, model = random.Random(3), tiny_model(dictionary)
    documents = [random_document(draw, dictionary, LENGTHS) for _ in range(2)]
    watch, recorder = WordWatch({"source": WORDS, "target": WORDS}), Recorder()
    found = inspect(model, *documents, watch)
    inspect(model, *documents, recorder)
    return found, watch, recorder


def expected(weights: np.ndarray, part: str) -> np.ndarray:
    """(words, words): the mean over the tokens that chose or are the word, of the sum over the other word's tokens."""
    tokens = [[at for at, one in enumerate(WORDS.of_token) if one == word] for word in range(len(WORDS.words))]
    result = np.zeros((len(tokens), len(tokens)))
    for word, own in enumerate(tokens):
        queries = [at - 1 for at in own if at > 0] if SIDES[part][0] == "target" else own
        for other, keys in enumerate(tokens):
            sums = [sum(weights[query, key] for key in keys) for query in queries]
            result[word, other] = sum(sums) / len(sums) if sums else 0
    return result


def unpacked(text: str, keys: int) -> np.ndarray:
    """What the page's script reads: (queries, keys) in 1/65535."""
    data, rows = list(base64.b64decode(text)), []
    while data:
        count, *data = data
        rows.append([0] * keys)
        for at in range(0, 4 * count, 4):
            rows[-1][data[at] + 256 * data[at + 1]] = data[at + 2] + 256 * data[at + 3]
        data = data[4 * count :]
    return np.array(rows)


def test_words_are_sums_over_keys_and_means_over_the_queries_that_chose_them(seen):
    found, watch, recorder = seen
    maps = {(one.part, one.reach, one.layer): one for one in [*watch.maps, *watch.weighed(found)]}
    assert len(recorder.weights) == 15 and maps.keys() - recorder.weights.keys() == {
        (part, WEIGHED, 0) for part in ("encoder", "decoder", "cross")
    }
    for key, weights in recorder.weights.items():
        wanted = np.rint(65535 * expected(weights, key[0]))
        assert np.array_equal(unpacked(maps[key].words.packed(KEYS_KEPT), 8), wanted), key
    decoder = unpacked(maps["decoder", "global", 3].words.packed(KEYS_KEPT), 8)
    assert not np.triu(decoder, 1).any() and decoder[5:].any(axis=1).all()  # chosen by what stood before
    assert not decoder[0].any()  # the first <s> was given


def test_weighed_by_the_gates(seen):
    """By word, the mean over the layers with a gate; by sentence, what the text says each sentence drew on."""
    found, watch, recorder = seen
    maps = {one.part: one for one in watch.weighed(found)}
    for part, one in maps.items():
        layers = [layer for other, layer in recorder.gates if other == part]
        mixed = np.zeros((8, 8))
        for layer in layers:
            local, whole = (expected(recorder.weights[part, reach, layer], part) for reach in ("group", "global"))
            gate = expected(np.repeat(recorder.gates[part, layer][:, None] / 11, 11, axis=1), part).sum(axis=1)
            mixed += (gate[:, None] * local + (1 - gate[:, None]) * whole) / len(layers)
        assert len(layers) == 2
        assert np.abs(unpacked(one.words.packed(KEYS_KEPT), 8) - 65535 * mixed).max() <= 0.5 + 1e-6
    sentences = unpacked(maps["cross"].sentences.packed(KEYS_KEPT), 2)
    assert np.array_equal(sentences, np.rint(65535 * found.drawn_from()))


def test_gates_by_word(seen):
    _, watch, recorder = seen
    for part, layer, values in watch.gates:
        tokens = recorder.gates[part, layer]
        own = tokens[[7, 8, 9]] if part == "encoder" else tokens[[6, 7, 8]]
        assert values[6] == pytest.approx(own.mean())


def test_the_strongest_keys_are_kept():
    weights = np.array([[0.000001, 0.2, 0.6, 0.199999], [0, 0, 0, 1.0], [0, 0, 0, 0]])
    rows = Rows.of(weights)
    assert unpacked(rows.packed(KEYS_KEPT), 4).tolist() == [[0, 13107, 39321, 13107], [0, 0, 0, 65535], [0, 0, 0, 0]]
    assert unpacked(rows.packed(2), 4).tolist()[0] == [0, 13107, 39321, 0]
    far = np.zeros((1, 1000))
    far[0, 999] = 1
    assert unpacked(Rows.of(far).packed(1), 1000)[0, 999] == 65535
    assert len(Rows.of(np.full((1, 40), 1 / 40)).found[0][0]) == KEYS_KEPT
    with pytest.raises(UserError, match="65537 words are more than a page shows"):
        Rows.of(np.zeros((0, 65537)))


def test_the_strongest_keys_of_nearly_flat_attention_are_kept():
    """Where weights differ by less than they are rounded to, and where each is small."""
    flat = np.full((1, 600), 1 / 600)
    assert [len(keys) for keys, _ in Rows.of(flat).found] == [KEYS_KEPT]
    assert unpacked(Rows.of(flat).packed(KEYS_KEPT), 600).sum() == KEYS_KEPT * round(65535 / 600)
    rising = flat + 1e-9 * np.arange(600)  # equal when rounded
    ((keys, weights),) = Rows.of(rising).found
    assert keys.tolist() == list(range(599, 599 - KEYS_KEPT, -1)) and set(weights.tolist()) == {109}
    assert Rows.of(np.full((1, 1 << 16), 2.0**-16)).found[0][1].tolist() == [1] * KEYS_KEPT


def test_subwords_become_words():
    marks = ["<s>", "</s>"]
    bpe = side_of("<s> das Haus@@ boo@@ t ## </s> <s> a@@ </s>".split(), [0] * 7 + [1] * 3, marks, False)
    assert bpe.words == ["<s>", "das", "Hausboot", "##", "</s>", "<s>", "a", "</s>"]
    assert bpe.of_token == [0, 1, 2, 2, 2, 3, 4, 5, 6, 7] and bpe.sentences == [0, 0, 0, 0, 0, 1, 1, 1]
    pieces = side_of(["<s>", "\u2581das", "\u2581Haus", "boot", "\u2581", ".", "</s>"], [0] * 7, marks, True)
    assert pieces.words == ["<s>", "das", "Hausboot", ".", "</s>"]
    wordpieces = side_of(["<s>", "the", "house", "##boat", "</s>"], [0] * 5, marks, False)
    assert wordpieces.words == ["<s>", "the", "houseboat", "</s>"]
    assert wordpieces.by_sentence() == [["<s>", "the", "houseboat", "</s>"]]
