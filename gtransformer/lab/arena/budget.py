"""What every system of an arena is trained for: updates, minutes or tokens."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import options as fairseq_options

from gtransformer.data.batching import ADDED
from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.arena.systems import DEFAULT
from gtransformer.run.commands import frequencies, to_arguments
from gtransformer.run.recipe import Options, Recipe
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.trained import import_user_dir
from gtransformer.tasks.translation_doc import TranslationDocTask

UPDATES, MINUTES, TOKENS = UNITS = ("updates", "minutes", "tokens")
LEAST = {UPDATES: 1, MINUTES: 0.01, TOKENS: 1}
PER_UPDATE = "target_tokens_per_update"  # of a system's training, in a result
# A schedule that ends with the budget, and its options, which a schedule without an end does not know.
END, ENDING = "total-num-update", ("total-num-update", "end-learning-rate", "power", "force-anneal")
ENDLESS = "inverse_sqrt"


class Budget(NamedTuple):
    """So many ``updates``, ``minutes`` or ``tokens`` (``unit``)."""

    unit: str
    amount: float


def read_budget(args: argparse.Namespace) -> Budget:
    """Return the budget of a command line. Raises UserError for two of them, or too little."""
    given = [Budget(unit, getattr(args, unit)) for unit in UNITS if getattr(args, unit) is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(f'--{one.unit}' for one in given)} are different budgets; give one of them")
    for one in given:
        if not one.amount >= LEAST[one.unit]:
            raise UserError(f"--{one.unit} {one.amount:g}: give at least {LEAST[one.unit]:g}")
    return given[0] if given else Budget(UPDATES, DEFAULT)


def budget_words(result: Mapping[str, Any]) -> str:
    """Return the budget of a result (``arena.json``): ``600 updates``, ``30 minutes``."""
    amount, unit = next((result[unit], unit) for unit in UNITS if result.get(unit))
    return f"{amount:,} {unit}" if unit == TOKENS else f"{amount:g} {unit}"


def limited(train: Options, updates: float) -> list[str]:
    """Return what a training of so many updates does otherwise than its recipe's section ``train``."""
    return [f"train.max-update={updates}", *([f"train.{END}={updates}"] if END in train else [])]


def endless(train: Options) -> list[str]:
    """Return the same where minutes limit it.

    How many updates that will be is not known, nor may a training of more minutes, which goes on, have been at its end
    before: a schedule that ends becomes one that does not.
    """
    schedule = [f"train.lr-scheduler={ENDLESS}", *(f"train.{key}=" for key in ENDING if key in train)]
    return ["train.max-update=", *(schedule if END in train else [])]


def has_one_size(recipe: Recipe) -> bool:
    """Return whether all updates of a recipe are of as many batches."""
    return len(frequencies(recipe.sections["train"].get("update-freq", 1))) == 1


def measure_epoch(recipe: Recipe, prepared: Path) -> dict[str, int]:
    """Return ``target_tokens`` of a prepared training corpus, and the ``updates`` that a recipe makes of them.

    A target token (subword) counts once, where its sentence is the current one; as context or in an instance that
    overlaps it does not count again; with ``--shuffled-context added`` each comes twice. Raises UserError where updates
    are not all of a size.
    """
    if not has_one_size(recipe):
        raise UserError(
            f"recipe '{recipe.name}': with an update-freq for each epoch tokens are no number of updates; give one "
            "train.update-freq, or --updates"
        )
    arguments = [str(prepared / "bin"), *to_arguments(recipe.training())]
    import_user_dir(recipe.training().get("user-dir"))
    given = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
    cfg = TranslationDocConfig.from_namespace(given)
    cfg.doc_seed = given.seed  # fairseq resolves it where it builds a training
    task = TranslationDocTask.setup_task(cfg)
    task.load_dataset(task.cfg.train_subset)
    dataset = task.dataset(task.cfg.train_subset)
    batches = task.get_batch_iterator(dataset, given.max_tokens, given.batch_size, seed=given.seed)
    tokens = read_json(prepared / "manifest.json")["splits"]["train"]["tokens"][recipe.pair[1]]
    tokens *= 2 if str(cfg.shuffled_context) == ADDED else 1
    batches_per_update = recipe.devices * frequencies(recipe.sections["train"].get("update-freq", 1))[0]
    return {"target_tokens": tokens, "updates": math.ceil(len(batches) / batches_per_update)}


def updates_of_tokens(tokens: float, epoch: Mapping[str, int]) -> int:
    """Return how many updates have so many target tokens, one at least; ``epoch`` as of ``measure_epoch``."""
    return max(1, round(tokens * epoch["updates"] / epoch["target_tokens"]))
