"""What the folders of exp_logs/ hold: what each of them is, the scores in them, studies, counts of corpora."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gtransformer.errors import UserError
from gtransformer.files import read_json

ABOUT = "about.yaml"
KEYS = {"about", "machine", "corpus", "results", "statistics"}
RESULT_KEYS = {"recipe", "corpus", "every", "sets", "note"}


@dataclass(frozen=True)
class Result:
    """Scores of one recipe's model on one set.

    Attributes:
        corpus: what it was trained on, ``every``-th document of it.
        set: what it translated (``ted_test``).
        scores: by reference (raw, paper) and kind (s_bleu, d_bleu): (score, signature).
        aligned: whether the translation has as many sentences as its source everywhere, so that s-BLEU says something.
        source: the result file, relative to the folder of all logs.
        machine: what it ran on; None for the machine that all have in common.
        picture: the learning curves, relative to the folder of all logs.
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


@dataclass(frozen=True)
class Study:
    """A figure of the paper, as a study here drew it: its file (figureN.json), title, picture and command."""

    source: str
    title: str
    picture: str | None
    command: str


@dataclass(frozen=True)
class Folder:
    """One folder of exp_logs/.

    Attributes:
        machine: what it ran on; None for the machine that all have in common.
        commands: of its result files: (file, command, commit).
        pictures: PNG files in it.
        statistics: prepared corpora: (corpus, note, counts by split as in a manifest).
    """

    name: str
    about: str
    machine: str | None
    results: list[Result] = field(default_factory=list)
    commands: list[tuple[str, str, str]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    statistics: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


def read_folders(logs: Path) -> list[Folder]:
    """All folders of ``logs`` in alphabetical order. Raises UserError for one that does not say what it is."""
    return [read_folder(logs, path) for path in sorted(logs.iterdir()) if path.is_dir()]


def read_folder(logs: Path, path: Path) -> Folder:
    """One folder: its about.yaml, and what its JSON files hold."""
    about = read_about(path)
    content = {file.relative_to(path).as_posix(): read_json(file) for file in sorted(path.rglob("*.json"))}
    objects = {name: value for name, value in content.items() if isinstance(value, dict)}
    results = []
    for name, value in objects.items():
        source, machine = f"{path.name}/{name}", about.get("machine")
        curves = (path / name).with_name("learning_curves.png")
        picture = f"{path.name}/{curves.relative_to(path).as_posix()}" if curves.is_file() else None
        if name.endswith("comparison.json") and "recipes" in value:
            results += comparison_results(value, source, machine, picture)
        elif name == "results.json" and "systems" in value and about.get("corpus"):
            results += demo_results(value, source, about["corpus"], machine, picture)
    for entry in about.get("results", []):
        results += listed_results(entry, path, objects, about.get("machine"))
    studies = [
        Study(f"{path.name}/{name}", title_of(value, name), picture_of(path, name), value.get("command", ""))
        for name, value in objects.items()
        if Path(name).name.startswith("figure")
    ]
    return Folder(
        path.name,
        about["about"],
        about.get("machine"),
        results,
        [(n, v["command"], v.get("commit") or "") for n, v in objects.items() if isinstance(v.get("command"), str)],
        [file.relative_to(path).as_posix() for file in sorted(path.rglob("*.png"))],
        studies,
        [(e["corpus"], e.get("note", ""), _manifest(path, e, objects)) for e in about.get("statistics", [])],
    )


def read_about(path: Path) -> dict[str, Any]:
    """What a folder says of itself: about.yaml or, without one, the heading of its README.md.

    Raises UserError if neither is there, or for keys that are not known.
    """
    if (path / ABOUT).is_file():
        content = read_yaml(path / ABOUT)
        unknown = sorted(set(content) - KEYS)
        if unknown or not isinstance(content.get("about"), str):
            wrong = f"unknown key '{unknown[0]}'" if unknown else "no line 'about: what was run'"
            raise UserError(f"{path / ABOUT}: {wrong}; known keys are {', '.join(sorted(KEYS))}")
        return content
    readme = path / "README.md"
    lines = readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else []
    if not lines or not lines[0].startswith("# "):
        raise UserError(f"{path}: says nowhere what it is; write a line 'about: what was run' into {ABOUT} there")
    return {"about": lines[0].removeprefix("# ")}


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds keys and values; UserError with its name for anything else."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold lines of the form 'key: value'")
    return content


def comparison_results(content: dict[str, Any], source: str, machine: str | None, picture: str | None) -> list[Result]:
    """Results in a file that scripts/compare.sh has written."""
    corpus = content["corpus"]
    return [
        Result(
            recipe,
            corpus["name"],
            name,
            _scores(scores),
            scores["aligned"],
            source,
            corpus["every"],
            result["minutes"],
            result["updates"],
            result["validation_perplexity"],
            result["note"] or "",
            machine,
            picture,
        )
        for recipe, result in content["recipes"].items()
        for name, scores in result["scores"].items()
    ]


def demo_results(
    content: dict[str, Any], source: str, corpus: str, machine: str | None, picture: str | None
) -> list[Result]:
    """Results in a file that scripts/demo.sh has written."""
    recipes = {"gtransformer": "demo", "transformer": "demo_full"}
    return [
        Result(
            recipes[key],
            corpus,
            "its test set",
            _scores(system["scores"]),
            system["counts"]["misaligned_instances"] == 0,
            source,
            updates=system["updates"],
            perplexity=system["validation_perplexity"],
            machine=machine,
            picture=picture,
        )
        for key, system in content["systems"].items()
    ]


def listed_results(entry: dict[str, Any], path: Path, objects: dict[str, dict], machine: str | None) -> list[Result]:
    """Results that about.yaml lists: score files of scripts/score.sh by the name of the set."""
    unknown = sorted(set(entry) - RESULT_KEYS)
    if unknown or not {"recipe", "corpus", "sets"} <= set(entry):
        raise UserError(f"{path / ABOUT}: an entry of 'results' has recipe, corpus, sets and perhaps every, note")
    results = []
    for name, file in entry["sets"].items():
        if file not in objects:
            raise UserError(f"{path / file}: no such file, though {ABOUT} there names it")
        content = objects[file]
        results.append(
            Result(
                entry["recipe"],
                entry["corpus"],
                name,
                _scores(content["scores"]),
                content["counts"]["misaligned_instances"] == 0,
                f"{path.name}/{file}",
                entry.get("every", 1),
                note=entry.get("note", ""),
                machine=machine,
            )
        )
    return results


def title_of(study: dict[str, Any], name: str) -> str:
    """What a study's result file says it is."""
    return study.get("title") or study.get("description") or Path(name).stem


def picture_of(path: Path, name: str) -> str | None:
    """The picture beside a study's result file, relative to the folder of all logs."""
    picture = (path / name).with_suffix(".png")
    return f"{path.name}/{picture.relative_to(path).as_posix()}" if picture.is_file() else None


def _manifest(path: Path, entry: dict[str, Any], objects: dict[str, dict]) -> dict[str, Any]:
    if entry["manifest"] not in objects:
        raise UserError(f"{path / entry['manifest']}: no such file, though {ABOUT} there names it")
    return objects[entry["manifest"]]["splits"]


def _scores(content: dict[str, Any]) -> dict[str, dict[str, tuple[float, str]]]:
    """The BLEU scores among what a file holds: by reference and kind."""
    return {
        reference: {kind: (content[reference][kind]["score"], content[reference][kind]["signature"]) for kind in kinds}
        for reference, kinds in (("raw", ("s_bleu", "d_bleu")), ("paper", ("s_bleu", "d_bleu")))
        if reference in content
    }
