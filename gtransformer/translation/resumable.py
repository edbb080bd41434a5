"""Resumable translations: of one text window by window, of several texts text by text.

Lines are written to ``OUT.part``. ``OUT.part.json`` records how many of its bytes are valid and the position in the
input. At the end ``OUT.part`` is renamed to ``OUT``. With several texts, ``.translated/NAME.json`` records the model,
options and text of each finished ``NAME``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError
from gtransformer.files import COMPRESSED, check_output, read_json, sha256, write_json
from gtransformer.translation.lines import START, TextPosition
from gtransformer.work import Record, take_lock


class ResumableOutput:
    """An output file that can be resumed; a context manager that locks it against a second run.

    Args:
        path: of the finished output, a regular file or a symbolic link to one.
        key: all that the output depends on besides the input (model, options); a run with another key cannot be
            resumed.
        restart: discard an interrupted run.

    Raises UserError if the file cannot be written, another run writes it, or the key differs.
    """

    def __init__(self, path: str | Path, key: dict[str, Any], restart: bool = False):
        self.path, self.key = Path(os.path.realpath(path)), key
        self.part, self.state = unfinished_files(self.path)
        self.position = TextPosition()
        self._digest = hashlib.sha256()
        self._stream: BinaryIO | None = None
        self._wanted: str | None = None
        self._restart = restart

    def __enter__(self) -> ResumableOutput:
        check_output(self.path)
        new = not self.part.exists()
        self._stream = take_lock(self.part, self.path, "another run is writing this file; wait for it")
        try:
            self._resume()
        except BaseException:
            self._stream.close()
            if new:
                self.part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._stream.close()
        if not self.position.lines and kind is not None:  # nothing to resume
            self.part.unlink(missing_ok=True)
            self.state.unlink(missing_ok=True)

    def _resume(self) -> None:
        size, present, noted = 0, os.fstat(self._stream.fileno()).st_size, self.state.is_file()
        finished = present == 0 and self.path.exists()  # killed between the two steps of ``finish``
        if present and not noted:
            raise UserError(
                f"{self.part}: there already, but not of an interrupted run, as there is no {self.state.name}; rename "
                "or remove it"
            )
        if self._restart or finished or not noted:
            self._note_state(size)
        else:
            state = read_json(self.state)
            if not isinstance(state, dict) or state.get("key") != self.key:
                raise UserError(
                    f"{self.part}: begun by an interrupted run with another model or other options; run that again to "
                    "finish it, or start again with --restart"
                )
            try:
                size, self._wanted, position = state["bytes"], state["input_sha256"], TextPosition(**state["place"])
            except (KeyError, TypeError):
                size, position = -1, None
            numbers = (size, *vars(position or START).values())
            if not all(type(number) in (int, bool) and number >= 0 for number in numbers):
                raise UserError(f"{self.state}: damaged; start again with --restart")
            if present < size:
                raise UserError(f"{self.part}: shorter than it was when interrupted; start again with --restart")
            self.position = position
        os.ftruncate(self._stream.fileno(), size)

    def skip(self, lines: Iterator[str], name: str) -> None:
        """Skip the lines that are translated already. Raise UserError if they have changed.

        ``name``: of the input, for messages.
        """
        there = 0
        for line in islice(lines, self.position.lines):
            self.note(line)
            there += 1
        if there < self.position.lines or self._wanted not in (None, self._digest.hexdigest()):
            raise UserError(
                f"{name}: changed since {self.part} was begun, within its first {self.position.lines} lines; start "
                "again with --restart"
            )

    def note(self, line: str) -> None:
        """Add a line of the input to the digest."""
        self._digest.update(f"{line}\n".encode())

    def add(self, lines: list[str], position: TextPosition) -> None:
        """Append translations of the input up to ``position``, whose lines were given to ``note``."""
        self._stream.write("".join(f"{line}\n" for line in lines).encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())  # before the state that counts them
        self.position = position
        self._note_state(self._stream.tell())

    def _note_state(self, size: int) -> None:
        state = {"key": self.key, "bytes": size, "place": vars(self.position)}
        write_json(self.state, state | {"input_sha256": self._digest.hexdigest()})

    def finish(self, convert: Callable[[Path, Path], None] | None = None) -> None:
        """Rename the complete file to its final name, or ``convert`` it: write the second path from the first."""
        if convert is None:
            os.replace(self.part, self.path)
        else:
            convert(self.part, self.path)
            self.part.unlink()
        self.state.unlink(missing_ok=True)


def unfinished_files(output: str | Path) -> list[Path]:
    """Return the files of an unfinished output: its lines, and its state."""
    return [Path(f"{output}{end}") for end in (".part", ".part.json")]


def outputs_of(names: Sequence[str], folder: str | Path) -> list[Path]:
    """Return the outputs of these files: their names without ``.xz`` or ``.gz``, in ``folder``.

    Raises UserError if two have the same name, or an output has the name of an input, compressed or not.
    """
    unpacked = [path.with_suffix("") if path.suffix in COMPRESSED else path for path in map(Path, names)]
    outputs = [Path(folder, path.name) for path in unpacked]
    sources = {path.resolve() for path in (*unpacked, *map(Path, names))}
    for name, output in zip(names, outputs, strict=True):
        if outputs.count(output) > 1:
            raise UserError(f"{name}: another of the files is called {output.name}, too; translate them one by one")
        if output.resolve() in sources:
            raise UserError(f"{name}: its translation would take the place of {output}; give another --output DIR")
        if part := next((one for one in unfinished_files(output) if one in outputs or one.resolve() in sources), None):
            raise UserError(f"{name}: its translation would be begun in {part}, another of the files; rename that")
    return outputs


def record_of(output: Path) -> Path:
    """Return the record of a finished translation, one of several."""
    return output.parent / ".translated" / f"{output.name}.json"


class Finished(Record):
    """The record of one of several translations.

    Args:
        source: file of the text.
        output: file of its translation.
        key: all that it depends on besides the text (model, options), as JSON.
    """

    def __init__(self, source: str, output: Path, key: dict[str, Any]):
        self.source, self.output = source, output
        # The content of a pipe is not known before it is read.
        made = {"key": key, "input_sha256": sha256(source) if Path(source).is_file() else None}
        super().__init__(record_of(output), made)

    def is_there(self) -> bool:
        """Return whether the translation exists. Raise UserError if it has another text, model or options."""
        begun = self.path.is_file() and self.path.read_bytes().strip() == b"{}"  # a damaged record says nothing
        if begun or not self.output.exists():
            return False
        if not self.holds() or self.key["input_sha256"] is None:
            raise UserError(
                f"{self.output}: there already, but not known to be of {self.source} as it is now, by this model with "
                "these options; name another output, remove it, or give --restart to make all again"
            )
        return True

    def begin(self, note: dict[str, Any] | None = None) -> None:
        """Mark an existing output as outdated."""
        super().begin(note or {})
