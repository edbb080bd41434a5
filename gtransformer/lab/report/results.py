"""What the folders of exp_logs/ hold: what each of them is, the scores in them, studies, counts of corpora."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.references import OLD_NAMES, REFERENCES
from gtransformer.files import read_json
from gtransformer.run.recipe import load_recipe
from gtransformer.settings import count, read_settings, typed

ABOUT = "about.yaml"  # of a folder of results: what it is
SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
KINDS = ("s_bleu", "d_bleu")
# The release's d-BLEU is that over instances, which its results have as well; the others are scored on request.
MORE_KINDS = {"release": ("d_bleu_instance",), "raw": ("s_bleu_lc", "d_bleu_lc", "ter")}
DEMO_RECIPES = {"gtransformer": "demo", "transformer": "demo_full"}
UNITS = ("sentences", "documents", "instances", "sentences_per_instance")
TOKENS = "tokens_per_instance"


@dataclass
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
        """Return the reference ``wanted``, or the first that was scored against."""
        return wanted if wanted in self.scores else next(iter(self.scores))


@dataclass
class Listed:
    """Results that about.yaml lists: score files of gtransformer run or gtransformer score by the name of the set."""

    recipe: str
    corpus: str
    sets: dict[str, str]
    every: int = count(1)
    note: str | None = None
    changes: list[str] | None = None


@dataclass
class Prepared:
    """A prepared corpus that about.yaml lists."""

    corpus: str
    manifest: str
    note: str | None = None


@dataclass
class About:
    """What about.yaml says: what a folder is; its machine, if it is not the one that all have in common.

    ``corpus``: of a demonstration in it; ``results``, ``statistics``: entries of the form ``Listed``, ``Prepared``.
    """

    about: str
    machine: str | None = None
    corpus: str | None = None
    results: list[Any] | None = None
    statistics: list[Any] | None = None


@dataclass
class Folder:
    """One folder of exp_logs/.

    Attributes:
        commands: of its result files: (file, command, commit).
        pictures: PNG files in it.
        studies: the figures that were drawn: (file, title, picture, command).
        statistics: prepared corpora: (corpus, note, counts by split: ``UNITS``, and ``TOKENS`` of the source side).
    """

    name: str
    about: About
    results: list[Result] = field(default_factory=list)
    commands: list[tuple[str, str, str]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    studies: list[tuple[str, str, str | None, str]] = field(default_factory=list)
    statistics: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Raise UserError that names a result file, where what is read of it is missing or of another kind."""
    try:
        yield
    except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise UserError(
            f"{path}: no result, or a damaged one ({type(error).__name__}: {error}); write it anew with the program "
            "that made it"
        ) from None


def read_folders(logs: Path) -> list[Folder]:
    """Read all folders of ``logs`` in alphabetical order. Raise UserError for one that does not say what it is."""
    return [read_folder(path) for path in sorted(logs.iterdir()) if path.is_dir()]


def read_folder(path: Path) -> Folder:
    """Read one folder: its about.yaml, and what its JSON files hold."""
    if not (path / ABOUT).is_file():
        raise UserError(f"{path}: says nowhere what it is; write a line 'about: what was run' into {ABOUT} there")
    about = read_settings(path / ABOUT, About)
    folder = Folder(path.name, about)
    folder.pictures = [file.relative_to(path).as_posix() for file in sorted(path.rglob("*.png"))]
    files = {file.relative_to(path).as_posix(): read_json(file) for file in sorted(path.rglob("*.json"))}
    files = {name: content for name, content in files.items() if isinstance(content, dict)}
    for name, content in files.items():
        file, command = path / name, ""
        curves = file.with_name("learning_curves.png")
        picture = f"{path.name}/{curves.relative_to(path).as_posix()}" if curves.is_file() else None
        of_file = {"source": f"{path.name}/{name}", "machine": about.machine, "picture": picture}
        with damaged(file):
            if isinstance(content.get("command"), str):
                command = script_command(content["command"])
                folder.commands.append((name, command, str(content.get("commit") or "")))
            if name.endswith("comparison.json") and "recipes" in content:
                folder.results += comparison_results(content, of_file)
            elif name == "results.json" and "systems" in content and about.corpus:
                folder.results += demo_results(content, about.corpus, of_file)
        if file.name.startswith("figure"):
            drawn = file.with_suffix(".png")
            picture = f"{path.name}/{drawn.relative_to(path).as_posix()}" if drawn.is_file() else None
            title = content.get("title") or content.get("description") or file.stem
            folder.studies.append((of_file["source"], title, picture, command))

    def listed(name: str) -> dict[str, Any]:
        if name not in files:
            raise UserError(f"{path / name}: no such file, though {ABOUT} there names it")
        return files[name]

    for entry in about.results or []:
        entry = typed(entry, Listed, str(path / ABOUT), "results")
        for name, file in entry.sets.items():
            with damaged(path / file):
                of_file = {"source": f"{path.name}/{file}", "machine": about.machine}
                folder.results.append(listed_result(entry, name, listed(file), of_file))
    for entry in about.statistics or []:
        entry = typed(entry, Prepared, str(path / ABOUT), "statistics")
        with damaged(path / entry.manifest):
            splits = listed(entry.manifest)["splits"].items()
            counts = {
                split: {unit: float(numbers[unit]) for unit in UNITS}
                | {TOKENS: float(next(iter(numbers[TOKENS].values())))}  # of the source side
                for split, numbers in splits
            }
        folder.statistics.append((entry.corpus, entry.note or "", counts))
    return folder


