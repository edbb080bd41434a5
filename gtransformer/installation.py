"""Where the package is installed: its recipes, and the checkout if there is one."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = PACKAGE / "configs"  # setup.py copies them here; in a checkout they lie beside the package


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
    """Return a text with extras named as pip finds them: ``.[bert]`` in a checkout, else ``gtransformer[bert]``."""
    return text if checkout() else text.replace("pip install '.[", "pip install 'gtransformer[")
