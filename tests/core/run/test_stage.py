"""A recipe's stage: its log and record; ended, killed, gone on with."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time

import pytest

from gtransformer.errors import UserError
from gtransformer.run import jobs, stage
from gtransformer.run.jobs import run_logged
from gtransformer.run.stage import run_stage, was_run
from tests.programs import PROGRAM, wait_for

pytestmark = pytest.mark.slow
FORK = multiprocessing.get_context("fork")


def test_a_recipe_s_stage_logs_and_leaves_a_record(tmp_path, capfdbinary):
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
    with pytest.raises(UserError, match=r"train stopped with exit status 3; its output is in .*train.log"):
        run_stage("train", [sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path, {})
    assert not (tmp_path / "train.json").exists() and (tmp_path / "train.log").read_text().count("why\n") == 1


def test_an_experiment_and_its_stage_write_one_log(tmp_path):
    """What the stage's driver and its program say stands there once, in the order in which it was said."""
    log = tmp_path / "train.log"

    def driver() -> None:
        with open(log, "ab") as stream:
            os.dup2(stream.fileno(), 1)
        sys.stdout = open(1, "w", closefd=False)
        run_stage("train", [sys.executable, "-c", "print('begun', flush=True); print('ended')"], tmp_path, {})

    process = FORK.Process(target=driver)
    process.start()
    process.join()
    first, second, *rest = log.read_text().splitlines()
    assert first.startswith("[train] ") and second.startswith("$ ") and rest == ["begun", "ended"]


def test_a_silent_program_is_said_to_be_at_work(tmp_path, monkeypatch, capfd):
    """On the console alone, and not within a line that has not ended."""
    monkeypatch.setattr(jobs, "SILENCE", 0.3)
    code = "import sys, time; print('begun'); time.sleep(0.8); print('half', end=''); time.sleep(0.8); print(' done')"
    assert run_logged([sys.executable, "-c", code], tmp_path / "train.log") == 0
    said = capfd.readouterr().out
    assert said.partition("begun\n")[2].startswith("[train] running, no output for 0 s\n") and "half done\n" in said
    assert "at work" not in (tmp_path / "train.log").read_text()


def test_a_program_left_behind_holds_its_stage(tmp_path, monkeypatch):
    """The driver is killed with -9, its program lives on: no second one is started beside it."""
    monkeypatch.setattr(stage, "PATIENCE", 0.5)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "left"), "120"]
    process = FORK.Process(target=run_stage, args=("train", command, tmp_path, {}))
    process.start()
    try:
        orphan = wait_for(tmp_path / "left.pid", process.is_alive)
    finally:
        process.kill()
        process.join()
    try:
        with pytest.raises(UserError, match=f"{tmp_path}: its stage train is running already, perhaps left from"):
            run_stage("train", [sys.executable, "-c", "pass"], tmp_path, {})
        run_stage("generate.test", [sys.executable, "-c", "pass"], tmp_path, {})
    finally:
        os.kill(orphan, signal.SIGKILL)
    monkeypatch.setattr(stage, "PATIENCE", 10.0)
    run_stage("train", [sys.executable, "-c", "pass"], tmp_path, {})


def test_output_is_passed_on_at_once(tmp_path):
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
