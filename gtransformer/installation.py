"""Where the package is installed: its recipes, the checkout if there is one, and what its commands are called there."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = PACKAGE / "configs"  # setup.py copies them here; in a checkout they lie beside the package
# The commands of an installed package are called as the scripts are; those for work on the package itself are none.
SCRIPT = re.compile(
    r"(?:bash )?scripts/(?!setup|test|common|check|gpu_check)(\w+)\.sh|python -m gtransformer\.(?:lab\.)?cli\.(\w+)"
)


def checkout() -> Path | None:
    """The root of the checkout that the package runs from; None where it is installed without one."""
    return None if INSTALLED.is_dir() else PACKAGE.parent


def config_directory() -> Path:
    """``configs/`` of the checkout, or the copy installed with the package."""
    root = checkout()
    return root / "configs" if root else INSTALLED


def project_root() -> Path:
    """The checkout, or the working directory where the package is installed without one."""
    return checkout() or Path.cwd()


def as_typed(text: str) -> str:
    """A text that names scripts and extras of the checkout; where there is none, those of the installed package."""
    if checkout():
        return text
    text = text.replace("pip install '.[", "pip install 'gtransformer[")  # installed already: pip asks no index for it
    return SCRIPT.sub(lambda found: f"gtransformer-{found[1] or found[2].replace('_', '-')}", text)
