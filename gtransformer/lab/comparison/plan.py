"""What a comparison of recipes needs, worked out before anything runs: corpora, their order, budgets."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError, check_counts
from gtransformer.files import sha256
from gtransformer.lab.comparison.corpus import RAW, split_files
from gtransformer.run.recipe import FILES, Options, Recipe, load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run_places import corpus_directory

# Raw names of the splits.
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class TextSet:
    """Something to translate and score: one split of one raw corpus."""

    corpus: str
    split: str
    directory: Path

    @property
    def name(self) -> str:
        """``ted_dev``: what it is called in the results."""
        return f"{self.corpus}_{self.split}"


def parse_set(text: str) -> TextSet:
    """``ted:dev=DIR`` as a test set. Raises UserError for anything else."""
    found = re.fullmatch(r"([\w.-]+):(\w+)=(.+)", text)
    if not found:
        raise UserError(f"--also {text}: write NAME:SPLIT=DIRECTORY, as in ted:dev=data/ted")
    corpus, split, directory = found.groups()
    if split not in SPLITS:
        raise UserError(f"--also {text}: no split is called '{split}'; choose one of {', '.join(SPLITS)}")
    return TextSet(corpus, split, Path(directory))


class Plan:
    """The recipes of a comparison in the order in which they can be trained, and what they are prepared by.

    Attributes:
        recipes: by name; one that starts from another one comes after it.
        corpora: the recipes by which corpora are prepared; one that borrows a vocabulary comes after its lender.
        arguments: how each of them is named on a command line (a name of ``configs/``, or a file).
    """

    def __init__(self, names: Sequence[str], changes: Sequence[str]):
        """Read the recipes, with changes as for ``load_recipe``; UserError for recipes that do not go together."""
        loaded = [load_recipe(name, list(changes)) for name in names]
        self.arguments = {recipe.name: name for recipe, name in zip(loaded, names, strict=True)}
        if len(self.arguments) < len(names):
            raise UserError(f"--recipes {','.join(names)}: name every recipe once")
        given = {recipe.name: recipe for recipe in loaded}
        self.recipes: dict[str, Recipe] = {}
        for recipe in loaded:
            self._add(recipe, given, [])
        self.changes = list(changes)
        self.corpora: dict[str, Recipe] = {}
        for recipe in loaded:
            self._prepare(self.preparer(recipe.name))
        pairs = {self.pair(recipe) for recipe in loaded}
        if len(pairs) > 1:
            shown = ", ".join(sorted("-".join(pair) for pair in pairs))
            raise UserError(f"the recipes translate different language pairs ({shown}); compare those of one pair")
        (self.languages,) = pairs

    def _add(self, recipe: Recipe, given: dict[str, Recipe], waiting: list[str]) -> None:
        if recipe.name in self.recipes:
            return
        if recipe.name in waiting:
            raise UserError(f"recipe '{recipe.name}' starts from itself, by way of 'pretrained-from'")
        first = self.start(recipe)
        if first is not None:
            if first not in given:
                raise UserError(f"recipe '{recipe.name}' starts from '{first}'; add '{first}' to --recipes")
            self._add(given[first], given, [*waiting, recipe.name])
        self.recipes[recipe.name] = recipe

    @staticmethod
    def start(recipe: Recipe) -> str | None:
        """The recipe whose model this one starts from; None for none, or where a checkpoint is named."""
        return None if "finetune-from-model" in recipe.sections["train"] else recipe.pretrained_from

    @property
    def starts(self) -> set[str]:
        """The recipes that others start from."""
        return {first for recipe in self.recipes.values() if (first := self.start(recipe))}

    @property
    def common_start(self) -> str | None:
        """The recipe that all others start from, so that none of them can be trained beside it; None for none."""
        first, *others = [name for name, recipe in self.recipes.items() if self.start(recipe) is None]
        return first if self.starts and not others else None

    def preparer(self, name: str) -> str:
        """The recipe by which the corpus of recipe ``name`` is prepared."""
        recipe = self.recipes.get(name) or load_recipe(name, self.changes)
        return self.preparer(recipe.prepared_from) if recipe.prepared_from else recipe.name

    def lender(self, name: str) -> str | None:
        """The preparing recipe from whose corpus that of ``name`` borrows its vocabulary."""
        recipe = self.corpora.get(name) or self.recipes.get(name) or load_recipe(name, self.changes)
        if recipe.vocabulary_from is None or "vocabulary" in recipe.sections["prepare"]:
            return None
        return self.preparer(recipe.vocabulary_from)

    def _prepare(self, name: str) -> None:
        if name not in self.corpora:
            lender = self.lender(name)
            if lender is not None:
                self._prepare(lender)
            self.corpora[name] = self.recipes.get(name) or load_recipe(name, self.changes)
            self.arguments.setdefault(name, name)

    @staticmethod
    def pair(recipe: Recipe) -> tuple[str, str]:
        """(source, target) language as corpora are named: en for mBART's en_XX."""
        task = recipe.sections["task"]
        return tuple(str(task.get(key, lang)).partition("_")[0] for key, lang in _LANGUAGES)

    def check_sets(self) -> None:
        """Can further sets be prepared? UserError for recipes whose cutting they could not borrow."""
        for name, recipe in self.corpora.items():
            for option in ("sentencepiece", "bpe-codes", "bert"):
                if option in recipe.sections["prepare"]:
                    raise UserError(
                        f"recipe '{name}' cuts text by a pretrained model ({option}), and --also needs a vocabulary of "
                        "the comparison's own corpus; leave out --also"
                    )


