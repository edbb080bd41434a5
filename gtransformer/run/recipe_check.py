"""Checks of a recipe before anything runs: do the programs accept its options, and do the named files exist?"""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from fairseq import options as fairseq_options

from gtransformer.errors import UserError
from gtransformer.run.commands import parser_of, to_arguments
from gtransformer.run.recipe import AVERAGED, FILES, Recipe
from gtransformer.run.stage import SECTIONS
from gtransformer.tasks.trained import import_user_dir

LAMBDA = re.compile(r"invalid <lambda> value: (.*)")
UNKNOWN = re.compile(r"unrecognized arguments: (--[\w-]+)")
CHOICES = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)")
# Placeholders for arguments that are no options of the recipe.
NEEDED = {
    "prepare": ["RAW", "PREPARED"],
    "train": ["DATA"],
    "generate": ["DATA", "--path", "CHECKPOINT"],
    "score": ["PREPARED", "--hypotheses", "X.jsonl"],
}


def check_recipe(recipe: Recipe, stages: Sequence[str], extra: Sequence[str] = ()) -> None:
    """Raise UserError for an unknown option or an invalid value of one of the stages, and for missing files.

    Args:
        extra: further arguments of a single stage.
    """
    for stage in stages:
        check_options(recipe, stage, extra)
    for key in FILES:
        section, _, option = key.partition(".")
        path = recipe.sections[section].get(option)
        if path is not None and section in stages and not Path(str(path)).exists():
            raise UserError(
                f"{path}: missing, but recipe '{recipe.name}' needs it ({key}); put it there, or give its path with "
                f"--set {key}=PATH (docs/train.md describes where to get pretrained models)"
            )


def check_options(recipe: Recipe, stage: str, extra: Sequence[str] = ()) -> None:
    """Raise UserError, with the recipe's name, unless the program of a stage accepts the recipe's options."""
    if {"-h", "--help"} & set(extra):
        return
    own = {"prepare": recipe.preparing, "train": recipe.training}
    options = own[stage]() if stage in own else recipe.options(*SECTIONS[stage])
    import_user_dir(options.get("user-dir"))
    if stage in ("train", "generate"):
        make = fairseq_options.get_training_parser if stage == "train" else fairseq_options.get_generation_parser
        parser, parse = make(), fairseq_options.parse_args_and_arch
    else:
        parser, parse = parser_of(stage), argparse.ArgumentParser.parse_args
    parser.error = lambda message: _refuse(message, [one for one in parser._option_string_actions if one[:2] == "--"])
    try:
        if stage == "generate" and "user-dir" not in options and "user-dir" in recipe.training():
            _refuse("user-dir is only in section train; write it into task, which both read")
        given = parse(parser, [*NEEDED[stage], *to_arguments(options), *extra])
        if stage == "train":
            check_averaging(recipe.averaged, given)
    except UserError as error:
        raise UserError(f"recipe '{recipe.name}', stage {stage}: {error}"[:400]) from None


def check_averaging(wanted: Any, given: argparse.Namespace) -> None:
    """Raise UserError if training keeps fewer checkpoints than are to be averaged, or ends before the first one.

    A smaller number because of a short training is reported when they are averaged.

    Args:
        wanted: number of checkpoints to average; None: no averaging.
        given: all options of the training.
    """
    if wanted is None:
        return
    if not isinstance(wanted, int) or wanted < 2:
        raise UserError(f"{AVERAGED} is {wanted!r}; give a whole number of at least 2, or remove it")
    updates = given.max_update or math.inf
    epochs = min(given.max_epoch or math.inf, updates)  # an epoch has one update at least
    every_epoch = 0 if given.no_epoch_checkpoints else given.save_interval
    kinds = [
        (epochs, every_epoch, given.keep_last_epochs),
        (updates, given.save_interval_updates, given.keep_interval_updates),
    ]
    kinds = [(end, every, most if most > 0 else math.inf) for end, every, most in kinds if every > 0]
    if given.no_save or max((most for *_, most in kinds), default=0) < wanted:
        raise UserError(
            f"{AVERAGED} is {wanted}, but training keeps fewer; set train.keep-last-epochs={wanted} and "
            f"train.no-epoch-checkpoints=, or train.keep-interval-updates={wanted} with train.save-interval-updates"
        )
    if all(end < every for end, every, _ in kinds):
        raise UserError(
            f"{AVERAGED} is {wanted}, but training ends before it has written a numbered checkpoint; set a smaller "
            "train.save-interval-updates, or more epochs or updates"
        )


def _refuse(message: str, known: Sequence[str] = ()) -> NoReturn:
    """Raise UserError with argparse's message, without names of functions and with only similar choices.

    ``known``: options, of which a similar one is named.
    """
    unknown = UNKNOWN.search(message)
    if unknown and (like := difflib.get_close_matches(unknown[1], known, 1)):
        message += f"; similar is {like[0]}"
    message = LAMBDA.sub(r"cannot be read: \1; give a number, or several with commas between them", message)
    found = CHOICES.search(message)
    if found and len(found[0]) > 200:
        like = difflib.get_close_matches(found[1], re.findall(r"[\w/-]+", found[2]))
        message = f"{message[: found.start()]}invalid choice: '{found[1]}'; similar are {', '.join(like) or 'none'}"
    raise UserError(message)
