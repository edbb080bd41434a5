"""Paths of raw corpora and of the files of recipes' runs."""

from __future__ import annotations

import os
from pathlib import Path

from gtransformer.installation import data_directory
from gtransformer.plugin.checkpoints import AVERAGE
from gtransformer.preprocess.corpus import BENCHMARKS
from gtransformer.run.recipe import Recipe

CHECKPOINTS = "checkpoints"  # in a run's directory


def model_file(recipe: Recipe, directory: Path) -> Path:
    """Return the model of a recipe's run: its best checkpoint, or the mean of its last ones."""
    return directory / CHECKPOINTS / (AVERAGE if recipe.averaged else "checkpoint_best.pt")


def corpus_directory(corpus: str) -> Path:
    """Return the directory of a raw corpus: $DATA/NAME for the benchmarks, otherwise the directory
    itself.
    """
    return data_directory() / corpus if corpus in BENCHMARKS else Path(corpus)


def runs_directory() -> Path:
    """Return the directory of recipes' runs: the variable GTRANSFORMER_RUNS, or ``runs/`` of the
    working directory.
    """
    return Path(os.environ.get("GTRANSFORMER_RUNS") or "runs").absolute()
