"""Signals and locks of commands."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from gtransformer.errors import UserError
from gtransformer.experiments.processes import take_lock
from tests.processes import start

COMMAND = """
import signal, sys

signal.signal(signal.SIGHUP, signal.{before})
from gtransformer.experiments.processes import end_on_signals
from gtransformer.errors import cli_main

@cli_main
def main(argv=None):
    end_on_signals()
    print("ready", flush=True)
    sys.stdin.readline()
    print("done")

sys.exit(main())
"""


@pytest.mark.parametrize(
    ("before", "number", "status", "end"),
    [
        ("SIG_DFL", signal.SIGTERM, 130, "interrupted\n"),
        ("SIG_DFL", signal.SIGHUP, 130, "interrupted\n"),
        ("SIG_IGN", signal.SIGHUP, 0, "done\n"),  # as nohup leaves it
    ],
)
def test_signals_end_a_command_unless_they_are_ignored(before, number, status, end, tmp_path):
    (tmp_path / "a_command.py").write_text(COMMAND.format(before=before))
    command = [sys.executable, "-m", "a_command"]
    pipe = subprocess.PIPE
    process = start(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
    try:
        while process.stdout.readline() not in ("ready\n", ""):
            pass
        process.send_signal(number)
        time.sleep(0.2)
        output, _ = process.communicate("go on\n" if status == 0 else None, timeout=60)
    finally:
        process.kill()
    assert process.returncode == status and output.endswith(end)


def test_a_lock_is_had_once_and_by_whom_inherits_it(tmp_path):
    path = tmp_path / "lock"
    with take_lock(path, "busy"), pytest.raises(UserError, match="^busy$"):
        take_lock(path, "busy")
    sleep = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    with take_lock(path, "busy") as lock:
        process = subprocess.Popen(sleep, stdout=subprocess.PIPE, pass_fds=[lock.fileno()])
    try:
        assert process.stdout.readline()
        with pytest.raises(UserError, match="busy"):
            take_lock(path, "busy", patience=0.3)
    finally:
        process.kill()
        process.communicate()
    take_lock(path, "busy", patience=5).close()
