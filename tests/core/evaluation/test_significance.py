"""Paired tests equal a brute-force computation and keep their promises."""

from __future__ import annotations

import itertools
import json
import math
import random
import subprocess
import sys

import numpy as np
import pytest

from gtransformer.errors import UserError
from gtransformer.evaluation.segments import segments_of_text
from gtransformer.evaluation.significance import compare, paired_test

pytestmark = pytest.mark.slow

WORDS = "the cat sat on a mat and it was very warm there so nobody went home before night".split()


def corpus(errors: float, seed: int) -> list[list[str]]:
    """Eight documents of sentences, some of whose words are wrong; the same sentences for any rate of errors."""
    draw, noise = random.Random(1), random.Random(seed)
    documents = []
    for _ in range(8):
        document = []
        for _ in range(draw.randint(2, 6)):
            words = draw.choices(WORDS, k=draw.randint(5, 12))
            document.append(" ".join(noise.choice(WORDS) if noise.random() < errors else word for word in words))
        documents.append(document)
    return documents


REFERENCE, BASELINE, SYSTEM = corpus(0, 0), corpus(0.30, 2), corpus(0.2, 3)


@pytest.fixture(scope="module")
def systems() -> dict:
    """A baseline and a slightly better system."""
    return {name: segments_of_text(text, REFERENCE, "none") for name, text in (("A", BASELINE), ("B", SYSTEM))}


def counts(hypothesis: str, reference: str) -> np.ndarray:
    """Lengths, matches and totals of n-grams of one segment, counted here."""
    hyp, ref = hypothesis.split(), reference.split()
    matched, totals = [], []
    for n in range(1, 5):
        grams = [tuple(hyp[i : i + n]) for i in range(len(hyp) - n + 1)]
        rest = [tuple(ref[i : i + n]) for i in range(len(ref) - n + 1)]
        matched.append(0)
        for gram in grams:
            if gram in rest:
                rest.remove(gram)
                matched[-1] += 1
        totals.append(len(grams))
    return np.array([len(hyp), len(ref), *matched, *totals])


def bleu(total: np.ndarray) -> float:
    """BLEU from summed counts; every order must match somewhere."""
    precisions = [total[2 + n] / total[6 + n] for n in range(4)]
    brevity = min(1.0, math.exp(1 - total[1] / total[0]))
    return 100 * brevity * math.exp(sum(math.log(p) for p in precisions) / 4)


def texts(level: str, documents: list[list[str]]) -> list[str]:
    if level == "documents":
        return [" ".join(document) for document in documents]
    return [sentence for document in documents for sentence in document]


def rows_of(level: str) -> tuple[np.ndarray, np.ndarray]:
    """Counts of baseline and system by segment, made here."""
    reference = texts(level, REFERENCE)
    return tuple(
        np.array([counts(*pair) for pair in zip(texts(level, side), reference, strict=True)], dtype=float)
        for side in (BASELINE, SYSTEM)
    )


@pytest.mark.parametrize("key", ["s_bleu", "d_bleu"])
def test_all_exchanges_of_documents_by_brute_force(systems, key):
    """Eight documents: each of the 2^8 exchanges is made here, and its difference compared with the real one."""
    result = compare(systems, key)["B"]
    first, second = rows_of("sentences" if key == "s_bleu" else "documents")
    if key == "s_bleu":
        owner = [number for number, document in enumerate(REFERENCE) for _ in document]
        first, second = (
            np.array([side[np.array(owner) == d].sum(axis=0) for d in range(8)]) for side in (first, second)
        )
    real = bleu(second.sum(axis=0)) - bleu(first.sum(axis=0))
    larger = 0
    for exchanged in itertools.product([False, True], repeat=8):
        sides = (
            np.where(np.array(exchanged)[:, None], second, first),
            np.where(np.array(exchanged)[:, None], first, second),
        )
        larger += abs(bleu(sides[1].sum(axis=0)) - bleu(sides[0].sum(axis=0))) >= abs(real) - 1e-9
    assert result.p_value == larger / 2**8 and 1 / 2**8 < result.p_value < 0.9
    assert result.difference == pytest.approx(real, abs=1e-9) and result.units == 8
    # The interval: the difference without each document in turn, t of 7 degrees of freedom.
    left = [bleu(np.delete(second, d, 0).sum(axis=0)) - bleu(np.delete(first, d, 0).sum(axis=0)) for d in range(8)]
    half = 2.364624 * math.sqrt(7 / 8 * sum((one - np.mean(left)) ** 2 for one in left))
    assert result.interval == pytest.approx((real - half, real + half), abs=1e-3 * half)


