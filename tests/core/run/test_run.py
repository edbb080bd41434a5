"""The driver's decisions: paths, stages, devices, what is skipped or refused. Real runs: tests/core/end_to_end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtransformer.cli import average
from gtransformer.cli.run import main
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run import run as module
from gtransformer.run.commands import device_options
from gtransformer.run.paths import RUNS
from gtransformer.run.recipe import language_changes, load_recipe, recipe_names
from gtransformer.run.run import STAGES, stages_of
from gtransformer.run.stage import search_of_run
from gtransformer.tasks.checkpoints import AVERAGE
from tests.core.run.locations import made, parse, prepare, write_raw

pytestmark = pytest.mark.slow


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_runs_lie_where_the_user_is_or_wants_them(corpus, runs, tmp_path, monkeypatch):
    assert made("base", corpus, "train").directory == runs / "base" / "tiny"
    monkeypatch.delenv(RUNS)
    monkeypatch.chdir(tmp_path)
    run = made("base", corpus, "train")
    assert run.directory == tmp_path / "runs" / "base" / "tiny" and run.prepared == run.directory / "prepared"
    assert run.checkpoint == run.directory / "checkpoints" / "checkpoint_best.pt"


def test_recipes_share_a_prepared_corpus_or_its_dictionary(corpus, runs, stages, tmp_path):
    for name in ("doc_base", "sent_base"):
        run = made(name, corpus, "train")
        assert (run.prepared, run.vocabulary) == (runs / "base" / "tiny" / "prepared", None)
    borrower = tmp_path / "borrower.yaml"
    borrower.write_text("based-on: base\nvocabulary-from: base\nprepare: {max-sents: 2}\n")
    own = made(borrower, corpus, "prepare")
    assert own.prepared == runs / "borrower" / "tiny" / "prepared"
    with pytest.raises(UserError, match=r"manifest.json: does not exist yet, .* first run recipe base"):
        own.prepare()
    prepare(runs / "base" / "tiny" / "prepared")
    own.prepare()
    assert stages.given("--vocabulary") == str(runs / "base" / "tiny" / "prepared")
    made("sent_base", corpus, "prepare").prepare()
    assert stages.did == ["prepare"], "it is there"
    with pytest.raises(UserError, match="prepared from other files than .*other/tiny"):
        made("sent_base", write_raw(tmp_path / "other" / "tiny", "B."), "prepare").prepare()
    with pytest.raises(UserError, match="prepared from other files than .*other/tiny"):
        made("sent_base", tmp_path / "other" / "tiny", "train").train()
    made("sent_base", corpus, "prepare", "--set", "prepare.vocabulary-size=7").prepare()
    assert stages.given("--vocabulary-size") == "7"


def test_fine_tuning_starts_from_the_run_of_another_recipe(corpus, runs, stages):
    run = made("doc_base_finetune", corpus, "train")
    prepare(run.prepared)
    assert run.pretrained == runs / "sent_base" / "tiny" / "checkpoints" / "checkpoint_best.pt"
    own = made("doc_base_finetune", corpus, "train", "--set", "train.finetune-from-model=x.pt")
    assert own.pretrained is None
    with pytest.raises(UserError, match=r"checkpoint_best.pt: does not exist yet.*run recipe sent_base"):
        run.train()
    touch(run.pretrained)
    run.train()
    assert stages.given("--finetune-from-model") == str(run.pretrained)


def test_training_from_a_model_of_another_vocabulary_is_refused(corpus, stages, tmp_path):
    """So is translating with one. The vocabulary may be borrowed."""
    prepare(tmp_path / "out" / "prepared")
    run = made("base", corpus, "train", "--output", tmp_path / "out")
    run.train()
    touch(run.checkpoint)
    run.generate()
    more = ["--output", tmp_path / "more", "--checkpoint", run.checkpoint]
    more += ["--set", f"train.finetune-from-model={run.checkpoint}", "--prepared"]
    other = made("base", corpus, "train", *more, prepare(tmp_path / "borrowed", borrowed="out", train="2"))
    other.train(), other.generate()
    other = made("base", corpus, "train", *more, prepare(tmp_path / "other", dictionary="2"))
    for stage in (other.train, other.generate):
        with pytest.raises(UserError, match="checkpoint_best.pt: trained with another vocabulary than that of .*other"):
            stage()


def test_what_translates_first(corpus, runs, stages, tmp_path):
    """By the recipe's 'pretrained-from', or as named; a file of translations is passed on as it is."""
    first = ["--set", "generate.first-pass=start"]

    def given(*options: str, recipe: str = "docflat/c") -> str:
        run = made(recipe, corpus, "generate", *options)
        prepare(run.prepared)
        touch(run.checkpoint)
        run.generate()
        return stages.given("--first-pass")

    start = runs / "docflat" / "sentences" / "tiny" / "checkpoints" / "checkpoint_best.pt"
    assert given(*first) == str(start)
    own = touch(tmp_path / "other.pt")
    assert given(*first, "--set", f"train.finetune-from-model={own}") == str(own)
    assert given("--set", "generate.first-pass=x.jsonl") == "x.jsonl"
    with pytest.raises(UserError, match="recipe 'cpu_tiny' starts from no model"):
        given(*first, recipe="cpu_tiny")


