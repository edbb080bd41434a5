"""Paths of raw corpora and of the files of recipes' runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.files import digest, sha256, write_json
from gtransformer.installation import data_directory
from gtransformer.preprocess.corpus import BENCHMARKS, find_splits
from gtransformer.preprocess.manifest import without_test
from gtransformer.run.recipe import Recipe
from gtransformer.tasks.checkpoints import AVERAGE, LAST
from gtransformer.work import read_record

CHECKPOINTS = "checkpoints"  # in a run's directory
BEST = Path(CHECKPOINTS, "checkpoint_best.pt")
RUNS = "GTRANSFORMER_RUNS"
RAW = "raw_corpus.json"  # in a run's directory: identifies its corpus
PREPARED = Path("prepared", "manifest.json")  # in a run's directory: exists when the corpus is prepared


def model_file(recipe: Recipe, directory: Path) -> Path:
    """Return the model of a recipe's run: its best checkpoint, or the mean of its last ones."""
    best = directory / BEST
    return best.with_name(AVERAGE) if recipe.averaged else best


def last_checkpoint(directory: Path) -> Path:
    """Return the checkpoint from which a run's training resumes."""
    return (directory / BEST).with_name(LAST)


def corpus_directory(corpus: str) -> Path:
    """Return the directory of a raw corpus: $DATA/NAME for the benchmarks, otherwise the directory itself."""
    path = data_directory() / corpus if corpus in BENCHMARKS else Path(corpus)
    if path.is_dir():
        return path
    if corpus in BENCHMARKS:
        raise UserError(f"{path}: no such directory; fetch the corpus with scripts/get_{corpus}.sh")
    known = ", ".join(BENCHMARKS)
    raise UserError(f"{path}: no such corpus; give a directory in the raw corpus format, or one of {known}")


def runs_directory() -> Path:
    """Return the directory of recipes' runs: the variable GTRANSFORMER_RUNS, or ``runs/`` of the working directory."""
    return Path(os.environ.get(RUNS) or "runs").absolute()


@dataclass(frozen=True)
class Corpus:
    """A corpus, identified by content, since folders of the same name may have different files.

    Attributes:
        name: its name in the directories of runs.
        raw: its directory; None if only the name is known.
        sums: SHA-256 of all raw files, by name.
        pair: source and target language; both directions have the same files.
    """

    name: str
    raw: Path | None = None
    sums: Mapping[str, str] = field(default_factory=dict)
    pair: tuple[str, str] = ("", "")

    @property
    def files(self) -> dict[str, str]:
        """``sums`` without the test set's, which may be corrected; if there are no others, the test set's."""
        return without_test(self.sums)

    @classmethod
    def find(cls, corpus: str, pair: tuple[str, str]) -> Corpus:
        """Find a benchmark by its name, other corpora by directory. Raise UserError if it is missing.

        Errors in its files are reported by the stage that reads them.
        """
        raw = corpus_directory(corpus)
        try:
            splits = find_splits(raw, *(plain_language(lang) for lang in pair))
        except UserError:
            splits = {}
        sums = {path.name: _sum(path, path.stat().st_mtime_ns) for sides in splits.values() for path in sides}
        return cls(corpus if corpus in BENCHMARKS else raw.resolve().name, raw, sums, pair)

    def owns(self, directory: Path) -> bool:
        """Return whether a run's directory belongs to this corpus: by its files or, if not known, by its path."""
        known = read_record(directory / RAW)
        if known.get("files") and self.files:  # earlier versions noted test.tsv, too
            return (without_test(known["files"]), tuple(known["pair"])) == (self.files, self.pair)
        noted = {read_record(directory / f"{stage}.json").get("raw") for stage in ("prepare", "train")} - {None}
        return not noted or self.raw is None or str(self.raw.resolve()) in noted

    def note(self, directory: Path, **more: Any) -> None:
        """Record the corpus, and ``more``, in a run's directory before other files are written."""
        if self.files:
            noted = {"raw": str(self.raw.resolve()), "files": self.files, "pair": self.pair}
            write_json(directory / RAW, noted | more)


@lru_cache(maxsize=256)
def _sum(path: Path, _changed: int) -> str:
    return sha256(path)


def run_directory(recipe: str, corpus: Corpus) -> Path:
    """Return the directory of a recipe's run: the corpus's name, or a longer one if another corpus uses the name."""
    plain = runs_directory() / recipe / corpus.name
    longer = plain.with_name(f"{corpus.name}-{digest([dict(corpus.files), corpus.pair])[:8]}")
    if corpus.files and (longer.is_dir() or (plain.is_dir() and not corpus.owns(plain))):
        return longer
    return plain
