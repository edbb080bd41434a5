"""Options of a recipe as fairseq reads them."""

from __future__ import annotations

import argparse

from fairseq import options as fairseq_options

from gtransformer.optional import import_user_dir
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Recipe


def parse_training(recipe: Recipe) -> argparse.Namespace:
    """What fairseq's own parser makes of a recipe's options of training; SystemExit if it refuses
    one.
    """
    import_user_dir(recipe.training().get("user-dir"))
    arguments = ["data", *to_arguments(recipe.training())]
    return fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
