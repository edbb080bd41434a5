"""Checkpoint files: the facts they record about training, averages, and recovery from interrupted saves."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from fairseq.checkpoint_utils import checkpoint_paths
from fairseq.dataclass.configs import CheckpointConfig
from omegaconf import OmegaConf
from torch import Tensor

from gtransformer.errors import UserError
from gtransformer.files import atomic_write
from gtransformer.models.common.architectures import system_of

logger = logging.getLogger(__name__)


# Options of a model that may change when its training resumes: dropout, ways of computing, initialisation, the choice
# of trained parameters (checked elsewhere), and options of translation.
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
    """Return the model's and task's options in a fairseq checkpoint; empty sections for an unreadable file."""
    return settings_of(_content(path))


def read_state(path: Path, wanted: str = "a checkpoint") -> dict[str, Any]:
    """Return the content of a fairseq checkpoint. Raise UserError if it cannot be read or holds no model."""
    try:
        state = load_lazily(path)
    except Exception as error:  # a damaged file makes the loader raise anything
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise UserError(f"{path}: cannot be read as {wanted} ({reason}); give another") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"{path}: no checkpoint of fairseq, it holds no model")
    return state


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


def other_language(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the option of the first language that differs between two tasks that both name it; None: no difference."""
    pairs = ((name, one.get(name), other.get(name)) for name in LANGUAGES)
    return next((name for name, a, b in pairs if None not in (a, b) and a != b), None)


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the first option that differs and makes it another model; None if both are options of one model.

    Options that one of the two lacks, as in older checkpoints, and links to other options are ignored.
    """
    return next((key for key in one if key in other and key not in FREE and not _same(one[key], other[key])), None)


def _same(one: Any, other: Any) -> bool:
    plain = all(value is None or isinstance(value, str | int | float | Enum) for value in (one, other))
    link = any(isinstance(value, str) and value.startswith("${") for value in (one, other))
    return not plain or link or one == other or str(one) == str(other)


class Done(NamedTuple):
    """The training that a checkpoint records.

    Attributes:
        task_state: state of the task; None if not known.
        metric: the metric that selects the best checkpoint; None if not known.
        schedule: state of the learning rate's schedule; empty if not known.
        optimizer: whether the optimizer's state is there.
    """

    updates: int
    seconds: float
    task_state: Any = None
    metric: str | None = None
    schedule: Mapping[str, Any] = MappingProxyType({})
    optimizer: bool = False


def training_done(path: Path) -> Done:
    """Return the training that a fairseq checkpoint records; 0 and no state for missing facts or an unreadable file."""
    state = _content(path)

    def recorded(kind: Callable, default: Any, *keys: str | int) -> Any:
        found = state
        try:
            for key in keys:
                found = found[key]
            return kind(found)
        except (LookupError, TypeError, ValueError):
            return default

    return Done(
        recorded(int, 0, "optimizer_history", -1, "num_updates"),
        recorded(float, 0.0, "extra_state", "previous_training_time"),
        recorded(lambda state: state, None, "task_state"),
        recorded(lambda metric: metric, None, "cfg", "checkpoint", "best_checkpoint_metric"),
        recorded(dict, {}, "optimizer_history", -1, "lr_scheduler_state"),
        recorded(lambda state: state is not None, False, "last_optimizer_state"),
    )


def weights_digest(path: Path) -> str:
    """Return the SHA-256 of a checkpoint's parameters and their names: equal only for bit-equal parameters."""
    found = hashlib.sha256()
    for name, values in sorted(read_state(path)["model"].items()):
        found.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        found.update(values.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def load_lazily(path: Path) -> Any:
    """Load a checkpoint on the CPU, memory-mapped if its format allows it. Raises PyTorch's errors."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap can only be used" not in str(error):
            raise
    return torch.load(path, map_location="cpu", weights_only=True)  # written before PyTorch 1.6


# Options that do not change parameters: with other values a model would load, but compute something else.
STRUCTURE = (
    *(f"{side}_{key}" for side in ("encoder", "decoder") for key in ("attention_heads", "normalize_before")),
    "activation_fn",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "sentence_marks",
    "sinusoids",
)
LANGUAGES = ("source_lang", "target_lang")  # options of a task
LAST = "checkpoint_last.pt"
AVERAGE = "average.pt"  # in a folder of checkpoints: their mean
NUMBERED = re.compile(r"checkpoint(_\d+_)?\d+\.pt")  # of an epoch, or of an epoch and an update


def model_in(folder: Path) -> Path:
    """Return the final model in a training's folder of checkpoints: their mean if there is one, else the best."""
    mean = folder / AVERAGE
    return mean if mean.is_file() else folder / "checkpoint_best.pt"


def last_checkpoints(folder: Path, number: int, fewer: bool = False) -> list[Path]:
    """Return the last numbered checkpoints of a training, in order.

    ``fewer``: accept fewer, at least one.

    Raises UserError if there are too few, or one of them cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory; give that of a training's checkpoints")
    found = _numbered(folder)
    if len(found) < (1 if fewer else number):
        raise UserError(
            f"{folder}: holds {len(found)} numbered checkpoint(s), but {number} are to be averaged; average fewer, or "
            "continue training and keep more (--keep-last-epochs or --keep-interval-updates)"
        )
    return [path for _, path in sorted(found.items())[-number:]]


def average(paths: Sequence[Path], output: Path) -> None:
    """Write the mean of the parameters of some checkpoints, with the other content of the last but its optimizer state.

    float16 and bfloat16 parameters are summed and stored in float32, as in fairseq's average_checkpoints.py. Tied
    parameters remain one tensor. The file is written atomically.

    Raises UserError for a file that is no checkpoint, and for checkpoints of different models.
    """
    total: dict[str, Tensor] = {}
    first_settings: dict[str, dict[str, Any]] = {}
    for path in paths:
        state = read_state(path)
        _check_alike(paths[0], first_settings, total, path, state)
        first_settings = first_settings or settings_of(state)
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


def is_outdated(folder: Path) -> bool:
    """Return whether a training's mean of checkpoints lacks its last numbered checkpoint."""
    mean = folder / AVERAGE
    numbered = _numbered(folder)
    return bool(numbered) and mean.is_file() and _place(mean) < max(numbered)


def _numbered(folder: Path) -> dict[tuple[int, int], Path]:
    """Return the numbered checkpoints of a training by their place in it."""
    return {_place(path): path for path in folder.glob("checkpoint*.pt") if NUMBERED.fullmatch(path.name)}


def _place(path: Path) -> tuple[int, int]:
    """Return which start of the training a checkpoint is of, and its updates: with a new optimizer they begin at 0."""
    try:
        history = read_state(path)["optimizer_history"]
        return len(history), int(history[-1]["num_updates"])
    except (KeyError, IndexError, TypeError):
        raise UserError(f"{path}: does not record its number of updates; name the files to average") from None


def _check_alike(
    first: Path, settings: dict[str, dict[str, Any]], total: dict[str, Tensor], path: Path, state: dict[str, Any]
) -> None:
    """Raise UserError unless a checkpoint has the same parameters and options of the model as the first."""
    model = state["model"]
    if not total:
        return
    other = next((name for name in total.keys() ^ model.keys()), None)
    other = other or next((name for name, value in model.items() if value.shape != total[name].shape), None)
    fixed = {name for name, value in model.items() if not value.is_floating_point()}
    other = other or next((name for name in fixed if not model[name].equal(total[name])), None)
    both = settings_of(state), settings
    theirs, ours = (one["model"] for one in both)
    systems = {system_of(str(one.get("_name"))) for one in (theirs, ours)}
    other = other or ("_name" if len(systems) > 1 else None)
    other = other or difference(theirs, ours)
    other = other or other_language(*(one["task"] for one in both))
    if other:
        raise UserError(f"{path}: another model than {first} ({other}); average checkpoints of one training")


def is_cut_short(path: Path) -> bool:
    """Return whether a file of ``torch.save`` (a zip archive) is truncated; False for PyTorch's format before 1.6."""
    with open(path, "rb") as stream:
        start = stream.read(2)
    return start in (b"", b"P") or (start == b"PK" and not zipfile.is_zipfile(path))


def had_best(path: Path) -> bool:
    """Return whether a checkpoint's training had a best checkpoint: not without validation, nor if its value is nan."""
    best = (_content(path).get("extra_state") or {}).get("best")
    return best is not None and not math.isnan(best)


def remove_older(cfg: CheckpointConfig) -> None:
    """Remove old checkpoints that an interrupted save has not removed. Call this when training is about to resume."""
    if cfg.restore_file != LAST or cfg.no_save or not Path(cfg.save_dir).is_dir():
        return
    if cfg.keep_interval_updates > 0 and cfg.keep_interval_updates_pattern == -1:
        for old in checkpoint_paths(cfg.save_dir, r"checkpoint_\d+_(\d+)\.pt")[cfg.keep_interval_updates :]:
            Path(old).unlink(missing_ok=True)  # several processes do this at the same time


def finish_interrupted_save(directory: str | Path) -> list[Path]:
    """Complete the copies of an interrupted save, so that training resumes from it. Return the replaced files.

    If ``checkpoint_last.pt`` or ``checkpoint_best.pt`` is truncated, the newest whole checkpoint is the one that was
    being copied. It replaces ``checkpoint_last.pt``. It also replaces a truncated ``checkpoint_best.pt`` if it records
    that its validation loss was the lowest.
    """
    directory = Path(directory)
    last, best = (directory / f"checkpoint_{name}.pt" for name in ("last", "best"))
    damaged = [path for path in (last, best) if path.is_file() and is_cut_short(path)]
    whole = [path for path in directory.glob("checkpoint*.pt") if path not in damaged and not is_cut_short(path)]
    if not damaged or not whole:
        return []
    source = max(whole, key=lambda path: path.stat().st_mtime_ns)
    replaced = [last] if source != last else []
    saved = _content(source).get("extra_state") or {}
    if best in damaged and saved.get("val_loss") is not None and saved["val_loss"] == saved.get("best"):
        replaced.append(best)
    for path in replaced:
        with open(source, "rb") as stream, atomic_write(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 24)
        shutil.copystat(source, path)
    names = " and ".join(path.name for path in damaged)
    logger.warning("%s: %s truncated by an interruption; training resumes from %s", directory, names, source.name)
    return replaced


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint; empty for an unreadable file, which fairseq will report."""
    try:
        state = load_lazily(path)
    except Exception:  # a damaged file makes the loader raise anything
        return {}
    return state if isinstance(state, dict) else {}
