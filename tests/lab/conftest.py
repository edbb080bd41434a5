"""A finished experiment: a sentence model, and a G-Transformer that starts from it, two updates
each."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from gtransformer.cli.main import main
from gtransformer.lab import experiment as engine
from gtransformer.lab.experiment import Experiment, read_experiment
from tests.commands import run_stages_here

SMALL = """
corpus: demo
sizes: {documents: 6, test_documents: 2}
budget: {updates: 2}
baseline: sentences
set:
  train.encoder-layers: 1
  train.decoder-layers: 1
  train.max-tokens: 300
  train.log-interval: 1
  train.validate-interval-updates: 1
  train.save-interval-updates: 2
  generate.beam: 1
  generate.max-len-a: 0
  generate.max-len-b: 3
  prepare.workers: 1
rows:
  sentences:
    recipe: demo
    set: {task.instances: disjoint, task.context-sentences: 0, train.encoder-ctxlayers: 0,
        train.decoder-ctxlayers: 0, train.cross-ctxlayers: 0}
  gtransformer:
    recipe: demo
    start: sentences
    set: {train.encoder-ctxlayers: 1, train.decoder-ctxlayers: 1, train.cross-ctxlayers: 1,
        train.load-partial: true}
"""


def small_experiment(folder: Path) -> Experiment:
    """The experiment, not run."""
    folder.mkdir(exist_ok=True)
    (folder / "experiment.yaml").write_text(SMALL, encoding="utf-8")
    return Experiment(read_experiment(folder / "experiment.yaml"), folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Experiment:
    experiment = small_experiment(tmp_path_factory.mktemp("experiment"))

    def call(arguments: list[str], _environment: dict[str, str]) -> None:
        with redirect_stdout(io.StringIO()):
            assert main(arguments) == 0

    with pytest.MonkeyPatch.context() as patch:  # in this process
        patch.setattr(engine, "call", call)
        run_stages_here(patch)
        experiment.run()
    return experiment
