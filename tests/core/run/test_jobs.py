"""Programs side by side, ended together, and what is said while they run."""

from __future__ import annotations

import os
import select
import sys

import pytest

from gtransformer.errors import UserError
from gtransformer.run import jobs as module
from gtransformer.run.jobs import Job, next_job, run_jobs
from gtransformer.run.progress import batch_status, duration, last_line, training_status

pytestmark = pytest.mark.slow


@pytest.fixture
def lock(tmp_path):
    """A file that programs inherit."""
    with open(tmp_path / "lock", "w") as stream:
        yield stream.fileno()


def python(name: str, code: str, folder) -> Job:
    """A job that runs some Python."""
    return Job(name, [sys.executable, "-c", code], folder / f"{name}.log")


def test_jobs_get_their_threads_and_leave_logs_and_times(lock, tmp_path) -> None:
    code = "import os, time; time.sleep(0.3); print(os.environ['OMP_NUM_THREADS'])"
    jobs = [python("a", code, tmp_path), python("b", code, tmp_path)]
    seconds = {}
    run_jobs("two", jobs, 2, 3, lock, lambda job, took: seconds.update({job.name: took}))
    assert [job.log.read_text().strip() for job in jobs] == ["3", "3"]
    assert set(seconds) == {"a", "b"} and all(0.2 < value < 20 for value in seconds.values())


def test_a_job_alone_has_all_cores_and_nothing_runs_beside_it(lock, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: 7)  # two jobs with three threads leave one
    marks = tmp_path / "marks"
    code = (
        "import os, time\n"
        "def mark(what): open({marks!r}, 'a').write('{name}' + what + ' ')\n"
        "mark('+' + os.environ['OMP_NUM_THREADS'] + os.environ.get('OMP_WAIT_POLICY', '')[:1])\n"
        "time.sleep({seconds}); mark('-')"
    )
    jobs = [
        python(name, code.format(marks=str(marks), name=name, seconds=seconds), tmp_path)
        for name, seconds in (("a", 0.5), ("b", 0.5), ("c", 0.1))
    ]
    jobs[1].alone = True
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    run_jobs("three", jobs, 2, 3, lock)  # P: threads of programs that share the cores wait passively
    assert marks.read_text().split() == ["a+3P", "a-", "b+7", "b-", "c+3P", "c-"]
    marks.unlink()
    run_jobs("one at a time", [jobs[2]], 1, 7, lock)
    assert marks.read_text().split() == ["c+7", "c-"]


def test_a_job_waits_for_those_it_comes_after(lock, tmp_path) -> None:
    marks = tmp_path / "marks"
    jobs = [
        Job(name, [sys.executable, "-c", f"open({str(marks)!r}, 'a').write({name!r})"], tmp_path / name, after=after)
        for name, after in (("c", ["b"]), ("b", ["a", "of another run"]), ("a", []))
    ]
    done = []
    run_jobs("three", jobs, 3, 1, lock, lambda job, seconds: done.append(job.name))
    assert marks.read_text() == "abc" and done == ["a", "b", "c"]
    assert next_job(jobs[:2], ["a"]) is None and next_job(jobs[:2], []).name == "b"


def test_a_command_may_be_made_when_the_job_starts(lock, tmp_path) -> None:
    first = python("first", f"open({str(tmp_path / 'left')!r}, 'w').write('said')", tmp_path)
    late = Job("late", lambda: ["echo", (tmp_path / "left").read_text()], tmp_path / "late.log", after=["first"])
    run_jobs("two", [late, first], 2, 1, lock)
    assert late.log.read_text() == "said\n"


def test_jobs_that_wait_for_each_other_are_refused(lock, tmp_path) -> None:
    jobs = [Job(name, ["true"], tmp_path / name, after=[other]) for name, other in (("a", "b"), ("b", "a"))]
    with pytest.raises(ValueError, match="a waits for itself"):
        run_jobs("two", jobs, 2, 1, lock)


def test_a_failing_job_ends_the_others_and_what_they_started_and_says_why(tmp_path) -> None:
    read, write = os.pipe()  # in place of the lock: its end tells when the last program that inherited it is gone
    sleep = "import time; time.sleep(60)"
    slow = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{sleep}'], close_fds=False)"
    fails = "import sys, time; time.sleep(1); print('error: no corpus'); print('error: train stopped'); sys.exit(3)"
    with pytest.raises(UserError, match=r"both: bad stopped with exit status 3: no corpus \(its output: .*bad.log\)"):
        run_jobs("both", [python("slow", slow, tmp_path), python("bad", fails, tmp_path)], 2, None, write)
    os.close(write)
    assert select.select([read], [], [], 20)[0] and os.read(read, 1) == b""
    os.close(read)


def test_the_reason_may_be_said_by_argparse(lock, tmp_path) -> None:
    code = "import sys; print('train.py: error: no --foo'); print('error: train stopped'); sys.exit(2)"
    with pytest.raises(UserError, match=r"bad stopped with exit status 2: no --foo \(its output"):
        run_jobs("one", [python("bad", code, tmp_path)], 1, 1, lock)


def test_jobs_that_may_fail(lock, tmp_path) -> None:
    code = "import sys; print('error: out of memory'); sys.exit(3)"
    jobs = [python("bad", code, tmp_path), python("good", "pass", tmp_path)]
    failed, done = [], []
    run_jobs("two", jobs, 1, 1, lock, lambda job, _: done.append(job.name), lambda *why: failed.append(why))
    assert failed == [(jobs[0], "stopped with exit status 3: out of memory")] and done == ["good"]


def test_statuses(tmp_path) -> None:
    log = tmp_path / "log"
    assert training_status(log, 9) is None and batch_status(log) is None and last_line(log) is None
    log.write_text(
        'x | train_inner | {"ppl": "3.5", "num_updates": "12"}\n{"valid_ppl": "3.25", "valid_num_updates": "12"}\n'
    )
    assert training_status(log, 550) == "12/550 updates, perplexity 3.5, validation 3.25"
    assert training_status(log, None) == "12 updates, perplexity 3.5, validation 3.25"
    log.write_text("... generate-test:      1 / 3 wps=80.1, wall=4\n... generate-test:      2 / 3 wps=81, wall=8\n")
    assert batch_status(log) == "2/3 batches"
    log.write_text("contrastive items:  10%|#  | 1/10 [00:01<00:09]\rcontrastive items:  20%|#  | 2/10 [00:02<00:08]")
    assert batch_status(log) == "2/10 batches"
    log.write_text("| a: done\r\n| b: done (0.5 s)\n")
    assert last_line(log) == "b: done (0.5 s)"


def test_words() -> None:
    assert duration(59.9) == "59 s"
    assert duration(75.2) == "1 min 15 s"
