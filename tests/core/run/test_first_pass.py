"""Recipes whose training's start translates first: which file fairseq-generate, arenas and studies are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtransformer.cli.run import build_parser
from gtransformer.errors import UserError
from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.cli.arena import build_parser as arena_parser
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ordered_run
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner
from gtransformer.run import run as module
from gtransformer.run.recipe import load_recipe
from gtransformer.run.run import make_run
from gtransformer.run.run_places import RUNS
from tests.pretended import changes

FIRST = "generate.first-pass=start"


def given(tmp_path: Path, monkeypatch, *options: str, recipe: str = "docflat/c") -> str:
    """What fairseq-generate gets as --first-pass."""
    raw, commands = tmp_path / "tiny", []
    raw.mkdir(exist_ok=True)
    monkeypatch.setenv(RUNS, str(tmp_path / "runs"))
    monkeypatch.setattr(module.Run, "_need_prepared", lambda *_: None)
    monkeypatch.setattr(module, "run_stage", lambda name, command, *_: commands.append(command))
    args = build_parser().parse_args([recipe, str(raw), "generate", *options])
    args.extra = []
    run = make_run(args)
    for path in (run.checkpoint, run.directory / "test.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    run.generate()
    return commands[0][commands[0].index("--first-pass") + 1]


def sentence_model(tmp_path: Path, corpus: str = "tiny") -> Path:
    path = tmp_path / "runs" / "docflat" / "sentences" / corpus / "checkpoints" / "checkpoint_best.pt"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_the_model_that_training_started_from(tmp_path: Path, monkeypatch):
    """By the recipe's 'pretrained-from', or as named; a file of translations is passed on as it is."""
    with pytest.raises(UserError, match="checkpoint_best.pt: the model that training starts from is not there, but"):
        given(tmp_path, monkeypatch, "--set", FIRST)
    path = sentence_model(tmp_path)
    assert given(tmp_path, monkeypatch, "--set", FIRST) == str(path)
    (tmp_path / "other.pt").touch()
    own = f"train.finetune-from-model={tmp_path / 'other.pt'}"
    assert given(tmp_path, monkeypatch, "--set", FIRST, "--set", own) == str(tmp_path / "other.pt")
    assert given(tmp_path, monkeypatch, "--set", "generate.first-pass=x.jsonl") == "x.jsonl"
    with pytest.raises(UserError, match="cpu_tiny: the model that training starts from is not there"):
        given(tmp_path, monkeypatch, "--set", FIRST, recipe="cpu_tiny")


def test_with_the_model_of_another_corpus_its_start(tmp_path: Path, monkeypatch):
    path = sentence_model(tmp_path, "other")
    assert given(tmp_path, monkeypatch, "--set", FIRST, "--model-of", "other") == str(path)


def test_in_an_arena_it_is_the_shared_start(tmp_path: Path, monkeypatch):
    for asked in (True, False):
        (tmp_path / "mine.yaml").write_text("based-on: arena/sentences\n" + "generate: {first-pass: start}\n" * asked)
        args = arena_parser().parse_args(["demo", str(tmp_path / "out"), "--systems", str(tmp_path / "mine.yaml")])
        monkeypatch.setattr("gtransformer.lab.arena.arena.check_recipe", lambda *_: None)
        stages = Arena(args).pipeline.stages
        start = f"train.finetune-from-model={tmp_path / 'out'}/runs/start/checkpoints/checkpoint_best.pt"
        assert (start in changes(stages["translate-mine-1"])) == asked


STUDY = """
description: batches
miniature:
  seeds: [1]
  systems: {flat: {name: Flat, recipe: arena/docflat}}
  length: 512
  changes: {generate.first-pass: start}
  panels:
    - {title: T, kind: table, columns: batch, rows: [
        {system: flat, label: "16"}, {system: flat, label: "2", decoding: {generate.batch-sentences: 2}}]}
"""


def test_runs_of_a_study_that_translate_with_a_trained_model(tmp_path: Path, monkeypatch):
    """Their order names the start, too, and its model stays as long as they want it."""
    (tmp_path / "common.yaml").write_text("description: settings\nminiature: {seeds: [1]}\n")
    (tmp_path / "mine.yaml").write_text(STUDY)
    study = load_study(str(tmp_path / "mine.yaml"), miniature=True)
    start, trained, other = study.runs()
    assert (trained.first, other.first, start.first) == (start, start, None) and other.needed == trained
    corpora = Corpora(tmp_path, "demo", {}, load_recipe("arena/start"))
    corpora.fingerprint = "f"
    monkeypatch.setattr(Corpora, "prepared", lambda *_: tmp_path / "prepared")
    runner = Runner(study, corpora, jobs=1)
    assert runner.users(start) == [trained, other] and runner.users(trained) == [other]
    orders = [runner.order(run) for run in (trained, other)]
    assert [order["pretrained"] for order in orders] == [f"../{runner.folder(start).name}"] * 2
    ran = ordered_run(runner.folder(other), orders[1])
    assert ran.pretrained == runner.folder(start) / "checkpoints" / "checkpoint_best.pt"
    assert ran.checkpoint == runner.folder(trained) / "checkpoints" / "checkpoint_best.pt"
