"""Training budget of every system of an arena: updates, minutes or tokens."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import options as fairseq_options

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.lab.arena.systems import DEFAULT_UPDATES
from gtransformer.lab.recipes import frequencies
from gtransformer.optional import import_user_dir
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Options, Recipe
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.translation_doc import TranslationDocTask

UPDATES, MINUTES, TOKENS = UNITS = ("updates", "minutes", "tokens")
MINIMUM = {UPDATES: 1, MINUTES: 0.01, TOKENS: 1}
PER_UPDATE = "target_tokens_per_update"  # of a system's training, in a result
# Option of schedules that end with the budget, and all their options, which other schedules do not have.
TOTAL_UPDATES, SCHEDULE_END_OPTIONS = (
    "total-num-update",
    ("total-num-update", "end-learning-rate", "power", "force-anneal"),
)
UNLIMITED_SCHEDULE = "inverse_sqrt"


class Budget(NamedTuple):
    """An amount of ``updates``, ``minutes`` or ``tokens`` (``unit``)."""

    unit: str
    amount: float


def read_budget(args: argparse.Namespace) -> Budget:
    """Return the budget of a command line. Raises UserError for two budgets, or a too small one."""
    given = [Budget(unit, getattr(args, unit)) for unit in UNITS if getattr(args, unit) is not None]
    if len(given) > 1:
        raise UserError(f"{' and '.join(f'--{one.unit}' for one in given)} are different budgets; give one of them")
    for one in given:
        if not MINIMUM[one.unit] <= one.amount < math.inf:
            raise UserError(f"--{one.unit} {one.amount:g}: give a number, at least {MINIMUM[one.unit]:g}")
    return given[0] if given else Budget(UPDATES, DEFAULT_UPDATES)


def budget_words(result: Mapping[str, Any]) -> str:
    """Return the budget of a result (``arena.json``): ``600 updates``, ``30 minutes``."""
    amount, unit = next((result[unit], unit) for unit in UNITS if result.get(unit))
    return f"{amount:,} {unit}" if unit == TOKENS else f"{amount:g} {unit}"


def limited(train: Options, updates: float) -> list[str]:
    """Return changes of a recipe's section ``train`` for a budget of updates."""
    return [f"train.max-update={updates}", *([f"train.{TOTAL_UPDATES}={updates}"] if TOTAL_UPDATES in train else [])]


def endless(train: Options) -> list[str]:
    """Return changes of a recipe's section ``train`` for a budget of minutes.

    The number of updates is unknown, and a training with more minutes later resumes this one. So a schedule with an end
    is replaced by one without.
    """
    schedule = [
        f"train.lr-scheduler={UNLIMITED_SCHEDULE}",
        *(f"train.{key}=" for key in SCHEDULE_END_OPTIONS if key in train),
    ]
    return ["train.max-update=", *(schedule if TOTAL_UPDATES in train else [])]


def has_one_size(recipe: Recipe) -> bool:
    """Return whether all updates of a recipe have the same number of batches."""
    return len(frequencies(recipe.sections["train"].get("update-freq", 1))) == 1


def measure_epoch(recipe: Recipe, prepared: Path) -> dict[str, int]:
    """Return ``target_tokens`` of a prepared training corpus, and a recipe's ``updates`` per epoch.

    A target token (subword) counts once, in its current sentence, not as context or in overlapping instances. Raises
    UserError if updates differ in size, and for several corpora.
    """
    if not has_one_size(recipe):
        raise UserError(
            f"recipe '{recipe.name}': with an update-freq per epoch, tokens cannot be converted to updates; give one "
            "train.update-freq, or --updates"
        )
    arguments = [str(prepared / "bin"), *to_arguments(recipe.training())]
    import_user_dir(recipe.training().get("user-dir"))
    given = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), arguments)
    cfg = TranslationDocConfig.from_namespace(given)
    if cfg.more_training_data or cfg.training_weights:
        raise UserError(
            f"recipe '{recipe.name}': tokens are counted of one corpus; leave train.more-training-data and "
            "train.training-weights out"
        )
    cfg.doc_seed = given.seed  # fairseq resolves it when it builds a training
    task = TranslationDocTask.setup_task(cfg)
    task.load_dataset(task.cfg.train_subset)
    dataset = task.dataset(task.cfg.train_subset)
    batches = task.get_batch_iterator(dataset, given.max_tokens, given.batch_size, seed=given.seed)
    tokens = read_json(prepared / "manifest.json")["splits"]["train"]["tokens"][recipe.pair[1]]
    batches_per_update = recipe.devices * frequencies(recipe.sections["train"].get("update-freq", 1))[0]
    return {"target_tokens": tokens, "updates": math.ceil(len(batches) / batches_per_update)}


def updates_of_tokens(tokens: float, epoch: Mapping[str, int]) -> int:
    """Return the number of updates for a number of target tokens, at least 1; ``epoch`` is from ``measure_epoch``."""
    return max(1, round(tokens * epoch["updates"] / epoch["target_tokens"]))
