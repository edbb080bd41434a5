"""The demonstration: its stages, another budget, and what it prints. Real: tests/lab/end_to_end/test_demo.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.lab.analysis.curves import Curve
from gtransformer.lab.cli.demo import build_parser, main
from gtransformer.lab.comparison.demonstration import (
    RECIPES,
    STEPS,
    Demo,
    Outcome,
    conclusion,
    failed_checks,
    samples,
    table,
)
from tests.pretended import pretend

ALL = ["corpus", "prepare", *(f"{step}-{system}" for step in STEPS for system in RECIPES)]


def demo(output: Path, max_update: int, *options: str) -> Demo:
    sizes = ["--documents", "20", "--test-documents", "4", "--max-update", str(max_update)]
    return Demo(build_parser().parse_args(["--output", str(output), *sizes, *options]))


def both(output: Path, max_update: int) -> Demo:
    return demo(output, max_update, "--compare")


def test_every_step_of_both_systems_before_the_next(tmp_path):
    stages = both(tmp_path, 6).pipeline.stages
    assert list(stages) == ALL
    for before, step in zip(STEPS, STEPS[1:], strict=False):
        for system in RECIPES:
            assert set(stages[f"{step}-{system}"].waits_for) == {f"{before}-{other}" for other in RECIPES}
    assert pretend(both(tmp_path, 6).pipeline) == ALL
    assert pretend(both(tmp_path, 6).pipeline) == []


def test_another_budget_keeps_the_corpus_and_a_system_more_keeps_the_first(tmp_path):
    pretend(demo(tmp_path, 6).pipeline)
    last = tmp_path / "gtransformer" / "checkpoints" / "checkpoint_last.pt"
    last.write_text("of six updates")
    assert pretend(both(tmp_path, 6).pipeline) == [name for name in ALL if name.endswith("-transformer")]
    assert pretend(both(tmp_path, 7).pipeline) == ALL[2:]
    assert not last.exists()


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


def test_table() -> None:
    systems = {"gtransformer": system("Ours", 1.08, 97.0, 98.0), "transformer": system("Other", 3.2, 2.0, 50.0, 24)}
    lines = table(systems).splitlines()
    rows = {line[:24].strip(): line.split()[-1] for line in lines}
    assert lines[0].split() == ["Ours", "Other"]
    assert (rows["s-BLEU"], rows["d-BLEU"], rows["d-BLEU per instance"]) == ("2.00", "3.00", "4.00")
    assert "98.0 % of 50" in next(line for line in lines if line.startswith("contrastive, pronoun"))
    assert rows["validation perplexity"] == "3.20"
    assert rows["training, seconds"] == "300" and rows["translation, seconds"] == "20"
    assert "BLEU: nrefs:1|tok:13a" in lines and "24 of 24" in lines[-1]


@pytest.mark.parametrize(
    ("ours", "other", "contrast"), [(1.08, 3.2, True), (1.08, 1.3, False), (2.5, 3.2, False), (1.08, 1.8, False)]
)
def test_conclusion_claims_no_more_than_the_numbers(ours, other, contrast) -> None:
    pair = {"gtransformer": system("Ours", ours, 97, 0), "transformer": system("Other", other, 2, 80)}
    said = conclusion(pair, 550)
    assert ("plateau" in said) == contrast and ("has arrived" in said.splitlines()[0]) == (ours < 1.5)
    assert conclusion({"gtransformer": pair["gtransformer"]}, 550).count("\n") == 0


def test_checks() -> None:
    assert failed_checks(system("Ours", 1.1, 90.0, 90.0)) == []
    for bleu, accuracy in ((89.99, 95.0), (99.0, 12.0), (float("nan"), 100.0)):
        assert len(failed_checks(system("Ours", 1.1, bleu, accuracy))) == 1


def test_samples_show_context_and_every_translation() -> None:
    keys = {"phenomenon": "pronoun", "document": 1}
    items = [
        {**keys, "id": 0, "detail": "it -> er", "sentence": 1, "distance": 1},
        {**keys, "id": 1, "detail": "it -> sie", "sentence": 3, "distance": 3},
    ]
    texts = {"source": [["a"], ["s0", "s1", "s2", "s3"]], "reference": [["b"], ["r0", "r1", "r2", "r3"]]}
    found = {"Ours": [[""], ["", "", "", "right"]], "Other": [[""], ["", "", "", ""]]}
    shown = samples(items, texts, found).splitlines()
    assert "it -> sie" in shown[0]
    assert [line.split()[1] for line in shown[1:]] == ["s0", "s3", "r3", "right", "(nothing)"]


@pytest.mark.parametrize(
    ("option", "value"), [("--max-update", "0"), ("--documents", "0"), ("--set", "training.seed=2")]
)
def test_bad_input(tmp_path, capsys, option: str, value: str) -> None:
    assert main(["--output", str(tmp_path / "out"), option, value]) == 1
    error = capsys.readouterr().err
    assert value.partition(".")[0] in error and error.count("\n") == 1 and not (tmp_path / "out").exists()
