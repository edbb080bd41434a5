"""A recipe's stage: its log and record."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import pytest

from gtransformer.errors import UserError
from gtransformer.run.stage import run_logged, run_stage, was_run

pytestmark = pytest.mark.slow


def test_a_stage_logs_and_leaves_a_record(tmp_path, capfdbinary):
    code = "import sys; print('loss 1\\rloss 2'); print('trouble', file=sys.stderr)"
    command = [sys.executable, "-c", code]
    run_stage("train", command, tmp_path, {"checkpoints": "c"})
    log = (tmp_path / "train.log").read_text()
    assert "loss 2\n" in log and "loss 1" not in log.splitlines()[1] and "trouble" in log
    assert b"loss 1\rloss 2" in capfdbinary.readouterr().out
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["command"] == command and record["checkpoints"] == "c" and record["seconds"] >= 0
    assert record["versions"]["torch"] and record["started"] and record["device"]
    assert record["peak_bytes"] > 2**20  # no less than this process had when it started the program
    assert was_run("train", command, tmp_path) and not was_run("train", [*command, "-x"], tmp_path)
    with pytest.raises(UserError, match=r"train stopped with exit status 3; its output is in .*train.log"):
        run_stage("train", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path, {})
    assert not (tmp_path / "train.json").exists() and (tmp_path / "train.log").read_text().count("why\n") == 1


def test_output_is_passed_on_at_once_and_an_interruption_ends_the_program(tmp_path, monkeypatch):
    log, pid = tmp_path / "log", tmp_path / "pid"
    code = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nprint('first')\ntime.sleep(60)"

    def interrupt() -> None:
        while "\nfirst" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.05)
        os.kill(os.getpid(), 2)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_logged([sys.executable, "-c", code], log)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
