"""What a recipe takes from others (prepared corpus, dictionary, the model that it starts from), made before its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gtransformer.errors import UserError
from gtransformer.experiments.pipeline import read_stamp
from gtransformer.experiments.recipe import Recipe, beside, load_recipe
from gtransformer.experiments.run_places import PREPARED, corpus_directory, corpus_name, run_directory


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


def needs(recipe: str, before: Sequence[str] = ()) -> list[Need]:
    """What must have run before the recipe's stage prepare can, and before its stage train can, in an order that works.

    Args:
        before: the recipes that need this one.

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
    return list(dict.fromkeys([*found, *needs_of_start(recipe, before)]))


def missing_first(args: argparse.Namespace) -> list[list[str]]:
    """What the driver's command line needs of other recipes and is not done: the arguments that do it, in order.

    None where it runs a single stage, or anything but the recipe as it is: whose options would be changed, and where
    the others' results lie, is then for the user to say, stage by stage.
    """
    if args.stage != "all" or args.set or any((args.output, args.prepared, args.checkpoint, args.model_of)):
        return []
    found = needs_of_start(args.recipe) if args.start_on else needs(args.recipe)
    corpus = args.start_on or args.corpus
    return [[need.recipe, corpus, need.stage] for need in found if not _is_done(need, corpus)]


def _is_done(need: Need, corpus: str) -> bool:
    """Whether a stage has ended well on a corpus. UserError if it has on another one of the same name."""
    directory = run_directory(_loaded(need.recipe).name, corpus_name(corpus))
    raw = str(corpus_directory(corpus).resolve())
    record = directory / f"{need.stage}.json"
    if not (directory / PREPARED if need.stage == "prepare" else record).is_file():
        return False
    if read_stamp(record).get("raw", raw) != raw:
        raise UserError(
            f"{directory}: was made from {read_stamp(record)['raw']}, not from {raw}, and runs go by the name of their "
            "corpus; give one of the two folders another name, or remove that run"
        )
    return True
