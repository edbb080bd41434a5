"""Programs in a process group of their own, of which a test leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess

STREAMS = {
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
    "start_new_session": True,
}


def run_group(command: list, timeout: float = 560, **options) -> subprocess.CompletedProcess:
    """Run a program to its end; output and errors come through one pipe. After the timeout its
    group is killed.
    """
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.DEVNULL, **STREAMS, **options
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)
