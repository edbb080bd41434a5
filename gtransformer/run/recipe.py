"""Recipes: the YAML files of ``configs/`` and its folders, read, combined and converted to options."""

from __future__ import annotations

import difflib
import json
import re
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gtransformer.data.instances import STORED, InstanceScheme
from gtransformer.errors import UserError
from gtransformer.files import PARAMETERS, read_json
from gtransformer.installation import config_directory
from gtransformer.settings import dashed, read_value, read_yaml, typed

SECTIONS = ("prepare", "task", "train", "generate", "score")
ABLATIONS = "ablations"  # the folder in configs/ whose recipes have no folder in their names
OTHER_FOLDERS = ("arena", "hydra", "sizes", "studies")  # without recipes, or with those of experiments
SWITCHES = ("context-loss", "marks-loss", "sentence-rule")  # values on and off, which YAML reads as true and false
# Paths of files; another path is not a change of the recipe.
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
OTHERS = ("prepared-from", "vocabulary-from", "pretrained-from")  # name other recipes
LANGUAGES = ("source-lang", "target-lang", "langs")
AVERAGED = "average-checkpoints"  # in section train: not an option of fairseq-train, but a step after it
REFERENCE = "score.reference"
Options = dict[str, Any]


@dataclass
class RecipeFile:
    """Schema of a recipe's file; see ``Recipe``."""

    description: str | None = None
    rows: dict[str, str | None] | None = None
    devices: int = 1
    based_on: str | None = None  # the recipe whose settings this one changes, in the same folder or in configs/
    prepared_from: str | None = None
    vocabulary_from: str | None = None
    pretrained_from: str | None = None
    prepare: dict[str, Any] | None = None
    task: dict[str, Any] | None = None
    train: dict[str, Any] | None = None
    generate: dict[str, Any] | None = None
    score: dict[str, Any] | None = None


@dataclass
class Recipe:
    """One recipe, combined with the recipes that it is based on.

    Attributes:
        name: its file's name without ``.yaml``, in ``configs/`` with its folder: "base", "window/base".
        devices: number of devices that its batches are meant for.
        prepared_from: the recipe whose prepared corpus it uses, if not its own.
        vocabulary_from: the recipe whose prepared corpus lends BPE and dictionary.
        pretrained_from: the recipe whose model training starts from.
        sections: options by section, with dashed names, without removed options.
        rows: the rows of papers that it reproduces, as printed there, by table ("2") or section ("section 5.4") of Bao
            et al. (2021), or by another paper and its table ("window-attention 5"); None for a setting that belongs to
            a table without being printed in it. Rows of its base recipe are not included.
        changes: changes on the command line (``SECTION.OPTION=VALUE``, ``devices=N``), without those that make no other
            model: paths of files, and the reference for scoring.
    """

    name: str
    description: str = ""
    devices: int = 1
    prepared_from: str | None = None
    vocabulary_from: str | None = None
    pretrained_from: str | None = None
    sections: dict[str, Options] = field(default_factory=dict)
    rows: dict[str, str | None] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def options(self, *sections: str) -> Options:
        """Return the options of some sections; a later section overrides an earlier one."""
        return {key: value for section in sections for key, value in self.sections.get(section, {}).items()}

    @property
    def max_sentences(self) -> int | None:
        """Maximum number of sentences of an instance, as prepared or as formed at loading; None: no limit."""
        task = self.sections["task"]
        kind = task.get("instances", STORED)
        if kind == STORED:
            return self.sections["prepare"].get("max-sents")
        context = (task.get(f"{side}context-sentences") for side in ("", "target-"))
        return InstanceScheme(
            kind, None, *(None if number is None else int(number) for number in context)
        ).max_sentences

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        task = self.sections["task"]
        return task.get("source-lang") or "en", task.get("target-lang") or "de"

    @property
    def averaged(self) -> int | None:
        """Number of last checkpoints that are averaged to the model; None: the model is the best checkpoint."""
        return self.sections["train"].get(AVERAGED)

    def training(self) -> Options:
        """Return the options of fairseq-train."""
        return {key: value for key, value in self.options("task", "train").items() if key != AVERAGED}

    def preparing(self) -> Options:
        """Return the options for preparing a corpus: section ``prepare``, and the languages of the task."""
        task = self.sections["task"]
        return self.options("prepare") | {key: task[key] for key in LANGUAGES if key in task}


