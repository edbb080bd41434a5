"""Paired tests equal a brute-force computation and keep their promises."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from gtransformer.errors import UserError
from gtransformer.evaluation.segments import segments_of_text
from gtransformer.evaluation.significance import compare, paired_test

pytestmark = pytest.mark.slow

WORDS = "the cat sat on a mat and it was very warm there so nobody went home before night".split()


def corpus(errors: float, seed: int) -> list[list[str]]:
    """Eight documents of sentences, some of whose words are wrong; the same sentences for any rate
    of errors.
    """
    draw, noise = random.Random(1), random.Random(seed)
    documents = []
    for _ in range(8):
        document = []
        for _ in range(draw.randint(2, 6)):
            words = draw.choices(WORDS, k=draw.randint(5, 12))
            document.append(
                " ".join(noise.choice(WORDS) if noise.random() < errors else word for word in words)
            )
        documents.append(document)
    return documents


REFERENCE, BASELINE, SYSTEM = corpus(0, 0), corpus(0.30, 2), corpus(0.2, 3)


@pytest.fixture(scope="module")
def systems() -> dict:
    """A baseline and a slightly better system."""
    return {
        name: segments_of_text(text, REFERENCE, "none")
        for name, text in (("A", BASELINE), ("B", SYSTEM))
    }


def texts(level: str, documents: list[list[str]]) -> list[str]:
    if level == "documents":
        return [" ".join(document) for document in documents]
    return [sentence for document in documents for sentence in document]


@pytest.mark.parametrize(("key", "level"), [("s_bleu", "sentences"), ("d_bleu", "documents")])
def test_all_exchanges_of_documents_by_sacrebleu(systems, key, level):
    """Eight documents: each of the 2^8 exchanges is made here, and its difference compared with the
    real one.
    """

    def gain(
        first: list[list[str]], second: list[list[str]], reference: list[list[str]] = REFERENCE
    ) -> float:
        sides = (
            sacrebleu.corpus_bleu(
                texts(level, side), [texts(level, reference)], tokenize="none", force=True
            ).score
            for side in (second, first)
        )
        return next(sides) - next(sides)

    result, real, larger = compare(systems, key)["B"], gain(BASELINE, SYSTEM), 0
    for exchanged in itertools.product([False, True], repeat=8):
        pairs = zip(exchanged, BASELINE, SYSTEM, strict=True)
        sides = zip(
            *((new, old) if other else (old, new) for other, old, new in pairs), strict=True
        )
        larger += abs(gain(*map(list, sides))) >= abs(real) - 1e-9
    assert result.p_value == larger / 2**8 and 1 / 2**8 < result.p_value < 0.9
    assert result.difference == pytest.approx(real, abs=1e-9) and result.units == 8
    # The interval: the difference without each document in turn, t of 7 degrees of freedom.
    left = [
        gain(*(side[:d] + side[d + 1 :] for side in (BASELINE, SYSTEM, REFERENCE)))
        for d in range(8)
    ]
    half = 2.364624 * math.sqrt(7 / 8 * sum((one - np.mean(left)) ** 2 for one in left))
    assert result.interval == pytest.approx((real - half, real + half), abs=1e-3 * half)


def test_agrees_with_sacrebleus_randomisation():
    """Of documents of one sentence. It draws otherwise and does not count ties, of which TER has
    many.
    """
    lines = [texts("sentences", side) for side in (REFERENCE, BASELINE, SYSTEM)]
    metrics = {
        "s_bleu": BLEU(tokenize="none", force=True, references=lines[:1]),
        "chrf": CHRF(references=lines[:1]),
        "ter": TER(references=lines[:1]),
    }
    _, found = PairedTest([*zip("AB", lines[1:], strict=True)], metrics, None, "ar", 2000)()
    reference, *sides = ([[line] for line in side] for side in lines)
    systems = {
        name: segments_of_text(side, reference, "none")
        for name, side in zip("AB", sides, strict=True)
    }
    for key, (base, other) in zip(metrics, [*found.values()][1:], strict=True):
        ours = compare(systems, key)["B"]
        chance = 5 * math.sqrt(ours.p_value / 2000)
        if key == "ter":
            assert other.p_value + chance < ours.p_value < 2 * other.p_value
        else:
            assert ours.p_value == pytest.approx(other.p_value, abs=chance)
        assert ours.difference == pytest.approx(other.score - base.score, abs=1e-6)


def scores(sums: np.ndarray) -> np.ndarray:
    return 100 * np.exp(np.log(np.maximum(sums[:, 2:6], 0.5) / sums[:, 6:10]).mean(axis=1))


def test_what_nothing_can_be_said_about():
    """Where every exchange has the same difference, as where one document differs, p is 1; of five
    there is none.
    """
    first = np.ones((10, 10)) * 50
    second = first.copy()
    found = paired_test(first[:5] - 20, first[:5], scores)
    assert found.p_value is None and found.interval is None
    second[3, 2:6] -= 20
    result = paired_test(first, second, scores)
    assert result.difference < 0 and result.p_value == 1.0
    second[4, 2:6] -= 20  # two: half of the exchanges set them against each other
    assert paired_test(first, second, scores).p_value == 0.5


def test_several_seeds_are_summed(systems):
    """Two seeds of both systems that are the same: counts are twice as large, the rest is as of
    one.
    """
    once = compare(systems, "d_bleu")["B"]
    twice = compare({name: [one, one] for name, one in systems.items()}, "d_bleu")["B"]
    assert (twice.p_value, twice.difference) == (
        once.p_value,
        pytest.approx(once.difference, abs=1e-6),
    )
    with pytest.raises(UserError, match="system C"):
        compare({"A": systems["A"], "C": segments_of_text(BASELINE, SYSTEM, "none")}, "d_bleu")
