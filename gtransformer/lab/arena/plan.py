"""Which systems meet in an arena, and on what terms, worked out before anything runs."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError, check_counts
from gtransformer.installation import config_directory
from gtransformer.lab.arena.budget import MINUTES, UPDATES, Budget, endless, limited, read_budget
from gtransformer.lab.comparison.corpus import RAW, split_files
from gtransformer.lab.comparison.plan import Plan
from gtransformer.run.recipe import Recipe, UnknownRecipe, load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run_places import corpus_directory

FOLDER = "arena"  # of the recipes, in configs/
BASELINE = "sentences"  # the system that all others are compared with
DEMO = "demo"  # as a corpus: the generated one that comes with the set that shows reach
SIZES = {"documents": 300, "dev_documents": 7, "test_documents": 7, "items": 400}  # of the generated corpus
FRESH = "scratch"  # where systems come from: random weights, not ``start``, a shared model
# What an arena sets itself, and by which option.
OWN_OPTIONS = {
    "train.seed": "--seeds",
    "train.max-update": "--updates and --start-updates",
    "train.total-num-update": "--updates and --start-updates",
    "train.max-epoch": "--updates, --minutes and --tokens",
    "train.stop-time-hours": "--minutes",
    "train.finetune-from-model": "'pretrained-from' of the recipe",
    "train.log-format": "no option; results are read from the log",
    "score.reference": "no option; all are scored against untouched text",
}


def check_system(name: str) -> None:
    """Raise UserError for a system that is no recipe's name or file; those of an arena are named."""
    try:
        load_recipe(recipe_argument(name))
    except UnknownRecipe:
        known = system_names()
        like = ", ".join(difflib.get_close_matches(name, known) or known)
        raise UserError(
            f"--systems {name}: no system of an arena; give {like}, or the path of a recipe's YAML file"
        ) from None


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
        seeds, budget: of every system's training.
        start_updates: of the start's; None: as its recipe says.
        changes: ``SECTION.OPTION=VALUE`` for all recipes.
        corpus: a raw corpus; None: the generated one.
        fresh: systems do not start from the start's model but from random weights.
    """

    plan: Plan
    start: str
    systems: tuple[str, ...]
    seeds: tuple[int, ...]
    budget: Budget
    start_updates: int | None
    changes: tuple[str, ...]
    corpus: Path | None
    fresh: bool

    def recipe(self, name: str) -> Recipe:
        """A system's recipe, or the start's."""
        return self.plan.recipes[name]

    @property
    def minutes(self) -> float | None:
        """Of every system's training; None where they are not the budget."""
        return self.budget.amount if self.budget.unit == MINUTES else None

    def updates_of_start(self) -> int | None:
        """Of the start's training; None if its recipe does not limit them."""
        return self.start_updates or self.recipe(self.start).sections["train"].get("max-update")

    def own_changes(self, name: str, seed: int | None, updates: int | None = None) -> list[str]:
        """What a training does otherwise than its recipe says, besides ``changes``, and but for how long it takes.

        ``seed`` None: the start's; ``updates``: of a budget of tokens, where that is known.
        """
        train = self.recipe(name).sections["train"]
        if seed is None:
            return limited(train, self.start_updates) if self.start_updates else []
        if self.budget.unit == MINUTES:
            return [f"train.seed={seed}", *endless(train)]
        updates = self.budget.amount if self.budget.unit == UPDATES else updates
        return [f"train.seed={seed}", *(limited(train, updates) if updates else [])]


def check_terms(args: argparse.Namespace) -> Terms:
    """The terms of a command line. Raises UserError for what cannot be."""
    check_counts(args, "jobs", "start_updates")
    budget, fresh = read_budget(args), args.begin == FRESH
    if fresh and args.start_updates:
        raise UserError(f"--start-updates {args.start_updates}: with --from {FRESH} there is no start; leave it out")
    if len(set(args.seeds)) < len(args.seeds) or min(args.seeds) < 0:
        raise UserError(f"--seeds {' '.join(map(str, args.seeds))}: give different numbers, none below 0")
    for change in args.set:
        option = change.partition("=")[0].replace("_", "-")
        if option in OWN_OPTIONS:
            raise UserError(f"--set {change}: an arena sets {option} itself; it comes from {OWN_OPTIONS[option]}")
    changes = ["train.log-format=json"]  # precision is the recipes': not every machine that runs a part has bfloat16
    plan, start, systems = _read_systems(args.systems or system_names(), changes, args.set, fresh)
    check_recipe(plan.recipes[start], ["prepare", "train", "score"])
    for name in systems:
        check_recipe(plan.recipes[name], ["train", "generate", "score"])
    corpus, own = _corpus(args, plan.languages), tuple(plan.changes)
    return Terms(plan, start, systems, tuple(args.seeds), budget, args.start_updates, own, corpus, fresh)


def _corpus(args: argparse.Namespace, pair: tuple[str, str]) -> Path | None:
    """The raw corpus of a command line, with all its splits; None for the generated one."""
    if args.corpus == DEMO:
        return None
    for name in SIZES:
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')} {getattr(args, name)}"
            raise UserError(f"{option} is a size of the generated corpus, {DEMO}; leave it out with {args.corpus}")
    corpus = corpus_directory(args.corpus)
    for split in RAW.values():
        split_files(corpus, pair, split)
    return corpus


def _from_nothing(start: Recipe) -> list[str]:
    """What a recipe that starts from the start's model does otherwise where it starts from nothing."""
    warmup = start.sections["train"].get("warmup-updates", "")
    left_out = ("pretrained-from", "train.load-partial", "train.freeze-sentence-parameters")
    return [*(f"{option}=" for option in left_out), f"train.warmup-updates={warmup}"]


def _read_systems(
    names: Sequence[str], changes: Sequence[str], more: Sequence[str], fresh: bool
) -> tuple[Plan, str, tuple[str, ...]]:
    """The recipes, which one all start from, and the systems, to which the baseline is added.

    ``more``: changes that stand behind those of systems that are ``fresh``.
    """
    names = [BASELINE, *(name for name in names if name != BASELINE)]
    stems = [Path(name).stem for name in names]
    if len(set(stems)) < len(stems):
        raise UserError(f"--systems {' '.join(names[1:])}: name every system once")
    for name in names:
        check_system(name)
    recipes = [load_recipe(recipe_argument(name), [*changes, *more]) for name in names]
    start = recipes[0].pretrained_from
    for recipe in recipes:
        if recipe.pretrained_from != start and not fresh:
            raise UserError(
                f"recipe '{recipe.name}' starts from {recipe.pretrained_from or 'no other model'}, but the systems of "
                f"an arena all start from '{start}'; write 'pretrained-from: {start}' into it, or leave it out"
            )
        if recipe.prepared_from != start:
            raise UserError(
                f"recipe '{recipe.name}' has a corpus of its own, but the systems of an arena share that of '{start}'; "
                f"write 'prepared-from: {start}' into it, or leave it out"
            )
    scratch = _from_nothing(load_recipe(recipe_argument(start), [*changes, *more])) if fresh else []
    plan = Plan([recipe_argument(name) for name in (start, *names)], [*changes, *scratch, *more])
    return plan, start, tuple(stems)
