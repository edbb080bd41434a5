"""Programs: started beside each other with their output in logs, or one at a time with it on the console, too."""

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

SILENCE = 10.0  # seconds after which is said that a program is at work
UNBUFFERED = {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}


def shares(jobs: int | None = None) -> tuple[int, int | None]:
    """How many programs run at a time, ``jobs`` or as many as suit the machine, and with how many threads each.

    A GPU has one at a time, and None, as many threads as it likes; those on a CPU share its cores.
    """
    if torch.cuda.is_available():
        return jobs or 1, None
    at_once = jobs or available_cores()
    return at_once, max(1, available_cores() // at_once)


def start_program(command: list[str], log: Path, lock: int, threads: int | None, alone: bool) -> subprocess.Popen:
    """Start a program whose output is appended to a log.

    Args:
        lock: a file descriptor that it inherits.
        threads: that it computes with; None: its own choice.
        alone: nothing runs beside it.
    """
    environment = os.environ | UNBUFFERED
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not alone:
            # With threads that spin while they wait for each other, a busy machine slows training down sevenfold; to
            # sleep instead between the small parts of a step costs one that is not busy half as much time again.
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as stream:
        # A group of its own, so that ending it ends what it has started as well.
        return subprocess.Popen(
            command, stdout=stream, stderr=stream, env=environment, start_new_session=True, pass_fds=[lock]
        )


def last_error(log: Path) -> str:
    """What a program that failed has said last, in short."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # argparse puts the program's name before it
    errors = [found[1] for line in lines if (found := re.match(r"(?:[\w./-]+: )?error: (.*)", line))]
    # The driver of a stage repeats the failure; the first error of the last program says what it was.
    return (errors[-2] if len(errors) > 1 else (errors or lines or ["no output"])[-1])[:300]


def run_logged(
    command: list[str],
    log: Path,
    inherited: Sequence[int] = (),
    heard: Callable[[int], Any] = lambda process: None,
) -> int:
    """Run a program, its output passed through as it comes and appended to a log; returns its exit status.

    Of a progress bar that redraws itself, the log keeps the last state. Where the console is that log already, as of a
    stage that an experiment runs, nothing is said twice. ``inherited`` are file descriptors that the program keeps
    open; ``heard`` is called with its number whenever it has said something.
    """
    with open(log, "ab") as stream:
        shown = not os.path.samestat(os.fstat(1), os.fstat(stream.fileno()))
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
                    heard(process.pid)  # at once: it may be about to end
                finally:
                    keep(chunk)
                if shown:
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


def _read(pipe: int, name: str | None, line: bytes) -> bytes:
    """What a program says next; as long as it says nothing, that ``name`` is at work, now and then.

    ``line``: what it has said of a line that has not ended, which is not broken into.
    """
    began = time.monotonic()
    while name and not select.select([pipe], [], [], SILENCE)[0]:
        if not line or b"\r" in line:  # a bar, which may stand
            begin = "\n" if line else ""
            print(f"{begin}[{name}] at work, nothing said for {spoken(time.monotonic() - began)}", flush=True)
    return os.read(pipe, 1 << 16)
