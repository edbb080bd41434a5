"""Dependencies of a recipe on others: prepared corpus, dictionary, the model that training starts from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gtransformer.errors import UserError
from gtransformer.run.paths import PREPARED, corpus_directory, run_directory
from gtransformer.run.recipe import LANGUAGES, Recipe, beside, load_recipe
from gtransformer.settings import dashed


@dataclass(frozen=True)
class Dependency:
    """A stage of another recipe, whose name is as on a command line."""

    recipe: str
    stage: str


@cache  # studies and pages load the same recipes many times
def _loaded(recipe: str) -> Recipe:
    return load_recipe(recipe)


def start_of(recipe: str) -> str | None:
    """Return the recipe whose model a recipe starts from; None if there is none."""
    start = _loaded(recipe).pretrained_from
    return beside(recipe, start) if start else None


def dependencies(recipe: str, before: Sequence[str] = (), start: bool = True) -> list[Dependency]:
    """Return the stages that must run before the recipe's own, in order.

    Args:
        before: the recipes that depend on this one.
        start: whether it starts from the model of the recipe that it names.

    Raises UserError for a missing recipe, and for one that depends on itself.
    """
    if recipe in before:
        raise UserError(f"recipe '{recipe}' needs itself, by way of 'prepared-from' or the like")
    loaded, found, before = _loaded(recipe), [], [*before, recipe]
    for name in filter(None, (loaded.prepared_from, loaded.vocabulary_from)):
        lender = beside(recipe, name)
        found += [*dependencies(lender, before), Dependency(lender, "prepare")]
    origin = start_of(recipe)
    if start and origin and "finetune-from-model" not in loaded.sections["train"]:
        own = [] if _loaded(origin).prepared_from else [Dependency(origin, "prepare")]
        found += [*dependencies(origin, before), *own, Dependency(origin, "train")]
    return list(dict.fromkeys(found))


def missing_first(args: argparse.Namespace) -> list[list[str]]:
    """Return the command lines of dependencies that are not done yet, in order.

    Other languages and changes of section ``prepare`` are passed on; further changes apply only to the recipe itself.
    Empty if the command runs a single stage, or names files that replace results of other recipes.
    """
    if args.stage != "all" or any((args.output, args.prepared, args.checkpoint)):
        return []
    names = [dashed(change.partition("=")[0]) for change in args.set]
    start = not {"train.finetune-from-model", "pretrained-from"} & set(names)
    passed_on = [f"task.{option}" for option in LANGUAGES]
    changes = [
        change
        for name, change in zip(names, args.set, strict=True)
        if name.startswith("prepare.") or name in passed_on
    ]
    sets = [word for change in changes for word in ("--set", change)]
    raw, lines = corpus_directory(args.corpus), []
    for need in dependencies(args.recipe, start=start):
        record = PREPARED if need.stage == "prepare" else f"{need.stage}.json"
        if not (run_directory(_loaded(need.recipe).name, raw) / record).is_file():
            lines.append([need.recipe, args.corpus, need.stage, *sets])
    return lines
