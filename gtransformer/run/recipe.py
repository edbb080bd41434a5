"""Recipes: the YAML files of ``configs/``, read and combined by OmegaConf."""

from __future__ import annotations

from collections.abc import Sequence
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
NO_RECIPES = ("experiments", "hydra")  # folders in configs/ that the list of recipes leaves out
Options = dict[str, Any]


@dataclass
class Recipe:
    """The settings of a recipe, combined with those that it is based on.

    Attributes:
        name: "base", "window/base"; of an own file its name without ``.yaml``.
        devices: number of devices that its batches are meant for.
        based_on: the recipe whose settings this one changes.
        prepared_from: the recipe whose prepared corpus it uses, if not its own.
        pretrained_from: the recipe whose model training starts from.
        measure_start: also translate with the model before training, and compare.
        average_checkpoints: number of last checkpoints whose mean is the model; None: it is the
            best checkpoint.
        prepare, task, train, generate, score: options by program; ``task`` is for training and
            generation.
    """

    name: str = ""
    description: str = ""
    devices: int = 1
    based_on: Optional[str] = None  # noqa: UP045
    prepared_from: Optional[str] = None  # noqa: UP045
    pretrained_from: Optional[str] = None  # noqa: UP045
    measure_start: bool = False
    average_checkpoints: Optional[int] = None  # noqa: UP045
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

    def training(self) -> Options:
        """Return the options of fairseq-train."""
        return self.options("task", "train")


def recipe_names() -> list[str]:
    """Return the names of the package's recipes: those of ``configs/``, then folder by folder."""
    top = config_directory()
    files = sorted(top.rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    files = [path.relative_to(top) for path in files if path.parent.name not in NO_RECIPES]
    return [str(path.with_suffix("")) for path in files]


def listing() -> str:
    """Return a heading, and a line for each recipe: its name and description."""
    lines = [
        f"  {name:27} {read_yaml(find_recipe(name))['description']}" for name in recipe_names()
    ]
    return "\n".join(["recipes:", *lines])


def find_recipe(name: str) -> Path:
    """Return the file of a recipe: a path, or a name in ``configs/``."""
    path = Path(name) if name.endswith(".yaml") else config_directory() / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"unknown recipe '{name}': give the path of a YAML file, or one of --help")
    return path


def load_recipe(name: str, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe.

    Args:
        name: of a recipe that comes with the package (``recipe_names``), or the path of a YAML
            file.
        changes: ``SECTION.OPTION=VALUE``, ``devices=N`` and the like; without VALUE, or with
            ``null``, the option goes.

    Raises UserError for an unknown recipe, a damaged file, an unknown section, or a change without
    ``=``.
    """
    for change in changes:
        if "=" not in change:
            raise UserError(f"--set {change}: write SECTION.OPTION=VALUE")
    content = OmegaConf.merge(_with_bases(name), OmegaConf.from_dotlist(list(changes)))
    content = OmegaConf.to_container(content)
    # A section without options is empty in YAML.
    sections = {section: content.get(section) or {} for section in SECTIONS}
    sections["name"] = Path(name).stem if name.endswith(".yaml") else name
    return typed(content | sections, Recipe, f"recipe {name}")


def _with_bases(name: str) -> Options:
    """Return the content of a recipe over that of its base."""
    content = read_yaml(find_recipe(name))
    if not content.get("based-on"):
        return content
    base = _with_bases(content["based-on"])
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
