"""Refuses checkpoints that were trained with another beginning of the decoder's input.

Until it read ``<s> w1 ... </s>``, as the authors' release validates and searches, this package fed ``[de] <s> w1 ...``.
The parameters of such a model fit, and what it would compute is wrong. Its configuration lacks ``decoder_start``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gtransformer.errors import CheckpointError, UserError
from gtransformer.tasks.checkpoint_file import read_settings
from gtransformer.tasks.finetuning import LAST, pretrained_path

TASK = "translation_doc"


def check_decoder_start(task: Mapping[str, Any], checkpoint: Path | None = None) -> None:
    """Raise UserError if the saved options of a ``task`` are translation_doc's and name no ``decoder_start``.

    Args:
        checkpoint: where they were saved; None where only fairseq's loader knows (``errors.explain`` asks it).
    """
    if task.get("_name") != TASK or task.get("decoder_start") is not None:
        return
    reason = (
        "was trained by an older version of this package, whose decoder read the language symbol before the first <s>; "
        "train it again, in another directory or after removing it"
    )
    raise CheckpointError(reason) if checkpoint is None else UserError(f"checkpoint {checkpoint} {reason}")


def check_saved_with(model: DictConfig) -> None:
    """The same, given the section of a checkpoint's configuration that its model is built from.

    fairseq makes a whole configuration of the release's ``args``, with the defaults of today for what they lack: these
    models read what ours do.
    """
    root = model._get_root() if isinstance(model, DictConfig) else None
    if isinstance(root, DictConfig) and isinstance(root.get("task"), DictConfig):
        check_decoder_start(root.task)


def check_start_of_training(whole: DictConfig | None) -> None:
    """The same for the checkpoint that a training begins from, its own last one or another's."""
    if whole is None:
        return
    path = pretrained_path(whole) or Path(whole.checkpoint.save_dir) / LAST
    check_decoder_start(read_settings(path).get("task", {}), path)
