"""The systems of the arena by name, and its default sizes; quick to import."""

from __future__ import annotations

from gtransformer.installation import config_directory
from gtransformer.run.recipe import load_recipe

FOLDER = "arena"  # of the recipes, in configs/
BASELINE = "sentences"  # the system that all others are compared with
SIZES = {"documents": 300, "dev_documents": 7, "test_documents": 7, "items": 400}  # of the generated corpus
FROM_SCRATCH = "scratch"  # value of --from: random weights, not a shared model
DEFAULT_UPDATES = 600  # of each system's training


def recipe_argument(name: str) -> str:
    """Return a system's recipe as on a command line: ``lst`` is ``arena/lst``; files and others are unchanged."""
    return f"{FOLDER}/{name}" if (config_directory() / FOLDER / f"{name}.yaml").is_file() else name


def system_names() -> list[str]:
    """Return the package's systems, the baseline first: recipes in the folder that start from a model."""
    names = sorted(path.stem for path in (config_directory() / FOLDER).glob("*.yaml"))
    systems = [name for name in names if load_recipe(recipe_argument(name)).pretrained_from]
    return sorted(systems, key=lambda name: name != BASELINE)
