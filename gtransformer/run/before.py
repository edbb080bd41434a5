"""The model before training, measured beside the trained one (recipes with ``measure-start``)."""

from __future__ import annotations

import shutil
from pathlib import Path

from gtransformer.files import read_json, write_json
from gtransformer.plugin.checkpoints import read_state
from gtransformer.run.recipe import Options, Recipe

# in a run's directory: checkpoint, translations and comparison of the model before training
BEFORE = "before"
LOSSES = "losses.json"  # there: dev losses before and after
SIGNIFICANT = 0.05


def before_training(options: Options) -> Options:
    """Return the options of fairseq-train for one update that changes nothing: it saves the start,
    validated.
    """
    other = {
        "lr": 0,
        "warmup-init-lr": None,
        "max-update": 1,
        "patience": None,
        "tensorboard-logdir": None,
    }
    return options | other | {"no-save-optimizer-state": True}


def keep_better(before: Path, best: Path, recipe: Recipe) -> None:
    """Replace the best checkpoint of a training by its start if that has the better validation
    loss.

    fairseq itself does not validate before the first update. The mean of checkpoints has no
    validation loss, and stays.
    """
    start = before / "checkpoint_best.pt"
    checkpoints = [start, best.with_name("checkpoint_best.pt")]
    losses = [float(read_state(path)["extra_state"]["val_loss"]) for path in checkpoints]
    sign = -1 if recipe.train.get("maximize-best-checkpoint-metric") else 1
    kept = sign * losses[0] <= sign * losses[1] and not recipe.averaged
    write_json(before / LOSSES, {"before": losses[0], "after": losses[1], "kept": kept})
    if kept:
        shutil.copyfile(start, best)


def verdict(before: Path, split: str) -> str:
    """Return dev losses before and after training, and a sentence if the start was better."""
    losses = read_json(before / LOSSES)
    text = f"dev loss: {losses['before']:.3f} before training, {losses['after']:.3f} after"
    if losses["kept"]:
        return (
            f"{text}\nThe model before training was the best on the dev set and was kept: "
            "training did not help."
        )
    found = read_json(before / f"{split}.scores.json")["significance"]["raw"]["s_bleu"]["after"]
    p_value = found["p_value"] or 1  # None: too few documents
    if found["difference"] < 0 and p_value < SIGNIFICANT:
        text += (
            f"\nThe model before training translates better (s-BLEU, p = {p_value:.3f}): keep "
            f"{before}."
        )
    return text
