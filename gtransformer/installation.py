"""Paths of the installation, and the provenance of a result: command, commit, versions, date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# setup.py copies them here; in a checkout they are next to the package.
INSTALLED = PACKAGE / "configs"


def checkout() -> Path | None:
    """Return the root of the checkout that the package runs from; None if it is installed without
    one.
    """
    return None if INSTALLED.is_dir() else PACKAGE.parent


def config_directory() -> Path:
    """Return ``configs/`` of the checkout, or the copy installed with the package."""
    root = checkout()
    return root / "configs" if root else INSTALLED


def data_directory() -> Path:
    """Return the directory of the benchmark corpora: $DATA, or ``data/`` of the checkout or, if the
    package is installed without one, of the working directory.
    """
    return Path(os.environ.get("DATA") or (checkout() or Path.cwd()) / "data")


def corpus_directory(corpus: str) -> Path:
    """Return the directory of a raw corpus: its path, or the name of a benchmark in $DATA."""
    return Path(corpus) if Path(corpus).is_dir() or os.sep in corpus else data_directory() / corpus


def runs_directory() -> Path:
    """Return the directory of recipes' runs: the variable GTRANSFORMER_RUNS, or ``runs/`` of the
    working directory.
    """
    return Path(os.environ.get("GTRANSFORMER_RUNS") or "runs").absolute()


PACKAGES = ("torch", "fairseq-fixed", "sacrebleu", "sacremoses", "subword-nmt", "numpy")


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed (default: those that a
    result depends on).
    """
    found = {"python": platform.python_version()}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def with_pip_names(text: str) -> str:
    """Return a text with extras in the form for pip: ``.[hf]`` in a checkout, else
    ``gtransformer[hf]``.
    """
    return text if checkout() else text.replace("pip install -e '.[", "pip install 'gtransformer[")


def current_commit() -> str | None:
    """Return the commit of this package's checkout, with ``+changes`` if tracked files differ from
    it.

    None if the package is installed without its checkout, if nothing is committed yet, or if there
    is no git.
    """
    if checkout() is None:
        return None
    try:
        commit, changed = (
            _git("rev-parse", "HEAD"),
            _git("status", "--porcelain", "--untracked-files=no"),
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")


def _git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=checkout(), capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def provenance(command_line: str) -> dict:
    """Return ``command``, ``commit``, ``versions`` and ``date`` of a result."""
    return {
        "command": command_line,
        "commit": current_commit(),
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def device_name() -> str:
    """Return the names of the GPUs, or "CPU"."""
    import torch  # slow, and needed only here

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join(names) or f"CPU ({os.cpu_count()} cores)"
