"""Which lengths, and how their instances are made; real translations: tests/core/end_to_end/test_run.py."""

from __future__ import annotations

import pytest

from gtransformer.lab.cli.lengths import build_parser, main
from gtransformer.lab.comparison.lengths import INSTANCES, Lengths, lengths_text
from tests.pretended import pretend


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


@pytest.mark.parametrize("recipe", ["cpu_small", "concatenation/small_two"])
def test_instances_of_other_lengths(lengths, recipe):
    """Whatever the recipe says of its own, in translating, too; shortest first, each once."""
    found = lengths("--tokens", "90", "30", "90", "--sentences", "4", recipe=recipe)
    assert list(found.lengths) == ["4 sentences", "30 tokens", "90 tokens"]
    options = [stage.settings["options"] for name, stage in found.pipeline.stages.items() if "translate" in name]
    assert [{key: value for key, value in one.items() if key in INSTANCES} for one in options] == [
        {"instances": "disjoint", "context-sentences": 3},
        {"instances": "greedy", "instance-tokens": 30},
        {"instances": "greedy", "instance-tokens": 90},
    ]


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
    ("options", "word"),
    [
        ([], "--tokens"),
        (["--tokens", "0"], "--tokens"),
        (["--tokens", "30", "--jobs", "0"], "--jobs"),
        (["--tokens", "30"], "--checkpoint"),
    ],
)
def test_bad_input(tmp_path, capsys, options, word):
    assert main(["cpu_small", str(tmp_path), str(tmp_path / "out"), f"--run={tmp_path}", *options]) == 1
    assert word in capsys.readouterr().err
