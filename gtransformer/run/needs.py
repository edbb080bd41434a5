"""What a recipe takes from others (prepared corpus, dictionary, the model that it starts from), made before its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gtransformer.errors import UserError
from gtransformer.run.recipe import Recipe, beside, load_recipe
from gtransformer.run.run_places import PREPARED, Corpus, run_directory
from gtransformer.settings import dashed

PASSED = ("prepare.", "task.source-lang", "task.target-lang", "task.langs")  # changes that hold for others, too


@dataclass(frozen=True)
class Need:
    """A stage of another recipe, which is named as on a command line."""

    recipe: str
    stage: str

    def command(self, corpus: str) -> str:
        """The command that runs it."""
        return f"bash scripts/run.sh {self.recipe} {corpus} {self.stage}"


@cache  # asked for every run of a study, and by a page again and again
def _loaded(recipe: str) -> Recipe:
    return load_recipe(recipe)


def start_of(recipe: str) -> str | None:
    """The recipe whose model another starts from; None for none."""
    start = _loaded(recipe).pretrained_from
    return beside(recipe, start) if start else None


def needs_of_start(recipe: str, before: Sequence[str] = ()) -> list[Need]:
    """What must have run before the recipe's stage train can, of what it starts from."""
    start = start_of(recipe)
    if start is None or "finetune-from-model" in _loaded(recipe).sections["train"]:
        return []
    own = [] if _loaded(start).prepared_from else [Need(start, "prepare")]
    return [*needs(start, [*before, recipe]), *own, Need(start, "train")]


def needs(recipe: str, before: Sequence[str] = (), start: bool = True) -> list[Need]:
    """What must have run before the recipe's stage prepare can, and before its stage train can, in an order that works.

    Args:
        before: the recipes that need this one.
        start: whether it starts from the model that it names.

    Raises UserError for a recipe that is not there, and for one that needs itself.
    """
    if recipe in before:
        raise UserError(
            f"recipe '{recipe}' needs itself, by way of 'prepared-from', 'vocabulary-from' or 'pretrained-from'; name "
            "another one there"
        )
    loaded, found = _loaded(recipe), []
    for name in filter(None, (loaded.prepared_from, loaded.vocabulary_from)):
        lender = beside(recipe, name)
        found += [*needs(lender, [*before, recipe]), Need(lender, "prepare")]
    return list(dict.fromkeys([*found, *(needs_of_start(recipe, before) if start else [])]))


def missing_first(args: argparse.Namespace) -> list[list[str]]:
    """What the driver's command line needs of other recipes and is not done: the arguments that do it, in order.

    Changes of the languages and of how a corpus is prepared are passed on; others are the recipe's own. None where it
    runs a single stage, or files are named that stand for what others would make.
    """
    if args.stage != "all" or any((args.output, args.prepared, args.checkpoint, args.model_of)):
        return []
    names = [dashed(change.partition("=")[0]) for change in args.set]
    if args.start_on:
        found = needs_of_start(args.recipe)
    else:
        found = needs(args.recipe, start=not {"train.finetune-from-model", "pretrained-from"} & set(names))
    passed = [change for name, change in zip(names, args.set, strict=True) if name.startswith(PASSED)]
    corpus, options = args.start_on or args.corpus, [word for change in passed for word in ("--set", change)]
    pair = load_recipe(args.recipe, args.set).pair
    return [[need.recipe, corpus, need.stage, *options] for need in found if not _is_done(need, corpus, pair)]


def _is_done(need: Need, corpus: str, pair: tuple[str, str]) -> bool:
    """Whether a stage has ended well on a corpus in a pair of languages."""
    directory = run_directory(_loaded(need.recipe).name, Corpus.find(corpus, pair))
    return (directory / (PREPARED if need.stage == "prepare" else f"{need.stage}.json")).is_file()