def recipe_names() -> list[str]:
    """Return the names of the package's recipes: of ``configs/``, ablations, then folder by folder."""
    top = config_directory()
    others = sorted(path for path in top.iterdir() if path.is_dir() and path.name not in (ABLATIONS, *OTHER_FOLDERS))
    small = [path for path, _ in _small_recipes(top).values()]
    return [
        _name(path)
        for folder in (top, top / ABLATIONS, *others)
        for path in sorted({*folder.glob("*.yaml"), *(one for one in small if one.parent == folder.resolve())})
    ]


def _name(path: Path) -> str:
    """Return the name of a file's recipe."""
    folder = path.resolve().parent
    alone = folder.parent != config_directory().resolve() or folder.name in (ABLATIONS, *OTHER_FOLDERS)
    return path.stem if alone else f"{folder.name}/{path.stem}"


def listing() -> str:
    """Return a line for each recipe: its name and description."""
    recipes = [load_recipe(name) for name in recipe_names()]
    width = max((len(recipe.name) for recipe in recipes), default=0)
    return "\n".join(f"  {recipe.name:{width}}  {recipe.description}" for recipe in recipes)


def load_recipe(name: str, changes: list[str] | None = None) -> Recipe:
    """Read a recipe.

    Args:
        name: of a recipe that comes with the package (``recipe_names``), or the path of a YAML file.
        changes: ``SECTION.OPTION=VALUE`` (without VALUE the option goes), ``devices=N`` or ``pretrained-from=``.

    Raises UserError for an unknown recipe, a damaged file, an unknown section, a change that cannot be read, or an
    option that is removed for a stage while ``task`` sets it for all.
    """
    path = find_recipe(name)
    content = _with_bases(path, [])
    real = [change for change in changes or [] if _is_real(content, change)]
    for change in changes or []:
        _apply(content, change)
    for section in ("train", "generate"):
        for option, value in content[section].items():
            if value is None and content["task"].get(option) is not None:
                raise UserError(
                    f"{name}: {section}.{option} is removed, but task.{option} is {content['task'][option]} and holds "
                    f"there, too; give {section}.{option} a value, or remove task.{option}"
                )
    for option in LANGUAGES:
        if content["task"].get(option) is False:  # YAML's "no" is Norwegian here
            content["task"][option] = "no"
    return Recipe(
        _name(path),
        content.get("description") or "",
        content.get("devices", 1),
        *(content.get(name) for name in OTHERS),
        {section: _present(content[section]) for section in SECTIONS},
        dict(content.get("rows") or {}),
        real,
    )


def sized(name: str, size: str | None) -> str:
    """Return the name of a recipe at a size (``--size small``). Raise UserError for a recipe with only one size."""
    small = _small_recipes(config_directory())
    if size is None:
        return name
    if name not in small:
        raise UserError(f"--size {size}: recipe '{name}' has only one size; small ones exist for {', '.join(small)}")
    return _name(small[name][0])


@lru_cache(maxsize=4)
def _sizes(top: Path) -> Options:
    """Return the content of configs/sizes/small.yaml: changes of all recipes, and of each with a small version."""
    path = top / "sizes" / "small.yaml"
    return read_yaml(path) if path.is_file() else {"all": {}, "recipes": {}}


def _small_recipes(top: Path) -> dict[str, tuple[Path, Options]]:
    """Return, by recipe, the virtual path of its small version, and its entry in configs/sizes/small.yaml."""
    entries = _sizes(top)["recipes"]
    return {name: (top.resolve() / f"{entry['name']}.yaml", entry) for name, entry in entries.items()}


