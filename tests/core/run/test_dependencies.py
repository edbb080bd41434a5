"""What a recipe needs of others, and what of it ``gtransformer run RECIPE CORPUS all`` does first."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.files import write_json
from gtransformer.run.dependencies import Dependency, dependencies, missing_first, start_of
from gtransformer.run.run import Run
from tests.core.run.locations import made, parse, write_raw

START = "document/sentences"


@pytest.fixture
def corpora(tmp_path: Path) -> tuple[Path, Path]:
    """Documents and sentence pairs, raw."""
    return write_raw(tmp_path / "raw" / "few"), write_raw(tmp_path / "raw" / "pairs", "B.")


def done(root: Path, name: str) -> None:
    (root / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "runs" / name).touch()


def test_needs_come_in_an_order_that_works(tmp_path: Path):
    assert dependencies("base") == []
    assert dependencies("doc_base_finetune") == [Dependency("base", "prepare"), Dependency("sent_base", "train")]
    assert dependencies("document/base") == [Dependency(START, "prepare"), Dependency(START, "train")]
    assert dependencies("document/alone") == dependencies("flat/base") == [Dependency(START, "prepare")]
    assert dependencies("arena/window") == [Dependency("arena/start", "prepare"), Dependency("arena/start", "train")]
    (tmp_path / "one.yaml").write_text("based-on: document/small_sentences\n")
    (tmp_path / "two.yaml").write_text("based-on: document/small\npretrained-from: one\nprepared-from: one\n")
    beside = f"{tmp_path}/one.yaml"
    assert dependencies(f"{tmp_path}/two.yaml") == [Dependency(beside, "prepare"), Dependency(beside, "train")]


def test_a_recipe_that_another_starts_from_is_found_where_that_one_is(tmp_path: Path):
    assert start_of("arena/window") == "arena/start" and start_of("doc_base_finetune") == "sent_base"
    assert start_of("document/base") == START
    for name, start in (("mine", "sent_base"), ("other", "mine"), ("none", "")):
        (tmp_path / f"{name}.yaml").write_text(f"based-on: base\npretrained-from: {start}\n")
    assert start_of(f"{tmp_path}/mine.yaml") == "sent_base" and start_of(f"{tmp_path}/none.yaml") is None
    assert start_of(f"{tmp_path}/other.yaml") == f"{tmp_path}/mine.yaml"


def test_other_recipes_named_by_their_files(corpora, tmp_path: Path):
    (tmp_path / "one.yaml").write_text("based-on: document/small_sentences\n")
    (tmp_path / "two.yaml").write_text("based-on: document/small\npretrained-from: one.yaml\nprepared-from: one.yaml\n")
    run = made(f"{tmp_path}/two.yaml", corpora[0], "all")
    theirs = tmp_path / "runs" / "one" / "few"
    assert run.prepared == theirs / "prepared" and run.pretrained.parent == theirs / "checkpoints"
    with pytest.raises(UserError, match=f"first run: gtransformer run {tmp_path}/one.yaml {corpora[0]} train"):
        run.check_pretrained()


def test_a_recipe_that_needs_itself(tmp_path: Path):
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.yaml").write_text(f"based-on: base\npretrained-from: {other}\n")
    with pytest.raises(UserError, match="one.yaml' needs itself, by way of"):
        dependencies(f"{tmp_path}/one.yaml")


def test_all_does_what_is_missing_of_others_first(corpora, tmp_path: Path, capsys):
    few, pairs = corpora
    command = parse("document/base", few, "all")
    first, second = [START, str(few), "prepare"], [START, str(few), "train"]
    assert missing_first(command) == [first, second]
    done(tmp_path, f"{START}/few/prepared/manifest.json")
    assert missing_first(command) == [second]
    done(tmp_path, f"{START}/few/checkpoints/checkpoint_best.pt")
    assert missing_first(command) == [second], "an interrupted training is not over"
    done(tmp_path, f"{START}/few/train.json")
    assert missing_first(command) == [] and not capsys.readouterr().err
    write_json(tmp_path / f"runs/{START}/few/train.json", {"changes": ["prepare.workers=1", "train.max-update=2"]})
    assert missing_first(command) == []
    assert f"{START}, or its start, was trained before with train.max-update=2: " in capsys.readouterr().err
    elsewhere = missing_first(parse("document/base", few, "all", "--start-on", pairs))
    assert elsewhere == [[START, str(pairs), "prepare"], [START, str(pairs), "train"]]


@pytest.mark.parametrize(
    "options",
    [
        ["train"],
        ["all", "--set", "train.finetune-from-model=x.pt", "--prepared", "x"],
        ["all", "--output", "x"],
        ["all", "--prepared", "x"],
        ["all", "--checkpoint", "x"],
        ["all", "--model-of", "x"],
    ],
)
def test_others_are_left_alone_where_it_is_not_plain_what_they_should_be(corpora, options):
    assert missing_first(parse("document/base", corpora[0], *options)) == []


@pytest.mark.parametrize(("fails", "stages"), [(None, ["prepare", "train", "generate", "score"]), ("train", [])])
def test_the_driver_runs_them_and_stops_where_one_fails(corpora, monkeypatch, capsys, fails, stages):
    ran = []

    def execute(run: Run, stage: str) -> None:
        ran.append((run.recipe.name, run.raw.name, stage))
        if stage == fails:
            raise UserError("no room")

    monkeypatch.setattr(Run, "execute", execute)
    few, pairs = corpora
    assert main(["document/small", str(few), "all", "--start-on", str(pairs)]) == (1 if fails else 0)
    own = [("document/small", "few", stage) for stage in stages]
    assert ran == [("document/small_sentences", "pairs", stage) for stage in ("prepare", "train")] + own
    assert "[all] first: gtransformer run document/small_sentences" in capsys.readouterr().out


def test_a_start_on_another_corpus_lends_its_vocabulary(corpora, tmp_path: Path):
    few, pairs = corpora
    run = made("document/base", few, "all", "--start-on", pairs)
    theirs = tmp_path / "runs" / START / "pairs"
    assert run.pretrained == theirs / "checkpoints" / "checkpoint_best.pt" and run.vocabulary == theirs / "prepared"
    assert run.prepared == run.directory / "prepared" == tmp_path / "runs" / "document" / "base" / "few" / "prepared"
    with pytest.raises(
        UserError, match=r"prepared/manifest.json: does not exist yet.*run document/sentences .*pairs prepare"
    ):
        run.execute("prepare")
    plain = made("document/base", few, "all")
    assert plain.prepared == tmp_path / "runs" / START / "few" / "prepared" and plain.vocabulary is None


def test_all_stages_of_a_run_start_on_the_same_corpus(corpora, tmp_path: Path, stages):
    """Without the option, or with another corpus, they would take other data and another model, and not say so."""
    few, pairs = corpora
    first = made("document/base", few, "all", "--start-on", pairs)
    done(tmp_path, f"{START}/pairs/prepared/manifest.json")
    first.execute("prepare")
    assert made("document/base", few, "generate", "--start-on", pairs).prepared == first.prepared
    with pytest.raises(UserError, match="base/few: this run was started with --start-on .*pairs; give the same to all"):
        made("document/base", few, "generate")
    with pytest.raises(UserError, match="this run was started with --start-on .*pairs"):
        made("document/base", few, "all", "--start-on", few)
    made("document/base", few, "generate", "--output", tmp_path / "out")
    (first.directory / "prepare.json").unlink()
    write_json(first.directory / "train.json", {"recipe": "document/base"})
    with pytest.raises(UserError, match="this run was started without --start-on"):
        made("document/base", few, "all", "--start-on", pairs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["base"], "--start-on .*: recipe 'base' starts from no other recipe's model"),
        (["document/base", "--set", "train.finetune-from-model=x.pt"], "recipe 'document/base' has another model here"),
        (["document/base", "--model-of", "x"], "recipe 'document/base' has another model here"),
    ],
)
def test_start_on_that_means_nothing(corpora, arguments, message):
    recipe, *options = arguments
    with pytest.raises(UserError, match=message):
        made(recipe, corpora[0], "all", "--start-on", corpora[1], *options)
