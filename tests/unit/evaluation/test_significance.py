"""Paired tests equal sacrebleu's command and a brute-force computation; the sign test equals its definition."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from gtransformer.errors import UserError
from gtransformer.evaluation.levels import LEVELS
from gtransformer.evaluation.metrics import SegmentStatistics
from gtransformer.evaluation.segments import segments_of_text
from gtransformer.evaluation.sign_test import binomial_p_value, sign_test
from gtransformer.evaluation.significance import compare
from tests.unit.evaluation.corpus_metric import corpus_metric

pytestmark = pytest.mark.slow

WORDS = "the cat sat on a mat and it was very warm there so nobody went home before night".split()
SEED = 12345  # sacrebleu's


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


@pytest.fixture(autouse=True)
def usual_seed(monkeypatch):
    """sacrebleu's own, whatever the environment says."""
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)


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


@pytest.mark.parametrize(("key", "level"), [("s_bleu", "sentences"), ("d_bleu", "documents")])
def test_bootstrap_by_brute_force(systems, key, level) -> None:
    """Koehn (2004): resample segments with replacement; here with BLEU and counts of our own."""
    samples = 300
    result = compare(systems, key, "bootstrap", samples)["B"]
    reference = texts(level, REFERENCE)
    rows = [
        np.array([counts(*pair) for pair in zip(texts(level, side), reference, strict=True)])
        for side in (BASELINE, SYSTEM)
    ]
    drawn = np.random.default_rng(SEED).choice(len(reference), size=(samples, len(reference)), replace=True)
    scores = np.array([[bleu(side[row].sum(axis=0)) for row in drawn] for side in rows])
    differences = np.abs(scores[1] - scores[0])
    real = abs(bleu(rows[1].sum(axis=0)) - bleu(rows[0].sum(axis=0)))
    p = (np.sum(differences - differences.mean() > real) + 1) / (samples + 1)
    assert result.p_value == pytest.approx(p, abs=1e-12)
    assert result.mean == pytest.approx(scores[1].mean(), abs=1e-4)  # sacrebleu sums in float32
    assert 0.005 < p < 0.9, "the case must be able to tell right from wrong"
    assert f"bs:{samples}|seed:{SEED}" in result.signature


@pytest.mark.parametrize(("key", "level"), [("s_bleu", "sentences"), ("d_bleu", "documents")])
def test_randomisation_by_brute_force(systems, key, level) -> None:
    """Exchange the systems' segments at random; how often is the difference as large as the real one?"""
    samples = 300
    result = compare(systems, key, "randomisation", samples)["B"]
    reference = texts(level, REFERENCE)
    first, second = (
        np.array([counts(*pair) for pair in zip(texts(level, side), reference, strict=True)])
        for side in (BASELINE, SYSTEM)
    )
    keep = np.random.default_rng(SEED).integers(2, size=(samples, len(reference)), dtype=bool)
    real, beyond = abs(bleu(second.sum(axis=0)) - bleu(first.sum(axis=0))), 0
    for row in keep:
        one = np.where(row[:, None], first, second).sum(axis=0)
        other = np.where(row[:, None], second, first).sum(axis=0)
        beyond += abs(bleu(one) - bleu(other)) > real
    assert result.p_value == pytest.approx((beyond + 1) / (samples + 1), abs=1e-12)
    assert 0.005 < result.p_value < 0.9
    assert result.mean is None


