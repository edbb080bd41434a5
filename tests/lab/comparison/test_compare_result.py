"""Results of a comparison: what is said of every recipe, and how they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.lab.analysis.curves import Curve
from gtransformer.lab.comparison.result import comparison_table, count_parameters, recipe_result, set_scores
from gtransformer.run.recipe import load_recipe

SIGNATURE = "nrefs:1|version:2"


def test_results_say_what_the_fine_tuned_model_had_before():
    curve = Curve(train=[(10, 50.0)], valid=[(20, 40.0)], words=[(10, 39.0), (20, 41.0)], best=10)
    plain = recipe_result(load_recipe("cpu_small_sent"), curve, 1800.04, 7, 30, {})
    assert (plain["updates"], plain["validation_perplexity"], plain["minutes_with_pretraining"]) == (20, 40.0, 30)
    assert (plain["note"], plain["sentences_per_instance"], plain["doc_mode"]) == (None, 1, "full")
    assert (plain["best_update"], plain["word_perplexity"]) == (10, 39.0)
    curve = Curve(train=curve.train, valid=curve.valid)
    tuned = recipe_result(load_recipe("cpu_small_finetune"), curve, 1800.04, 7, 30, {"cpu_small_sent": 45})
    assert tuned["note"] == "fine-tuned: its 30 minutes are on top of 45 of cpu_small_sent"
    assert tuned["minutes_with_pretraining"] == 75 and tuned["doc_mode"] == "partial"
    bleu = {kind: {"score": 12.345, "signature": SIGNATURE} for kind in ("s_bleu", "d_bleu", "d_bleu_instance")}
    for missing, shown in ((0, ["12.35", "12.35"]), (3, ["-", "12.35"])):
        scores = set_scores({"counts": {"misaligned_instances": missing}, "scores": {"raw": bleu | {"ter": 1}}})
        assert scores["aligned"] == (missing == 0) and set(scores["raw"]) == set(bleu)
        lines = comparison_table({"tuned": tuned | {"scores": {"x": scores}}}, ["x"]).splitlines()
        assert lines[2].split() == ["tuned", "20", "30.0", "40.00", *shown]
        assert any(SIGNATURE in line for line in lines) and any("on top of" in line for line in lines)
        assert any("not aligned" in line for line in lines) == (missing > 0)
        assert not any("overlap" in line for line in lines)
        assert lines[0].split()[3:7] == ["validation", "ppl", "x", "s-BLEU"]
        by_words = {name: tuned | {"word_perplexity": 41.5, "scores": {"x": scores}} for name in ("tuned", "other")}
        head, _, first, *_ = comparison_table(by_words, ["x"]).splitlines()
        assert head.split()[3:7] == ["validation", "ppl", "of", "words"] and first.split()[3] == "41.50"
        older = by_words | {"other": by_words["other"] | {"word_perplexity": None}}
        assert comparison_table(older, ["x"]).splitlines()[2].split()[3] == "40.00"
        del scores["raw"]["d_bleu_instance"]  # as of instances that overlap
        lines = comparison_table({"tuned": tuned | {"scores": {"x": scores}}}, ["x"]).splitlines()
        assert any("but where instances overlap" in line for line in lines) == (missing > 0)


@pytest.mark.parametrize(
    ("instances", "needs", "said"),
    [
        ("sliding", "context-sentences=2", 3),
        ("current", "context-sentences=2", 3),
        ("disjoint", "context-sentences=0", 1),
        ("greedy", "instance-tokens=256", "as many as fit"),
    ],
)
def test_results_say_how_many_sentences_stand_together(instances, needs, said):
    recipe = load_recipe("base", [f"task.instances={instances}", f"task.{needs}"])
    result = recipe_result(recipe, Curve(train=[(10, 50.0)], valid=[]), 60.0, 7, 30, {})
    assert result["sentences_per_instance"] == said


def test_parameters_are_read_from_the_log(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("x\n... | num. shared model params: 1,234,567 (num. trained: 1,234,567)\n")
    assert count_parameters(log) == 1234567
    log.write_text("x\n")
    assert count_parameters(log) is None
