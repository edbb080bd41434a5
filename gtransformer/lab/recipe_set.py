"""Inputs of an experiment: ordered recipes, splits of raw corpora, external files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtransformer.data.languages import two_letters
from gtransformer.errors import UserError
from gtransformer.files import sha256
from gtransformer.lab.recipes import FILES, recipe_name
from gtransformer.preprocess.corpus import find_splits
from gtransformer.run.recipe import Options, Recipe, find_recipe, load_recipe

RAW = {"train": "train", "valid": "dev", "test": "test"}  # the name of a split in a prepared directory -> its raw name


class RecipeSet:
    """The recipes of an experiment in the order in which they can be trained and prepared.

    Attributes:
        recipes: by name; a recipe comes after the one that it starts from.
        corpora: the recipes that prepare corpora; each comes after the one whose vocabulary it uses.
        arguments: the name of each on a command line (a name in ``configs/``, or a file).
        languages: source and target language of all.
    """

    def __init__(self, names: Sequence[str], changes: Sequence[str]):
        """Read recipes, with changes as for ``load_recipe``. Raises UserError for recipes that cannot be combined."""
        loaded = [load_recipe(name, list(changes)) for name in names]
        self.arguments = {recipe.name: name for recipe, name in zip(loaded, names, strict=True)}
        if not names or len(self.arguments) < len(names):
            raise UserError(f"--recipes {','.join(names)}: name at least one recipe, and every recipe once")
        self.changes, self.recipes, self.corpora = list(changes), {}, {}
        given = {recipe.name: recipe for recipe in loaded}
        for recipe in loaded:
            self._add(recipe, given, [])
        for recipe in loaded:
            self._prepare(self.preparer(recipe.name))
        pairs = {tuple(two_letters(lang) for lang in recipe.pair) for recipe in loaded}  # en for mBART's en_XX
        if len(pairs) > 1:
            shown = ", ".join(sorted("-".join(pair) for pair in pairs))
            raise UserError(f"the recipes translate different language pairs ({shown}); compare those of one pair")
        self.languages = loaded[0].pair

    def _add(self, recipe: Recipe, given: dict[str, Recipe], waiting: list[str]) -> None:
        if recipe.name in self.recipes:
            return
        if recipe.name in waiting:
            raise UserError(f"recipe '{recipe.name}' starts from itself, through 'pretrained-from'")
        if first := self.start(recipe):
            if first not in given:
                raise UserError(f"recipe '{recipe.name}' starts from '{first}'; add '{first}' to --recipes")
            self._add(given[first], given, [*waiting, recipe.name])
        self.recipes[recipe.name] = recipe

    def _prepare(self, name: str) -> None:
        if name not in self.corpora:
            self.corpora[name] = self._recipe(name)

    def _recipe(self, name: str) -> Recipe:
        return self.recipes.get(name) or load_recipe(self.arguments[name], self.changes)

    def _named_by(self, name: str, other: str) -> str:
        """Return the name of the recipe that recipe ``name`` calls ``other``, as ``gtransformer run`` finds it."""
        found = load_recipe(other, self.changes)
        known = self.arguments.setdefault(found.name, other)
        if find_recipe(known).resolve() != find_recipe(other).resolve():
            raise UserError(f"recipes {known} and {other} have the same name; rename one of the files")
        return found.name

    @staticmethod
    def start(recipe: Recipe) -> str | None:
        """Return the recipe whose model this one starts from; None if there is none or it names a checkpoint."""
        if "finetune-from-model" in recipe.sections["train"] or recipe.pretrained_from is None:
            return None
        return recipe_name(recipe.pretrained_from)

    @property
    def starts(self) -> set[str]:
        """The recipes that other recipes start from."""
        return {first for recipe in self.recipes.values() if (first := self.start(recipe))}

    @property
    def common_start(self) -> str | None:
        """The recipe that all others start from, so that it is trained alone first; None if there is none."""
        first, *others = [name for name, recipe in self.recipes.items() if self.start(recipe) is None]
        return first if self.starts and not others else None

    def preparer(self, name: str) -> str:
        """Return the recipe by which the corpus of recipe ``name`` is prepared."""
        recipe = self._recipe(name)
        return self.preparer(self._named_by(name, recipe.prepared_from)) if recipe.prepared_from else recipe.name


def split_files(directory: Path, pair: tuple[str, str], split: str) -> tuple[Path, Path]:
    """Return the source and target files of a raw split (train, dev, test). Raises UserError if the corpus lacks it."""
    found = {RAW[name]: files for name, files in find_splits(directory, *pair).items()}
    if split not in found:
        raise UserError(f"{directory}: no {split} set; it has {', '.join(found)}")
    return found[split]


def raw_digests(directory: Path, pair: tuple[str, str]) -> dict[str, str]:
    """Return the SHA-256 of the files of all splits, by name. Raises UserError if the corpus lacks one."""
    files = [path for split in RAW.values() for path in split_files(directory, pair, split)]
    return {path.name: sha256(path) for path in files}


def outside_files(options: Options) -> dict[str, str | None]:
    """Return the SHA-256 of files named in options: pretrained models and their segmentation; None if missing.

    The contents may change under the same name.
    """
    found: dict[str, str | None] = {}
    for option in FILES:
        key = option.partition(".")[2]
        if options.get(key):
            path = Path(str(options[key]))
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                found[f"{key} {file.name}"] = sha256(file) if file.is_file() else None
    return found