def _small(path: Path) -> Options | None:
    """Return the content of a small recipe's virtual file: its base recipe and the changes of configs/sizes/small.yaml.

    None if the path is not of a small recipe.
    """
    top = config_directory()
    small = _small_recipes(top)
    name = next((name for name, (own, _) in small.items() if own == path.resolve()), None)
    if name is None:
        return None
    full, found = _with_bases(find_recipe(name), []), dict(_sizes(top)["all"])
    chain = [name]
    while base := _read(find_recipe(chain[0])).get("based-on"):
        chain.insert(0, base)
    for entry in (found, *(small[one][1] for one in chain if one in small)):
        for section in SECTIONS:
            found[section] = (found.get(section) or {}) | (entry.get(section) or {})
    found["train"]["arch"] = full["train"]["arch"].replace("_base", "_compact")
    lent = {key: _name(small[full[key]][0]) for key in OTHERS if full.get(key)}
    description = f"Small, about an hour on two CPU cores: {full['description']}"
    return found | {"based-on": name, "description": description, **lent}


def language_changes(name: str, pair: str | None) -> list[str]:
    """Return the changes of ``--langs SOURCE,TARGET`` in a recipe, in the form of ``--set``.

    Raises UserError for anything but two languages, and if the recipe's pretrained model has its own language codes.
    """
    if pair is None:
        return []
    langs = [lang.strip() for lang in pair.split(",")]
    if len(set(langs)) != 2 or not all(map(re.compile(r"[A-Za-z]+(-[A-Za-z]+)?").fullmatch, langs)):
        raise UserError(f"--langs {pair}: give the source and the target language, en,fr")
    task = load_recipe(name).sections["task"]
    if "_" in f"{task.get('source-lang')}":
        raise UserError(
            f"--langs {pair}: recipe '{name}' names languages as its pretrained model does; choose two of those with "
            "--set task.source-lang=fr_XX --set task.target-lang=..."
        )
    wanted = {"source-lang": langs[0], "target-lang": langs[1], "langs": ",".join(langs)}
    return [f"task.{option}={value}" for option, value in wanted.items() if task.get(option) != value]


OWN_MODEL = "from_own_sentence_model"
FROM_OWN_MODEL = (OWN_MODEL, "few_documents", "short_context")


def start_from(name: str, folder: Path) -> tuple[str, list[str]]:
    """Return the recipe that fine-tunes a converted sentence model, and its changes, as ``--set`` would make them.

    Args:
        name: the recipe that was asked for.
        folder: a model directory of ``gtransformer model convert``, which lends its languages, pieces and vocabulary.

    Raises UserError for another recipe, and for what is no such directory.
    """
    chosen = OWN_MODEL if name == "from_sentence_model" else name
    if chosen not in FROM_OWN_MODEL:
        raise UserError(
            f"--sentence-model {folder}: recipe '{name}' starts from none; give from_sentence_model, few_documents or "
            "short_context"
        )
    manifest = folder / "manifest.json"
    content = read_json(manifest) if manifest.is_file() else {}
    settings = content.get("settings") or {}
    if "dropout" not in content or not (folder / PARAMETERS).is_file():
        raise UserError(
            f"--sentence-model {folder}: no directory of a converted model; make one with gtransformer model convert"
        )
    changes = {
        "task.source-lang": settings["source_lang"],
        "task.target-lang": settings["target_lang"],
        "task.langs": ",".join(settings["langs"]),
        "prepare.bpe-codes": "",
        "prepare.dictionary": "",
        "prepare.vocabulary": json.dumps(str(folder)),  # a text, whatever YAML makes of it
        "train.sentence-model": json.dumps(str(folder)),
        "train.dropout": content["dropout"],
    }
    if unkpen := content["search"].get("unkpen"):
        changes["generate.unkpen"] = unkpen
    return chosen, [f"{option}={value}" for option, value in changes.items()]


class UnknownRecipe(UserError):
    """No recipe of that name."""


