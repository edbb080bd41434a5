"""Stages of a recipe: each is a program with a log and a record, and is run once for its
settings.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import read_record, write_json

SEARCH = "generate.json"  # in a run's directory: the options of generation of its recipe


def run_stage(
    name: str, command: list[str], directory: Path, inputs: Sequence[Path], again: bool
) -> None:
    """Run a command unless it was run before; log to ``directory/NAME.log``, record in
    ``directory/NAME.json``.

    The log is appended to, since an interrupted training resumes.

    Args:
        inputs: files and folders that the result depends on; one of another time or size counts as
            another setting.
        again: run it even if it was run before, or with other settings.

    Raises UserError if it was run or begun with other settings, or fails.
    """
    record, log = directory / f"{name}.json", directory / f"{name}.log"
    # A model that was trained again is another one under the same name.
    versions = [f"{path} ({os.stat(path).st_size}, {os.stat(path).st_mtime_ns})" for path in inputs]
    stage = {"command": command, "inputs": versions}
    before = read_record(record)
    if before and not again:
        if before != before | stage:
            known = [*before["command"], *before.get("inputs", [])]
            changed = [word for word in command + versions if word not in known]
            raise UserError(
                f"{record}: was run with other settings or inputs ({shlex.join(changed)}); give "
                "--again to run it with these, or another directory with --output"
            )
        if before["done"]:
            print(f"[{name}] done before, see {record}")
            return
    directory.mkdir(parents=True, exist_ok=True)
    # Before it runs: what an interrupted stage left must not be continued with other settings.
    write_json(record, stage | {"done": False})
    print(f"[{name}] {shlex.join(command)}", flush=True)
    began = time.monotonic()
    if status := run_logged(command, log):
        raise UserError(f"{name} stopped with exit status {status}; its output is in {log}")
    write_json(record, stage | {"done": True, "seconds": round(time.monotonic() - began, 1)})


def run_logged(command: list[str], log: Path) -> int:
    """Run a program; print its output, append it to a log, and return the exit status."""
    # Threads that spin while they wait for one another slow a training down many times beside any
    # other busy program.
    environment = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | {"PYTHONUNBUFFERED": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=environment, **streams) as program:
        try:
            subprocess.run(["tee", "-a", log], stdin=program.stdout, check=True)
        except BaseException:  # an interruption ends the program, too
            program.terminate()
            raise
    return program.returncode