def test_benchmark_corpora_lie_in_data(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA", str(tmp_path))
    with pytest.raises(UserError, match="ted: no such directory"):
        made("base", "ted", "prepare")
    (tmp_path / "ted").mkdir()
    assert made("base", "ted", "prepare").raw == tmp_path / "ted"


def test_stages(corpus):
    assert stages_of(parse("base", corpus, "all")) == STAGES and stages_of(parse("base", corpus, "score")) == ("score",)
    assert stages_of(parse("base", corpus, "all", "--checkpoint", "x.pt")) == ("prepare", "generate", "score")
    for refused in (["trian"], ["all", "--", "--lr", 1]):
        with pytest.raises(UserError):
            stages_of(parse("base", corpus, *refused))


def test_what_a_stage_needs(tmp_path, corpus, capsys):
    run = made("cpu_tiny", corpus, "all", "--output", tmp_path / "out")
    with pytest.raises(UserError, match="first run stage prepare"):
        run.execute("train")
    test = prepare(run.prepared) / "bin" / "test.en-de.en.idx"
    test.unlink()
    with pytest.raises(UserError, match="no test set"):
        run.execute("generate")
    test.touch()
    with pytest.raises(UserError, match="no such checkpoint; train first"):
        run.execute("generate")
    with pytest.raises(UserError, match="no translations to score; first run stage generate"):
        run.execute("score")
    with pytest.raises(UserError, match="x.pt: missing, but recipe 'base' needs it"):
        made("base", corpus, "train", "--set", "train.finetune-from-model=x.pt").check_files(["train"])
    raw = write_raw(tmp_path / "data", splits=("train",))
    assert main(["base", str(raw), "all"]) == 1
    assert "concatenated_en2de_dev_en.txt" in capsys.readouterr().err
    made("base", raw, "prepare").check_files(("prepare",))
    assert main(["base", str(write_raw(tmp_path / "french", pair=("en", "fr"))), "prepare"]) == 1
    assert "for en-fr give --langs en,fr" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recipe", "pair", "changes"),
    [
        ("base", "en,de", []),
        ("base", "en,fr", ["task.target-lang=fr", "task.langs=en,fr"]),
        ("base", "de,en", ["task.source-lang=de", "task.target-lang=en", "task.langs=de,en"]),
    ],
)
def test_a_language_pair_is_one_option(recipe, pair, changes):
    assert language_changes(recipe, pair) == changes


def fail(*_) -> None:
    """In place of a stage."""
    raise UserError("out of memory")


def finished(corpus: Path, output: Path, *options: object):
    """A run with all that its stages read."""
    run = made("cpu_tiny", corpus, "all", "--output", output, *options)
    prepare(run.prepared)
    touch(run.checkpoint)
    touch(output / "test.jsonl")
    return run


def test_which_reference_is_scored(corpus, stages, tmp_path):
    """Both where there are both, or the one that is asked for; a score names its own, so that nothing was changed."""
    run = finished(corpus, tmp_path)
    run.score()
    assert stages.given("--reference") == "both"
    (run.prepared / "instances" / "test.de").unlink()
    run.score()
    assert stages.given("--reference") == "raw"
    finished(corpus, tmp_path, "--set", "score.reference=release").score()
    assert stages.given("--reference") == "release"
    assert read_json(tmp_path / "test.scores.json")["changes"] == []


def test_scores_say_what_was_changed(corpus, stages, tmp_path):
    """Each stage run with changes of its own."""
    scores = tmp_path / "test.scores.json"
    run = finished(corpus, tmp_path)
    for stage in STAGES:
        run.execute(stage)
    assert read_json(scores) == {"scores": {}, "recipe": "cpu_tiny", "changes": []} and stages.did == list(STAGES)
    changes = {"prepare": "prepare.vocabulary-size=5", "train": "train.patience=1", "generate": "generate.beam=1"}
    for stage, change in changes.items():
        finished(corpus, tmp_path, "--set", change).execute(stage)
    finished(corpus, tmp_path, "--", "--lenpen", 2).execute("generate")
    finished(corpus, tmp_path).execute("score")
    assert read_json(scores)["changes"] == [*list(changes.values())[:2], "generate -- --lenpen 2"]


def test_a_finished_training_is_not_repeated(corpus, stages, tmp_path):
    run = finished(corpus, tmp_path)
    run.train(), run.train()
    assert stages.did == ["train"]
    finished(corpus, tmp_path, "--set", "train.max-update=9").train()
    made("cpu_tiny", corpus, "train", "--output", tmp_path, "--set", "train.max-update=9", "--again").train()
    assert stages.did == ["train"] * 3
    assert search_of_run(tmp_path)["beam"] == load_recipe("cpu_tiny").sections["generate"]["beam"]


