"""Where the raw corpora and the files of recipes' runs lie."""

from __future__ import annotations

import os
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.experiments.recipe import Recipe
from gtransformer.installation import project_root
from gtransformer.tasks.averaging import AVERAGE
from gtransformer.tasks.finetuning import LAST

BENCHMARKS = ("ted", "news", "europarl")
BEST = Path("checkpoints", "checkpoint_best.pt")  # in a run's directory
PREPARED = Path("prepared", "manifest.json")  # in a run's directory: is there as soon as the corpus is prepared


def model_file(recipe: Recipe, directory: Path) -> Path:
    """The model of a recipe's run: its best checkpoint, or the mean of its last ones."""
    best = directory / BEST
    return best.with_name(AVERAGE) if recipe.averaged else best


def training_outputs(recipe: Recipe, directory: Path) -> list[Path]:
    """What a run's training leaves: its model, log and record."""
    return [model_file(recipe, directory), directory / "train.log", directory / "train.json"]


def translation_outputs(directory: Path, split: str = "test") -> list[Path]:
    """What a run's translation of a split leaves: itself and its record."""
    return [directory / f"{split}.jsonl", directory / f"generate.{split}.json"]


def last_checkpoint(directory: Path) -> Path:
    """Where a run's training goes on from."""
    return (directory / BEST).with_name(LAST)


def corpus_directory(corpus: str) -> Path:
    """Where the raw corpus lies: $DATA/NAME for the benchmarks, otherwise the directory itself."""
    if corpus not in BENCHMARKS:
        path = Path(corpus)
        if not path.is_dir():
            known = ", ".join(BENCHMARKS)
            raise UserError(f"{path}: no such corpus; give a directory in the raw corpus format, or one of {known}")
        return path
    path = Path(os.environ.get("DATA") or project_root() / "data") / corpus
    if not path.is_dir():
        raise UserError(f"{path}: no such directory; fetch the corpus with: bash scripts/download.sh {corpus}")
    return path


def corpus_name(corpus: str) -> str:
    """What a corpus is called in the directories of runs: a benchmark by its name, others by their directory's."""
    return corpus if corpus in BENCHMARKS else corpus_directory(corpus).resolve().name


def run_directory(recipe: str, corpus: str) -> Path:
    """Where a recipe's run on a corpus lies; both by name."""
    return project_root() / "runs" / recipe / corpus
