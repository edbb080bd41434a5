"""Commands as a user runs them, each in a process group of its own that a test leaves nothing of."""

from __future__ import annotations

import os
import signal
import subprocess


def run_group(command, timeout: float = 560, input: str | None = None, **options) -> subprocess.CompletedProcess:
    """``subprocess.run`` with text output, errors in the same pipe unless told otherwise.

    On a timeout all that the command has started is ended as well, and the output so far is added to the error.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    process = subprocess.Popen(command, stdin=stdin, start_new_session=True, **options)
    try:
        output, errors = process.communicate(input, timeout=timeout)
    except BaseException as problem:
        problem.add_note(f"{command}\n{_end(process)}")
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _end(process: subprocess.Popen) -> str:
    """Ask the group to end, which lets a program end what it has put in groups of their own, then kill it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            output, errors = process.communicate(timeout=20)
            return f"{(output or '')[-5000:]}\n{(errors or '')[-5000:]}"
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    return "(its output could not be had)"
