"""What a fairseq checkpoint says about its training, without building a model from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from omegaconf import OmegaConf

from gtransformer.errors import UserError

# A model's options that may be others when its training goes on: what is drawn and kept while it computes, how it
# computes, where it began and what of it is trained (which has checks of its own), how it translates.
FREE = frozenset(
    """
    _name arch dropout attention_dropout activation_dropout
    group_attention checkpoint_activations autocast
    load_partial load_partial_global_from_local sentence_model bert_checkpoint gate_bias neutral_gates
    trained_parameters freeze_sentence_parameters
    max_source_positions max_target_positions decode_alignment length_ratio
    """.split()
)


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """The model's and task's options that a fairseq checkpoint holds; empty for a file that cannot be read.

    What is wrong with such a file is said when fairseq loads it.
    """
    try:
        state = load_lazily(path)
    except Exception:  # a damaged file makes the loader raise anything
        return {}
    return settings_of(state) if isinstance(state, dict) else {}


def read_state(path: Path, wanted: str = "a checkpoint") -> dict[str, Any]:
    """What a checkpoint of fairseq holds. Raises UserError if it cannot be read as what is wanted or holds no model."""
    try:
        state = load_lazily(path)
    except Exception as error:  # a damaged file makes the loader raise anything
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise UserError(f"{path}: cannot be read as {wanted} ({reason}); give another") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"{path}: no checkpoint of fairseq, it holds no model")
    return state


def settings_of(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The model's and task's options in what a fairseq checkpoint holds, kept as a configuration or as arguments."""
    whole = state.get("cfg") or {}
    args = vars(state["args"]) if state.get("args") is not None else {}
    sections = {}
    for name in ("model", "task"):
        section = whole.get(name) if whole else args
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=False)
        sections[name] = dict(section) if isinstance(section, Mapping) else dict(vars(section or object))
    return sections


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first of a model's options that makes another model of it, and differs; None if they are of one model.

    Options that one of the two lacks, as older checkpoints do, and values that refer to others are passed over.
    """
    return next((key for key in one if key in other and key not in FREE and not _same(one[key], other[key])), None)


def _same(one: Any, other: Any) -> bool:
    plain = all(value is None or isinstance(value, str | int | float | Enum) for value in (one, other))
    link = any(isinstance(value, str) and value.startswith("${") for value in (one, other))
    return not plain or link or one == other or str(one) == str(other)


def trained_seconds(path: Path) -> float:
    """How long a fairseq checkpoint says that its model was trained, over all resumptions; 0 if it does not say.

    The model that a fine-tuned one started from is counted, too. A file that cannot be read counts as 0: what is wrong
    with it is said when fairseq loads it.
    """
    return training_done(path).seconds


class Done(NamedTuple):
    """What a training that goes on from a checkpoint has behind it.

    ``task_state``: what the task keeps; ``metric``: which one says what checkpoint is best. Both None if not known.
    ``patience``: what the training was given of it, 0 or less for none. ``schedule``: what its learning rate's schedule
    keeps, empty if not known.
    """

    updates: int
    seconds: float
    task_state: Any = None
    metric: str | None = None
    patience: int = 0
    schedule: Mapping[str, Any] = MappingProxyType({})


def training_done(path: Path) -> Done:
    """What a fairseq checkpoint goes on from; 0, and no state, where it does not say, as above."""
    try:
        state = load_lazily(path)
    except Exception:  # a damaged file makes the loader raise anything
        return Done(0, 0.0)
    try:
        updates = updates_of(state)
    except (LookupError, TypeError, ValueError):
        updates = 0
    try:
        seconds = float(state["extra_state"]["previous_training_time"])
    except (LookupError, TypeError, ValueError):
        seconds = 0.0
    try:
        saving = state["cfg"]["checkpoint"]
        metric, patience = saving["best_checkpoint_metric"], int(saving["patience"])
    except (LookupError, TypeError, ValueError):
        metric, patience = None, 0
    try:
        schedule = dict(state["optimizer_history"][-1]["lr_scheduler_state"])
    except (LookupError, TypeError, ValueError):
        schedule = {}
    task_state = state.get("task_state") if isinstance(state, dict) else None
    return Done(updates, seconds, task_state, metric, patience, schedule)


def updates_of(state: dict[str, Any]) -> int:
    """How many updates a checkpoint's model was trained for; KeyError, IndexError or TypeError if it does not say."""
    return int(state["optimizer_history"][-1]["num_updates"])


def weights_digest(path: Path) -> str:
    """SHA-256 of a checkpoint's parameters by name, which of two trainings is the same where these are to the bit."""
    found = hashlib.sha256()
    for name, values in sorted(read_state(path)["model"].items()):
        found.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        found.update(values.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def load_lazily(path: Path) -> Any:
    """A checkpoint as fairseq wrote it, on the CPU; whatever PyTorch raises where it cannot be read.

    Read lazily where the format allows it: the tensors stay on disk.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap can only be used" not in str(error):
            raise
    return torch.load(path, map_location="cpu", weights_only=True)  # written before PyTorch 1.6
