"""Programs beside each other in a pipeline; ended, killed, gone on with."""

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
from gtransformer.lab import pipeline as pipeline_module
from gtransformer.lab.pipeline import Pipeline, Program, Stage
from gtransformer.work import read_record, take_lock
from tests.programs import PROGRAM, wait_for

pytestmark = pytest.mark.slow
FORK = multiprocessing.get_context("fork")


def program(folder: Path, name: str, code: str = "", after=(), waits_for=(), **more) -> Stage:
    """A stage whose program notes its name in ``order``, then runs some Python."""
    note = f"open({str(folder / 'order')!r}, 'a').write({name!r} + ' '); print({name!r}, flush=True)"
    command = [sys.executable, "-c", f"{note}\n{code or 'pass'}"]
    work = Program(command, folder / f"{name}.log", **{"keeps_log": True, **more})
    return Stage(name, code, [folder / f"{name}.log"], work, after, waits_for)


def run(folder: Path, *stages: Stage, at_once: int = 2, threads: int | None = 1, **options) -> str:
    """Run stages, two at a time; the order in which they began."""
    with Pipeline(folder, "trial") as pipeline:
        pipeline.add(*stages)
        pipeline.run("trial", at_once, threads, **options)
    return (folder / "order").read_text().strip()


def test_programs_and_functions_in_order(tmp_path, capsys):
    def note() -> None:
        with open(tmp_path / "order", "a") as stream:
            stream.write("function ")

    late = program(tmp_path, "c", waits_for=["function"])
    late = replace(late, work=replace(late.work, command=lambda command=late.work.command: command))
    stages = [
        program(tmp_path, "a", "import time; time.sleep(1)"),
        program(tmp_path, "b", after=["a"]),
        Stage("function", 1, [], note, after=["b"]),
        late,
        program(tmp_path, "free"),
    ]
    order = run(tmp_path, *stages).split()
    assert set(order[:2]) == {"a", "free"} and order[2:] == ["b", "function", "c"]
    record = read_record(tmp_path / "stages" / "a.json")
    assert record["done"] is True and 1 <= record["seconds"] < 30
    assert "| function: done in 0 s" in capsys.readouterr().out


def test_one_alone_has_all_cores_and_nothing_runs_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline_module, "available_cores", lambda: 7)  # two with three threads leave one
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    marks = tmp_path / "marks"
    code = (
        "import os, time\n"
        f"def mark(what): open({str(marks)!r}, 'a').write({{name!r}} + what + ' ')\n"
        "mark('+' + os.environ['OMP_NUM_THREADS'] + os.environ.get('OMP_WAIT_POLICY', '')[:1])\n"
        "time.sleep(0.4); mark('-')"
    )
    stages = [program(tmp_path, name, code.format(name=name), alone=name == "b") for name in "abc"]
    run(tmp_path, *stages, threads=3)  # P: threads of programs that share the cores wait passively
    assert marks.read_text().split() == ["a+3P", "a-", "b+7", "b-", "c+3P", "c-"]
    marks.unlink()
    run(tmp_path, program(tmp_path, "c", code.format(name="c") + "; pass"), at_once=1, threads=7)
    assert marks.read_text().split() == ["c+7", "c-"]


def test_a_stage_that_is_only_waited_for_undoes_nothing(tmp_path):
    run(tmp_path, program(tmp_path, "a"), program(tmp_path, "b", waits_for=["a"]))
    assert run(tmp_path, program(tmp_path, "a", "1"), program(tmp_path, "b", waits_for=["a"])) == "a b a"


@pytest.mark.parametrize(("keeps_log", "log"), [(False, "a\n"), (True, "a\na\n")])
def test_logs_begin_anew_or_go_on(tmp_path, keeps_log, log):
    output = tmp_path / "output"
    one = replace(program(tmp_path, "a", f"open({str(output)!r}, 'w')", keeps_log=keeps_log), outputs=[output])
    assert run(tmp_path, one) == "a"
    output.unlink()
    assert run(tmp_path, one) == "a a" and (tmp_path / "a.log").read_text() == log


def test_a_program_that_does_not_leave_its_output_has_failed(tmp_path):
    quiet = replace(program(tmp_path, "quiet"), outputs=[tmp_path / "never"])
    with pytest.raises(UserError, match="trial: quiet ended without an error but did not write .*never"):
        run(tmp_path, quiet)
    failures = []
    run(tmp_path, quiet, program(tmp_path, "other"), failed=lambda stage, why: failures.append((stage.name, why)))
    assert failures == [("quiet", f"ended without an error but did not write {tmp_path / 'never'}")]
    assert read_record(tmp_path / "stages" / "other.json")["done"] is True


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
    assert not read_record(tmp_path / "stages" / "reader.json"), "it was never begun"


def test_a_failure_ends_the_others_and_what_they_started(tmp_path):
    """The lock, which all of them inherit, is free when the last is gone."""
    sleep = "import time; time.sleep(60)"
    slow = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{sleep}'], close_fds=False)"
    fails = "import time; time.sleep(1); print('a.py: error: no corpus'); print('error: train stopped'); exit(3)"
    with pytest.raises(UserError, match=r"trial: bad stopped with exit status 3: no corpus \(its output: .*bad.log\)"):
        run(tmp_path, program(tmp_path, "slow", slow), program(tmp_path, "bad", fails))
    take_lock(tmp_path / "stages" / "lock", tmp_path, "something is still there", patience=20).close()


def test_what_ends_together_with_a_failure(tmp_path, monkeypatch):
    """What was done is noted, and a second failure is none of the first's."""
    sleep, order = time.sleep, tmp_path / "order"

    def all_over(_) -> None:
        while not order.is_file() or len(order.read_text().split()) < 3:
            sleep(0.05)
        sleep(3)  # until all have ended, on a busy machine, too

    monkeypatch.setattr(pipeline_module.time, "sleep", all_over)
    stages = [program(tmp_path, name, code) for name, code in (("a", "exit(1)"), ("b", ""), ("c", "exit(2)"))]
    with pytest.raises(UserError, match="trial: a stopped with exit status 1"):
        run(tmp_path, *stages, at_once=3)
    assert read_record(tmp_path / "stages" / "b.json")["done"] is True


def two_programs(folder: Path, seconds: float) -> None:
    """Run two stages, the second for so long."""
    with Pipeline(folder, "trial") as pipeline:
        for name, sleep, after in (("a", 0, []), ("b", seconds, ["a"])):
            work = Program([sys.executable, "-c", PROGRAM, str(folder / name), str(sleep)], folder / f"{name}.log")
            pipeline.add(Stage(name, 1, [folder / name], work, after))
        pipeline.run("trial")


def test_killed_it_leaves_its_program_with_the_lock_and_goes_on_afterwards(tmp_path):
    process = FORK.Process(target=two_programs, args=[tmp_path, 60])
    process.start()
    left = wait_for(tmp_path / "b.pid", process.is_alive)
    process.kill()
    process.join()
    try:
        with pytest.raises(UserError, match="another trial, or a training left from a killed one, is running"):
            two_programs(tmp_path, 0)
    finally:
        os.kill(left, signal.SIGKILL)
    take_lock(tmp_path / "stages" / "lock", tmp_path, "it is still there", patience=20).close()
    two_programs(tmp_path, 0)
    assert (tmp_path / "a").read_text() == "x", "what was done is kept"
    assert (tmp_path / "b").read_text() == "xx", "what was begun is gone on with"
    assert read_record(tmp_path / "stages" / "b.json")["done"] is True
