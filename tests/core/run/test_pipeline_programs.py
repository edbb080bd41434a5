"""Stages that are programs: their order beside functions, logs, failures, and a pipeline that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gtransformer.errors import UserError
from gtransformer.run.pipeline import Pipeline, Program, Stage, read_stamp
from gtransformer.run.processes import take_lock

pytestmark = pytest.mark.slow


def program(folder: Path, name: str, code: str = "", after=(), waits_for=(), keeps_log=True) -> Stage:
    """A stage whose program notes its name in ``order``, then runs some Python."""
    script = f"open({str(folder / 'order')!r}, 'a').write({name!r} + ' '); print({name!r}); {code or 'pass'}"
    work = Program([sys.executable, "-c", script], folder / f"{name}.log", keeps_log=keeps_log)
    return Stage(name, code, [folder / f"{name}.log"], work, after, waits_for)


def run(folder: Path, *stages: Stage, **options) -> str:
    """Run stages two at a time; the order in which they began."""
    with Pipeline(folder, "trial") as pipeline:
        pipeline.add(*stages)
        pipeline.run("trial", 2, 1, **options)
    return (folder / "order").read_text().strip()


def test_programs_and_functions_in_order(tmp_path, capsys):
    def note() -> None:
        with open(tmp_path / "order", "a") as stream:
            stream.write("function ")

    stages = [
        program(tmp_path, "a", "import time; time.sleep(1)"),
        program(tmp_path, "b", after=["a"]),
        Stage("function", 1, [], note, after=["b"]),
        program(tmp_path, "c", waits_for=["function"]),
        program(tmp_path, "free"),
    ]
    order = run(tmp_path, *stages).split()
    assert set(order[:2]) == {"a", "free"} and order[2:] == ["b", "function", "c"]
    stamp = read_stamp(tmp_path / "stages" / "a.json")
    assert stamp["done"] is True and 1 <= stamp["seconds"] < 30
    assert "| function: done in 0 s" in capsys.readouterr().out


def test_a_stage_that_is_only_waited_for_undoes_nothing(tmp_path):
    run(tmp_path, program(tmp_path, "a"), program(tmp_path, "b", waits_for=["a"]))
    assert run(tmp_path, program(tmp_path, "a", "1"), program(tmp_path, "b", waits_for=["a"])) == "a b a"


@pytest.mark.parametrize(("keeps_log", "log"), [(False, "a\n"), (True, "a\na\n")])
def test_logs_begin_anew_or_go_on(tmp_path, keeps_log, log):
    output = tmp_path / "output"
    stage = program(tmp_path, "a", f"open({str(output)!r}, 'w')", keeps_log=keeps_log)
    stage = replace(stage, outputs=[output])
    assert run(tmp_path, stage) == "a"
    output.unlink()
    assert run(tmp_path, stage) == "a a"
    assert (tmp_path / "a.log").read_text() == log


def test_a_program_that_does_not_leave_its_output_has_failed(tmp_path):
    stage = replace(program(tmp_path, "quiet"), outputs=[tmp_path / "never"])
    with pytest.raises(UserError, match="trial: quiet ended well but did not write .*never"):
        run(tmp_path, stage)
    failures = []
    run(tmp_path, stage, program(tmp_path, "other"), failed=lambda stage, why: failures.append((stage.name, why)))
    assert failures == [("quiet", f"ended well but did not write {tmp_path / 'never'}")]
    assert read_stamp(tmp_path / "stages" / "other.json")["done"] is True


def test_failures_end_all_unless_they_may_be_and_nothing_reads_them(tmp_path):
    bad = program(tmp_path, "bad", "raise SystemExit('error: no memory')")
    with pytest.raises(UserError, match=r"trial: bad stopped with exit status 1: no memory .its output: .*bad.log"):
        run(tmp_path, bad, program(tmp_path, "other", waits_for=["bad"]))
    assert "other" not in (tmp_path / "order").read_text()
    failures, did = [], []
    more = {
        "failed": lambda stage, why: failures.append((stage.name, why)),
        "finished": lambda stage, _: did.append(stage),
    }
    other = program(tmp_path, "other", waits_for=["bad"])
    run(tmp_path, bad, other, **more)
    assert failures == [("bad", "stopped with exit status 1: no memory")] and did == [other]
    with pytest.raises(UserError, match="bad stopped with exit status 1"):
        run(tmp_path, bad, program(tmp_path, "reader", after=["bad"]), **more)
    run(tmp_path, program(tmp_path, "bad", "1"), other)
    assert not read_stamp(tmp_path / "stages" / "reader.json"), "it was never begun"


# Adds an x to a file and its process id to another, then sleeps.
PROGRAM = """
import os, sys, time
open(sys.argv[1], "a").write("x")
open(sys.argv[1] + ".pid", "w").write(f"{os.getpid()} ")
time.sleep(float(sys.argv[2]))
"""


def two_programs(folder: Path, seconds: float) -> None:
    """Run two stages, the second for so long."""
    with Pipeline(folder, "trial") as pipeline:
        for name, sleep, after in (("a", 0, []), ("b", seconds, ["a"])):
            work = Program([sys.executable, "-c", PROGRAM, str(folder / name), str(sleep)], folder / f"{name}.log")
            pipeline.add(Stage(name, 1, [folder / name], work, after))
        pipeline.run("trial")


def test_killed_it_leaves_its_program_with_the_lock_and_goes_on_afterwards(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=two_programs, args=[tmp_path, 60])
    process.start()
    left, end = tmp_path / "b.pid", time.monotonic() + 60
    while not left.is_file() or not left.read_text().endswith(" "):
        assert process.is_alive() and time.monotonic() < end
        time.sleep(0.05)
    process.kill()
    process.join()
    try:
        with pytest.raises(UserError, match="another trial, or a training that a killed one has left behind, is at wo"):
            two_programs(tmp_path, 0)
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)
    take_lock(tmp_path / "stages" / "lock", "it is still there", patience=20).close()
    two_programs(tmp_path, 0)
    assert (tmp_path / "a").read_text() == "x", "what was done is kept"
    assert (tmp_path / "b").read_text() == "xx", "what was begun is gone on with"
    assert read_stamp(tmp_path / "stages" / "b.json")["done"] is True
