"""Stages of a recipe: each is a program with a log and a record."""

from __future__ import annotations

import datetime
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_record, write_json
from gtransformer.preprocess.manifest import NOTED
from gtransformer.provenance import current_commit, device_name, package_versions
from gtransformer.run.paths import CHECKPOINTS

UNBUFFERED = {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}


def run_stage(name: str, command: list[str], directory: Path, results: dict[str, Any]) -> None:
    """Run ``command``; log to ``directory/NAME.log``, and on success write the record ``directory/NAME.json``.

    The log is appended to, since a stage may be resumed. An old record is removed first, so that an interrupted stage
    has none. Raises UserError if the program fails.
    """
    directory.mkdir(parents=True, exist_ok=True)
    record, log = directory / f"{name}.json", directory / f"{name}.log"
    record.unlink(missing_ok=True)
    print(f"[{name}] {shlex.join(command)}", flush=True)
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    status, peak = run_logged(command, log)
    if status:
        raise UserError(f"{name} stopped with exit status {status}; its output is in {log}")
    content = {
        "stage": name,
        "command": command,
        "commit": current_commit(),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - clock, 1),
        "peak_bytes": peak,
        "device": device_name(),
        "versions": package_versions(),
    }
    write_json(record, content | results)


def run_logged(command: list[str], log: Path) -> tuple[int, int]:
    """Run a program; print its output and append it to a log.

    The log has only the last state of a progress bar. If the console is the log itself, as for a stage of an
    experiment, output is written once. An interruption ends the program, too.

    Returns:
        its exit status, and its peak memory in bytes.
    """
    with open(log, "ab") as stream:
        shown = sys.stdout is not None and not os.path.samestat(os.fstat(1), os.fstat(stream.fileno()))
        stream.write(f"$ {shlex.join(command)}\n".encode())
        stream.flush()
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | UNBUFFERED
        )
        rest = b""
        try:
            while chunk := os.read(program.stdout.fileno(), 1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                stream.writelines(line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines)
                stream.flush()
                if shown:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
            _, status, usage = os.wait4(program.pid, 0)
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode, usage.ru_maxrss * 1024
        except BaseException:
            program.terminate()
            program.wait()
            raise
        finally:
            stream.write(rest.rpartition(b"\r")[2])
            program.stdout.close()


def was_run(name: str, command: list[str], directory: Path) -> bool:
    """Return whether this stage was finished with exactly this command."""
    return read_record(directory / f"{name}.json").get("command") == command


def search_of_run(directory: Path) -> dict[str, Any]:
    """Return the options of generation of a run's recipe, as noted at the start of its training."""
    return read_record(directory / CHECKPOINTS / NOTED).get("generate") or {}
