"""A stage as a program of its own: log, record, and what a program left behind holds."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.run import stage as stage_module
from gtransformer.run.stage import run_logged, run_stage, was_run
from tests.processes import start


def test_stage_logs_and_leaves_a_record(tmp_path: Path, capfdbinary):
    # Its memory is read when it says something, so it must not be gone by then.
    code = "import sys, time; print('loss 1\\rloss 2'); print('trouble', file=sys.stderr); time.sleep(1)"
    command = [sys.executable, "-c", code]
    run_stage("train", command, tmp_path, {"checkpoints": "c"})
    log = (tmp_path / "train.log").read_text()
    assert "loss 2\n" in log and "loss 1" not in log.splitlines()[1] and "trouble" in log
    assert b"loss 1\rloss 2" in capfdbinary.readouterr().out
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["command"] == command and record["checkpoints"] == "c" and record["seconds"] >= 0
    assert record["versions"]["torch"] and record["started"] and record["device"]
    assert 2**20 < record["peak_bytes"] < 2**30
    assert was_run("train", command, tmp_path) and not was_run("train", [*command, "-x"], tmp_path)


def test_advice_about_another_package_is_left_out(tmp_path: Path, capfdbinary):
    """The rest of the output comes as it is. The line is written at once, as logging does."""
    said = "now | INFO | fairseq.tasks.text_to_speech | Please install tensorboardX: pip install tensorboardX"
    code = f"import sys; print('before'); sys.stdout.write({said!r} + '\\n'); print('loss 1\\rloss 2\\ntensorboardX')"
    assert run_logged([sys.executable, "-c", code], tmp_path / "log") == 0
    assert (tmp_path / "log").read_text().splitlines()[-3:] == ["before", "loss 2", "tensorboardX"]
    assert capfdbinary.readouterr().out == b"before\nloss 1\rloss 2\ntensorboardX\n"


def test_a_silent_program_is_said_to_be_at_work(tmp_path: Path, monkeypatch, capfd):
    """On the console alone, and not within a line that has not ended."""
    monkeypatch.setattr(stage_module, "SILENCE", 0.3)
    code = "import sys, time; print('begun'); time.sleep(0.8); print('half', end=''); time.sleep(0.8); print(' done')"
    assert run_logged([sys.executable, "-c", code], tmp_path / "train.log") == 0
    said = capfd.readouterr().out
    assert said.partition("begun\n")[2].startswith("[train] at work, nothing said for 0 s\n") and "half done\n" in said
    assert "at work" not in (tmp_path / "train.log").read_text()


def test_failed_stage_leaves_no_record(tmp_path: Path):
    run_stage("train", [sys.executable, "-c", "pass"], tmp_path, {})
    with pytest.raises(UserError, match=r"train stopped with exit status 3; its output is in .*train.log"):
        run_stage("train", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path, {})
    assert not (tmp_path / "train.json").exists()
    assert (tmp_path / "train.log").read_text().count("why\n") == 1


def test_memory_of_an_interrupted_program_is_not_forgotten(tmp_path: Path):
    # Of a program that is gone nothing can be read: it stays for a moment.
    script = "import sys, time; x = b'x' * int(sys.argv[1]); print('begun'); time.sleep(1); sys.exit(int(sys.argv[2]))"
    with pytest.raises(UserError):
        run_stage("train", [sys.executable, "-c", script, str(2**28), "3"], tmp_path, {})
    (noted,) = tmp_path.glob(".train.peak")
    run_stage("train", [sys.executable, "-c", script, "1", "0"], tmp_path, {})
    assert json.loads((tmp_path / "train.json").read_text())["peak_bytes"] > 2**28 and not noted.exists()
    noted.write_text("")  # cut short
    run_stage("train", [sys.executable, "-c", script, "1", "0"], tmp_path, {})
    assert 2**20 < json.loads((tmp_path / "train.json").read_text())["peak_bytes"] < 2**28


def test_a_program_left_behind_holds_its_stage(tmp_path: Path, monkeypatch):
    """The driver is killed with -9, its program lives on: no second one is started beside it."""
    monkeypatch.setattr(stage_module, "PATIENCE", 0.5)
    script = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(120)"
    command = [sys.executable, "-c", script, str(tmp_path / "pid.part")]
    driver = f"from gtransformer.run.stage import *; run_stage('train', {command!r}, Path({str(tmp_path)!r}), {{}})"
    (tmp_path / "a_driver.py").write_text(driver)
    process = start([sys.executable, "-m", "a_driver"], cwd=tmp_path)
    try:
        while not (tmp_path / "pid.part").is_file() or not (tmp_path / "pid.part").read_text():
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    orphan = int((tmp_path / "pid.part").read_text())
    try:
        with pytest.raises(UserError, match=f"{tmp_path}: its stage train is at work already, perhaps left behind"):
            run_stage("train", [sys.executable, "-c", "pass"], tmp_path, {})
        run_stage("generate.test", [sys.executable, "-c", "pass"], tmp_path, {})
    finally:
        os.kill(orphan, signal.SIGKILL)
    monkeypatch.setattr(stage_module, "PATIENCE", 10.0)
    run_stage("train", [sys.executable, "-c", "pass"], tmp_path, {})


def test_output_is_passed_on_at_once(tmp_path: Path):
    """A line is in the log while the program still runs: it waits for its own output, or ends with another status."""
    log, script = tmp_path / "log", tmp_path / "script.py"
    script.write_text(
        f"""
import pathlib, time
print("early" + "bird")
for _ in range(200):
    if "earlybird" in pathlib.Path({str(log)!r}).read_text():
        raise SystemExit(7)
    time.sleep(0.05)
"""
    )
    assert run_logged([sys.executable, str(script)], log) == 7


def test_what_a_program_said_before_an_interruption_is_in_the_log(tmp_path):
    """All that it had said when it was ended, not what had been read of it."""
    said = tmp_path / "said"
    code = (
        "import pathlib, time\nprint('first', flush=True)\ntime.sleep(0.2)\nprint('second', flush=True)\n"
        f"pathlib.Path({str(said)!r}).touch()\ntime.sleep(60)"
    )

    def interrupt(process: int) -> None:
        end = time.monotonic() + 30
        while not said.exists() and time.monotonic() < end:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_logged([sys.executable, "-c", code], tmp_path / "log", heard=interrupt)
    assert (tmp_path / "log").read_text().splitlines()[-2:] == ["first", "second"]
