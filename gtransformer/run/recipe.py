"""Recipes: the YAML files of ``configs/``, read and combined by OmegaConf."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from omegaconf import OmegaConf

from gtransformer.errors import UserError
from gtransformer.files import PARAMETERS, read_json
from gtransformer.installation import config_directory
from gtransformer.settings import read_yaml, typed

SECTIONS = ("prepare", "task", "train", "generate", "score")
LANGUAGES = ("source-lang", "target-lang", "langs")
# Keys that name other recipes.
OTHERS = ("based-on", "prepared-from", "pretrained-from")
NO_RECIPES = ("experiments", "hydra")  # folders in configs/ that the list of recipes leaves out
AVERAGED = (
    "average-checkpoints"  # in section train: not an option of fairseq-train, but a step after it
)
Options = dict[str, Any]


@dataclass
class Recipe:
    """The settings of a recipe, combined with those that it is based on.

    Attributes:
        name: its file's name without ``.yaml``, in ``configs/`` with its folder: "base",
            "window/base".
        rows: rows of papers' tables that it reproduces, by table; not inherited.
        devices: number of devices that its batches are meant for.
        based_on: the recipe whose settings this one changes.
        prepared_from: the recipe whose prepared corpus it uses, if not its own.
        pretrained_from: the recipe whose model training starts from.
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

    @property
    def sections(self) -> dict[str, Options]:
        """The options of each program, without removed ones (null)."""
        found = {}
        for name in SECTIONS:
            found[name] = {
                key: value for key, value in getattr(self, name).items() if value is not None
            }
        return found

    def options(self, *sections: str) -> Options:
        """Return the options of some sections; a later section overrides an earlier one, also by
        removing one.
        """
        merged = {key: value for name in sections for key, value in getattr(self, name).items()}
        return {key: value for key, value in merged.items() if value is not None}

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        return self.task["source-lang"], self.task["target-lang"]

    @property
    def averaged(self) -> int | None:
        """Number of last checkpoints whose mean is the model; None: the model is the best
        checkpoint.
        """
        return self.train.get(AVERAGED)

    def training(self) -> Options:
        """Return the options of fairseq-train."""
        return {
            key: value for key, value in self.options("task", "train").items() if key != AVERAGED
        }

    def preparing(self) -> Options:
        """Return the options of gtransformer prepare: section ``prepare``, and the languages of the
        task.
        """
        return self.options("prepare") | {
            key: self.task[key] for key in LANGUAGES if key in self.task
        }


def recipe_files() -> list[Path]:
    """Return the files of the package's recipes: those of ``configs/``, then folder by folder."""
    files = sorted(config_directory().rglob("*.yaml"), key=lambda path: (len(path.parts), path))
    return [path for path in files if path.parent.name not in NO_RECIPES]


def recipe_names() -> list[str]:
    """Return the names of the package's recipes."""
    return [name_of(path) for path in recipe_files()]


def name_of(path: Path) -> str:
    """Return the name of a file's recipe; ablations, experiments and files elsewhere are named
    without folder.
    """
    folder = path.resolve().parent
    if folder.parent != config_directory().resolve() or folder.name in ("ablations", *NO_RECIPES):
        return path.stem
    return f"{folder.name}/{path.stem}"


def listing() -> str:
    """Return a line for each recipe: its name and description."""
    lines = [f"  {name_of(path):27} {read_yaml(path)['description']}" for path in recipe_files()]
    return "\n".join(lines)


class UnknownRecipe(UserError):
    """No recipe of that name."""


def find_recipe(name: str) -> Path:
    """Return the file of a recipe: a path, or a name in ``configs/``. Raise UnknownRecipe, with
    similar names.
    """
    top = config_directory()
    for path in (Path(name), top / f"{name}.yaml", top / "ablations" / f"{name}.yaml"):
        if path.suffix == ".yaml" and path.is_file():
            return path
    like = (
        ", ".join(difflib.get_close_matches(name, recipe_names())) or "see gtransformer run --help"
    )
    raise UnknownRecipe(
        f"unknown recipe '{name}': give the path of a YAML file, or a recipe's name ({like})"
    )


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
            raise UserError(
                f"--set {change}: write SECTION.OPTION=VALUE with a section of "
                f"{', '.join(SECTIONS)}"
            )
    content = OmegaConf.merge(_with_bases(path), OmegaConf.from_dotlist(changes or []))
    content = OmegaConf.to_container(content)
    sections = {section: content.get(section) or {} for section in SECTIONS}
    return typed(content | sections | {"name": name_of(path)}, Recipe, f"recipe {name}")


def _with_bases(path: Path) -> Options:
    """Return the content of a recipe over that of its base; names of other recipes become paths or
    full names.
    """
    content = read_yaml(path)
    for key in OTHERS:
        sibling = path.resolve().parent / f"{str(content.get(key)).removesuffix('.yaml')}.yaml"
        top = config_directory().resolve()
        if sibling.is_file():
            own = sibling.is_relative_to(top)
            content[key] = (
                sibling.relative_to(top).with_suffix("").as_posix() if own else str(sibling)
            )
    if content.get("based-on") is None:
        return content
    base = _with_bases(find_recipe(content["based-on"]))
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
    manifest = folder / "manifest.json"
    content = read_json(manifest) if manifest.is_file() else {}
    if "dropout" not in content or not (folder / PARAMETERS).is_file():
        raise UserError(
            f"{folder}: no directory of a converted model; make one with gtransformer model convert"
        )
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