def comparison_results(content: dict[str, Any], of_file: dict[str, Any]) -> list[Result]:
    """Return the results in a file that gtransformer lab compare has written."""
    return [
        Result(
            recipe,
            content["corpus"]["name"],
            name,
            read_scores(scores),
            scores["aligned"],
            every=int(content["corpus"]["every"]),
            minutes=float(of_recipe["minutes"]),
            updates=int(of_recipe["updates"]),
            perplexity=of_recipe["validation_perplexity"] and float(of_recipe["validation_perplexity"]),
            note=of_recipe.get("note") or "",
            changes=real_changes(recipe, content.get("changes") or []),
            **of_file,
        )
        for recipe, of_recipe in content["recipes"].items()
        for name, scores in of_recipe["scores"].items()
    ]


def demo_results(content: dict[str, Any], corpus: str, of_file: dict[str, Any]) -> list[Result]:
    """Return the results in a file that gtransformer demo has written."""
    return [
        Result(
            DEMO_RECIPES[system],
            corpus,
            "its test set",
            read_scores(found["scores"]),
            found["counts"]["misaligned_instances"] == 0,
            updates=int(found["updates"]),
            perplexity=found["validation_perplexity"] and float(found["validation_perplexity"]),
            changes=tuple(content["settings"].get("changes") or ()),
            **of_file,
        )
        for system, found in content["systems"].items()
    ]


def listed_result(entry: Listed, name: str, content: dict[str, Any], of_file: dict[str, Any]) -> Result:
    """Return a result that about.yaml lists. Raise UserError for a file of another recipe."""
    scored = content.get("recipe") or entry.recipe
    if scored != entry.recipe:
        raise UserError(f"{ABOUT}: recipe '{entry.recipe}' is said of {of_file['source']}, which is of '{scored}'")
    return Result(
        entry.recipe,
        entry.corpus,
        name,
        read_scores(content["scores"]),
        content["counts"]["misaligned_instances"] == 0,
        every=entry.every,
        note=entry.note or "",
        changes=tuple(dict.fromkeys([*(entry.changes or ()), *(content.get("changes") or ())])),
        **of_file,
    )


def real_changes(recipe: str, changes: Sequence[str]) -> tuple[str, ...]:
    """Return the changes to a recipe that make another model; all of them if it is not one of configs/."""
    try:
        return tuple(load_recipe(recipe, list(changes)).changes)
    except UserError:
        return tuple(changes)


def read_scores(scores: dict[str, Any]) -> dict[str, dict[str, tuple[float, str]]]:
    """Return BLEU scores by reference and kind; those under an old name by the name they have now."""
    names = {name: name for name in REFERENCES} | OLD_NAMES
    found = {}
    for name, reference in names.items():
        if name in scores:
            kinds = [*KINDS, *(kind for kind in MORE_KINDS.get(reference, ()) if kind in scores[name])]
            score = {kind: scores[name][kind] for kind in kinds}
            found[reference] = {kind: (float(one["score"]), str(one["signature"])) for kind, one in score.items()}
    if not found:
        raise LookupError(f"no score against any reference: {', '.join(REFERENCES)}")
    return found


def script_command(command: str) -> str:
    """Return ``gtransformer NAME ...`` as the script that runs it.

    The script needs no activated environment, and sets what scripts/common.sh sets for speed.
    """
    found = re.match(r"python -m gtransformer\.(?:lab\.)?cli\.(\w+)(?!\S)", command)
    if found and (SCRIPTS / f"{found[1]}.sh").is_file():
        return f"bash scripts/{found[1]}.sh{command[found.end() :]}"
    return command
