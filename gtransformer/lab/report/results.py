"""Scores in the folders of exp_logs/: of comparisons, of the demonstration, and those that an about.yaml lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.references import OLD_NAMES, REFERENCES
from gtransformer.lab.report.keys import ABOUT, NUMBER, need, need_texts
from gtransformer.run.recipe import load_recipe

KINDS = ("s_bleu", "d_bleu")
# The release's d-BLEU is that over instances, which its results have as well; the others are scored on request.
MORE_KINDS = {"release": ("d_bleu_instance",), "raw": ("s_bleu_lc", "d_bleu_lc", "ter")}
RESULT_KEYS = {"recipe", "corpus", "every", "sets", "note", "changes"}
DEMO_RECIPES = {"gtransformer": "demo", "transformer": "demo_full"}


@dataclass(frozen=True)
class Result:
    """Scores of one recipe's model on one set.

    Attributes:
        corpus: what it was trained on, ``every``-th document of it.
        set: what it translated (``ted_test``).
        scores: by reference (raw, release, tokenised; at least one) and kind (s_bleu, d_bleu; of release
            d_bleu_instance, too, where instances do not overlap; of raw perhaps those lower-cased and ter):
            (score, signature).
        aligned: whether the translation has as many sentences as its source everywhere, so that s-BLEU says something.
        source: the result file, relative to the folder of all logs.
        machine: what it ran on; None for the machine that all have in common.
        picture: the learning curves, relative to the folder of all logs.
        changes: what was changed in the recipe (``train.lr=1e-4``).
    """

    recipe: str
    corpus: str
    set: str
    scores: dict[str, dict[str, tuple[float, str]]]
    aligned: bool
    source: str
    every: int = 1
    minutes: float | None = None
    updates: int | None = None
    perplexity: float | None = None
    note: str = ""
    machine: str | None = None
    picture: str | None = None
    changes: tuple[str, ...] = ()

    def reference(self, wanted: str) -> str:
        """The reference ``wanted``, or the first that was scored against."""
        return wanted if wanted in self.scores else next(iter(self.scores))


@dataclass(frozen=True)
class ResultFile:
    """A result file: its path, its name relative to the folder of all logs, and what its folder says of it."""

    path: Path
    source: str
    machine: str | None = None
    picture: str | None = None


def comparison_results(content: dict[str, Any], file: ResultFile) -> list[Result]:
    """Results in a file that scripts/compare.sh has written. Raises UserError for a key that is missing."""
    path, results = file.path, []
    for recipe in need(content, path, "recipes", kind=dict):
        at = ("recipes", recipe)
        changes = real_changes(recipe, need_texts(content, path, "changes"))
        for name in need(content, path, *at, "scores", kind=dict):
            result = Result(
                recipe,
                need(content, path, "corpus", "name", kind=str),
                name,
                read_scores(content, path, *at, "scores", name),
                need(content, path, *at, "scores", name, "aligned", kind=bool),
                file.source,
                need(content, path, "corpus", "every", kind=int),
                need(content, path, *at, "minutes", kind=NUMBER),
                need(content, path, *at, "updates", kind=int),
                need(content, path, *at, "validation_perplexity", kind=NUMBER, optional=True),
                need(content, path, *at, "note", kind=str, optional=True) or "",
                file.machine,
                file.picture,
                changes,
            )
            results.append(result)
    return results


def demo_results(content: dict[str, Any], file: ResultFile, corpus: str) -> list[Result]:
    """Results in a file that scripts/demo.sh has written. Raises UserError for a key that is missing or unknown."""
    path, results = file.path, []
    for system in need(content, path, "systems", kind=dict):
        if system not in DEMO_RECIPES:
            raise UserError(f"{path}: unknown system '{system}'; the demonstration has {', '.join(DEMO_RECIPES)}")
        at = ("systems", system)
        result = Result(
            DEMO_RECIPES[system],
            corpus,
            "its test set",
            read_scores(content, path, *at, "scores"),
            need(content, path, *at, "counts", "misaligned_instances", kind=int) == 0,
            file.source,
            updates=need(content, path, *at, "updates", kind=int),
            perplexity=need(content, path, *at, "validation_perplexity", kind=NUMBER, optional=True),
            machine=file.machine,
            picture=file.picture,
            changes=need_texts(content, path, "settings", "changes"),
        )
        results.append(result)
    return results


def listed_results(entry: Any, folder: Path, objects: dict[str, dict], machine: str | None) -> list[Result]:
    """Results that about.yaml lists: score files of scripts/run.sh or scripts/score.sh by the name of the set.

    Raises UserError for a key that is missing or unknown, a file that is not there, and one of another recipe.
    """
    about = folder / ABOUT
    if not isinstance(entry, dict) or set(entry) - RESULT_KEYS or not {"recipe", "corpus", "sets"} <= set(entry):
        raise UserError(f"{about}: an entry of 'results' has recipe, corpus, sets and perhaps every, note, changes")
    results, recipe = [], need(entry, about, "recipe", kind=str)
    for name, file in need(entry, about, "sets", kind=dict).items():
        content, path = listed_file(file, folder, objects), folder / file
        scored = need(content, path, "recipe", kind=str, optional=True) or recipe
        if scored != recipe:
            raise UserError(f"{about}: recipe '{recipe}' is said of {file}, which is of '{scored}'; put one right")
        changes = (*need_texts(entry, about, "changes"), *need_texts(content, path, "changes"))
        result = Result(
            recipe,
            need(entry, about, "corpus", kind=str),
            str(name),
            read_scores(content, path, "scores"),
            need(content, path, "counts", "misaligned_instances", kind=int) == 0,
            f"{folder.name}/{file}",
            need(entry, about, "every", kind=int, optional=True) or 1,
            note=need(entry, about, "note", kind=str, optional=True) or "",
            machine=machine,
            changes=tuple(dict.fromkeys(changes)),
        )
        results.append(result)
    return results


def real_changes(recipe: str, changes: Sequence[str]) -> tuple[str, ...]:
    """Those of the changes to a recipe that make another model; all of them if it is not one of configs/."""
    try:
        return tuple(load_recipe(recipe, list(changes)).changes)
    except UserError:
        return tuple(changes)


def listed_file(file: Any, folder: Path, objects: dict[str, dict]) -> dict[str, Any]:
    """What a file of a folder holds that about.yaml names there; UserError if it is not there."""
    if not isinstance(file, str) or file not in objects:
        raise UserError(f"{folder / str(file)}: no such file, though {ABOUT} there names it")
    return objects[file]


def read_scores(content: dict[str, Any], path: Path, *keys: str) -> dict[str, dict[str, tuple[float, str]]]:
    """The BLEU scores at ``keys`` of a file, by reference and kind; those under an old name by the name they have now.

    Raises UserError if there is none.
    """
    scores = need(content, path, *keys, kind=dict)
    names = {name: name for name in REFERENCES} | OLD_NAMES
    found = {
        reference: {
            kind: (
                need(content, path, *keys, name, kind, "score", kind=NUMBER),
                need(content, path, *keys, name, kind, "signature", kind=str),
            )
            for kind in (*KINDS, *(more for more in MORE_KINDS.get(reference, ()) if more in scores[name]))
        }
        for name, reference in names.items()
        if name in scores
    }
    if not found:
        raise UserError(
            f"{path}: '{'.'.join(keys)}' has no score against any reference ({', '.join(REFERENCES)}); score the "
            "translation again"
        )
    return found
