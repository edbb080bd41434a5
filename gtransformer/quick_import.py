"""Quick import of PyTorch and fairseq, for commands that only use a trained model.

``import fairseq`` imports every file in its folders of models, tasks, criterions and the like, which it lists: those
for speech and classification, too, and with them SciPy and scikit-learn. That takes longer than PyTorch. Within
``quick_import`` these folders look empty, so fairseq imports only the modules that are named in a statement.

Its registries then lack what nobody has named. ``compat.import_rest`` adds it, for a checkpoint that needs it.
fairseq's programs, user directories and the Python interface import all of fairseq, since other code may rely on it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TENSORBOARD = ("torch.utils.tensorboard", "tensorboardX")  # fairseq does without; they log a training

left_out: list[Path] = []  # folders of fairseq that looked empty


@contextmanager
def quick_import() -> Iterator[None]:
    """Import within it only what is named of fairseq, without garbage collection; no effect once fairseq is imported.

    Modules stay until the end. The collector would search them again and again, for a third of the time.
    """
    found = None if "fairseq" in sys.modules else importlib.util.find_spec("fairseq")
    if found is None or found.origin is None:  # without origin it is any folder of that name
        yield
        return
    root, listdir, collects = Path(found.origin).parent, os.listdir, gc.isenabled()
    hidden = [name for name in TENSORBOARD if name not in sys.modules]

    def without_fairseq(path: str | bytes | os.PathLike | int | None = None) -> list[str] | list[bytes]:
        folder = None if path is None or isinstance(path, int) else Path(os.fsdecode(path))
        if folder is None or not folder.is_relative_to(root):
            return listdir(path)
        left_out.append(folder)
        return []

    gc.disable()
    sys.modules.update(dict.fromkeys(hidden))  # importing what is None is an ImportError
    os.listdir = without_fairseq
    try:
        yield
    finally:
        os.listdir = listdir
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        if collects:
            gc.enable()