@pytest.mark.parametrize(
    ("test", "option", "metrics"),
    [
        # sacrebleu 2.6 cannot print its own bootstrap of chrF and TER as JSON.
        ("bootstrap", "bs", {"s_bleu": "BLEU"}),
        ("randomisation", "ar", {"s_bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}),
    ],
)
def test_equals_sacrebleus_command(systems, test, option, metrics, tmp_path) -> None:
    for name, documents in (("ref", REFERENCE), ("A", BASELINE), ("B", SYSTEM)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in texts("sentences", documents)), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "A", "B", f"--paired-{option}", f"--paired-{option}-n"]
    names = [name.lower().removesuffix("2") for name in metrics.values()]
    options = ["200", "-m", *names, "--tokenize", "none", "--force", "-w", "10"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
    row = next(row for row in json.loads(done.stdout) if row["system"] == "B")
    for key, metric in metrics.items():
        ours = compare(systems, key, test, 200)["B"]
        assert ours.p_value == pytest.approx(row[metric]["p_value"], abs=1e-9)
        if test == "bootstrap":
            assert ours.mean == pytest.approx(row[metric]["mean"], abs=1e-9)
            assert ours.interval == pytest.approx(row[metric]["ci"], abs=1e-9)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
@pytest.mark.parametrize("level", ["sentences", "documents"])
def test_sign_test_by_definition(metric, level) -> None:
    """Put one segment of the system among the baseline's and score the whole corpus again, for every segment."""
    base, new, reference = (texts(level, side) for side in (BASELINE, SYSTEM, REFERENCE))
    start = corpus_metric(metric, base, reference, "none").score
    found = {"better": 0, "worse": 0, "equal": 0}
    for index in range(len(reference)):
        changed = corpus_metric(metric, [*base[:index], new[index], *base[index + 1 :]], reference, "none").score
        gain = start - changed if metric == "ter" else changed - start
        found["better" if gain > 0 else "worse" if gain < 0 else "equal"] += 1
    result = sign_test(*(SegmentStatistics(metric, side, reference, "none") for side in (base, new)))
    assert {key: value for key, value in result.to_json().items() if key in found} == found
    assert min(found["better"], found["worse"]) > 0
    assert result.p_value == binomial_p_value(found["better"], found["worse"])


def test_exact_binomial() -> None:
    """All 2^n outcomes of n coins, counted one by one; then Collins et al.'s 2000 sentences in another order of sum."""
    for better, worse in [(0, 0), (1, 0), (5, 1), (1, 5), (4, 4), (9, 2), (10, 0)]:
        coins = better + worse
        uneven = abs(better - worse)
        outcomes = sum(abs(2 * bin(outcome).count("1") - coins) >= uneven for outcome in range(2**coins))
        assert binomial_p_value(better, worse) == outcomes / 2**coins
    tail = sum(Fraction(math.comb(1785, k), 2**1785) for k in range(1057, 1786))
    assert binomial_p_value(1057, 728) == pytest.approx(float(2 * tail), rel=1e-14)
    assert 0 < binomial_p_value(1057, 728) < 1e-10


def test_a_system_against_itself(systems) -> None:
    same = {"A": systems["A"], "again": systems["A"]}
    assert compare(same, "s_bleu", "sign")["again"].to_json() == {
        "better": 0, "worse": 0, "equal": sum(map(len, REFERENCE)), "p_value": 1.0,
        "signature": f"sign test, two-sided|+0 -0 ={sum(map(len, REFERENCE))}",
    }  # fmt: skip


@pytest.mark.parametrize("test", ["bootstrap", "document-bootstrap", "randomisation"])
def test_no_difference_is_not_significant(systems, test) -> None:
    assert compare({"A": systems["A"], "again": systems["A"]}, "s_bleu", test, 20)["again"].p_value == 1.0


def test_documents_are_drawn_whole(systems) -> None:
    """d-BLEU has as many draws as there are documents, not sentences."""
    result = compare(systems, "d_bleu", "sign")["B"]
    assert result.better + result.worse + result.equal == len(REFERENCE)


def test_seed(systems, monkeypatch) -> None:
    fixed = compare(systems, "s_bleu", "bootstrap", 100)["B"]
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    other = compare(systems, "s_bleu", "bootstrap", 100)["B"]
    assert "seed:7" in other.signature and other.mean != fixed.mean
    monkeypatch.setenv("SACREBLEU_SEED", "seven")
    with pytest.raises(UserError, match="SACREBLEU_SEED is 'seven'"):
        compare(systems, "s_bleu", "bootstrap", 100)


def test_wrong_input(systems) -> None:
    with pytest.raises(UserError, match="unknown test 't-test'; choose from: bootstrap, document-bootstrap, "):
        compare(systems, "s_bleu", "t-test")
    with pytest.raises(UserError, match="a baseline and at least one other"):
        compare({"A": systems["A"]}, "s_bleu", "sign")
    with pytest.raises(UserError, match="system A: there are no instances to compute d-BLEU per instance over"):
        compare(systems, "d_bleu_instance", "sign")
    other = segments_of_text(BASELINE, SYSTEM, "none")
    with pytest.raises(UserError, match="system C was not scored against the same sentences as A"):
        compare({"A": systems["A"], "C": other}, "s_bleu", "sign")


@pytest.mark.parametrize("key", ["s_bleu", "chrf"])
def test_whole_documents_are_drawn(systems, key):
    """The p-value of a bootstrap over sums by document, computed here; of d-BLEU the usual one, which draws these."""
    (result,) = compare(systems, key, "document-bootstrap", 200).values()
    level, rows = LEVELS[key], []
    for one in systems.values():
        own, documents = np.array(one.statistics(level.metric, "sentences").rows), [d for d, _ in one.places]
        rows.append(np.stack([own[np.array(documents) == d].sum(axis=0) for d in range(len(REFERENCE))]))
    metric = systems["A"].statistics(level.metric, "sentences").metric

    def score(total) -> float:
        return metric._compute_score_from_stats(list(total)).score

    drawn = np.random.default_rng(SEED).choice(len(REFERENCE), (200, len(REFERENCE)))
    differences = [abs(score(rows[1][ids].sum(axis=0)) - score(rows[0][ids].sum(axis=0))) for ids in drawn]
    real = abs(score(rows[1].sum(axis=0)) - score(rows[0].sum(axis=0)))
    larger = sum(one - np.mean(differences) > real for one in differences)
    assert result.p_value == pytest.approx((larger + 1) / 201, abs=0.011)  # sacrebleu counts in float32
    assert "bs:200" in result.signature and result.signature.endswith("|drawn:documents")
    assert compare(systems, key, "bootstrap", 200)["B"].interval != result.interval
    by_document = [compare(systems, "d_bleu", test, 200)["B"] for test in ("bootstrap", "document-bootstrap")]
    assert by_document[0] == by_document[1]
