"""One stage of a recipe: a program run with its output on the console and in a log, then a record of what was run."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import current_commit, device_name, package_versions
from gtransformer.files import process_memory, write_json
from gtransformer.run.pipeline import read_stamp
from gtransformer.run.processes import take_lock
from gtransformer.tasks.long_work import spoken

# What fairseq says whenever it is imported, for its speech task; tensorboard, which serves as well, is installed.
ADVICE = re.compile(rb"[^\n]*\| Please install tensorboardX: pip install tensorboardX\n")
SILENCE = 10.0  # seconds after which is said that a program is at work
PATIENCE = 10.0  # seconds; the helper processes of a killed training need some to notice


def run_stage(name: str, command: list[str], directory: Path, results: dict[str, Any]) -> None:
    """Run ``command``; log to ``directory/NAME.log``, and on success write the record ``directory/NAME.json``.

    The log is appended to, since a stage may be resumed; an old record is removed first, so that none stands beside an
    interrupted run. Raises UserError if the program fails, or if the same stage is at work in this directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    busy = (
        f"{directory}: its stage {name} is at work already, perhaps left behind by a run that was killed; wait for "
        f"it, end it (pgrep -af {shlex.quote(re.escape(str(directory)))}), or choose another directory"
    )
    with take_lock(directory / f".{name}.lock", busy, PATIENCE) as lock:
        _run_locked(name, command, directory, results, lock.fileno())


def _run_locked(name: str, command: list[str], directory: Path, results: dict[str, Any], lock: int) -> None:
    record, log = directory / f"{name}.json", directory / f"{name}.log"
    record.unlink(missing_ok=True)
    print(f"[{name}] {shlex.join(command)}", flush=True)
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    noted = directory / f".{name}.peak"
    peaks = [_read_peak(noted)]
    status = run_logged(command, log, [lock], lambda process: _note_peak(peaks, process, noted))
    if status:
        raise UserError(f"{name} stopped with exit status {status}; its output is in {log}")
    write_json(
        record,
        {
            "stage": name,
            "command": command,
            "commit": current_commit(),
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - clock, 1),
            "peak_bytes": peaks[0],
            "device": device_name(),
            "versions": package_versions(),
            **results,
        },
    )
    noted.unlink(missing_ok=True)


def _note_peak(peak: list[int | None], process: int, noted: Path) -> None:
    """Keep the most memory in ``peak`` and in a file, for the record of who goes on where this is interrupted."""
    now = process_memory("VmHWM", process)
    if now is not None and now > (peak[0] or 0):
        peak[0] = now
        noted.write_text(str(now), encoding="utf-8")


def _read_peak(noted: Path) -> int | None:
    """What interrupted programs of the same stage have noted; None where none has, or not to its end."""
    try:
        return int(noted.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def was_run(name: str, command: list[str], directory: Path) -> bool:
    """Was this stage finished with this very command?"""
    return read_stamp(directory / f"{name}.json").get("command") == command


def run_logged(
    command: list[str],
    log: Path,
    inherited: Sequence[int] = (),
    heard: Callable[[int], Any] = lambda process: None,
) -> int:
    """Run a program, its output passed through as it comes and appended to a log (but ADVICE); returns its exit
    status.

    Of a progress bar that redraws itself, the log keeps the last state. ``inherited`` are file descriptors that the
    program keeps open; ``heard`` is called with its number whenever it has said something.
    """
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with open(log, "ab") as stream:
        stream.write(f"$ {shlex.join(command)}\n".encode())
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, pass_fds=inherited
        )
        pipe, rest = process.stdout.fileno(), b""

        def keep(chunk: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + chunk).split(b"\n")
            stream.writelines(line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines)
            stream.flush()

        try:
            while chunk := _read(pipe, log.stem, rest):
                chunk = ADVICE.sub(b"", chunk)
                try:
                    heard(process.pid)  # at once: it may be about to end
                finally:
                    keep(chunk)
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            return process.wait()
        except BaseException:  # interrupted: the program must not go on alone
            process.terminate()
            process.wait()
            os.set_blocking(pipe, False)  # what it has left at work may hold the pipe
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(pipe, 1 << 16):
                    keep(chunk)  # of what it said last curves are drawn
            raise
        finally:
            stream.write(rest.rpartition(b"\r")[2])
            process.stdout.close()


def _read(pipe: int, name: str, line: bytes) -> bytes:
    """What a program says next; as long as it says nothing, that it is at work, now and then.

    ``line``: what it has said of a line that has not ended, which is not broken into.
    """
    began = time.monotonic()
    while not select.select([pipe], [], [], SILENCE)[0]:
        if not line or b"\r" in line:  # a bar, which may stand
            begin = "\n" if line else ""
            print(f"{begin}[{name}] at work, nothing said for {spoken(time.monotonic() - began)}", flush=True)
    return os.read(pipe, 1 << 16)
