"""One run of a study: which scores it takes."""

from __future__ import annotations

import json

import pytest

from gtransformer.cli import score
from gtransformer.lab.studies.one_run import ordered_run, result_of, score_test

ORDER = {"recipe": "demo_full", "changes": [], "corpus": "demo", "prepared": "prepared"}


@pytest.mark.parametrize(
    ("references", "taken"), [(["raw"], "raw"), (["release"], "release"), (["raw", "release"], "raw")]
)
def test_the_reference_that_was_scored_against(tmp_path, references, taken):
    scores = {
        name: {kind: {"score": len(name)} for kind in ("d_bleu", "d_bleu_instance", "s_bleu")} for name in references
    }
    (tmp_path / "test.scores.json").write_text(json.dumps({"scores": scores, "counts": {"misaligned_instances": 0}}))
    (tmp_path / "train.log").write_text('{"ppl": "4", "loss": "2", "num_updates": "10", "wall": "3"}\n')
    (tmp_path / "generate.test.json").write_text('{"seconds": 1}')
    result = result_of(ordered_run(tmp_path, ORDER), ORDER, [])
    assert result["reference"] == taken and result["scores"]["d_bleu"] == {"score": len(taken)}


def test_data_of_another_length_are_grouped_when_loaded(tmp_path):
    """Orders of before do not say so."""
    order = ORDER | {"loading": ["task.instances=greedy", "task.instance-tokens=64"]}
    task = ordered_run(tmp_path, order).recipe.sections["task"]
    assert (task["instances"], task["instance-tokens"]) == ("greedy", 64)
    assert "instances" not in ordered_run(tmp_path, ORDER).recipe.sections["task"]


def test_a_recipe_chooses_the_reference_but_not_what_a_study_needs(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(score, "main", lambda arguments: given.extend(arguments))
    changes = ["score.paper=true", "score.metrics=chrf", "score.output=elsewhere.json"]
    score_test(ordered_run(tmp_path, ORDER | {"changes": changes}), ["bleu"])
    assert "--paper" in given and given[given.index("--metrics") + 1] == "bleu" and "chrf" not in given
    assert given[given.index("--output") + 1] == str(tmp_path / "test.scores.json")
