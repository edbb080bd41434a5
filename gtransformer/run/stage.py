"""Stages of a recipe: each is a program with a log and a record, and is run once for its
settings.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_record, sha256, write_json
from gtransformer.installation import current_commit, device_name, package_versions

SEARCH = "generate.json"  # in a run's directory: the options of generation of its recipe


def run_stage(
    name: str, command: list[str], directory: Path, inputs: Sequence[Path], again: bool
) -> bool:
    """Run a command unless it was run before; log to ``directory/NAME.log``, record in
    ``directory/NAME.json``.

    The log is appended to, since an interrupted training resumes.

    Args:
        inputs: files that the result depends on; a change of their content counts as another
            setting.
        again: run it even if it was run before, or with other settings.

    Returns whether it was run. Raises UserError if it was run or begun with other settings, or
    fails.
    """
    record, log = directory / f"{name}.json", directory / f"{name}.log"
    settings = {"command": command, "inputs": {str(path): sha256(path) for path in inputs}}
    before = read_record(record)
    same = before == before | settings
    if before.get("done") and same and not again:
        print(f"[{name}] done before, see {record}")
        return False
    if before and not same and not again:
        other = [word for word in command if word not in before["command"]] or [
            str(path) for path in inputs
        ]
        raise UserError(
            f"{record}: was run with other settings (now {shlex.join(other)}); give --again to run "
            "it with these, or "
            "another directory with --output"
        )
    directory.mkdir(parents=True, exist_ok=True)
    write_json(record, settings | {"done": False})
    print(f"[{name}] {shlex.join(command)}", flush=True)
    began = time.monotonic()
    if status := run_logged(command, log):
        raise UserError(f"{name} stopped with exit status {status}; its output is in {log}")
    facts = {
        "done": True,
        "commit": current_commit(),
        "seconds": round(time.monotonic() - began, 1),
        "device": device_name(),
        "versions": package_versions(),
    }
    write_json(record, settings | facts)
    return True


def run_logged(command: list[str], log: Path) -> int:
    """Run a program; print its output, append it to a log, and return the exit status."""
    # Threads that spin while they wait for one another slow a training down many times beside any
    # other busy program.
    environment = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | {"PYTHONUNBUFFERED": "1"}
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )
    try:
        with open(log, "ab") as stream:
            stream.write(f"$ {shlex.join(command)}\n".encode())
            for line in program.stdout:
                stream.write(line)
                stream.flush()
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
        return program.wait()
    except BaseException:  # an interruption ends the program, too
        program.terminate()
        program.wait()
        raise


def search_of_run(directory: Path) -> dict[str, Any]:
    """Return the options of generation of a run's recipe, as noted after its training."""
    return read_record(directory / SEARCH)
