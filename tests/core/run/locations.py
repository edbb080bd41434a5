"""Raw corpora by their names alone, and fairseq's own parser."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq import options as fairseq_options

from gtransformer.optional import import_user_dir
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Recipe


def write_raw(folder: Path, pair: tuple[str, str] = ("en", "de")) -> Path:
    """A raw corpus of a line a split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        for lang in pair:
            path = folder / f"concatenated_{pair[0]}2{pair[1]}_{split}_{lang}.txt"
            path.write_text(f"<d>\nA. {split} {lang}\n")
    return folder


def parse_training(recipe: Recipe) -> argparse.Namespace:
    """What fairseq's own parser makes of a recipe's options of training; SystemExit if it refuses
    one.
    """
    import_user_dir(recipe.training().get("user-dir"))
    arguments = ["data", *to_arguments(recipe.training())]
    return fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
