"""The budget of a training as changes of its recipe: updates, target tokens or minutes."""

from __future__ import annotations

from pathlib import Path

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from gtransformer.errors import UserError
from gtransformer.files import read_json
from gtransformer.installation import PACKAGE
from gtransformer.run.commands import to_arguments
from gtransformer.run.recipe import Recipe

UNITS = ("updates", "tokens", "minutes")
END = "total-num-update"  # of schedules that end with the budget
OF_THE_END = (END, "end-learning-rate", "power", "force-anneal")


def budget_changes(budget: dict[str, float], recipe: Recipe) -> list[str]:
    """Return the changes for a budget of updates or of minutes; none for an empty one.

    With minutes the number of updates is unknown, so a schedule with an end becomes one without
    (inverse square root).
    """
    train = recipe.options("train")
    if "updates" in budget:
        updates = int(budget["updates"])
        end = [f"train.{END}={updates}"] if END in train else []
        return [f"train.max-update={updates}", "train.max-epoch=", *end]
    if "minutes" not in budget:
        return []
    # Such a schedule would reach its end before or after the minutes are over.
    endless = [f"train.{key}=" for key in OF_THE_END if key in train] if END in train else []
    schedule = ["train.lr-scheduler=inverse_sqrt", *endless] if endless else []
    return [
        "train.max-update=",
        "train.max-epoch=",
        f"train.stop-time-hours={budget['minutes'] / 60:.6f}",
        *schedule,
    ]


def updates_of_tokens(tokens: float, recipe: Recipe, prepared: Path) -> int:
    """Return the updates in which a recipe reads so many target tokens (subwords) of a prepared
    corpus.

    A token counts once, where its sentence is current, and not as context. Raises UserError for
    updates of several sizes.
    """
    frequency = recipe.options("train").get("update-freq", 1)
    if "," in str(frequency):
        raise UserError(f"recipe '{recipe.name}': a budget in tokens needs one train.update-freq")
    # The batches of one epoch are built as the training builds them, because how many tokens a
    # batch has depends on how its instances overlap and on their lengths.
    training = {"user-dir": PACKAGE, **recipe.training()}
    arguments = [str(prepared / "bin"), *to_arguments(training)]
    given = options.parse_args_and_arch(options.get_training_parser(), arguments)
    task = tasks.setup_task(convert_namespace_to_omegaconf(given).task)
    task.load_dataset("train")
    batches = task.get_batch_iterator(
        task.dataset("train"), given.max_tokens, given.batch_size, seed=given.seed
    )
    counts = read_json(prepared / "manifest.json")["splits"]["train"]["tokens"]
    in_epoch = counts[recipe.task["target-lang"]]
    updates = len(batches) / (recipe.devices * int(frequency))
    return max(1, round(tokens * updates / in_epoch))
