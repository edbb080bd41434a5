"""Recipes and their commands as experiments use them."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterable
from pathlib import Path

from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.run.commands import python_command
from gtransformer.run.recipe import Options, Recipe, find_recipe, load_recipe, name_of

# Options that name files; another path is not a change of the recipe.
FILES = (
    "prepare.bert",
    "prepare.bpe-codes",
    "prepare.dictionary",
    "prepare.sentencepiece",
    "prepare.vocabulary",
    "train.bert-checkpoint",
    "train.finetune-from-model",
    "train.sentence-model",
)


def start_of(recipe: str) -> str | None:
    """Return the recipe whose model a recipe starts from, as on a command line; None if there is none."""
    return load_recipe(recipe).pretrained_from


def recipe_name(argument: str) -> str:
    """Return the name of a recipe that is given by name or path."""
    return name_of(find_recipe(argument))


def run_command(
    recipe: str, corpus: Path, stage: str, options: Options, changes: Iterable[str]
) -> list[str]:
    """Return the command that runs one stage of a recipe, with changes ``SECTION.OPTION=VALUE``."""
    sets = [argument for change in changes for argument in ("--set", change)]
    return python_command("gtransformer.cli.run", recipe, str(corpus), stage, options) + sets


def call_command(name: str, *parts: str | Options) -> None:
    """Run a command (``score``, ``lab.cli.demo_corpus``) in this process. Raise UserError if it fails."""
    command = python_command(f"gtransformer.{name if '.' in name else f'cli.{name}'}", *parts)
    if importlib.import_module(command[2]).main(command[3:]):
        raise UserError(f"{shlex.join(command[2:])[:400]}: failed, see above")


def frequencies(value: object) -> list[int]:
    """Parse ``update-freq``: a number, or one for each epoch, separated by commas or as a list."""
    return [int(text) for text in (value if isinstance(value, list) else str(value).split(","))]


def max_sentences(recipe: Recipe) -> int | None:
    """Return the maximum number of sentences of an instance, as prepared or as formed at loading; None: no limit."""
    task = recipe.options("task")
    kind = task.get("instances", STORED)
    if kind == STORED:
        return recipe.options("prepare").get("max-sents")
    context = [task.get(f"{side}context-sentences") for side in ("", "target-")]
    return InstanceScheme(
        kind, None, *(None if number is None else int(number) for number in context)
    ).max_sentences
