"""Programs run as ``python -m MODULE`` runs them, without the seconds that a new process spends on imports."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from pathlib import Path

from fairseq import checkpoint_utils


def run_module(command: list[str], log: Path) -> int:
    """``[python, "-m", MODULE, ...]`` in this process, its output appended to ``log``; takes the place of
    ``run.stage.run_logged``, and returns the exit status.
    """
    assert command[1] == "-m"
    # fairseq keeps the best validation loss here; in a process of its own a training begins without.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    before = sys.argv
    sys.argv = [command[2], *command[3:]]
    with open(log, "a", encoding="utf-8") as stream:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            try:
                runpy.run_module(command[2], run_name="__main__")
            except SystemExit as end:
                return end.code if isinstance(end.code, int) else int(end.code is not None)
            except Exception:
                traceback.print_exc()
                return 1
            finally:
                sys.argv = before
    return 0
