"""The driver's decisions: paths, stages, devices, and its errors. Real ones: tests/core/end_to_end/test_run.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from gtransformer.cli import run as command
from gtransformer.cli.run import main
from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run import run as module
from gtransformer.run.recipe import load_recipe, recipe_names
from gtransformer.run.run import STAGES, make_run, stages_of
from gtransformer.run.run_places import RUNS

pytestmark = pytest.mark.slow


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    directory = tmp_path / "raw" / "tiny"
    directory.mkdir(parents=True)
    return directory


def parse(*arguments: object):
    return command.parse([str(argument) for argument in arguments])


def test_runs_lie_where_the_user_is_or_wants_them(corpus: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_run(parse("base", corpus, "train"))
    assert run.directory == tmp_path / "runs" / "base" / "tiny"
    assert run.prepared == run.directory / "prepared"
    assert run.checkpoint == run.directory / "checkpoints" / "checkpoint_best.pt"
    monkeypatch.setenv(RUNS, str(tmp_path / "elsewhere"))
    assert make_run(parse("base", corpus, "train")).directory == tmp_path / "elsewhere" / "base" / "tiny"


@pytest.fixture
def borrower(tmp_path: Path) -> Path:
    """A recipe that prepares a corpus of its own with the vocabulary of another recipe's."""
    path = tmp_path / "borrower.yaml"
    path.write_text("based-on: base\nvocabulary-from: base\nprepare: {max-sents: 2}\n")
    return path


def test_recipes_share_a_prepared_corpus_or_its_dictionary(corpus: Path, borrower: Path):
    prepared = Path("runs").absolute() / "base" / "tiny" / "prepared"
    for name in ("doc_base", "sent_base"):
        run = make_run(parse(name, corpus, "train"))
        assert (run.prepared, run.vocabulary) == (prepared, None)
    run = make_run(parse("window/base", corpus, "train"))
    assert run.directory == Path("runs").absolute() / "window" / "base" / "tiny"
    assert run.prepared == Path("runs").absolute() / "concatenation" / "sentences" / "tiny" / "prepared"
    own = make_run(parse(borrower, corpus, "train"))
    assert own.prepared == Path("runs").absolute() / "borrower" / "tiny" / "prepared"
    assert own.vocabulary == prepared


def test_model_of_another_corpus(corpus: Path):
    args = parse("doc_base", corpus, "all", "--model-of", "techdocs")
    run = make_run(args)
    assert run.checkpoint == Path("runs").absolute() / "doc_base" / "techdocs" / "checkpoints" / "checkpoint_best.pt"
    assert run.vocabulary == Path("runs").absolute() / "base" / "techdocs" / "prepared"
    assert run.prepared == Path("runs").absolute() / "doc_base" / "tiny" / "prepared"
    assert stages_of(args) == ("prepare", "generate", "score")


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """Of every stage the command, in place of what it would do; no corpus has to be prepared."""
    found: list[list[str]] = []
    monkeypatch.setattr(module.Run, "_need_prepared", lambda *_: None)
    monkeypatch.setattr(module.Run, "_hold_corpus", lambda *_: "")
    monkeypatch.setattr(module, "run_stage", lambda name, command, *_: found.append(command))
    return found


def test_fine_tuning_starts_from_the_run_of_another_recipe(corpus: Path, commands: list, tmp_path: Path):
    run = make_run(parse("doc_base_finetune", corpus, "train"))
    assert run.pretrained == Path("runs").absolute() / "sent_base" / "tiny" / "checkpoints" / "checkpoint_best.pt"
    assert run.prepared == Path("runs").absolute() / "base" / "tiny" / "prepared"
    own = make_run(parse("doc_base_finetune", corpus, "train", "--set", "train.finetune-from-model=x.pt"))
    assert own.pretrained is None
    with pytest.raises(UserError, match=r"checkpoint_best.pt: not there yet.*run.sh sent_base .*tiny train"):
        run.train()
    run.pretrained = tmp_path / "sent.pt"
    run.pretrained.touch()
    run.train()
    assert commands[0][commands[0].index("--finetune-from-model") + 1] == str(run.pretrained)


