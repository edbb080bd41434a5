"""Contents of the folders of exp_logs/: their runs, and the scores of recipes in their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import short_commit
from gtransformer.evaluation.references import REFERENCES
from gtransformer.files import read_json
from gtransformer.run.recipe import load_recipe
from gtransformer.settings import read_settings, typed

ABOUT = "about.yaml"  # description of a folder of results
KINDS = ("s_bleu", "d_bleu")
DEMO_RECIPES = {"gtransformer": "demo", "transformer": "demo_full"}
UNKNOWN = "not recorded"


@dataclass
class Result:
    """Scores of one recipe's model on one set.

    Attributes:
        corpus: the training corpus.
        set: the translated set (``ted_test``).
        scores: by kind (s_bleu, d_bleu): (score, signature), against ``reference``.
        aligned: whether the translation has as many sentences as its source everywhere, so that s-BLEU is meaningful.
        source: the result file, relative to exp_logs/.
        changes: changes of the recipe (``train.lr=1e-4``).
    """

    recipe: str
    corpus: str
    set: str
    reference: str
    scores: dict[str, tuple[float, str]]
    aligned: bool
    source: str
    updates: int
    changes: tuple[str, ...] = ()

    def cells(self, logs: str) -> list[str]:
        """Return recipe, corpus, set, updates, scores and file; ``logs``: the path from the page to exp_logs/."""
        text = "" if self.reference == "raw" else f" (reference `{self.reference}`)"
        s_bleu, d_bleu = (f"{self.scores[kind][0]:.2f}{text}" for kind in KINDS)
        return [
            f"`{self.recipe}`" + (", changed" if self.changes else ""),
            self.corpus,
            self.set,
            f"{self.updates:,}",
            s_bleu if self.aligned else "not aligned",
            d_bleu,
            f"[{self.source}]({logs}{self.source})",
        ]


@dataclass
class Run:
    """A row of the table of all runs; one row may have several files of a folder.

    Attributes:
        files: patterns of the folder's JSON files (default: all).
        machine: if it differs from the folder's.
        date, commit: from the files, unless given.
    """

    what: str
    command: str
    seeds: int | str
    files: list[str] | None = None
    machine: str | None = None
    date: str | None = None
    commit: str | None = None

    def has(self, name: str) -> bool:
        """Return whether a file of the folder is one of the run's."""
        return any(fnmatchcase(name, pattern) for pattern in self.files or ["*"])


@dataclass
class About:
    """The content of a folder's about.yaml.

    Attributes:
        about: description of its files.
        machine: machine of the runs.
        runs: entries of the form ``Run``.
        corpus: corpus of a demonstration in it.
    """

    about: str
    machine: str
    runs: list[Any]
    corpus: str | None = None


@dataclass
class Folder:
    """One folder of exp_logs/."""

    name: str
    runs: list[Run] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Raise UserError that names a result file if a value in it is missing or has another type."""
    try:
        yield
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: no result, or a damaged one ({type(error).__name__}: {error}); write it again with the program "
            "that made it"
        ) from None


def read_folders(logs: Path) -> list[Folder]:
    """Read all folders of ``logs`` in alphabetical order. Raises UserError for a folder without description."""
    return [read_folder(path) for path in sorted(logs.iterdir()) if path.is_dir()]


def read_folder(path: Path) -> Folder:
    """Read one folder: its about.yaml, and the contents of its JSON files."""
    if not (path / ABOUT).is_file():
        raise UserError(f"{path}: no description; write it into {ABOUT} there, as in the other folders")
    about = read_settings(path / ABOUT, About)
    files = {file.relative_to(path).as_posix(): read_json(file) for file in sorted(path.rglob("*.json"))}
    folder = Folder(path.name, [typed(entry, Run, str(path / ABOUT), "runs") for entry in about.runs])
    for run in folder.runs:
        complete(run, about, [content for name, content in files.items() if run.has(name)])
    for name, content in files.items():
        if not any(run.has(name) for run in folder.runs):
            raise UserError(f"{path / name}: in none of the runs of {ABOUT} there")
        with damaged(path / name):
            if name.endswith("comparison.json") and "recipes" in content:
                folder.results += comparison_results(content, f"{path.name}/{name}")
            elif name == "results.json" and "systems" in content and about.corpus:
                folder.results += demo_results(content, about.corpus, f"{path.name}/{name}")
    return folder


def complete(run: Run, about: About, files: Sequence[Any]) -> None:
    """Complete a run with the machine of its folder, and the date and commits in its files."""
    files = [content for content in files if isinstance(content, Mapping)]
    dates = sorted({str(content["date"])[:10] for content in files if content.get("date")})
    found = [short_commit(content.get("commit")) for content in files]
    commits = list(dict.fromkeys(commit for commit in found if commit))
    commits += [f"others {UNKNOWN}"] if commits and not all(found) else []
    run.machine = run.machine or about.machine
    run.date = run.date or " to ".join(dict.fromkeys([*dates[:1], *dates[-1:]])) or UNKNOWN
    run.commit = run.commit or ", ".join(commits) or UNKNOWN


def comparison_results(content: dict[str, Any], source: str) -> list[Result]:
    """Return the results in a file of gtransformer lab compare."""
    return [
        Result(
            recipe,
            content["corpus"]["name"],
            name,
            *read_scores(scores),
            scores["aligned"],
            source,
            int(of_recipe["updates"]),
            real_changes(recipe, content.get("changes") or []),
        )
        for recipe, of_recipe in content["recipes"].items()
        for name, scores in of_recipe["scores"].items()
    ]


def demo_results(content: dict[str, Any], corpus: str, source: str) -> list[Result]:
    """Return the results in a file of gtransformer demo."""
    changes = tuple(content["settings"].get("changes") or ())
    return [
        Result(
            DEMO_RECIPES[system],
            corpus,
            "its test set",
            *read_scores(found["scores"]),
            found["counts"]["misaligned_instances"] == 0,
            source,
            int(found["updates"]),
            changes=changes,
        )
        for system, found in content["systems"].items()
    ]


def real_changes(recipe: str, changes: Sequence[str]) -> tuple[str, ...]:
    """Return the changes of a recipe that affect the model; all changes if it is not in configs/."""
    try:
        return tuple(load_recipe(recipe, list(changes)).changes)
    except UserError:
        return tuple(changes)


def read_scores(scores: dict[str, Any]) -> tuple[str, dict[str, tuple[float, str]]]:
    """Return the first scored reference, and BLEU by kind."""
    name = next((name for name in REFERENCES if name in scores), None)
    if name is None:
        raise LookupError(f"no score against any reference: {', '.join(REFERENCES)}")
    return name, {
        kind: (float(scores[name][kind]["score"]), str(scores[name][kind]["signature"])) for kind in KINDS
    }
