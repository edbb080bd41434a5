"""What the stages of a run note of the changes to its recipe, so that a score tells whose it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json
from gtransformer.run.pipeline import read_stamp
from gtransformer.run.recipe import load_recipe, recipe_names
from gtransformer.run.run_places import RAW

# The sections that a stage reads; a change elsewhere changes nothing there.
SECTIONS = {
    "prepare": ("prepare", "task"),
    "train": ("task", "train"),
    "generate": ("task", "generate"),
    "score": ("score",),
}


def stage_changes(stage: str, changes: Sequence[str], extra: Sequence[str]) -> list[str]:
    """What a stage does otherwise than its recipe says.

    Args:
        changes: the recipe's, ``SECTION.OPTION=VALUE``, ``devices=N`` or ``pretrained-from=``.
        extra: options for the stage's program, as given behind ``--``.
    """
    found = []
    for change in changes:
        section = change.partition("=")[0].partition(".")[0]
        if section in SECTIONS[stage] or (stage == "train" and section in ("devices", "pretrained-from")):
            found.append(change)
    return [*found, *([f"{stage} -- {shlex.join(extra)}"] if extra else [])]


def noted_changes(records: Iterable[Path]) -> list[str]:
    """The changes in those of the records that are there, each once."""
    found: dict[str, None] = {}
    for path in records:
        if path.is_file():
            record = read_json(path)
            found |= dict.fromkeys(record.get("changes") or [])
    return list(found)


def search_of_run(directory: Path) -> dict[str, Any]:
    """The options with which a run's recipe translates: as its training noted them, or its last translation's command.

    Of a training that is not over, as its run was begun. Of a run that noted neither, those of its recipe, if that is
    one of the package's; else none.
    """
    record = read_stamp(directory / "train.json")
    for noted in (record, read_stamp(directory / RAW)):
        if isinstance(noted.get("generate"), dict):
            return noted["generate"]
    for path in sorted(directory.glob("generate.*.json")):
        command = list(map(str, read_stamp(path).get("command") or []))
        if command:
            pairs = pairwise([*command, "--"])
            return {one[2:]: "on" if other.startswith("--") else other for one, other in pairs if one.startswith("--")}
    name = record.get("recipe")
    return load_recipe(name).options("generate") if name in recipe_names() else {}


def first_pass_of_run(directory: Path) -> Path | None:
    """The model that translates first by a run's recipe, if it is a checkpoint that is there."""
    named, command = search_of_run(directory).get("first-pass"), read_stamp(directory / "train.json").get("command")
    if named == "start":
        named = dict(pairwise(command or [])).get("--finetune-from-model")
    path = Path(str(named))
    return path if path.suffix == ".pt" and path.is_file() else None


def check_start(directory: Path, start_on: str | None) -> None:
    """Raise UserError if a run was begun with another ``--start-on``: corpus, dictionary and model would be others."""
    for path in (directory / "prepare.json", directory / "train.json"):
        noted = read_json(path).get("start_on") if path.is_file() else start_on
        if noted != start_on:
            begun = f"with --start-on {noted}" if noted else "without --start-on"
            raise UserError(
                f"{directory}: this run was begun {begun}; give the same to all of its stages, or choose another "
                "directory with --output"
            )


def sign_scores(path: Path, recipe: str, changes: Sequence[str]) -> None:
    """Add to a score file the recipe of its model and what was changed; the results page reads it there."""
    scores: dict[str, Any] = read_json(path)
    write_json(path, {**scores, "recipe": recipe, "changes": list(changes)})
