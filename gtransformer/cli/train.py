"""Run the training of a recipe: ``gtransformer train RECIPE CORPUS``."""

from __future__ import annotations

import sys

from gtransformer.cli.run import run_stages
from gtransformer.errors import cli_main


@cli_main
def main(argv: list[str] | None = None) -> int | None:
    """Train."""
    return run_stages(sys.argv[1:] if argv is None else argv, "train")
