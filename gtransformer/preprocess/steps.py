"""Steps that are skipped if they were done before, and repeated if their inputs or settings have changed.

A finished step writes a record, ``steps/NAME.json``: its settings and the checksums of its inputs and outputs.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, sha256
from gtransformer.work import Record, read_record, take_lock

_LEFTOVER = re.compile(r".*\.\d+\.tmp\Z")
FOLDERS = (".", "text", "tok", "instances", "bin", "steps", "steps/tokenised", "steps/bpe")
FILES = ("bpe.codes", "truecase.*", "sentencepiece*.model", "wordpieces.json")  # of an output directory, by pattern


class Steps:
    """The steps of one output directory, which is locked against a second run until ``close``.

    ``final``: files and folders, relative, that are only valid when every step is done. They are removed before the
    first step that runs, so that no outdated result remains.

    Raises UserError if the directory has files of these names that no earlier run has written.
    """

    def __init__(self, output: str | Path, final: Sequence[str] = ()):
        self.output, self.final = Path(output), list(final)
        self._check_own()
        self.reports: dict[str, dict[str, Any]] = {}
        self.checksums: dict[Path, str] = {}
        busy = "another run is preparing into this directory; wait for it"
        self._lock = take_lock(self.output / "steps" / "lock", self.output, busy)
        for folder in (self.output / name for name in FOLDERS):  # what an interrupted run left half-written
            for path in folder.iterdir() if folder.is_dir() else ():
                if _LEFTOVER.match(path.name):
                    # Errors are ignored: a worker of the interrupted run may still write there.
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _check_own(self) -> None:
        manifest = read_record(self.output / "manifest.json")  # a model directory's tells its kind
        if (self.output / "steps" / "lock").is_file() or ("settings" in manifest and "kind" not in manifest):
            return
        names = {*self.final, *FOLDERS[1:]}
        for path in sorted(self.output.iterdir()) if self.output.is_dir() else ():
            if path.name in names or any(map(path.match, FILES)):
                raise UserError(
                    f"{self.output}: its {path.name} was not written by this command; name another directory"
                )

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def checksum(self, path: Path) -> str:
        """Return the SHA-256 of a file, computed once per run."""
        if path not in self.checksums:
            self.checksums[path] = sha256(path)
        return self.checksums[path]

    def _checksums(self, paths: Sequence[Path]) -> dict[str, str]:
        def label(path: Path) -> str:
            return str(path.relative_to(self.output)) if path.is_relative_to(self.output) else path.name

        return {label(path): self.checksum(path) for path in paths}

    def run(
        self,
        name: str,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        settings: dict[str, Any],
        work: Callable[[], dict[str, Any] | None],
    ) -> dict[str, Any]:
        """Run a step unless it is done; return its report, a JSON-able dict or None from ``work``.

        Raises the errors of ``work``, and UserError if an input is missing.
        """
        record = Record(stamp_path(self.output, name), {"settings": settings, "inputs": self._checksums(inputs)})

        def whole(noted: dict[str, Any]) -> bool:
            return all(path.is_file() for path in outputs) and noted.get("outputs") == self._checksums(outputs)

        if record.holds(whole):
            _print_status(f"{name}: done before, kept")
        else:
            for path in (self.output / final for final in self.final):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            self.final = []
            record.begin()
            for path in outputs:
                path.unlink(missing_ok=True)
                self.checksums.pop(path, None)
            began = time.monotonic()
            report = work() or {}
            for path in outputs:  # ``work`` may have computed the checksum of an incomplete file
                self.checksums.pop(path, None)
            seconds = round(time.monotonic() - began, 1)
            record.end(step=name, outputs=self._checksums(outputs), report=report, seconds=seconds)
            _print_status(f"{name}: {report.get('summary', 'done')} ({seconds:.1f} s)")
        self.reports[name] = record.noted()["report"]
        return self.reports[name]

    def stamp(self, name: str) -> dict[str, Any]:
        """Return the record of a step of this run."""
        return read_json(stamp_path(self.output, name))

    def forget_others(self) -> None:
        """Remove records and outputs of steps that this run did not have, for example of a removed split."""
        ours = {stamp_path(self.output, name) for name in self.reports}
        kept = {label for path in ours for label in read_json(path)["outputs"]}
        for path in set((self.output / "steps").glob("*.json")) - ours:
            for label in read_record(path).get("outputs", {}).keys() - kept:
                (self.output / label).unlink(missing_ok=True)
            path.unlink()


def stamp_path(output: Path, name: str) -> Path:
    """Return the path of a step's record."""
    return output / "steps" / f"{name.replace(':', '.')}.json"


def stamped_inputs(stamp: Path) -> dict[str, str] | None:
    """Return the input checksums in a step's record; None without a valid record."""
    return read_record(stamp).get("inputs")


def _print_status(line: str) -> None:
    print(f"| {line}", file=sys.stderr, flush=True)
