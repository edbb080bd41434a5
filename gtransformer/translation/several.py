"""Several texts translated into one directory, and what is known of those that are finished there.

``OUT/.translated/NAME.json`` stands beside the finished ``OUT/NAME``: what it was made with, and of which text. It is
emptied before a text is translated, so that an old translation is not taken for the one that is being made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, sha256, write_json


def outputs_of(names: Sequence[str], folder: str | Path) -> list[Path]:
    """Where the translations of these files go: under their names, without ``.xz`` or ``.gz``, in ``folder``.

    Raises UserError where two would have the same name, or one that of a text, even if that lies there packed.
    """
    outputs = [Path(folder, unpacked(name).name) for name in names]
    sources = {path.resolve() for name in names for path in (Path(name), unpacked(name))}
    for name, output in zip(names, outputs, strict=True):
        if outputs.count(output) > 1:
            raise UserError(f"{name}: another of the files is called {output.name}, too; translate them one by one")
        if output.resolve() in sources:
            raise UserError(f"{name}: its translation would take the place of {output}; give another --output DIR")
    return outputs


def unpacked(name: str) -> Path:
    """The path without ``.xz`` or ``.gz``."""
    path = Path(name)
    return path.with_name(path.name.removesuffix(".xz").removesuffix(".gz"))


def stamp_of(output: Path) -> Path:
    """The file that says what a finished translation was made with."""
    return output.parent / ".translated" / f"{output.name}.json"


class Finished:
    """What is known of one of several translations.

    Args:
        source: the text's file.
        output: its translation's.
        key: all that it depends on besides the text (model, options), as JSON has it.
    """

    def __init__(self, source: str, output: Path, key: dict[str, Any]):
        self.source, self.output = source, output
        self._stamp = stamp_of(output)
        # What a pipe holds is not known before it is read.
        self._made = {"key": key, "input_sha256": sha256(source) if Path(source).is_file() else None}

    def holds(self) -> bool:
        """Whether the translation is there. Raises UserError for one of another text, by another model or options."""
        if not self.output.exists():
            return False
        try:
            stamp = read_json(self._stamp)
        except UserError:  # none, or a damaged one
            stamp = None
        if stamp == {}:
            return False
        if stamp != self._made or self._made["input_sha256"] is None:
            raise UserError(
                f"{self.output}: there already, but not known to be of {self.source} as it is now, by this model with "
                "these options; give another --output DIR, remove it, or give --restart to make all anew"
            )
        return True

    def begin(self) -> None:
        """From now on what is there is to be made."""
        write_json(self._stamp, {})

    def end(self) -> None:
        """It is finished."""
        write_json(self._stamp, self._made)
