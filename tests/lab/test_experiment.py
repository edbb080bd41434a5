"""An experiment from its file to its results."""

from __future__ import annotations

import ast
import copy
import csv
import importlib
import shlex
import tarfile
from pathlib import Path

import pytest

from gtransformer.cli.main import parse
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab import experiment as engine
from gtransformer.lab.budget import budget_changes, updates_of_tokens
from gtransformer.lab.experiment import DONE, Experiment, read_experiment
from gtransformer.lab.results import rows_of, write_results
from gtransformer.run.recipe import load_recipe
from tests.lab.conftest import small_experiment
from tests.support import command

main = command("lab experiment")

ROOT = Path(__file__).resolve().parents[2]
FILES = [*ROOT.glob("exp_logs/*/experiment.yaml"), *ROOT.glob("configs/experiments/*.yaml")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_experiment_starts(path, tmp_path, capsys):
    """Its commands are printed, and each recipe can be read with all its changes."""
    assert not main([str(path), str(tmp_path), "--dry-run"])
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    runs = [parse("run", line[2:])[1] for line in lines if line[1] == "run"]
    stages = {args.stage for args in runs}
    assert stages == {"prepare", "train", "generate", "score"} and not any(tmp_path.iterdir())
    trained = [args.output for args in runs if args.stage == "train"]
    assert (
        len(trained)
        == len(set(trained))
        == len(Experiment(read_experiment(path), tmp_path, dry=True).runs)
    )


@pytest.mark.parametrize("path", sorted(ROOT.glob("exp_logs/*/*.py")), ids=lambda path: path.stem)
def test_scripts_of_experiments_use_what_is_there(path):
    """They run for hours, so no test runs them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("gtransformer"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, one.name) for one in node.names)


@pytest.mark.slow
def test_an_experiment_runs_to_its_end(finished, capsys):
    table = write_results(finished)
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [
        "| sentences",
        "| gtransformer",
    ]
    with open(finished.folder / "results.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    value = {(row["system"], row["seed"], row["metric"]): row["value"] for row in rows}
    scores = read_json(finished.folder / "gtransformer" / "test.scores.json")["scores"]["raw"]
    assert float(value["gtransformer", "1", "d_bleu"]) == pytest.approx(
        scores["d_bleu"]["score"], rel=1e-4
    )
    assert (
        value["gtransformer", "1", "updates"] == "2"
        and ("gtransformer", "1", "valid_loss") in value
    )
    assert ("gtransformer", "mean", "accuracy - sentences") in value
    assert ("gtransformer", "documents", "s_bleu - sentences") in value
    with tarfile.open(finished.folder / "translations.tar.xz") as packed:
        assert packed.getnames() == [
            "sentences.txt",
            "gtransformer.txt",
            "reference.txt",
            "curves.csv",
        ]
        curves = packed.extractfile("curves.csv").read().decode().splitlines()
    assert any(line.startswith("gtransformer,valid_loss,2,") for line in curves)
    assert (finished.folder / "curves.png").is_file() and (finished.folder / "reach.png").is_file()
    without_baseline = copy.copy(finished)
    without_baseline.runs = finished.runs[1:]
    assert not any(" - " in str(row["metric"]) for row in rows_of(without_baseline))
    before = (finished.folder / "gtransformer" / DONE).read_text(encoding="utf-8")
    finished.run()  # again: nothing is left to do
    assert (finished.folder / "gtransformer" / DONE).read_text(encoding="utf-8") == before
    assert capsys.readouterr().out.count("done before") == 2


def test_an_interrupted_start_model_is_not_finished(tmp_path, monkeypatch):
    """Its checkpoint is there, its record is not: it trains to its end before another model starts
    from it."""
    experiment, called = small_experiment(tmp_path), []
    fail = True

    def call(arguments: list[str], _environment: dict[str, str]) -> None:
        name = (
            Path(arguments[arguments.index("--output") + 1]).name if "--output" in arguments else ""
        )
        called.append((arguments[0], arguments[3], name))
        if arguments[3] == "train":
            model = tmp_path / name / "checkpoints" / "checkpoint_best.pt"
            model.parent.mkdir(parents=True, exist_ok=True)
            model.touch()
            if fail:
                raise UserError("interrupted")

    monkeypatch.setattr(engine, "call", call)
    with pytest.raises(UserError, match="2 of 2"):
        experiment.run()
    assert not (tmp_path / "sentences" / DONE).exists() and called[-1] == (
        "run",
        "train",
        "sentences",
    )
    called.clear()
    fail = False
    experiment.run()
    trained = [name for _, stage, name in called if stage == "train"]
    assert trained == ["sentences", "gtransformer"]
    called.clear()
    (tmp_path / "sentences" / DONE).unlink()
    experiment.run()  # a start model that was made again has other parameters
    assert [name for _, stage, name in called if stage == "train"] == ["sentences", "gtransformer"]


def test_seeds_starts_and_parts_of_the_corpus(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text(
        """
corpus: demo
seeds: [1, 2]
rows:
  start: {recipe: demo, seeds: [3]}
  own: {recipe: demo}
  few: {recipe: demo, start: start, documents: 5}
  after: {recipe: demo, start: own}
""",
        encoding="utf-8",
    )
    runs = {run.name: run for run in Experiment(read_experiment(path), tmp_path, dry=True).runs}
    starts = {name: run.start and run.start.name for name, run in runs.items()}
    assert starts == {
        "own-1": None, "start": None, "few-1": "start", "after-1": "own-1",
        "own-2": None, "few-2": "start", "after-2": "own-2",
    }  # fmt: skip
    experiment = Experiment(read_experiment(path), tmp_path, dry=True)
    (whole, _), (few, line) = experiment.preparations().values()
    assert whole is None and few == 5
    assert (
        f"prepare.vocabulary={tmp_path / 'prepared'}" in line and str(tmp_path / "corpus-5") in line
    )


@pytest.mark.slow
def test_budgets(finished):
    recipe = load_recipe("demo")
    assert "train.total-num-update=30" in budget_changes({"updates": 30}, recipe)
    minutes = budget_changes({"minutes": 30}, recipe)
    assert (
        "train.stop-time-hours=0.500000" in minutes and "train.lr-scheduler=inverse_sqrt" in minutes
    )
    run = finished.runs[0]
    prepared, recipe = finished.prepared(run), finished.recipe(run)
    tokens = read_json(prepared / "manifest.json")["splits"]["train"]["tokens"]["de"]
    epoch = updates_of_tokens(tokens, recipe, prepared)
    assert epoch > 1 and updates_of_tokens(3 * tokens, recipe, prepared) == 3 * epoch
