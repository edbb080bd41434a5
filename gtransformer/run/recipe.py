"""Recipes: the YAML files of ``configs/``, read and combined by OmegaConf."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.installation import config_directory
from gtransformer.settings import read_yaml, typed

SECTIONS = ("prepare", "task", "train", "generate", "score")
LANGUAGES = ("source-lang", "target-lang", "langs")
OTHERS = ("based-on", "prepared-from", "pretrained-from")  # keys that name other recipes
NO_RECIPES = ("experiments", "hydra")  # folders in configs/ that the list of recipes leaves out
AVERAGED = "average-checkpoints"  # in section train: not of fairseq-train, but a step after it
Options = dict[str, Any]


@dataclass
class Recipe:
    """The settings of a recipe, combined with those that it is based on.

    Attributes:
        name: its file's name without ``.yaml``, in ``configs/`` with its folder: "base",
            "window/base".
        rows: rows of papers' tables that it reproduces, by table; not inherited.
        devices: number of devices that its batches are meant for.
        based_on: the file whose settings this one changes.
        prepared_from: the file of the recipe whose prepared corpus it uses, if not its own.
        pretrained_from: the file of the recipe whose model training starts from.
        measure_start: also translate with the model before training, and compare.
        prepare, task, train, generate, score: options by program; ``task`` is for training and
            generation.
    """

    name: str = ""
    description: str = ""
    rows: dict[str, Any] = field(default_factory=dict)
    devices: int = 1
    based_on: Optional[str] = None  # noqa: UP045
    prepared_from: Optional[str] = None  # noqa: UP045
    pretrained_from: Optional[str] = None  # noqa: UP045
    measure_start: bool = False
    prepare: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    generate: dict[str, Any] = field(default_factory=dict)
    score: dict[str, Any] = field(default_factory=dict)

    def options(self, *sections: str) -> Options:
        """Return the options of some sections; a later section overrides an earlier one, also by
        removing one.
        """
        merged = {key: value for name in sections for key, value in getattr(self, name).items()}
        return {key: value for key, value in merged.items() if value is not None}

    @property
    def averaged(self) -> int | None:
        """Number of last checkpoints whose mean is the model; None: the model is the best
        checkpoint.
        """
        return self.train.get(AVERAGED)

    def training(self) -> Options:
        """Return the options of fairseq-train."""
        options = self.options("task", "train")
        options.pop(AVERAGED, None)
        return options

    def preparing(self) -> Options:
        """Return the options of gtransformer prepare: section ``prepare``, and the languages of the
        task.
        """
        languages = {key: self.task[key] for key in LANGUAGES if key in self.task}
        return self.options("prepare") | languages


def recipe_files() -> list[Path]:
    """Return the files of the package's recipes: those of ``configs/``, then folder by folder."""
    files = sorted(config_directory().rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return [path for path in files if path.parent.name not in NO_RECIPES]


def recipe_names() -> list[str]:
    """Return the names of the package's recipes."""
    return [name_of(path) for path in recipe_files()]


def name_of(path: Path) -> str:
    """Return the name of a file's recipe: in a folder of ``configs/`` with the folder."""
    folder, top = path.resolve().parent, config_directory().resolve()
    return f"{folder.name}/{path.stem}" if folder.parent == top else path.stem


def listing() -> str:
    """Return a line for each recipe: its name and description."""
    lines = [f"  {name_of(path):27} {read_yaml(path)['description']}" for path in recipe_files()]
    return "\n".join(lines)


def find_recipe(name: str, folder: Path | None = None) -> Path:
    """Return the file of a recipe: a path, or a name in ``folder`` or ``configs/``."""
    top = config_directory()
    for path in (Path(name), (folder or top) / f"{name}.yaml", top / f"{name}.yaml"):
        if path.suffix == ".yaml" and path.is_file():
            return path
    raise UserError(f"unknown recipe '{name}': give the path of a YAML file, or one of --help")


def load_recipe(name: str, changes: list[str] | None = None) -> Recipe:
    """Read a recipe.

    Args:
        name: of a recipe that comes with the package (``recipe_names``), or the path of a YAML
            file.
        changes: ``SECTION.OPTION=VALUE``, ``devices=N`` and the like; without VALUE, or with
            ``null``, the option goes.

    Raises UserError for an unknown recipe, a damaged file, an unknown section, or a change without
    ``=``.
    """
    path = find_recipe(name)
    for change in changes or []:
        if "=" not in change:
            raise UserError(f"--set {change}: write SECTION.OPTION=VALUE")
    content = OmegaConf.merge(_with_bases(path), OmegaConf.from_dotlist(changes or []))
    content = OmegaConf.to_container(content)
    sections = {section: content.get(section) or {} for section in SECTIONS}
    return typed(content | sections | {"name": name_of(path)}, Recipe, f"recipe {name}")


def _with_bases(path: Path) -> Options:
    """Return the content of a recipe over that of its base; names of other recipes become paths."""
    content = read_yaml(path)
    for key in OTHERS:
        if content.get(key):
            content[key] = str(find_recipe(content[key], path.parent))
    if not content.get("based-on"):
        return content
    base = _with_bases(Path(content["based-on"]))
    base.pop("rows", None)
    return OmegaConf.to_container(OmegaConf.merge(base, content))


def start_from(folder: Path) -> list[str]:
    """Return the changes by which a recipe starts from a converted sentence model, as ``--set``
    would make them.

    Args:
        folder: a model directory of ``gtransformer model convert``, whose languages, pieces and
            vocabulary are used.

    Raises UserError for what is no such directory.
    """
    content = read_json(folder / "manifest.json")
    if "dropout" not in content:
        raise UserError(f"{folder}: not made by gtransformer model convert")
    settings = content["settings"]
    changes = {
        "task.source-lang": settings["source_lang"],
        "task.target-lang": settings["target_lang"],
        "task.langs": ",".join(settings["langs"]),
        "prepare.bpe-codes": "null",
        "prepare.dictionary": "null",
        "prepare.vocabulary": folder,
        "train.sentence-model": folder,
        "train.dropout": content["dropout"],
        "generate.unkpen": content["search"].get("unkpen") or "null",
    }
    return [f"{option}={value}" for option, value in changes.items()]
