"""Locks of commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gtransformer.errors import UserError
from gtransformer.run.processes import take_lock


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
