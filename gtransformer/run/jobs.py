"""Programs one at a time, their output on the console and in logs."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SILENCE = 10.0  # seconds without output after which a line reports that a program is running; then twice as many
UNBUFFERED = {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}


def run_logged(
    command: list[str],
    log: Path,
    inherited: Sequence[int] = (),
    heard: Callable[[int], Any] = lambda process: None,
) -> int:
    """Run a program; print its output and append it to a log. Return its exit status.

    The log has only the last state of a progress bar. If the console is the log itself, as for a stage of an
    experiment, output is written once.

    Args:
        inherited: file descriptors that the program keeps open.
        heard: called with the process id at every output.
    """
    with open(log, "ab") as stream:
        shown = sys.stdout is not None and not os.path.samestat(os.fstat(1), os.fstat(stream.fileno()))
        stream.write(f"$ {shlex.join(command)}\n".encode())
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | UNBUFFERED, pass_fds=inherited
        )
        pipe, rest = process.stdout.fileno(), b""

        def keep(chunk: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + chunk).split(b"\n")
            stream.writelines(line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines)
            stream.flush()

        try:
            while chunk := _read(pipe, log.stem if shown else None, rest):
                try:
                    heard(process.pid)  # before the process can end
                finally:
                    keep(chunk)
                if shown:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
            return process.wait()
        except BaseException:  # interrupted: end the program, too
            process.terminate()
            process.wait()
            os.set_blocking(pipe, False)  # its child processes may hold the pipe
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(pipe, 1 << 16):
                    keep(chunk)  # curves need the last output
            raise
        finally:
            stream.write(rest.rpartition(b"\r")[2])
            process.stdout.close()


def _read(pipe: int, name: str | None, line: bytes) -> bytes:
    """Return a program's next output; until then, report from time to time that ``name`` is running.

    ``line``: the beginning of an unfinished line, which is not interrupted.
    """
    began, silence = time.monotonic(), SILENCE
    while name and not select.select([pipe], [], [], silence)[0]:
        silence *= 2
        if not line or b"\r" in line:  # a progress bar may be interrupted
            begin = "\n" if line else ""
            print(f"{begin}[{name}] running, no output for {time.monotonic() - began:.0f} s", flush=True)
    return os.read(pipe, 1 << 16)
