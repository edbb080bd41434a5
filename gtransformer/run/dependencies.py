"""Dependencies of a recipe on others: prepared corpus, dictionary, the model that training starts from."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gtransformer.errors import UserError
from gtransformer.run.paths import PREPARED, Corpus, run_directory
from gtransformer.run.recipe import LANGUAGES, Options, Recipe, beside, find_recipe, load_recipe
from gtransformer.settings import dashed, read_value
from gtransformer.work import read_record

# Options of a shared prepared corpus, which may have been prepared with other values than its recipe's.
COUNTED = {"bpe-merges", "max-instance-tokens", "max-sentence-tokens", "max-sents", "moses-rules"}
COUNTED |= {"normalise-punctuation"}


@dataclass(frozen=True)
class Dependency:
    """A stage of another recipe, whose name is as on a command line."""

    recipe: str
    stage: str

    def command(self, corpus: str) -> str:
        """Return the command that runs it."""
        return f"gtransformer run {self.recipe} {corpus} {self.stage}"


@cache  # studies and pages load the same recipes many times
def _loaded(recipe: str) -> Recipe:
    return load_recipe(recipe)


def start_of(recipe: str) -> str | None:
    """Return the recipe whose model a recipe starts from; None if there is none."""
    start = _loaded(recipe).pretrained_from
    return beside(recipe, start) if start else None


def dependencies(recipe: str, before: Sequence[str] = (), corpus: bool = True, start: bool = True) -> list[Dependency]:
    """Return the stages that must run before the recipe's own, in order.

    Args:
        before: the recipes that depend on this one.
        corpus: whether it uses the corpus or vocabulary of the recipes that it names.
        start: whether it starts from the model of the recipe that it names.

    Raises UserError for a missing recipe, and for one that depends on itself.
    """
    if recipe in before:
        raise UserError(
            f"recipe '{recipe}' needs itself, by way of 'prepared-from', 'vocabulary-from' or 'pretrained-from'; name "
            "another one there"
        )
    loaded, found, before = _loaded(recipe), [], [*before, recipe]
    for name in filter(None, (loaded.prepared_from, loaded.vocabulary_from) if corpus else ()):
        lender = beside(recipe, name)
        found += [*dependencies(lender, before), Dependency(lender, "prepare")]
    origin = start_of(recipe)
    if start and origin and "finetune-from-model" not in loaded.sections["train"]:
        own = [] if _loaded(origin).prepared_from else [Dependency(origin, "prepare")]
        found += [*dependencies(origin, before), *own, Dependency(origin, "train")]
    return list(dict.fromkeys(found))


def preparer_of(recipe: str) -> str:
    """Return the recipe that prepares a recipe's corpus, perhaps itself."""
    lender = _loaded(recipe).prepared_from
    return beside(recipe, lender) if lender else recipe


def own_preparing(recipe: str) -> Options:
    """Return the options of ``COUNTED`` in which a recipe's file differs from the one whose prepared corpus it uses.

    With the recipe's values, None for an option that it removes; empty if it prepares its own corpus.
    """
    lender = _loaded(recipe).prepared_from
    if not lender:
        return {}
    own, theirs = (_loaded(name).sections["prepare"] for name in (recipe, beside(recipe, lender)))
    values = ((name, own.get(name) or None, theirs.get(name) or None) for name in sorted(COUNTED))
    return {name: value for name, value, other in values if value != other}


def _change(name: str, value: Any) -> str:
    """Return the change that sets an option, as after ``--set``."""
    plain = isinstance(value, str) and read_value(value, name) == value
    return f"{name}={value if plain else json.dumps(value)}"


def missing_first(args: argparse.Namespace) -> list[list[str]]:
    """Return the command lines of dependencies that are not done yet, in order.

    Languages that are not the dependency's and changes of section ``prepare`` are passed on, to those with the same
    prepared corpus also the changes that the recipe's file makes (``own_preparing``); others apply only to the recipe
    itself. Empty if the command runs a single stage, or names files that replace results of other recipes. A start
    model that was trained with changes is named on stderr.
    """
    if args.stage != "all" or any((args.output, args.prepared, args.checkpoint, args.model_of)):
        return []
    names = [dashed(change.partition("=")[0]) for change in args.set]
    start = args.start_on or not {"train.finetune-from-model", "pretrained-from"} & set(names)
    found = dependencies(args.recipe, corpus=not args.start_on, start=start)
    own_changes = [_change(f"prepare.{name}", value) for name, value in own_preparing(args.recipe).items()]
    given = [change for name, change in zip(names, args.set, strict=True) if name.startswith("prepare.")]
    corpus, recipe = args.start_on or args.corpus, load_recipe(args.recipe, args.set)

    def options(need: Dependency) -> list[str]:
        own, other = (one.sections["task"] for one in (recipe, _loaded(need.recipe)))
        langs = [_change(f"task.{name}", own.get(name)) for name in LANGUAGES if own.get(name) != other.get(name)]
        theirs, ours = (find_recipe(preparer_of(one)).resolve() for one in (need.recipe, args.recipe))
        shared = not args.start_on and theirs == ours
        changes = [*langs, *(own_changes if shared else ()), *given]
        return [word for change in changes for word in ("--set", change)]

    def is_done(need: Dependency) -> bool:
        directory = run_directory(_loaded(need.recipe).name, Corpus.find(corpus, recipe.pair))
        record = directory / (PREPARED if need.stage == "prepare" else f"{need.stage}.json")
        changes = [one for one in read_record(record).get("changes") or [] if one.startswith(("train", "devices="))]
        if changes:  # perhaps of a trial
            said = f"[all] {need.recipe}, or its start, was trained before with {', '.join(changes)}: {directory}"
            print(said, file=sys.stderr)
        return record.is_file()

    return [[need.recipe, corpus, need.stage, *options(need)] for need in found if not is_done(need)]
