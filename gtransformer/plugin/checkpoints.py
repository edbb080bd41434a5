"""Trained models: checkpoint files, the options that they record, their mean; a model and its
task.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import FairseqEncoderDecoderModel
from omegaconf import OmegaConf
from torch import Tensor

from gtransformer.data.batching import SIZE
from gtransformer.data.instances import STORED
from gtransformer.errors import UserError, explain
from gtransformer.files import atomic_write, read_json
from gtransformer.models.saved import CONFIG, SYSTEM, read_parameters
from gtransformer.plugin.config import FUSED_LOSS, TranslationDocConfig
from gtransformer.search.strategies import AUTO, FULL

LAST = "checkpoint_last.pt"
AVERAGE = "average.pt"  # in a folder of checkpoints: their mean
NUMBERED = re.compile(r"checkpoint_?(\d+)(?:_(\d+))?\.pt")  # of an epoch, or epoch and update
# Options for translating given instances as they are, whatever instances the model was trained on.
AS_GIVEN = {
    "instances": STORED,
    "instance_tokens": None,
    "context_sentences": None,
    "target_context_sentences": None,
    "context_loss": "on",
    "batch_order": SIZE,
    "strategy": FULL,
    "window_tokens": None,
    "eval_bleu": False,
    "gen_output": None,
}


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """Return the model's and task's options in a fairseq checkpoint or model directory."""
    return settings_of(read_state(path))


def read_state(path: Path) -> dict[str, Any]:
    """Return the content of a fairseq checkpoint, or a model directory as one, on the CPU.

    Memory-mapped if the format allows it. Raises UserError if it cannot be read or holds no model.
    """
    if path.is_dir():
        return checkpoint_of(path)
    try:
        mmap = is_zipfile(path)  # since PyTorch 1.6
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a damaged file makes the loader raise anything
        raise UserError(f"{path}: cannot be read as a checkpoint of fairseq ({error})") from None
    match state:
        case {"model": Mapping()}:
            return state
    raise UserError(f"{path}: no checkpoint of fairseq, it holds no model")


def checkpoint_of(directory: Path) -> dict[str, Any]:
    """Return a model directory as a fairseq checkpoint of a model that was trained on such
    instances as it takes.
    """
    options = read_json(directory / CONFIG)
    settings = read_json(directory / "manifest.json")["settings"]
    whole = OmegaConf.to_container(OmegaConf.structured(FairseqConfig()))
    # With other criteria, entries of the dictionary without a word are infinite.
    whole["criterion"] = {"_name": FUSED_LOSS}
    whole["model"] = {"_name": options.pop(SYSTEM), **options}
    task = asdict(TranslationDocConfig()) | {"_name": "translation_doc"}
    task |= {name: settings[name] for name in ("source_lang", "target_lang")}
    for name in ("doc_mode", "max_source_positions", "max_target_positions"):
        task[name] = options[name]
    task["langs"] = ",".join(settings["langs"])
    task["sentence_rule"] = settings.get("sentence_rule", AUTO)
    if settings.get("max_sents") is not None:
        task |= {"instances": "disjoint", "context_sentences": settings["max_sents"] - 1}
    whole["task"] = task
    return {"args": None, "cfg": OmegaConf.create(whole), "model": read_parameters(directory)}


def settings_of(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the model's and task's options in the content of a checkpoint, from ``cfg`` or the
    older ``args``.
    """
    if state.get("cfg") is None:
        args = vars(state["args"]) if state.get("args") is not None else {}
        return {"model": args, "task": args}
    sections = {}
    for name in ("model", "task"):
        section = state["cfg"].get(name) or {}
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=False)
        sections[name] = section if isinstance(section, Mapping) else vars(section)
    return sections


def model_in(folder: Path) -> Path:
    """Return the final model in a training's folder of checkpoints: their mean if there is one,
    else the best.
    """
    mean = folder / AVERAGE
    return mean if mean.is_file() else folder / "checkpoint_best.pt"


def last_checkpoints(folder: Path, number: int) -> list[Path]:
    """Return the last numbered checkpoints of a training in order, fewer if there are not so many.

    Raises UserError if there is none.
    """
    numbered: dict[tuple[float, float], Path] = {}
    for path in folder.glob("checkpoint*.pt"):
        if match := NUMBERED.fullmatch(path.name):
            # That of an epoch's end comes after those of its updates.
            numbered[int(match[1]), float(match[2] or "inf")] = path
    if not numbered:
        raise UserError(
            f"{folder}: holds no numbered checkpoints; training keeps them with "
            "--keep-last-epochs or --keep-interval-updates, and without --no-epoch-checkpoints"
        )
    return [path for _, path in sorted(numbered.items())][-number:]


def average(paths: Sequence[Path], output: Path) -> None:
    """Write the mean of the parameters of some checkpoints, with the other content of the last but
    its optimizer state.

    Means are float32 or wider, as in fairseq's average_checkpoints.py. Raises UserError for a file
    that is no checkpoint, and for checkpoints of other models.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        state = read_state(path)
        shapes = {name: value.shape for name, value in state["model"].items()}
        if total and shapes != {name: value.shape for name, value in total.items()}:
            raise UserError(f"{path}: another model than {paths[0]}; average one training")
        for name, value in state["model"].items():
            if value.is_floating_point():
                value = value.to(torch.promote_types(value.dtype, torch.float32)) / len(paths)
                value = value + total.get(name, 0)
            total[name] = value
    # Tied parameters share their memory, and are written once.
    first_names: dict[int, str] = {}
    for name, value in state["model"].items():
        total[name] = total[first_names.setdefault(value.data_ptr(), name)]
    with atomic_write(output, "wb") as stream:
        torch.save({**state, "model": total, "last_optimizer_state": None}, stream)


def keep_better(start: Path, best: Path, higher_is_better: bool) -> str:
    """Replace the best checkpoint of a training by its start if that has the better validation
    loss; return a sentence that says so.

    fairseq itself does not validate before the first update. A second call changes nothing.

    Args:
        start, best: checkpoint files.
        higher_is_better: the score by which the best checkpoint is chosen is no loss.
    """
    losses = [float(read_state(path)["extra_state"]["val_loss"]) for path in (start, best)]
    said = f"validation loss: {losses[0]:.3f} before training, {losses[1]:.3f} of the best model"
    sign = -1 if higher_is_better else 1
    if sign * losses[0] >= sign * losses[1]:
        return said
    shutil.copyfile(start, best)
    return f"{said}; training did not help, the model before it is kept"


def load_trained(checkpoint: str | Path, **overrides) -> tuple[FairseqEncoderDecoderModel, object]:
    """Load the model of a checkpoint or model directory, in evaluation mode, and its fairseq task.

    Args:
        overrides: values that replace the stored configuration's (``data="prepared/bin"``).

    Raises UserError if the file is missing or damaged, or does not fit the dictionaries.
    """
    try:
        (model,), _, task = load_model_ensemble_and_task([str(checkpoint)], overrides)
    except Exception as error:  # a damaged file, or another model's, makes it raise anything
        reason = explain(error) or " ".join(str(error).split())[:300]
        raise UserError(f"checkpoint {checkpoint} cannot be loaded: {reason}") from error
    return model.eval(), task