def test_agrees_with_sacrebleus_randomisation(tmp_path):
    """Of documents of one sentence. Its command draws otherwise and does not count ties, of which TER has many."""
    sides = {name: texts("sentences", side) for name, side in (("ref", REFERENCE), ("A", BASELINE), ("B", SYSTEM))}
    for name, lines in sides.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "A", "B", "--paired-ar", "--paired-ar-n", "2000"]
    options = ["-m", "bleu", "chrf", "ter", "--tokenize", "none", "--force"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
    base, other = json.loads(done.stdout)
    single = {name: [[line] for line in lines] for name, lines in sides.items()}
    systems = {name: segments_of_text(single[name], single["ref"], "none") for name in "AB"}
    for key, metric in (("s_bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        ours, theirs = compare(systems, key)["B"], other[metric]
        chance = 5 * math.sqrt(ours.p_value / 2000)
        if metric == "TER":
            assert theirs["p_value"] + chance < ours.p_value < 2 * theirs["p_value"]
        else:
            assert ours.p_value == pytest.approx(theirs["p_value"], abs=chance)
        assert ours.difference == pytest.approx(theirs["score"] - base[metric]["score"], abs=0.011)


def documents_of(draw: np.random.Generator, count: int, gain: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts as of BLEU of two systems on documents of unequal lengths, each with a strength of its own on each."""
    length = np.exp(draw.normal(4, 0.5, count)).astype(int) + 10
    common, sides = draw.normal(0.3, 0.3, count), []
    for one in (0.0, gain):
        own = common + one + draw.normal(0, 0.2, count)
        right = [draw.binomial(length, 1 / (1 + np.exp(order * 0.6 - own))) for order in range(4)]
        sides.append(np.stack([length, length, *right, *[length] * 4], axis=1).astype(float))
    return tuple(sides)


def scores(sums: np.ndarray) -> np.ndarray:
    return 100 * np.exp(np.log(np.maximum(sums[:, 2:6], 0.5) / sums[:, 6:10]).mean(axis=1))


@pytest.mark.parametrize("count", [6, 9, 20])
def test_false_positives_and_coverage(count):
    """Of two systems that are equally good 5 % are told apart at 0.05, and the interval holds the truth in 95 %."""
    draw, trials = np.random.default_rng(count), 400
    found = [paired_test(*documents_of(draw, count, 0.0), scores, samples=200) for _ in range(trials)]
    rate = sum(one.p_value <= 0.05 for one in found) / trials
    assert (0.005 if count == 6 else 0.02) <= rate <= 0.085  # 2 / 2^6 is the only value below 0.05 there: 0.03
    assert 0.91 <= sum(one.interval[0] <= 0 <= one.interval[1] for one in found) / trials <= 0.98
    better = [paired_test(*documents_of(draw, count, 1.0), scores, samples=200) for _ in range(40)]
    assert sum(one.p_value <= 0.05 for one in better) >= 36, "a difference that is there is found"


@pytest.mark.parametrize("count", [1, 5])
def test_too_few_documents(count):
    """However large the difference."""
    first, second = documents_of(np.random.default_rng(1), count, 3.0)
    result = paired_test(first, second, scores)
    assert result.p_value is None and result.interval is None and result.difference > 5
    assert result.units == count and result.signature.startswith("too few documents")


def test_ties_make_nothing_significant():
    """Where every exchange has the same difference, as where one document differs, p is 1."""
    first = np.ones((10, 10)) * 50
    second = first.copy()
    second[3, 2:6] -= 20
    result = paired_test(first, second, scores)
    assert result.difference < 0 and result.p_value == 1.0
    second[4, 2:6] -= 20  # two: half of the exchanges set them against each other
    assert paired_test(first, second, scores).p_value == 0.5


def test_a_system_against_itself(systems):
    result = compare({"A": systems["A"], "again": systems["A"]}, "s_bleu")["again"]
    assert (result.p_value, result.difference, result.interval) == (1.0, 0, (0, 0))


def test_several_seeds_are_summed(systems):
    """Two seeds of both systems that are the same: counts are twice as large, the rest is as of one."""
    once = compare(systems, "d_bleu")["B"]
    twice = compare({name: [one, one] for name, one in systems.items()}, "d_bleu")["B"]
    assert (twice.p_value, twice.difference) == (once.p_value, pytest.approx(once.difference, abs=1e-6))
    with pytest.raises(UserError, match="system C was not scored against the same"):
        compare({"A": systems["A"], "C": segments_of_text(BASELINE, SYSTEM, "none")}, "d_bleu")
