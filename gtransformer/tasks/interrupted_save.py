"""Finishing a save that was interrupted.

fairseq writes the first file of a save beside its name and renames it, but copies it to ``checkpoint_best.pt`` and
``checkpoint_last.pt`` in place: a run that is killed meanwhile leaves half a copy, and could not be taken up again.
Then it removes older files, which stay if it was the last save.
"""

from __future__ import annotations

import logging
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

from fairseq.checkpoint_utils import checkpoint_paths
from fairseq.dataclass.configs import CheckpointConfig

from gtransformer.files import atomic_write
from gtransformer.tasks.checkpoint_file import load_lazily
from gtransformer.tasks.finetuning import LAST

logger = logging.getLogger(__name__)


def is_cut_short(path: Path) -> bool:
    """Whether a file of ``torch.save`` (a zip archive) lacks its end; False for PyTorch's format before 1.6."""
    with open(path, "rb") as stream:
        start = stream.read(2)
    return start in (b"", b"P") or (start == b"PK" and not zipfile.is_zipfile(path))


def had_best(path: Path) -> bool:
    """Whether a checkpoint is of a training that had a best one; without validation, or where it is nan, none has."""
    best = _saved(path).get("best")
    return best is not None and not math.isnan(best)


def remove_older(cfg: CheckpointConfig | None) -> None:
    """Remove what a training's last save was about to, when it was interrupted; once it is known that it goes on."""
    if cfg is None or cfg.restore_file != LAST or cfg.no_save or not Path(cfg.save_dir).is_dir():
        return
    if cfg.keep_interval_updates > 0 and cfg.keep_interval_updates_pattern == -1:
        for old in checkpoint_paths(cfg.save_dir, r"checkpoint_\d+_(\d+)\.pt")[cfg.keep_interval_updates :]:
            Path(old).unlink(missing_ok=True)  # of several processes each does this


def finish_interrupted_save(directory: str | Path) -> list[Path]:
    """Make the copies of a save that was interrupted, so that training goes on from it.

    Nothing is done unless ``checkpoint_last.pt`` or ``checkpoint_best.pt`` is cut short and a whole checkpoint is
    beside it: the newest of these is what was being copied. It takes the place of ``checkpoint_last.pt``, and that of
    ``checkpoint_best.pt`` if this is cut short and the checkpoint says that its validation loss was the lowest.

    Returns the files that were replaced.
    """
    directory = Path(directory)
    last, best = (directory / f"checkpoint_{name}.pt" for name in ("last", "best"))
    damaged = [path for path in (last, best) if path.is_file() and is_cut_short(path)]
    whole = [path for path in directory.glob("checkpoint*.pt") if path not in damaged and not is_cut_short(path)]
    if not damaged or not whole:
        return []
    source = max(whole, key=lambda path: path.stat().st_mtime_ns)
    replaced = [last] if source != last else []
    if best in damaged and _is_best(source):
        replaced.append(best)
    for path in replaced:
        with open(source, "rb") as stream, atomic_write(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 24)
        shutil.copystat(source, path)
    names = " and ".join(path.name for path in damaged)
    logger.warning("%s: %s cut short, as by an interruption; training goes on from %s", directory, names, source.name)
    return replaced


def _is_best(path: Path) -> bool:
    saved = _saved(path)
    return saved.get("val_loss") is not None and saved["val_loss"] == saved.get("best")


def _saved(path: Path) -> dict[str, Any]:
    """What a checkpoint says beside the model; empty for a foreign file, of which fairseq will say what is wrong."""
    try:
        return dict(load_lazily(path)["extra_state"])
    except Exception:
        return {}
