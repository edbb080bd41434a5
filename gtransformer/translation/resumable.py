"""An output file that grows window by window and is gone on with after an interruption (``kill -9`` included).

``OUT.part`` takes the lines, ``OUT.part.json`` says how many of its bytes count and where in the input they end. Only
when everything is there does ``OUT.part`` become ``OUT``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError
from gtransformer.files import check_output, read_json, write_json
from gtransformer.translation.lines import START, TextPosition


class ResumableOutput:
    """Used as a context manager; locked against a second run.

    Args:
        path: of the finished output, a regular file; of a symbolic link, what it points to.
        key: all that the output depends on besides the input (model, options); an interrupted run with another key
            cannot be gone on with.
        restart: forget an interrupted run.

    Raises UserError if the place cannot be written, another run writes there, or the key is another one.
    """

    def __init__(self, path: str | Path, key: dict[str, Any], restart: bool = False):
        self.path, self.key = Path(os.path.realpath(path)), key
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.state = self.path.with_name(f"{self.path.name}.part.json")
        self.place = TextPosition()
        self._digest = hashlib.sha256()
        self._stream: BinaryIO | None = None
        self._wanted: str | None = None
        self._restart = restart

    def __enter__(self) -> ResumableOutput:
        check_output(self.path)
        new = not self.part.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = open(self.part, "ab")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror})") from None
        try:
            fcntl.lockf(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._resume()
        except OSError:
            self._stream.close()
            raise UserError(f"{self.path}: another run is writing this file; wait for it") from None
        except BaseException:
            self._stream.close()
            if new:
                self.part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._stream.close()
        if not self.place.lines and kind is not None:
            self.part.unlink(missing_ok=True)  # nothing to go on with

    def _resume(self) -> None:
        size, present = 0, os.fstat(self._stream.fileno()).st_size
        finished = present == 0 and self.path.exists()  # killed between the two steps of ``finish``
        if self._restart or finished or not self.state.is_file():
            self.state.unlink(missing_ok=True)
        else:
            state = read_json(self.state)
            if not isinstance(state, dict) or state.get("key") != self.key:
                raise UserError(
                    f"{self.part}: begun by an interrupted run with another model or other options; run that again to "
                    "finish it, or begin anew with --restart"
                )
            try:
                size, self._wanted, place = state["bytes"], state["input_sha256"], TextPosition(**state["place"])
            except (KeyError, TypeError):
                size, place = -1, None
            numbers = (size, *vars(place or START).values())
            if not all(type(number) in (int, bool) and number >= 0 for number in numbers):
                raise UserError(f"{self.state}: damaged; begin anew with --restart")
            if present < size:
                raise UserError(f"{self.part}: shorter than it was when interrupted; begin anew with --restart")
            self.place = place
        os.ftruncate(self._stream.fileno(), size)

    def skip(self, lines: Iterator[str], name: str) -> None:
        """Take the lines that are translated already off ``lines``; UserError unless they are the same as then.

        ``name`` of the input stands in the message.
        """
        for _ in range(self.place.lines):
            self.note(next(lines, None) or "")
        if self._wanted is not None and self._digest.hexdigest() != self._wanted:
            raise UserError(
                f"{name}: changed since {self.part} was begun, within its first {self.place.lines} lines; begin anew "
                "with --restart"
            )

    def note(self, line: str) -> None:
        """Take account of a line of the input."""
        self._digest.update(f"{line}\n".encode())

    def add(self, lines: list[str], place: TextPosition) -> None:
        """Append lines, and remember that they answer the input up to ``place``, of which ``note`` has been told."""
        self._stream.write("".join(f"{line}\n" for line in lines).encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.place = place
        state = {"key": self.key, "bytes": self._stream.tell(), "place": vars(place)}
        write_json(self.state, state | {"input_sha256": self._digest.hexdigest()})

    def finish(self) -> None:
        """All is there: the file appears under its name."""
        os.replace(self.part, self.path)
        self.state.unlink(missing_ok=True)
