"""What the folders of exp_logs/ hold: what each of them is, the scores in them, studies, counts of corpora."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.report.keys import ABOUT, NUMBER, need
from gtransformer.lab.report.results import (
    Result,
    ResultFile,
    comparison_results,
    demo_results,
    listed_file,
    listed_results,
)
from gtransformer.settings import read_entries

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
KEYS = {"about", "machine", "corpus", "results", "statistics"}
UNITS = ("sentences", "documents", "instances", "sentences_per_instance")
TOKENS = "tokens_per_instance"


@dataclass(frozen=True)
class Figure:
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
        statistics: prepared corpora: (corpus, note, counts by split: ``UNITS``, and ``TOKENS`` of the source side).
    """

    name: str
    about: str
    machine: str | None
    results: list[Result] = field(default_factory=list)
    commands: list[tuple[str, str, str]] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    studies: list[Figure] = field(default_factory=list)
    statistics: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)


def read_folders(logs: Path) -> list[Folder]:
    """All folders of ``logs`` in alphabetical order. Raises UserError for one that does not say what it is."""
    return [read_folder(logs, path) for path in sorted(logs.iterdir()) if path.is_dir()]


def read_folder(logs: Path, path: Path) -> Folder:
    """One folder: its about.yaml, and what its JSON files hold."""
    about = read_about(path)
    machine, corpus = (need(about, path / ABOUT, key, kind=str, optional=True) for key in ("machine", "corpus"))
    content = {file.relative_to(path).as_posix(): read_json(file) for file in sorted(path.rglob("*.json"))}
    objects = {name: value for name, value in content.items() if isinstance(value, dict)}
    results = []
    for name, value in objects.items():
        curves = (path / name).with_name("learning_curves.png")
        picture = f"{path.name}/{curves.relative_to(path).as_posix()}" if curves.is_file() else None
        origin = ResultFile(path / name, f"{path.name}/{name}", machine, picture)
        if name.endswith("comparison.json") and "recipes" in value:
            results += comparison_results(value, origin)
        elif name == "results.json" and "systems" in value and corpus:
            results += demo_results(value, origin, corpus)
    listed, prepared = (
        need(about, path / ABOUT, key, kind=list, optional=True) or [] for key in ("results", "statistics")
    )
    for entry in listed:
        results += listed_results(entry, path, objects, machine)
    commands = {
        name: script_command(value["command"])
        for name, value in objects.items()
        if isinstance(value.get("command"), str)
    }
    studies = [
        Figure(f"{path.name}/{name}", title_of(value, name), picture_of(path, name), commands.get(name, ""))
        for name, value in objects.items()
        if Path(name).name.startswith("figure")
    ]
    return Folder(
        path.name,
        about["about"],
        machine,
        results,
        [(name, command, str(objects[name].get("commit") or "")) for name, command in commands.items()],
        [file.relative_to(path).as_posix() for file in sorted(path.rglob("*.png"))],
        studies,
        [read_statistics(entry, path, objects) for entry in prepared],
    )


def read_about(path: Path) -> dict[str, Any]:
    """What a folder says of itself: about.yaml or, without one, the heading of its README.md.

    Raises UserError if neither is there, or for keys that are not known.
    """
    if (path / ABOUT).is_file():
        content = read_entries(path / ABOUT)
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


def title_of(study: dict[str, Any], name: str) -> str:
    """What a study's result file says it is."""
    return study.get("title") or study.get("description") or Path(name).stem


def picture_of(path: Path, name: str) -> str | None:
    """The picture beside a study's result file, relative to the folder of all logs."""
    picture = (path / name).with_suffix(".png")
    return f"{path.name}/{picture.relative_to(path).as_posix()}" if picture.is_file() else None


def script_command(command: str) -> str:
    """``python -m gtransformer.cli.NAME ...`` as the script that runs it.

    The script needs no activated environment, and sets what scripts/common.sh sets for speed.
    """
    found = re.match(r"python -m gtransformer\.(?:lab\.)?cli\.(\w+)(?!\S)", command)
    if found and (SCRIPTS / f"{found[1]}.sh").is_file():
        return f"bash scripts/{found[1]}.sh{command[found.end() :]}"
    return command


def read_statistics(entry: Any, folder: Path, objects: dict[str, dict]) -> tuple[str, str, dict[str, Any]]:
    """A prepared corpus that about.yaml lists: its name, a note, and counts of its manifest by split.

    Raises UserError, naming file and key, for anything that is missing.
    """
    about = folder / ABOUT
    corpus, file = (need(entry, about, key, kind=str) for key in ("corpus", "manifest"))
    content, path = listed_file(file, folder, objects), folder / file
    counts = {}
    for split in need(content, path, "splits", kind=dict):
        at = ("splits", split)
        counts[split] = {unit: need(content, path, *at, unit, kind=NUMBER) for unit in UNITS}
        sides = list(need(content, path, *at, TOKENS, kind=dict)) or ["(source language)"]
        counts[split][TOKENS] = need(content, path, *at, TOKENS, sides[0], kind=NUMBER)
    return corpus, need(entry, about, "note", kind=str, optional=True) or "", counts
