"""Locks that the programs which a command has started inherit."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import TextIO

from gtransformer.errors import UserError


def take_lock(path: Path, busy: str, patience: float = 0.0) -> TextIO:
    """Lock a file for as long as it is open, here or in a program that inherits it (``pass_fds``).

    Args:
        busy: what to say if somebody else has the lock.
        patience: seconds to wait for it.

    Raises UserError with ``busy``. A file system without locks is no error: nothing is locked there.
    """
    stream = open(path, "w")
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return stream
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(0.2)
                continue
            stream.close()
            raise UserError(busy) from None
        except OSError:
            return stream
