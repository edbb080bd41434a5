"""Steps that are skipped when done before, and done again when what they depend on has changed.

A step that has finished leaves a stamp, ``steps/NAME.json``: its settings and the checksums of its inputs and outputs.
The stamp is removed before the step is done again and written after its outputs, so that whatever interrupts a run
(``kill -9`` included), a step counts as done only if all its outputs are whole.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, sha256, write_json

_LEFTOVER = re.compile(r".*\.\d+\.tmp\Z")
FOLDERS = ("text", "tok", "instances", "bin", "steps", "steps/tokenised", "steps/bpe")


class Steps:
    """The steps of one output directory, which is locked against a second run while this object lives.

    ``final``: files and folders, relative, that are only valid when every step is done; they are removed before the
    first step that has to be done again, so that nothing stale is taken for a result.
    """

    def __init__(self, output: str | Path, final: Sequence[str] = ()):
        self.output = Path(output)
        self.final = list(final)
        self.reports: dict[str, dict[str, Any]] = {}
        self.checksums: dict[Path, str] = {}
        try:
            (self.output / "steps").mkdir(parents=True, exist_ok=True)
            # A POSIX lock is not inherited by worker processes, which may outlive a killed run for a moment.
            self._lock = open(self.output / "steps" / "lock", "w")
        except OSError as error:
            raise UserError(f"{self.output}: cannot be written ({error.strerror})") from None
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UserError(f"{self.output}: another run is preparing into this directory; wait for it") from None
        self._sweep()

    def close(self) -> None:
        """Let go of the directory."""
        self._lock.close()

    def _sweep(self) -> None:
        """Remove what an interrupted run left half-written."""
        for folder in (self.output, *(self.output / name for name in FOLDERS)):
            for path in folder.iterdir() if folder.is_dir() else ():
                if _LEFTOVER.match(path.name):
                    # Errors do not matter: a process that outlived its run for a moment may still write there.
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def checksum(self, path: Path) -> str:
        """SHA-256 of a file, computed once a run."""
        if path not in self.checksums:
            self.checksums[path] = sha256(path)
        return self.checksums[path]

    def _stamp(self, name: str) -> Path:
        return stamp_path(self.output, name)

    def _key(self, inputs: Sequence[Path], settings: dict[str, Any]) -> dict[str, Any]:
        key = {"settings": settings, "inputs": {self._label(path): self.checksum(path) for path in inputs}}
        return json.loads(json.dumps(key))

    def _label(self, path: Path) -> str:
        return str(path.relative_to(self.output)) if path.is_relative_to(self.output) else path.name

    def _done(self, name: str, key: dict[str, Any], outputs: Sequence[Path]) -> dict[str, Any] | None:
        """The stamp of a step, if it was done with this key and all its outputs are as it left them."""
        if not self._stamp(name).is_file():
            return None
        try:
            stamp = read_json(self._stamp(name))
        except UserError:
            return None
        if any(stamp.get(part) != key[part] for part in key):
            return None
        wanted = {self._label(path): self.checksum(path) for path in outputs if path.is_file()}
        return stamp if len(wanted) == len(outputs) and stamp.get("outputs") == wanted else None

    def run(
        self,
        name: str,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        settings: dict[str, Any],
        work: Callable[[], dict[str, Any] | None],
    ) -> dict[str, Any]:
        """Do a step unless it is done; returns its report, which ``work`` returns as a JSON-able dict or None.

        Raises whatever ``work`` raises, and UserError if an input is missing.
        """
        key = self._key(inputs, settings)
        stamp = self._done(name, key, outputs)
        if stamp is not None:
            _say(f"{name}: done before, kept")
        else:
            self._discard(name, outputs)
            began = time.monotonic()
            report = json.loads(json.dumps(work() or {}))
            for path in outputs:
                self.checksums.pop(path, None)
            stamp = {
                "step": name,
                **key,
                "outputs": {self._label(path): self.checksum(path) for path in outputs},
                "report": report,
                "seconds": round(time.monotonic() - began, 1),
            }
            write_json(self._stamp(name), stamp)
            _say(f"{name}: {report.get('summary', 'done')} ({stamp['seconds']:.1f} s)")
        self.reports[name] = stamp["report"]
        return stamp["report"]

    def _discard(self, name: str, outputs: Sequence[Path]) -> None:
        for final in self.final:
            path = self.output / final
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.final = []
        self._stamp(name).unlink(missing_ok=True)
        for path in outputs:
            path.unlink(missing_ok=True)
            self.checksums.pop(path, None)

    def stamp(self, name: str) -> dict[str, Any]:
        """The stamp of a step that this run did or kept."""
        return read_json(self._stamp(name))

    def forget_others(self) -> None:
        """Remove stamps and outputs of steps that this run did not have: of a split that the raw corpus lost, say."""
        ours = {self._stamp(name) for name in self.reports}
        kept = {label for path in ours for label in read_json(path)["outputs"]}
        for path in sorted((self.output / "steps").glob("*.json")):
            if path not in ours:
                for label in read_json(path).get("outputs", {}):
                    if label not in kept:
                        (self.output / label).unlink(missing_ok=True)
                path.unlink()


def stamp_path(output: Path, name: str) -> Path:
    """Where a step's stamp lies."""
    return output / "steps" / f"{name.replace(':', '.')}.json"


def stamped_inputs(stamp: Path) -> dict[str, str] | None:
    """The input checksums that a stamp holds; None if there is no sound stamp."""
    try:
        return read_json(stamp)["inputs"]
    except (UserError, KeyError, TypeError):
        return None


def _say(line: str) -> None:
    print(f"| {line}", file=sys.stderr, flush=True)
