"""Studies of a test's own, and runners whose runs are quick."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.lab.pipeline import Stage
from gtransformer.lab.studies.data import Corpora
from gtransformer.lab.studies.plan import load_study
from gtransformer.lab.studies.runner import Runner
from gtransformer.lab.studies.study import Study
from gtransformer.run.recipe import load_recipe

COMMON = """
description: settings
miniature:
  seeds: [3, 1]
  systems: {plain: {name: Plain, recipe: demo_full}, ours: {name: Ours, recipe: demo}}
  length: 512
  changes: {train.max-update: 5, train.patience: null, generate.quiet: false}
"""
FIGURE = """
description: a figure
miniature:
  panels:
    - {title: a, kind: scores, systems: [plain, ours], axis: length, values: [64, 512]}
    - title: b
      kind: curves
      quantity: loss
      lines: [{system: ours, length: 64, curve: valid_loss, label: validation}]
"""
# A table and other panels, over systems that start from another's model.
TABLE = """
description: a table
miniature:
  seeds: [2, 3]
  start-seed: 1
  corpus: {documents: 2, items: 3}
  systems: {start: {name: Start, recipe: arena/start}, plain: {name: Plain, recipe: arena/pseudo_documents},
            flat: {name: Flat, recipe: arena/docflat}}
  changes: {}
  panels:
    - title: Table
      kind: table
      columns: system
      rows:
        - {system: plain, label: plain}
        - {system: plain, label: few after all, instances: 5, start-instances: all}
        - {system: flat, label: one before, training: {task.context-sentences: 1}}
    - {title: by kind, kind: accuracy, columns: system, by: distance, baseline: plain, rows: [
        {system: plain, label: plain}, {system: flat, label: flat}]}
"""


@pytest.fixture
def write(tmp_path: Path):
    """A function that writes a study and its common.yaml, and returns its path."""

    def writer(figure: str = FIGURE, common: str = COMMON) -> str:
        (tmp_path / "common.yaml").write_text(common)
        (tmp_path / "figure.yaml").write_text(figure)
        return str(tmp_path / "figure.yaml")

    return writer


@pytest.fixture
def table(write) -> Study:
    """The study of TABLE."""
    return load_study(write(TABLE), miniature=True)


class Prepared(Corpora):
    """Nothing is made: all of it is said to be somewhere."""

    raw, fingerprint = Path("raw"), "f"

    def prepared(self, data) -> Path:
        return self.directory / "prepared"

    def contrastive_corpus(self) -> Path:
        return self.directory / "set"

    def instances(self, data) -> int:
        return 77


def prepared(study: Study, directory: Path, recipe: str = "arena/start") -> Prepared:
    """The corpora of a study, of which nothing is made."""
    corpora = Prepared(directory, "demo", study.corpus, load_recipe(recipe))
    corpora.pipeline.stages.clear()  # nor is it generated
    return corpora


# Stands in for a run: fails if the file "fail" names it, or without the model that it starts from; else leaves its
# model, and a result with the seed as its score.
PROGRAM = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
order = json.loads((folder / "run.json").read_text())
with open(folder.parent / "calls", "a") as calls:
    calls.write(folder.name + chr(10))
fail = folder.parent.parent / "fail"
if fail.is_file() and folder.name in fail.read_text():
    sys.exit("error: out of memory")
model = "checkpoints/checkpoint_best.pt"
if order["pretrained"]:
    assert (folder / order["pretrained"] / model).is_file()
(folder / model).parent.mkdir(exist_ok=True)
(folder / model).write_text("model")
if order["contrastive"]:
    (folder / "contrastive.json").write_text('{"total": {"accuracy": 50.0}, "by_distance": {"1": {"accuracy": 60.0}}}')
(folder / "test.txt").write_text("<d>" + chr(10) + order["name"] + chr(10))
scores = {key: {"score": float(order["seed"]), "signature": "s"} for key in ("d_bleu", "ter")}
curves = {"valid_loss": [[10, 8.0], [20, 3.0]]}
(folder / "result.json").write_text(json.dumps({"run": order, "scores": scores | {"s_bleu": None}, "curves": curves}))
"""


class QuickRunner(Runner):
    """The runner with a quick program in place of each run's."""

    def stage(self, run) -> Stage:
        stage = super().stage(run)
        work = replace(stage.work, command=[sys.executable, "-c", PROGRAM, str(self.folder(run))])
        return replace(stage, work=work)

    @property
    def calls(self) -> list[str]:
        """The runs' names in the order in which their programs were started."""
        path = self.corpora.directory / "runs" / "calls"
        return path.read_text().split() if path.is_file() else []


@pytest.fixture
def runner(write, tmp_path: Path):
    """Of FIGURE's eight runs: two systems, lengths and seeds."""
    study = load_study(write(), miniature=True)
    corpora = prepared(study, tmp_path / "out", "demo")
    corpora.directory.mkdir()
    return QuickRunner(study, corpora, jobs=2)


@pytest.fixture
def table_runner(table, tmp_path: Path):
    """Of TABLE's runs."""
    corpora = prepared(table, tmp_path / "out")
    return QuickRunner(table, corpora, jobs=2)
