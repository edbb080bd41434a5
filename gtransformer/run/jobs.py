"""Programs: in parallel with their output in logs, or one at a time with output also on the console."""

from __future__ import annotations

import contextlib
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

import torch

from gtransformer.preprocess.parallel import available_cores
from gtransformer.tasks.training import spoken

SILENCE = 10.0  # seconds without output after which a line reports that a program is running; then twice as many
UNBUFFERED = {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}


def shares(jobs: int | None = None) -> tuple[int, int | None]:
    """Return the number of programs that run at a time, ``jobs`` or by the machine, and the threads of each.

    With a GPU, one program runs at a time by default, with its own choice of threads (None). On a CPU programs share
    the cores.
    """
    if torch.cuda.is_available():
        return jobs or 1, None
    at_once = jobs or available_cores()
    return at_once, max(1, available_cores() // at_once)


def start_program(command: list[str], log: Path, lock: int, threads: int | None, alone: bool) -> subprocess.Popen:
    """Start a program whose output is appended to a log.

    Args:
        lock: a file descriptor that it inherits.
        threads: number of threads; None: its own choice.
        alone: no other program runs at the same time.
    """
    environment = os.environ | UNBUFFERED
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not alone:
            # Threads that spin while they wait make training seven times slower on a busy machine. Sleeping instead
            # costs half as much time again, but only on a machine that is not busy.
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as stream:
        # A process group of its own, so that its child processes can be ended with it.
        return subprocess.Popen(
            command, stdout=stream, stderr=stream, env=environment, start_new_session=True, pass_fds=[lock]
        )


def last_error(log: Path) -> str:
    """Return the last error message in the log of a failed program, shortened."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # argparse puts the program's name before it
    errors = [found[1] for line in lines if (found := re.match(r"(?:[\w./-]+: )?error: (.*)", line))]
    # The driver of a stage repeats the failure as the last error; the one before it has the cause.
    return (errors[-2] if len(errors) > 1 else (errors or lines or ["no output"])[-1])[:300]


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
            print(f"{begin}[{name}] running, no output for {spoken(time.monotonic() - began)}", flush=True)
    return os.read(pipe, 1 << 16)
