"""Work that is done once: a lock against concurrent runs, and a record of its dependencies.

It is used by the steps of preparing a corpus (``preprocess/steps.py``), the stages of recipes and experiments
(``run/``), and translations of several texts (``translation/resumable.py``). A command may be killed at any moment.
Three rules ensure that an incomplete file is never taken for a result:

* Before the work begins, its record is removed or marked as not done. It is written after the outputs.
* Records and outputs are written to temporary files and renamed (``files.atomic_write``).
* Locks are the kernel's. A lock ends with the last program that holds it.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json


def take_lock(path: Path, what: Path, busy: str, patience: float = 0.0) -> BinaryIO:
    """Lock a file as long as it is open, here or in a program that inherits it (``pass_fds``).

    The file's content is kept; the stream appends bytes. Forked processes of a pool inherit it, others do not; both end
    with this one (``preprocess/parallel.py``).

    Args:
        what: the file or folder that is protected, for messages.
        busy: message if another process has the lock.
        patience: seconds to wait for it.

    Raises UserError with ``busy``, and if the file cannot be written. On a file system without locks nothing is locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = open(path, "ab")
    except OSError as error:
        raise UserError(f"{what}: cannot be written ({error.strerror}); choose another path") from None
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
            raise UserError(f"{what}: {busy}") from None
        except OSError:
            return stream


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of some work; empty if there is none, or it cannot be read."""
    try:
        record = read_json(path)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


class Record:
    """The file that records what the result of some work depends on, and that the work was done.

    Args:
        path: of the file, JSON.
        key: all that the result depends on. The file has it, and the arguments of ``end``.
    """

    def __init__(self, path: Path, key: dict[str, Any]):
        self.path, self.key = path, json.loads(json.dumps(key))

    def noted(self) -> dict[str, Any]:
        """Return the current content of the file."""
        return read_record(self.path)

    def holds(self, whole: Callable[[dict[str, Any]], bool] = lambda noted: True) -> bool:
        """Return whether the work was done with this key; ``whole`` checks its results, given the record."""
        noted = self.noted()
        same = all(name in noted and noted[name] == value for name, value in self.key.items())
        return bool(noted) and same and noted.get("done", True) is True and whole(noted)

    def begin(self, note: dict[str, Any] | None = None) -> None:
        """Mark the work as not done: remove the file, or replace it by ``note``."""
        self.path.unlink(missing_ok=True) if note is None else write_json(self.path, note)

    def end(self, **result: Any) -> None:
        """Mark the work as done, with its result. Its outputs must be complete."""
        write_json(self.path, self.key | result)
