"""Programs in a process group of their own, of which a test leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

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


def interrupt_when(ready: Callable[[], bool], command: list, **options) -> str:
    """End a program by SIGTERM as soon as something is ready, and return its output. It must end
    with status 130.
    """
    with subprocess.Popen(list(map(str, command)), **STREAMS, **options) as process:
        try:
            while not ready():
                assert process.poll() is None, process.communicate()[0][-3000:]
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, output
    return output
