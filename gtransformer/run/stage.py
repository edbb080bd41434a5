"""Stages of a recipe: each a program with a log and a record; and facts from the records of a run."""

from __future__ import annotations

import datetime
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import current_commit, device_name, package_versions
from gtransformer.files import process_memory, read_json
from gtransformer.run.jobs import run_logged
from gtransformer.run.paths import RAW
from gtransformer.work import Record, read_record, take_lock

PATIENCE = 10.0  # seconds; the helper processes of a killed training need some time to end
# The sections that a stage reads.
SECTIONS = {
    "prepare": ("prepare", "task"),
    "train": ("task", "train", "devices", "pretrained-from"),
    "generate": ("task", "generate"),
    "score": ("score",),
}


def run_stage(name: str, command: list[str], directory: Path, results: dict[str, Any]) -> None:
    """Run ``command``; log to ``directory/NAME.log``, and on success write the record ``directory/NAME.json``.

    The log is appended to, since a stage may be resumed. An old record is removed first, so that an interrupted run has
    none. Raises UserError if the program fails, or if the same stage is running in this directory.
    """
    busy = (
        f"its stage {name} is running already, perhaps left from a run that was killed; wait for "
        f"it, end it (pgrep -af {shlex.quote(re.escape(str(directory)))}), or choose another directory"
    )
    with take_lock(directory / f".{name}.lock", directory, busy, PATIENCE) as lock:
        record, log = Record(directory / f"{name}.json", {"stage": name, "command": command}), directory / f"{name}.log"
        record.begin()
        print(f"[{name}] {shlex.join(command)}", flush=True)
        started, clock, peaks = datetime.datetime.now(datetime.UTC), time.monotonic(), [0]

        def note_peak(process: int) -> None:
            peaks.append(max(peaks.pop(), process_memory("VmHWM", process) or 0))

        if status := run_logged(command, log, [lock.fileno()], note_peak):
            raise UserError(f"{name} stopped with exit status {status}; its output is in {log}")
        record.end(
            commit=current_commit(),
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 1),
            peak_bytes=peaks[0] or None,
            device=device_name(),
            versions=package_versions(),
            **results,
        )


def was_run(name: str, command: list[str], directory: Path) -> bool:
    """Return whether this stage was finished with exactly this command."""
    return Record(directory / f"{name}.json", {"command": command}).holds()


def stage_changes(stage: str, changes: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Return the changes of a recipe that concern a stage.

    Args:
        changes: the recipe's, ``SECTION.OPTION=VALUE``, ``devices=N`` or ``pretrained-from=``.
        extra: options for the stage's program, given after ``--``.
    """
    own = [change for change in changes if change.partition("=")[0].partition(".")[0] in SECTIONS[stage]]
    return own + ([f"{stage} -- {shlex.join(extra)}"] if extra else [])


def noted_changes(records: Iterable[Path]) -> list[str]:
    """Return the changes in the existing records, each once."""
    found = (read_json(path).get("changes") or [] for path in records if path.is_file())
    return list(dict.fromkeys(chain.from_iterable(found)))


def search_of_run(directory: Path) -> dict[str, Any]:
    """Return the options of generation of a run's recipe, as recorded by its training or at the start of the run."""
    for name in ("train.json", RAW):
        noted = read_record(directory / name)
        if isinstance(noted.get("generate"), dict):
            return noted["generate"]
    return {}


def check_start(directory: Path, start_on: str | None) -> None:
    """Raise UserError if a run was started with another ``--start-on``: its corpus, dictionary and model differ."""
    for path in (directory / "prepare.json", directory / "train.json"):
        noted = read_json(path).get("start_on") if path.is_file() else start_on
        if noted != start_on:
            option = f"with --start-on {noted}" if noted else "without --start-on"
            raise UserError(
                f"{directory}: this run was started {option}; give the same to all of its stages, or choose another "
                "directory with --output"
            )
