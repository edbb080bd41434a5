"""Checkpoint files: the options that they record, and their mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.files import atomic_write, read_json
from gtransformer.models.saved import CONFIG, SYSTEM, read_parameters
from gtransformer.search.strategies import AUTO
from gtransformer.tasks.config import TranslationDocConfig

# Options that do not change parameters: with other values a model would load, but compute something else.
STRUCTURE = (
    *(f"{side}_{key}" for side in ("encoder", "decoder") for key in ("attention_heads", "normalize_before")),
    "activation_fn",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "sentence_marks",
    "sinusoids",
)
LAST = "checkpoint_last.pt"
AVERAGE = "average.pt"  # in a folder of checkpoints: their mean
NUMBERED = re.compile(r"checkpoint(_\d+_)?\d+\.pt")  # of an epoch, or of an epoch and an update


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """Return the model's and task's options in a fairseq checkpoint; empty sections for an unreadable file."""
    try:
        state = load_lazily(path)
    except Exception:  # a damaged file makes the loader raise anything; fairseq will report it
        state = {}
    return settings_of(state)


def read_state(path: Path, wanted: str = "a checkpoint") -> dict[str, Any]:
    """Return the content of a fairseq checkpoint. Raise UserError if it cannot be read or holds no model."""
    try:
        state = load_lazily(path)
    except Exception as error:  # a damaged file makes the loader raise anything
        raise UserError(f"{path}: cannot be read as {wanted} ({error}); give another") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"{path}: no checkpoint of fairseq, it holds no model")
    return state


def load_lazily(path: Path) -> Any:
    """Load a checkpoint on the CPU, memory-mapped if its format allows it, or a model directory as one.

    Raises PyTorch's errors.
    """
    if path.is_dir():
        return checkpoint_of(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap can only be used" not in str(error):
            raise
    return torch.load(path, map_location="cpu", weights_only=True)  # written before PyTorch 1.6


def checkpoint_of(directory: Path) -> dict[str, Any]:
    """Return a model directory as a fairseq checkpoint of a model that was trained on such instances as it takes."""
    options, settings = read_json(directory / CONFIG), read_json(directory / "manifest.json")["settings"]
    most = settings.get("max_sents")
    instances = {} if most is None else {"instances": "disjoint", "context_sentences": most - 1}
    whole = OmegaConf.to_container(OmegaConf.structured(FairseqConfig()))
    whole["model"] = {"_name": options.pop(SYSTEM), **options}
    whole["task"] = {
        **asdict(TranslationDocConfig()),
        "_name": "translation_doc",
        **{name: settings[name] for name in ("source_lang", "target_lang")},
        **{name: options[name] for name in ("doc_mode", "max_source_positions", "max_target_positions")},
        "langs": ",".join(settings["langs"]),
        "sentence_rule": settings.get("sentence_rule", AUTO),
        **instances,
    }
    return {"args": None, "cfg": whole, "model": read_parameters(directory)}


def settings_of(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the model's and task's options in the content of a checkpoint, from ``cfg`` or the older ``args``."""
    whole = state.get("cfg") or {}
    args = vars(state["args"]) if state.get("args") is not None else {}
    sections = {}
    for name in ("model", "task"):
        section = whole.get(name) if whole else args
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=False)
        sections[name] = dict(section) if isinstance(section, Mapping) else dict(vars(section or object))
    return sections


def model_in(folder: Path) -> Path:
    """Return the final model in a training's folder of checkpoints: their mean if there is one, else the best."""
    mean = folder / AVERAGE
    return mean if mean.is_file() else folder / "checkpoint_best.pt"


def last_checkpoints(folder: Path, number: int, fewer: bool = False) -> list[Path]:
    """Return the last numbered checkpoints of a training, in order.

    ``fewer``: accept fewer, at least one. Raises UserError if there are too few.
    """
    found = [path for path in folder.glob("checkpoint*.pt") if NUMBERED.fullmatch(path.name)]
    if len(found) < (1 if fewer else number):
        raise UserError(
            f"{folder}: holds {len(found)} numbered checkpoint(s), but {number} are to be averaged; average fewer, or "
            "continue training and keep more (--keep-last-epochs or --keep-interval-updates)"
        )
    return sorted(found, key=_place)[-number:]


def _place(path: Path) -> tuple[int, int]:
    """Return which start of the training a checkpoint is of, and its updates: with a new optimizer they begin at 0."""
    history = read_state(path)["optimizer_history"]
    return len(history), int(history[-1]["num_updates"])


def average(paths: Sequence[Path], output: Path) -> None:
    """Write the mean of the parameters of some checkpoints, with the other content of the last but its optimizer state.

    float16 and bfloat16 parameters are summed and stored in float32, as in fairseq's average_checkpoints.py. Tied
    parameters remain one tensor. The file is written atomically.

    Raises UserError for a file that is no checkpoint, and for checkpoints with other parameters.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        state = read_state(path)
        model = state["model"]
        if total and {name: value.shape for name, value in model.items()} != {n: v.shape for n, v in total.items()}:
            raise UserError(f"{path}: another model than {paths[0]}; average checkpoints of one training")
        for name, value in model.items():
            if not value.is_floating_point():
                total[name] = value
            elif name in total:
                total[name] += value
            else:
                total[name] = value.to(torch.promote_types(value.dtype, torch.float32), copy=True)
    first: dict[tuple, str] = {}
    for name, value in model.items():
        same = first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
        if same != name:
            total[name] = total[same]
        elif value.is_floating_point():
            total[name] /= len(paths)
    with atomic_write(output, "wb") as stream:
        torch.save({**state, "model": total, "last_optimizer_state": None}, stream)
