"""The systems of the arena by name, and the sizes that it has if nobody chooses others; quick to import."""

from __future__ import annotations

from gtransformer.installation import config_directory
from gtransformer.run.recipe import load_recipe

FOLDER = "arena"  # of the recipes, in configs/
BASELINE = "sentences"  # the system that all others are compared with
SIZES = {"documents": 300, "dev_documents": 7, "test_documents": 7, "items": 400}  # of the generated corpus
FRESH = "scratch"  # where systems come from: random weights, not a shared model
DEFAULT = 600  # of training, for each system


def recipe_argument(name: str) -> str:
    """Return a system as a recipe is named on a command line: ``lst`` is ``arena/lst``; files and others stay."""
    return f"{FOLDER}/{name}" if (config_directory() / FOLDER / f"{name}.yaml").is_file() else name


def system_names() -> list[str]:
    """Return the package's systems, the baseline first: recipes of the folder that start from another's model."""
    names = sorted(path.stem for path in (config_directory() / FOLDER).glob("*.yaml"))
    systems = [name for name in names if load_recipe(recipe_argument(name)).pretrained_from]
    return sorted(systems, key=lambda name: name != BASELINE)
