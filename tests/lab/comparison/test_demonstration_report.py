"""What the demonstration prints: numbers where they belong, honest conclusions, checks that can fail."""

from __future__ import annotations

import pytest

from gtransformer.lab.analysis.curves import Curve
from gtransformer.lab.comparison.demonstration_report import (
    Outcome,
    conclusion,
    failed_checks,
    samples,
    table,
    total_time,
)


def system(name: str, perplexity: float, bleu: float, accuracy: float, misaligned: int = 0) -> Outcome:
    """A system's results, as the commands leave them."""
    part = {"accuracy": accuracy, "items": 50, "solved": round(accuracy / 2)}
    score = {"score": bleu, "signature": "nrefs:1|tok:13a"}
    scores = {kind: {**score, "score": bleu + i} for i, kind in enumerate(("s_bleu", "d_bleu", "d_bleu_instance"))}
    return Outcome(
        name,
        Curve(train=[(550, perplexity + 0.1)], valid=[(64, 50.0), (550, perplexity)]),
        {"scores": {"raw": scores}, "counts": {"instances": 24, "misaligned_instances": misaligned}},
        {"total": part, "by_phenomenon": {"pronoun": part}, "by_distance": {"1": part}},
        {"training": 300.0, "translation": 20.4},
    )


@pytest.fixture
def systems() -> dict[str, Outcome]:
    """One that has arrived, one that has not."""
    return {"gtransformer": system("Ours", 1.08, 97.0, 98.0), "transformer": system("Other", 3.2, 2.0, 50.0, 24)}


def test_table(systems) -> None:
    lines = table(systems).splitlines()
    rows = {line[:24].strip(): line.split()[-1] for line in lines}
    assert lines[0].split() == ["Ours", "Other"]
    assert (rows["s-BLEU"], rows["d-BLEU"], rows["d-BLEU per instance"]) == ("2.00", "3.00", "4.00")
    assert "98.0 % of 50" in next(line for line in lines if line.startswith("contrastive, pronoun"))
    assert rows["validation perplexity"] == "3.20"
    assert rows["training, seconds"] == "300" and rows["translation, seconds"] == "20"
    assert "BLEU: nrefs:1|tok:13a" in lines
    assert lines[-1].startswith("Other: 24 of 24 documents came out with another number of sentences")


def test_conclusion_claims_no_more_than_the_numbers(systems) -> None:
    said = conclusion(systems, 550)
    assert "Ours has arrived after 550 updates: validation perplexity 1.08" in said
    assert "Other has not arrived" in said
    assert "not left its plateau" in said and "does not mean that it never would" in said
    for ours, other in ((1.08, 1.3), (2.5, 3.2), (1.08, 1.8)):
        pair = {"gtransformer": system("Ours", ours, 0, 0), "transformer": system("Other", other, 0, 0)}
        said = conclusion(pair, 550)
        assert "plateau" not in said and "do not show the contrast" in said
    assert "no contradiction" not in said
    guesser = {"gtransformer": systems["gtransformer"], "transformer": system("Other", 3.2, 2.0, 80.0)}
    assert "solves 80 % of the contrastive items" in conclusion(guesser, 550)
    alone = conclusion({"gtransformer": systems["gtransformer"]}, 550)
    assert alone.count("\n") == 0


def test_checks() -> None:
    assert failed_checks(system("Ours", 1.1, 95.0, 95.0)) == []
    assert failed_checks(system("Ours", 1.1, 94.99, 95.0)) == ["s-BLEU is 94.99, below 95"]
    assert failed_checks(system("Ours", 1.1, 99.0, 12.0)) == ["contrastive accuracy is 12.00, below 95"]
    assert len(failed_checks(system("Ours", 1.1, float("nan"), 100.0))) == 1


def test_samples_show_context_and_every_translation() -> None:
    keys = {"phenomenon": "pronoun", "document": 1}
    items = [
        {**keys, "id": 0, "detail": "it -> er", "sentence": 1, "distance": 1},
        {**keys, "id": 1, "detail": "it -> sie", "sentence": 3, "distance": 3},
    ]
    texts = {"source": [["a"], ["s0", "s1", "s2", "s3"]], "reference": [["b"], ["r0", "r1", "r2", "r3"]]}
    shown = samples(
        items, texts, {"Ours": [[""], ["", "", "", "right"]], "Other": [[""], ["", "", "", ""]]}
    ).splitlines()
    assert shown[0] == "pronoun (it -> sie; test document 1, sentence 3)"
    assert [line.split()[1:] for line in shown[1:]] == [
        ["s0", "(3", "sentences", "back)"], ["s3"], ["r3"], ["right"], ["(nothing)"],
    ]  # fmt: skip


def test_results_file(systems) -> None:
    result = systems["gtransformer"].to_json()
    assert result["updates"] == 550 and result["validation_perplexity"] == 1.08
    assert result["curve"]["valid"] == [(64, 50.0), (550, 1.08)]


def test_time() -> None:
    assert total_time({"train": 61.0, "score": 2.0}) == "time: 1 min 3 s (train 1 min 1 s, score 2 s)"
