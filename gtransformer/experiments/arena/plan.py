"""Which systems meet in an arena, and on what terms, worked out before anything runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.experiments.comparison.plan import Plan
from gtransformer.experiments.recipe import Recipe, load_recipe
from gtransformer.experiments.recipe_check import check_recipe
from gtransformer.installation import config_directory
from gtransformer.modules.linear import has_bfloat16

FOLDER = "arena"  # of the recipes, in configs/
BASELINE = "sentences"  # the system that all others are compared with
DEMO = "demo"  # as a corpus: the generated one that comes with the set that shows reach
# What an arena sets itself, and by which option.
OWN_OPTIONS = {
    "train.seed": "--seeds",
    "train.max-update": "--updates and --start-updates",
    "train.total-num-update": "--updates and --start-updates",
    "train.finetune-from-model": "'pretrained-from' of the recipe",
    "train.log-format": "no option; results are read from the log",
    "score.reference": "no option; all are scored against untouched text",
}


def recipe_argument(name: str) -> str:
    """A system as a recipe is named on a command line: ``lst`` is ``arena/lst``; files and others stay."""
    return f"{FOLDER}/{name}" if (config_directory() / FOLDER / f"{name}.yaml").is_file() else name


def system_names() -> list[str]:
    """The systems that come with the package: recipes of the folder that start from another's model; baseline first."""
    names = sorted(path.stem for path in (config_directory() / FOLDER).glob("*.yaml"))
    systems = [name for name in names if load_recipe(recipe_argument(name)).pretrained_from]
    return sorted(systems, key=lambda name: name != BASELINE)


@dataclass(frozen=True)
class Terms:
    """What all systems of an arena share.

    Attributes:
        plan: the recipes, the shared start first.
        start: the recipe whose model all start from; it prepares the corpus, too.
        systems: names of the recipes, in the order of the results.
        seeds, updates: of every system's training.
        start_updates: of the start's; None: as its recipe says.
        changes: ``SECTION.OPTION=VALUE`` for all recipes.
    """

    plan: Plan
    start: str
    systems: tuple[str, ...]
    seeds: tuple[int, ...]
    updates: int
    start_updates: int | None
    changes: tuple[str, ...]

    def recipe(self, name: str) -> Recipe:
        """A system's recipe, or the start's."""
        return self.plan.recipes[name]

    def updates_of_start(self) -> int | None:
        """Of the start's training; None if its recipe does not limit them."""
        return self.start_updates or self.recipe(self.start).sections["train"].get("max-update")

    def own_changes(self, name: str, seed: int | None) -> list[str]:
        """What a training does otherwise than its recipe says, besides ``changes``; ``seed`` None: the start's."""
        found = [] if seed is None else [f"train.seed={seed}"]
        updates = self.start_updates if seed is None else self.updates
        if updates:
            found.append(f"train.max-update={updates}")
            if "total-num-update" in self.recipe(name).sections["train"]:  # a schedule that ends there
                found.append(f"train.total-num-update={updates}")
        return found


def check_terms(args: argparse.Namespace) -> Terms:
    """The terms of a command line. Raises UserError for what cannot be."""
    if args.corpus != DEMO:
        raise UserError(f"corpus '{args.corpus}': there is only '{DEMO}', which has items that show reach")
    for name in ("jobs", "updates", "start_updates"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: give at least 1")
    if len(set(args.seeds)) < len(args.seeds) or min(args.seeds) < 0:
        raise UserError(f"--seeds {' '.join(map(str, args.seeds))}: give different numbers, none below 0")
    for change in args.set:
        option = change.partition("=")[0].replace("_", "-")
        if option in OWN_OPTIONS:
            raise UserError(f"--set {change}: an arena sets {option} itself; it comes from {OWN_OPTIONS[option]}")
    changes = ["train.log-format=json"]
    if not torch.cuda.is_available() and has_bfloat16():
        changes.append("train.autocast=bfloat16")
    plan, start, systems = _read_systems(args.systems or system_names(), [*changes, *args.set])
    check_recipe(plan.recipes[start], ["prepare", "train", "score"])
    for name in systems:
        check_recipe(plan.recipes[name], ["train", "generate", "score"])
    return Terms(
        plan, start, systems, tuple(args.seeds), args.updates, args.start_updates, tuple([*changes, *args.set])
    )


def _read_systems(names: Sequence[str], changes: Sequence[str]) -> tuple[Plan, str, tuple[str, ...]]:
    """The recipes, which one all start from, and the systems, to which the baseline is added."""
    names = [BASELINE, *(name for name in names if name != BASELINE)]
    stems = [Path(name).stem for name in names]
    if len(set(stems)) < len(stems):
        raise UserError(f"--systems {' '.join(names[1:])}: name every system once")
    recipes = [load_recipe(recipe_argument(name), list(changes)) for name in names]
    start = recipes[0].pretrained_from
    for recipe in recipes:
        if recipe.pretrained_from != start:
            raise UserError(
                f"recipe '{recipe.name}' starts from {recipe.pretrained_from or 'no other model'}, but the systems of "
                f"an arena all start from '{start}'; write 'pretrained-from: {start}' into it, or leave it out"
            )
        if recipe.prepared_from != start:
            raise UserError(
                f"recipe '{recipe.name}' has a corpus of its own, but the systems of an arena share that of '{start}'; "
                f"write 'prepared-from: {start}' into it, or leave it out"
            )
    plan = Plan([recipe_argument(name) for name in (start, *names)], changes)
    return plan, start, tuple(stems)
