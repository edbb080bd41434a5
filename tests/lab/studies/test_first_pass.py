"""Recipes whose training's start translates first, in arenas and studies."""

from __future__ import annotations

from pathlib import Path

from gtransformer.lab.arena.arena import Arena
from gtransformer.lab.cli.arena import build_parser as arena_parser
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.one_run import ordered_run
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner
from gtransformer.run.recipe import load_recipe
from tests.pretended import changes


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