def test_benchmark_corpora_lie_in_data(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DATA", str(tmp_path))
    with pytest.raises(UserError, match="bash scripts/download.sh ted"):
        make_run(parse("base", "ted", "prepare"))
    (tmp_path / "ted").mkdir()
    assert make_run(parse("base", "ted", "prepare")).raw == tmp_path / "ted"


def test_stages(corpus: Path):
    assert stages_of(parse("base", corpus, "all")) == ("prepare", "train", "generate", "score")
    assert stages_of(parse("base", corpus, "score")) == ("score",)
    with pytest.raises(UserError, match="unknown stage 'trian': known are prepare, train, generate, score and all"):
        stages_of(parse("base", corpus, "trian"))
    with pytest.raises(UserError, match="--set train.OPTION=VALUE"):
        stages_of(parse("base", corpus, "all", "--", "--lr", 1))


def test_what_a_stage_needs(corpus: Path, tmp_path: Path):
    run = make_run(parse("cpu_tiny", corpus, "all", "--output", tmp_path / "out"))
    with pytest.raises(UserError, match="concatenated_en2de_train_en.txt"):
        run.check_files(["prepare"])
    with pytest.raises(UserError, match="first run stage prepare"):
        run.execute("train")
    binaries = tmp_path / "out" / "prepared" / "bin"
    binaries.mkdir(parents=True)
    (binaries.parent / "manifest.json").write_text("{}")
    (binaries / "train.en-de.en.idx").touch()
    with pytest.raises(UserError, match="no test set; it has train .choose one with --split."):
        run.execute("generate")
    (binaries / "test.en-de.en.idx").touch()
    with pytest.raises(UserError, match="no such checkpoint; train first"):
        run.execute("generate")
    with pytest.raises(UserError, match="no translations to score; first run stage generate"):
        run.execute("score")


def test_a_model_of_another_corpus_is_neither_kept_nor_trained_on(corpus: Path, monkeypatch, tmp_path: Path):
    """The corpus of the same name was prepared from other text; a test set of its own changes no model."""
    run = make_run(parse("cpu_tiny", corpus, "train", "--output", tmp_path / "out"))
    commands = []
    monkeypatch.setattr(module, "run_stage", lambda name, command, *_: commands.append(command))
    bin_, manifest = run.prepared / "bin", run.prepared / "manifest.json"
    bin_.mkdir(parents=True)
    (bin_ / "train.en-de.en.idx").touch()
    write_json(manifest, {"outputs": {"bin/train.en-de.en.bin": "1", "bin/test.en-de.en.bin": "1", "text/x": "1"}})
    run.train()
    (run.directory / "checkpoints" / "checkpoint_last.pt").touch()
    write_json(manifest, {"outputs": {"bin/train.en-de.en.bin": "1", "bin/test.en-de.en.bin": "2", "text/x": "2"}})
    run.train()
    write_json(manifest, {"outputs": {"bin/train.en-de.en.bin": "2"}})
    with pytest.raises(UserError, match="the model there was trained on another corpus than .* remove that folder"):
        run.train()
    assert len(commands) == 2


def test_a_finished_model_is_kept_if_it_is_whole(corpus: Path, monkeypatch, tmp_path: Path, capsys):
    """Cut short it is made again from what was copied; else it is refused, as fairseq would find nothing left to do."""
    run = make_run(parse("cpu_tiny", corpus, "train", "--output", tmp_path / "out"))
    best, last = (run.directory / "checkpoints" / f"checkpoint_{name}.pt" for name in ("best", "last"))
    trained = []

    def train(name: str, command: list[str], directory: Path, results: dict) -> None:
        trained.append(name)
        write_json(directory / f"{name}.json", {"stage": name, "command": command})
        for path in (last, best):
            torch.save({"extra_state": {"val_loss": 1.0, "best": 1.0}}, path)

    monkeypatch.setattr(module, "run_stage", train)
    (run.prepared / "bin").mkdir(parents=True)
    (run.prepared / "bin" / "train.en-de.en.idx").touch()
    (run.prepared / "manifest.json").write_text("{}")
    run.train(), run.train()
    whole = best.read_bytes()
    best.write_bytes(whole[:-100])
    run.train()
    assert best.read_bytes() == last.read_bytes() and trained == ["train"]
    assert capsys.readouterr().out.count("[train] done before") == 2
    last.unlink()
    for harm in (lambda: best.write_bytes(whole[:100]), lambda: best.rename(last)):
        harm()
        with pytest.raises(UserError, match="best.pt: missing or cut short, though the training was finished; put it"):
            run.train()
    shutil.rmtree(best.parent)
    run.train()
    assert trained == ["train"] * 2 and best.read_bytes() == whole  # zip archives name the file that they were


def finished_run(corpus: Path, output: Path, monkeypatch, *options: object) -> tuple[module.Run, list[list[str]]]:
    """A run whose stages leave records and a score file without doing anything, and their commands."""
    commands = []

    def leave_record(name: str, command: list[str], directory: Path, results: dict) -> None:
        commands.append(command)
        write_json(directory / f"{name}.json", {"stage": name, **results})
        if "scores" in results:
            write_json(Path(results["scores"]), {"scores": {}})

    monkeypatch.setattr(module, "run_stage", leave_record)
    run = make_run(parse("cpu_tiny", corpus, "all", "--output", output, *options))
    for name in ("text/test.de", "instances/test.de", "bin/dict.de.txt"):
        (run.prepared / name).parent.mkdir(parents=True, exist_ok=True)
        (run.prepared / name).touch()
    Sidecar("test", "en", "de", 0).save(run.prepared / "bin" / "test.en-de.instances.json")
    (run.prepared / "manifest.json").write_text("{}")
    for name in ("train", "test"):
        (run.prepared / "bin" / f"{name}.en-de.en.idx").touch()
    run.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    run.checkpoint.touch()
    (corpus / "concatenated_en2de_train_en.txt").touch()
    (output / "test.jsonl").touch()
    return run, commands


def reference_of(command: list[str]) -> str:
    return command[command.index("--reference") + 1]


def test_both_references_are_scored_where_there_are_both(corpus: Path, monkeypatch, tmp_path: Path):
    run, commands = finished_run(corpus, tmp_path, monkeypatch)
    run.score()
    (run.prepared / "instances" / "test.de").unlink()
    run.score()
    assert [reference_of(command) for command in commands] == ["both", "raw"]


def test_references_can_be_chosen(corpus: Path, monkeypatch, tmp_path: Path):
    for change in ("score.reference=raw", "score.reference=paper", "score.paper=true"):
        run, commands = finished_run(corpus, tmp_path, monkeypatch, "--set", change)
        run.score()
        assert "both" not in commands[0]
        assert commands[0][-1] in ("raw", "paper", "--paper")
        assert read_json(tmp_path / "test.scores.json")["changes"] == [], "either score names its reference"


def test_scores_say_what_was_changed(corpus: Path, monkeypatch, tmp_path: Path):
    """Each stage run with changes of its own; those of sections that a stage does not read are nothing to it."""
    scores = tmp_path / "test.scores.json"
    run, _ = finished_run(corpus, tmp_path, monkeypatch)
    for stage in STAGES:
        run.execute(stage)
    assert read_json(scores) == {"scores": {}, "recipe": "cpu_tiny", "changes": []}
    changes = {
        "prepare": "prepare.bpe-merges=5", "train": "train.lr=1", "generate": "generate.beam=1", "score": "devices=3",
    }  # fmt: skip
    for stage, change in changes.items():
        run, _ = finished_run(corpus, tmp_path, monkeypatch, "--set", change)
        run.execute(stage)
    assert read_json(scores)["changes"] == ["prepare.bpe-merges=5", "train.lr=1", "generate.beam=1"]
    run, _ = finished_run(corpus, tmp_path, monkeypatch, "--", "--max-update", 3)
    run.execute("train")
    run.execute("generate")
    assert read_json(tmp_path / "generate.test.json")["changes"] == [
        "prepare.bpe-merges=5", "train -- --max-update 3", "generate -- --max-update 3",
    ]  # fmt: skip


def test_changes_of_the_model_that_is_started_from(corpus: Path, monkeypatch, tmp_path: Path):
    run, _ = finished_run(corpus, tmp_path / "sent", monkeypatch, "--set", "train.lr=1")
    run.execute("train")
    tuned, _ = finished_run(corpus, tmp_path / "tuned", monkeypatch)
    tuned.pretrained = run.checkpoint
    tuned.execute("train")
    tuned.execute("score")
    assert read_json(tmp_path / "tuned" / "test.scores.json")["changes"] == ["train.lr=1"]


def test_missing_vocabulary_says_how_to_get_it(corpus: Path, borrower: Path, monkeypatch, tmp_path: Path):
    (corpus / "concatenated_en2de_train_en.txt").touch()
    monkeypatch.setenv(RUNS, str(tmp_path / "runs"))
    with pytest.raises(UserError, match=r"first run: bash scripts/run.sh base .*tiny prepare"):
        make_run(parse(borrower, corpus, "prepare")).execute("prepare")


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
