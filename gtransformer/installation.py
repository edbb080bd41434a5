"""Paths of the installation: recipes, and the checkout if there is one."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INSTALLED = (
    PACKAGE / "configs"
)  # setup.py copies them here; in a checkout they are next to the package


def checkout() -> Path | None:
    """Return the root of the checkout that the package runs from; None if it is installed without
    one.
    """
    return None if INSTALLED.is_dir() else PACKAGE.parent


def config_directory() -> Path:
    """Return ``configs/`` of the checkout, or the copy installed with the package."""
    root = checkout()
    return root / "configs" if root else INSTALLED


def project_root() -> Path:
    """Return the checkout, or the working directory if the package is installed without one."""
    return checkout() or Path.cwd()


def data_directory() -> Path:
    """Return $DATA, the directory of the benchmark corpora, or ``data/`` of the project's root."""
    return Path(os.environ.get("DATA") or project_root() / "data")


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def as_typed(text: str) -> str:
    """Return a text with extras in the form for pip: ``.[bert]`` in a checkout, else
    ``gtransformer[bert]``.
    """
    return text if checkout() else text.replace("pip install -e '.[", "pip install 'gtransformer[")
