"""Paths of raw corpora and of the files of recipes' runs."""

from __future__ import annotations

import os
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.installation import data_directory
from gtransformer.plugin.checkpoints import AVERAGE
from gtransformer.preprocess.corpus import BENCHMARKS
from gtransformer.run.recipe import Recipe

CHECKPOINTS = "checkpoints"  # in a run's directory
BEST = Path(CHECKPOINTS, "checkpoint_best.pt")
RUNS = "GTRANSFORMER_RUNS"
PREPARED = Path("prepared", "manifest.json")  # in a run's directory: exists when the corpus is prepared


def model_file(recipe: Recipe, directory: Path) -> Path:
    """Return the model of a recipe's run: its best checkpoint, or the mean of its last ones."""
    best = directory / BEST
    return best.with_name(AVERAGE) if recipe.averaged else best


def corpus_directory(corpus: str) -> Path:
    """Return the directory of a raw corpus: $DATA/NAME for the benchmarks, otherwise the directory itself."""
    path = data_directory() / corpus if corpus in BENCHMARKS else Path(corpus)
    if path.is_dir():
        return path
    if corpus in BENCHMARKS:
        raise UserError(f"{path}: no such directory; fetch the corpus with scripts/get_{corpus}.sh")
    known = ", ".join(BENCHMARKS)
    raise UserError(f"{path}: no such corpus; give a directory in the raw corpus format, or one of {known}")


def run_directory(recipe: str, raw: Path) -> Path:
    """Return the directory of a recipe's run on a raw corpus: ``RUNS/RECIPE/CORPUS``.

    RUNS is the variable GTRANSFORMER_RUNS, or ``runs`` in the working directory.
    """
    return runs_directory() / recipe / raw.resolve().name


def runs_directory() -> Path:
    """Return the directory of recipes' runs: the variable GTRANSFORMER_RUNS, or ``runs/`` of the working directory."""
    return Path(os.environ.get(RUNS) or "runs").absolute()
