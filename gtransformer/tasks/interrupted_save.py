"""Finishing a save that was interrupted.

fairseq writes the first file of a save beside its name and renames it, but copies it to ``checkpoint_best.pt`` and
``checkpoint_last.pt`` in place: a run that is killed meanwhile leaves half a copy, and could not be taken up again.
"""

from __future__ import annotations

import logging
import math
import shutil
import zipfile
from pathlib import Path

from gtransformer.files import atomic_write
from gtransformer.tasks.checkpoint_file import load_lazily

logger = logging.getLogger(__name__)


def is_cut_short(path: Path) -> bool:
    """Whether a file of ``torch.save`` (a zip archive) lacks its end; False for PyTorch's format before 1.6."""
    with open(path, "rb") as stream:
        start = stream.read(2)
    return start in (b"", b"P") or (start == b"PK" and not zipfile.is_zipfile(path))


def had_best(path: Path) -> bool:
    """Whether a checkpoint is of a training that had a best one; without validation, or where it is nan, none has."""
    try:
        return not math.isnan(load_lazily(path)["extra_state"]["best"])
    except Exception:  # a foreign file, or one that says nothing of a best
        return False


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
    try:
        extra = load_lazily(path)["extra_state"]
        return extra["val_loss"] is not None and extra["val_loss"] == extra["best"]
    except Exception:  # a foreign file; what is wrong with it is said when fairseq loads it
        return False
