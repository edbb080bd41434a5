"""What a recipe needs of others, and what of it ``gtransformer run RECIPE CORPUS all`` does first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.run.dependencies import Dependency, dependencies, missing_first, start_of
from gtransformer.run.run import Run
from tests.core.run.locations import made, parse

START = "document/sentences"


def done(root: Path, name: str) -> None:
    (root / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "runs" / name).touch()


def test_needs_come_in_an_order_that_works(tmp_path: Path):
    assert dependencies("base") == []
    assert dependencies("doc_base_finetune") == [Dependency("base", "prepare"), Dependency("sent_base", "train")]
    assert dependencies("document/base") == [Dependency(START, "prepare"), Dependency(START, "train")]
    assert dependencies("document/alone") == dependencies("flat/base") == [Dependency(START, "prepare")]
    (tmp_path / "one.yaml").write_text("based-on: document/small_sentences\n")
    (tmp_path / "two.yaml").write_text("based-on: document/small\npretrained-from: one\nprepared-from: one\n")
    beside = f"{tmp_path}/one.yaml"
    assert dependencies(f"{tmp_path}/two.yaml") == [Dependency(beside, "prepare"), Dependency(beside, "train")]


def test_a_recipe_that_another_starts_from_is_found_where_that_one_is(corpus, runs: Path, tmp_path: Path):
    assert start_of("arena/window") == "arena/start" and start_of("document/base") == START
    for name, start in (("mine", "sent_base"), ("other", "mine.yaml"), ("none", "")):
        (tmp_path / f"{name}.yaml").write_text(f"based-on: base\npretrained-from: {start}\n")
    assert start_of(f"{tmp_path}/mine.yaml") == "sent_base" and start_of(f"{tmp_path}/none.yaml") is None
    assert start_of(f"{tmp_path}/other.yaml") == f"{tmp_path}/mine.yaml"
    assert made(f"{tmp_path}/other.yaml", corpus, "all").pretrained.parent == runs / "mine" / "tiny" / "checkpoints"


def test_a_recipe_that_needs_itself(tmp_path: Path):
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.yaml").write_text(f"based-on: base\npretrained-from: {other}\n")
    with pytest.raises(UserError, match="one.yaml' needs itself"):
        dependencies(f"{tmp_path}/one.yaml")


def test_all_does_what_is_missing_of_others_first(corpus, tmp_path: Path):
    command = parse("document/base", corpus, "all")
    first, second = [START, str(corpus), "prepare"], [START, str(corpus), "train"]
    assert missing_first(command) == [first, second]
    done(tmp_path, f"{START}/tiny/prepared/manifest.json")
    assert missing_first(command) == [second]
    done(tmp_path, f"{START}/tiny/checkpoints/checkpoint_best.pt")
    assert missing_first(command) == [second], "an interrupted training is not over"
    done(tmp_path, f"{START}/tiny/train.json")
    assert missing_first(command) == []


def test_languages_and_ways_to_prepare_hold_for_the_recipes_before(corpus):
    passed = ["--set", "task.target-lang=fr", "--set", "prepare.vocabulary-size=32000"]
    found = missing_first(parse("window/base", corpus, "all", *passed, "--set", "train.dropout=0.1"))
    assert found == [["concatenation/sentences", str(corpus), "prepare", *passed]]
    found = missing_first(parse("document/base", corpus, "all", "--set", "train.finetune-from-model=x.pt"))
    assert found == [[START, str(corpus), "prepare"]]


@pytest.mark.parametrize("options", [["train"], ["all", "--output", "x"], ["all", "--prepared", "x"]])
def test_others_are_left_alone_where_files_take_their_place(corpus, options):
    assert missing_first(parse("document/base", corpus, *options)) == []


@pytest.mark.parametrize(("fails", "stages"), [(None, ["prepare", "train", "generate", "score"]), ("train", [])])
def test_the_driver_runs_them_and_stops_where_one_fails(corpus, monkeypatch, fails, stages):
    ran = []

    def execute(run: Run, stage: str) -> None:
        ran.append((run.recipe.name, stage))
        if stage == fails:
            raise UserError("no room")

    monkeypatch.setattr(Run, "execute", execute)
    assert main(["document/small", str(corpus), "all"]) == (1 if fails else 0)
    own = [("document/small", stage) for stage in stages]
    assert ran == [("document/small_sentences", stage) for stage in ("prepare", "train")] + own


def test_all_commands_can_be_seen_before_anything_is_done(corpus, tmp_path: Path, capsys):
    """Those of other recipes, too; nothing is written."""
    assert main(["from_sentence_model_small", str(corpus), "all", "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    words = [" ".join(line.split()[: 1 + line.startswith("gtransformer")]) for line in lines]
    sentences, documents = ["gtransformer prepare", "fairseq-train"], ["fairseq-generate", "gtransformer score"]
    assert words == [*sentences, *sentences, *documents]
    start = tmp_path / "runs" / "cpu_small_sent" / "tiny" / "checkpoints" / "checkpoint_best.pt"
    assert f"--finetune-from-model {start}" in lines[3] and "--user-dir gtransformer " in lines[3]
    assert not (tmp_path / "runs").exists()
