"""Work that is done once: a lock for who does it, and a record of what it depended on.

Here every command decides what was done before: the steps of preparing a corpus (``preprocess/steps.py``), the stages
of recipes and experiments (``run/``), translations of several texts (``translation/resumable.py``). A command may be
ended at any moment (``kill -9`` included). Three things keep a half-written file from passing for a result:

* A record is taken away, or says that the work is not done, before the work begins. It is written after the outputs.
* Records and outputs are written beside their names and renamed (``files.atomic_write``).
* A lock is the kernel's. It ends with the last program that holds it, however that ends.
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
    """Lock a file for as long as it is open, here or in a program that inherits it (``pass_fds``).

    What the file holds stays; the stream appends bytes. Processes that a pool of workers starts do not inherit it.

    Args:
        what: the file or folder that is locked so, for messages.
        busy: what to say of it if somebody else has the lock.
        patience: seconds to wait for it.

    Raises UserError with ``busy``, and if the file cannot be written. A file system without locks is no error: nothing
    is locked there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = open(path, "ab")
    except OSError as error:
        raise UserError(f"{what}: cannot be written ({error.strerror}); choose another place") from None
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
    """What a piece of work has noted of itself; empty if there is nothing, or nothing that can be read."""
    try:
        record = read_json(path)
    except UserError:
        return {}
    return record if isinstance(record, dict) else {}


class Record:
    """The file that says of a piece of work what its result depends on, and that it was done.

    Args:
        path: of the file, JSON.
        key: all that the result depends on. It stands in the file, beside what ``end`` is given.
    """

    def __init__(self, path: Path, key: dict[str, Any]):
        self.path, self.key = path, json.loads(json.dumps(key))

    def noted(self) -> dict[str, Any]:
        """What the file says now."""
        return read_record(self.path)

    def holds(self, whole: Callable[[dict[str, Any]], bool] = lambda noted: True) -> bool:
        """Return whether the work was done with this key; ``whole`` looks at what it has left, as it was noted."""
        noted = self.noted()
        same = all(name in noted and noted[name] == value for name, value in self.key.items())
        return bool(noted) and same and noted.get("done", True) is True and whole(noted)

    def begin(self, note: dict[str, Any] | None = None) -> None:
        """Say that the work is not done from now on: the file goes, or holds ``note``."""
        self.path.unlink(missing_ok=True) if note is None else write_json(self.path, note)

    def end(self, **result: Any) -> None:
        """Say that the work is done, and what came of it. Its outputs must be whole."""
        write_json(self.path, self.key | result)
