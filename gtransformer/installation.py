"""Where the package is installed: its recipes, and the checkout if there is one."""

from __future__ import annotations

import sys
from pathlib import Path


def config_directory() -> Path:
    """``configs/`` of the checkout, or the copy installed with the package."""
    checkout = Path(__file__).resolve().parents[1] / "configs"
    return checkout if checkout.is_dir() else Path(sys.prefix) / "share" / "gtransformer" / "configs"


def project_root() -> Path:
    """The checkout, or the working directory where the package is installed without one."""
    parent = config_directory().parent
    return parent if (parent / "gtransformer").is_dir() else Path.cwd()
