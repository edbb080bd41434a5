"""How the demonstration runs: stages that are kept when done before, and programs side by side with their progress."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.experiments.processes import take_lock
from gtransformer.experiments.progress import duration, say
from gtransformer.files import read_json, write_json


def digest(settings: Any) -> str:
    """A short name of settings, by which a later stage refers to those of an earlier one."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def stamp_path(directory: Path, name: str) -> Path:
    """Where a stage of an output directory leaves its settings."""
    return directory / "stages" / f"{name}.json"


def read_stamp(directory: Path, name: str) -> dict[str, Any]:
    """What a stage has left there, empty if nothing."""
    try:
        stamp = read_json(stamp_path(directory, name))
    except UserError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def was_done(directory: Path, name: str, settings: Any, outputs: Sequence[Path]) -> bool:
    """Whether a stage was done with these settings and its outputs are all there; needs no lock."""
    stamp = read_stamp(directory, name)
    done = stamp.get("settings") == digest(settings) and stamp.get("done") is True
    return done and all(path.exists() for path in outputs)


class Stages:
    """The stages of one output directory, which is locked while this object or a program started under it lives.

    A stage leaves ``stages/NAME.json`` with its settings. Begun with the same settings, it is gone on with; begun or
    done with others, what it had written is removed first.
    """

    def __init__(self, directory: Path, what: str = "demonstration"):
        self.directory = directory
        try:
            (directory / "stages").mkdir(parents=True, exist_ok=True)
            # Inherited: a training that outlives a killed demonstration still holds it.
            self.lock = take_lock(
                directory / "stages" / "lock",
                f"{directory}: another {what}, or a training that a killed one has left behind, is at work in "
                "this directory; wait for it or choose another directory",
            )
        except OSError as error:
            raise UserError(f"{directory}: cannot be written ({error.strerror}); choose another directory") from None

    def close(self) -> None:
        """Let go of the directory."""
        self.lock.close()

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_done(self, name: str, settings: Any, outputs: Sequence[Path]) -> bool:
        """Whether a stage was done with these settings and its outputs are all there; says so if it was."""
        kept = was_done(self.directory, name, settings, outputs)
        if kept:
            say(f"{name}: done before, kept")
        return kept

    def run(self, name: str, settings: Any, outputs: Sequence[Path], work: Callable[[], None]) -> None:
        """Do ``work`` unless it was done with these settings and its outputs (files or folders) are all there."""
        if not self.is_done(name, settings, outputs):
            self.begin(name, settings, outputs)
            began = time.monotonic()
            work()
            self.finish(name, settings, time.monotonic() - began)

    def begin(self, name: str, settings: Any, outputs: Sequence[Path]) -> None:
        """Note that a stage is begun; what it had written with other settings is removed."""
        if read_stamp(self.directory, name).get("settings") != digest(settings):
            for path in outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        write_json(stamp_path(self.directory, name), {"settings": digest(settings), "done": False})

    def finish(self, name: str, settings: Any, seconds: float) -> None:
        """Note that a stage is done."""
        stamp = {"settings": digest(settings), "done": True, "seconds": round(seconds, 1)}
        write_json(stamp_path(self.directory, name), stamp)
        say(f"{name}: done in {duration(seconds)}")

    def seconds(self, name: str) -> float:
        """How long a finished stage took when it was last done."""
        return read_stamp(self.directory, name).get("seconds", 0.0)
