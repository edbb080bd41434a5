"""Which lengths, and how their instances are made; real translations: tests/core/end_to_end/test_run.py."""

from __future__ import annotations

import pytest

from gtransformer.lab.cli.lengths import build_parser, main
from gtransformer.lab.comparison.lengths import INSTANCES, Lengths, lengths_text
from tests.pretended import changes, pretend


@pytest.fixture
def lengths(tmp_path):
    """Lengths of the model of a run, which only looks like one."""
    (tmp_path / "raw").mkdir(exist_ok=True)
    model = tmp_path / "model.pt"
    model.write_bytes(b"a model")
    prepared = tmp_path / "prepared"
    prepared.mkdir(exist_ok=True)
    (prepared / "manifest.json").write_text("{}")

    def make(*options: str, recipe: str = "cpu_small") -> Lengths:
        places = [f"--checkpoint={model}", f"--prepared={prepared}"]
        line = [recipe, str(tmp_path / "raw"), str(tmp_path / "out"), *places, *options]
        return Lengths(build_parser().parse_args(line))

    return make


def test_instances_of_other_lengths(lengths):
    """Whatever the recipe says of its own; shortest first, each once."""
    found = lengths("--tokens", "90", "30", "90", "--sentences", "2")
    assert list(found.lengths) == ["2 sentences", "30 tokens", "90 tokens"]
    stages = found.pipeline.stages
    told = changes(stages["translate-30-tokens"])
    assert {"task.instances=greedy", "task.instance-tokens=30", "task.context-sentences="} <= set(told)
    assert {"task.instances=disjoint", "task.context-sentences=1"} <= set(changes(stages["translate-2-sentences"]))


@pytest.mark.parametrize("recipe", ["cpu_small", "concatenation/small_two"])
def test_the_options_in_effect(lengths, recipe):
    """Also where a recipe translates other instances than it trains on."""
    stages = lengths("--tokens", "30", "--sentences", "4", recipe=recipe).pipeline.stages
    found = [
        {key: value for key, value in stages[f"translate-{name}"].settings["options"].items() if key in INSTANCES}
        for name in ("30-tokens", "4-sentences")
    ]
    assert found[0] == {"instances": "greedy", "instance-tokens": 30}
    assert found[1] == {"instances": "disjoint", "context-sentences": 3}


def test_scores_as_the_recipe_wants_them(lengths):
    """Beside those of the table, and never by order."""
    made = lengths("--tokens", "30", "--set", "score.tokenize=zh", "--set", "score.metrics=comet")
    settings = made.pipeline.stages["score-30-tokens"].settings
    assert settings["tokenize"] == "zh" and settings["align"] == "mwer" and settings["metrics"][-1] == "comet"
    assert len(pretend(made.pipeline)) == 2
    assert pretend(lengths("--tokens", "30").pipeline) == ["score-30-tokens"]


def test_what_was_done_is_kept_unless_the_model_is_another(lengths, tmp_path):
    assert len(pretend(lengths("--tokens", "30").pipeline)) == 2
    assert pretend(lengths("--tokens", "30", "60").pipeline) == ["translate-60-tokens", "score-60-tokens"]
    (tmp_path / "model.pt").write_bytes(b"another")
    assert len(pretend(lengths("--tokens", "30").pipeline)) == 2
    (tmp_path / "prepared" / "manifest.json").write_text("{} ")
    assert len(pretend(lengths("--tokens", "30").pipeline)) == 2


def test_table():
    scores = {key: {"score": 7.125, "signature": f"{key}|x"} for key in ("s_bleu", "d_bleu", "chrf", "ter")}
    part = {"instances": 4, "sentences": 10, "misaligned_instances": 1, "scores": scores, "seconds": 3.0}
    _, row, *signatures = lengths_text({"lengths": {"30 tokens": part}}).splitlines()
    assert row.split() == ["30", "tokens", "2.5", *["7.12"] * 4, "1", "of", "4", "3"] and len(signatures) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no lengths; give some with --tokens or --sentences"),
        (["--tokens", "0"], "--tokens 0: give 1 or more"),
        (["--tokens", "30", "--jobs", "0"], "--jobs 0: give at least 1"),
        (["--tokens", "30"], "no such checkpoint; train the recipe first, or give --checkpoint"),
    ],
)
def test_bad_input(tmp_path, capsys, options, message):
    assert main(["cpu_small", str(tmp_path), str(tmp_path / "out"), f"--run={tmp_path}", *options]) == 1
    assert message in capsys.readouterr().err