_LANGUAGES = (("source-lang", "en"), ("target-lang", "de"))


def stop_hours(minutes: float) -> str:
    """A budget as fairseq's ``--stop-time-hours``.

    fairseq keeps the time spent in its checkpoints, so that a resumed training gets what is left, and does again, from
    the last checkpoint, what an interruption has undone.
    """
    return f"{minutes / 60:.6f}"


def outside_files(options: Options) -> dict[str, str | None]:
    """SHA-256 of the files that options name by a path: pretrained models and what cuts their text; None if missing.

    What lies there may change under the same name.
    """
    found: dict[str, str | None] = {}
    for place in FILES:
        key = place.partition(".")[2]
        if options.get(key):
            path = Path(str(options[key]))
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                found[f"{key} {file.name}"] = sha256(file) if file.is_file() else None
    return found


def check_arguments(args: argparse.Namespace) -> tuple[Plan, list[TextSet]]:
    """The plan and the sets of a command line, the corpus's own test set first. Raises UserError for what cannot be."""
    for option in ("minutes", "start_minutes"):
        value = getattr(args, option)
        if value is not None and not value >= 0.01:
            raise UserError(f"--{option.replace('_', '-')} {value:g}: give at least 0.01")
    check_counts(args, "jobs", "every")
    names = [name for name in args.recipes.split(",") if name]
    if not names:
        raise UserError("--recipes: name at least one recipe")
    plan = Plan(names, args.set)
    if args.start_minutes is not None and not plan.starts:
        raise UserError(f"--start-minutes: none of {args.recipes} starts from another one of them; leave it out")
    for recipe in plan.corpora.values():
        check_recipe(recipe, ["prepare"])
    for recipe in plan.recipes.values():
        check_recipe(recipe, ["train", "generate"])
    raw = corpus_directory(args.corpus)
    sets = [TextSet(raw.resolve().name, "test", raw), *map(parse_set, args.also)]
    if len({one.name for one in sets}) < len(sets):
        raise UserError(f"--also: {', '.join(one.name for one in sets[1:])}: give every set a name of its own")
    if sets[1:]:
        plan.check_sets()
    for split in RAW.values():
        split_files(raw, plan.languages, split)
    for one in sets[1:]:
        split_files(one.directory, plan.languages, one.split)
    return plan, sets