def find_recipe(name: str) -> Path:
    """Return the file of a recipe. Raise UnknownRecipe, with similar names, if there is none."""
    if name.endswith((".yaml", ".yml")):
        candidates = [Path(name)]
    else:
        candidates = [folder / f"{name}.yaml" for folder in (config_directory(), config_directory() / ABLATIONS)]
    small = [path for path, _ in _small_recipes(config_directory()).values()]
    for path in candidates:
        if path.is_file() or path.resolve() in small:
            return path
    names = recipe_names()
    like = ", ".join(difflib.get_close_matches(name, names) or names[:3])
    raise UnknownRecipe(
        f"unknown recipe '{name}': similar ones are {like} (gtransformer run without arguments lists all); give one of "
        "them, or the path of a YAML file"
    )


def beside(recipe: str, other: str) -> str:
    """Return the command-line name of a recipe that another recipe names: its name, or its path in the same folder.

    A name from a base recipe is relative to the base recipe's folder.
    """
    path = own = find_recipe(recipe)
    while other not in map((content := _read(path)).get, OTHERS) and (base := content.get("based-on")):
        path = _base(path, base)
    other = other.removesuffix(".yaml") if (path.parent / other).is_file() else other
    found = (path.parent / f"{other}.yaml").resolve()
    if not found.is_file():
        return other
    if path == own:
        suffix = Path(recipe).suffix if recipe.endswith((".yaml", ".yml")) else ""
        return str(Path(recipe).parent / f"{other}{suffix}")
    top = config_directory().resolve()
    return found.relative_to(top).with_suffix("").as_posix() if found.is_relative_to(top) else str(found)


def _with_bases(path: Path, seen: list[Path]) -> Options:
    if path.resolve() in seen:
        raise UserError(f"{path}: is based on itself, by way of 'based-on'")
    content = _read(path)
    base = content.get("based-on")
    if base is None:
        return content
    combined = _with_bases(_base(path, base), [*seen, path.resolve()])
    combined.pop("rows", None)
    for section in SECTIONS:
        content[section] = combined[section] | content[section]
    return combined | content


def _base(path: Path, name: str) -> Path:
    """Return the file of a base recipe; a user's recipes may be in the same folder."""
    sibling = path.parent / f"{name}.yaml"
    return sibling if sibling.is_file() else find_recipe(name)


def _read(path: Path) -> Options:
    """Read a file with all its sections, with dashed names."""
    if not path.is_file() and (small := _small(path)) is not None:
        return small
    return deepcopy(_sections(path, path.stat().st_mtime_ns))


@lru_cache(maxsize=256)  # studies and lists of recipes read the same files many times
def _sections(path: Path, _changed: int) -> Options:
    content = _dashed(read_yaml(path))
    typed(content, RecipeFile, str(path))
    return content | {section: _dashed(content.get(section) or {}) for section in SECTIONS}


def _dashed(entries: Options) -> Options:
    return {dashed(str(key)): value for key, value in entries.items()}


def _is_real(content: Options, change: str) -> bool:
    """Return whether a change makes another model than the recipe's; see ``Recipe.changes``."""
    target, _, text = change.partition("=")
    section, _, option = dashed(target).partition(".")
    moved = dashed(target) in FILES and text and content[section].get(option) is not None
    return not moved and dashed(target) != REFERENCE


def _apply(content: Options, change: str) -> None:
    location = f"--set {change}"
    target, equals, text = change.partition("=")
    section, dot, option = target.partition(".")
    value = read_value(text)
    if equals and dot and option and section in SECTIONS:
        content[section][dashed(option)] = value
    elif equals and target == "devices":
        content["devices"] = typed({"devices": value}, RecipeFile, location).devices
    elif (dashed(target), equals, text) == ("pretrained-from", "=", ""):
        content["pretrained-from"] = None
    else:
        raise UserError(f"{location}: write SECTION.OPTION=VALUE with a section of {', '.join(SECTIONS)}")


def _present(options: Options) -> Options:
    """Return options without removed ones, and with switches as on and off."""
    found = {key: value for key, value in options.items() if value is not None}
    return found | {key: "on" if found[key] else "off" for key in SWITCHES if isinstance(found.get(key), bool)}
