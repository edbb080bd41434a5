"""The mean of a training's last checkpoints, which is often better than the last (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.models.common.architectures import system_of
from gtransformer.tasks.checkpoint_file import difference, read_settings, read_state, updates_of
from gtransformer.tasks.finetuning import STRUCTURE

AVERAGE = "average.pt"  # in a folder of checkpoints: their mean, not to be taken for one of them
NUMBERED = re.compile(r"checkpoint(_\d+_)?\d+\.pt")  # of an epoch, or of an epoch and an update


def model_in(folder: Path) -> Path:
    """The model that a training has left in its folder of checkpoints: their mean if that was made, else the best."""
    mean = folder / AVERAGE
    return mean if mean.is_file() else folder / "checkpoint_best.pt"


def last_checkpoints(folder: Path, number: int, fewer: bool = False) -> list[Path]:
    """The last numbered checkpoints of a training, those with most updates, in their order.

    ``fewer``: those that there are will do.

    Raises UserError if there are fewer, or none, or one of them cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory; give that of a training's checkpoints")
    found = {_updates(path): path for path in folder.glob("checkpoint*.pt") if NUMBERED.fullmatch(path.name)}
    if len(found) < (1 if fewer else number):
        raise UserError(
            f"{folder}: holds {len(found)} numbered checkpoint(s), but {number} are to be averaged; average fewer, or "
            "train on with as many kept (--keep-last-epochs or --keep-interval-updates)"
        )
    return [path for _, path in sorted(found.items())[-number:]]


def average(paths: Sequence[Path], output: Path) -> None:
    """Write the mean of the parameters of some checkpoints, otherwise what the last holds but its optimizer's state.

    As fairseq's script of that name does, float16 and bfloat16 are added up, and stay, in float32. What stands under
    several names (tied embeddings) is still one tensor. The file appears when it is complete.

    Raises UserError for a file that is no checkpoint, and for checkpoints of different models.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        state = read_state(path)
        _check_alike(paths[0], total, path, state["model"])
        for name, value in state["model"].items():
            if not value.is_floating_point():
                total[name] = value
            elif name in total:
                total[name] += value
            else:
                total[name] = value.to(torch.promote_types(value.dtype, torch.float32), copy=True)
    first: dict[tuple, str] = {}
    for name, value in state["model"].items():
        same = first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
        if same != name:
            total[name] = total[same]
        elif value.is_floating_point():
            total[name] /= len(paths)
    with atomic_write(output, "wb") as stream:
        torch.save({**state, "model": total, "last_optimizer_state": None}, stream)


def _updates(path: Path) -> int:
    try:
        return updates_of(read_state(path))
    except (KeyError, IndexError, TypeError):
        raise UserError(
            f"{path}: does not say how many updates it was trained for; name the files to average"
        ) from None


def _check_alike(first: Path, total: dict[str, Tensor], path: Path, model: dict[str, Tensor]) -> None:
    """UserError unless a checkpoint has the parameters of the first, and the same settings that these do not show."""
    if not total:
        return
    other = next((name for name in total.keys() ^ model.keys()), None)
    other = other or next((name for name, value in model.items() if value.shape != total[name].shape), None)
    fixed = {name for name, value in model.items() if not value.is_floating_point()}
    other = other or next((name for name in fixed if not model[name].equal(total[name])), None)
    theirs, ours = (read_settings(one).get("model", {}) for one in (path, first))
    systems = {system_of(str(one.get("_name"))) for one in (theirs, ours)}
    other = other or ("_name" if len(systems) > 1 else None)
    other = other or next((key for key in STRUCTURE if theirs.get(key) != ours.get(key)), None)
    other = other or difference(theirs, ours)
    if other:
        raise UserError(f"{path}: of another model than {first} ({other}); average checkpoints of one training")