def test_a_model_that_was_trained_otherwise_is_neither_kept_nor_trained_on(corpus, stages, tmp_path):
    """How long to train, and on which machine, may change; options with --again; the corpus never."""
    run = finished(corpus, tmp_path)
    run.checkpoint.unlink()
    run.train()
    for changes in (
        ["--set", "train.max-update=9", "--set", "train.patience=2"],
        ["--", "--max-epoch", 3, "--log-interval=5"],
    ):
        finished(corpus, tmp_path, *changes).train()
    for changes in (["--set", "train.dropout=0.5"], ["--", "--dropout", 0.5], ["--", "--dropout=0.5"]):
        with pytest.raises(UserError, match=r"trained with other options \(dropout 0.1, not 0.5\)"):
            finished(corpus, tmp_path, *changes).train()
    for refused in (["devices=8"], ["train.update-freq=3"]):
        with pytest.raises(UserError, match=r"other options \(update-freq 1, not \d\)"):
            finished(corpus, tmp_path, "--set", *refused).train()
    finished(corpus, tmp_path, "--", "--cpu").train()
    finished(corpus, tmp_path, "--set", "train.dropout=0.5", "--again").train()
    run = finished(corpus, tmp_path, "--set", "train.dropout=0.5", "--again")
    prepare(run.prepared, test="2", source="2")
    run.train()
    prepare(run.prepared, train="2")
    with pytest.raises(UserError, match="the model there was trained on another corpus"):
        run.train()


def test_a_training_goes_on_from_the_model_that_it_began_with(corpus, stages, tmp_path):
    start = tmp_path / "start.pt"
    start.write_bytes(b"one")
    finished(corpus, tmp_path, "--set", f"train.finetune-from-model={start}").train()
    start.write_bytes(b"two")
    with pytest.raises(UserError, match="began from another finetune-from-model"):
        finished(corpus, tmp_path, "--set", f"train.finetune-from-model={start}").train()


def test_the_mean_is_made_when_training_has_ended(corpus, tmp_path, monkeypatch):
    def stage(name: str, command: list[str], directory: Path, results: dict) -> None:
        if name == "average":
            assert average.main(command[3:]) == 0
        else:
            for epoch in (1, 2):
                state = {"model": {"weight": torch.full((2,), float(epoch))}, "extra_state": {}}
                state["optimizer_history"] = [{"num_updates": epoch}]
                torch.save(state, directory / "checkpoints" / f"checkpoint{epoch}.pt")
        write_json(directory / f"{name}.json", {"command": command, **results})

    monkeypatch.setattr(module, "run_stage", stage)
    changes = ("train.average-checkpoints=2", "train.no-epoch-checkpoints=", "train.keep-last-epochs=2")
    run = made("cpu_tiny", corpus, "all", "--output", tmp_path, *[word for one in changes for word in ("--set", one)])
    prepare(run.prepared)
    run.train()
    assert run.checkpoint == tmp_path / "checkpoints" / AVERAGE
    assert torch.load(run.checkpoint)["model"]["weight"].tolist() == [1.5, 1.5]


def test_a_failed_translation_leaves_none_of_another_model(corpus, stages, tmp_path, monkeypatch):
    run = finished(corpus, tmp_path)
    run.generate()
    assert run.translations.is_file()
    monkeypatch.setattr(module, "run_stage", fail)
    with pytest.raises(UserError, match="out of memory"):
        run.generate()
    assert not run.translations.exists()


def test_translations_of_another_test_set_are_not_scored(corpus, stages, tmp_path):
    run = finished(corpus, tmp_path)
    run.generate(), run.score()
    prepare(run.prepared, target="2")  # a corrected reference
    run.score()
    prepare(run.prepared, source="2")
    with pytest.raises(UserError, match="test.jsonl: translations of another text than the test set"):
        run.score()


def test_an_update_has_as_many_batches_on_any_number_of_devices():
    assert device_options({"update-freq": "3,2"}, 4, 3) == {"update-freq": "6,4", "distributed-world-size": 2}
    for wanted, own, present in ((a, b, c) for a in range(1, 9) for b in (1, 2, 3) for c in range(11)):
        options = device_options({"update-freq": own}, wanted, present)
        devices = options.get("distributed-world-size", 1)
        assert devices <= max(1, min(wanted, present))
        assert devices * options["update-freq"] == wanted * own, (wanted, own, present)


@pytest.mark.parametrize("arguments", [[], ["bsae", "CORPUS", "all"], ["--help"]])
def test_all_recipes_are_listed(arguments: list[str], capsys):
    """Without a recipe, with an unknown one, and on request; only the last is no error."""
    if arguments == ["--help"]:
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
    else:
        assert main(arguments) > 0
    output = capsys.readouterr().out
    assert all(f"  {name} " in output and load_recipe(name).description in output for name in recipe_names())
