"""Stages are kept, gone on with or done anew; programs side by side are ended together."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

from gtransformer.errors import UserError
from gtransformer.experiments.jobs import Job, next_job, run_jobs
from gtransformer.experiments.pipeline import Stages, digest
from gtransformer.experiments.progress import batch_status, duration, last_line, training_status


@pytest.fixture
def stages(tmp_path):
    """Stages of an empty directory."""
    with Stages(tmp_path / "out") as result:
        yield result


def python(name: str, code: str, folder) -> Job:
    """A job that runs some Python."""
    return Job(name, [sys.executable, "-c", code], folder / f"{name}.log")


def test_a_stage_is_done_once_per_settings(stages, capsys) -> None:
    output, runs = stages.directory / "result", []

    def work() -> None:
        assert not output.exists(), "what other settings wrote is gone"
        runs.append(1)
        output.write_text("x")

    for settings in ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}):
        stages.run("s", settings, [output], work)
    assert len(runs) == 2
    assert capsys.readouterr().out.count("s: done before, kept") == 2
    output.unlink()
    stages.run("s", {"a": 2}, [output], work)
    assert len(runs) == 3, "a stage whose output is missing is done again"


def test_an_interrupted_stage_goes_on_with_what_it_has(stages) -> None:
    folder = stages.directory / "checkpoints"

    def interrupted() -> None:
        folder.mkdir()
        (folder / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stages.run("train", {"lr": 1}, [folder], interrupted)
    assert not stages.is_done("train", {"lr": 1}, [folder])
    seen = []
    stages.run("train", {"lr": 1}, [folder], lambda: seen.append(sorted(os.listdir(folder))))
    assert seen == [["half"]]
    stages.begin("train", {"lr": 2}, [folder])
    assert not folder.exists(), "with other settings nothing is left to go on with"


def test_one_demonstration_per_directory(stages) -> None:
    with pytest.raises(UserError, match="another demonstration.*is at work"):
        Stages(stages.directory)
    stages.close()
    Stages(stages.directory).close()


def test_a_program_left_behind_keeps_the_directory_locked(tmp_path) -> None:
    stages = Stages(tmp_path)
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[stages.lock.fileno()])
    stages.close()
    with pytest.raises(UserError, match="is at work"):
        Stages(tmp_path)
    left.communicate(b"\n")
    Stages(tmp_path).close()


def test_directory_that_cannot_be_made(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        Stages(tmp_path / "file")


def test_jobs_get_their_threads_and_leave_logs_and_times(stages, tmp_path) -> None:
    code = "import os, time; time.sleep(0.3); print(os.environ['OMP_NUM_THREADS'])"
    jobs = [python("a", code, tmp_path), python("b", code, tmp_path)]
    seconds = run_jobs("two", jobs, 2, 3, stages.lock.fileno())
    assert [job.log.read_text().strip() for job in jobs] == ["3", "3"]
    assert set(seconds) == {"a", "b"} and all(0.2 < value < 20 for value in seconds.values())


def test_a_job_waits_for_those_it_comes_after(stages, tmp_path) -> None:
    marks = tmp_path / "marks"
    jobs = [
        Job(name, [sys.executable, "-c", f"open({str(marks)!r}, 'a').write({name!r})"], tmp_path / name, after=after)
        for name, after in (("c", ["b"]), ("b", ["a", "of another run"]), ("a", []))
    ]
    done = []
    run_jobs("three", jobs, 3, 1, stages.lock.fileno(), lambda job, seconds: done.append(job.name))
    assert marks.read_text() == "abc" and done == ["a", "b", "c"]
    assert next_job(jobs[:2], ["a"]) is None and next_job(jobs[:2], []).name == "b"


def test_jobs_that_wait_for_each_other_are_refused(stages, tmp_path) -> None:
    jobs = [Job(name, ["true"], tmp_path / name, after=[other]) for name, other in (("a", "b"), ("b", "a"))]
    with pytest.raises(ValueError, match="a waits for itself"):
        run_jobs("two", jobs, 2, 1, stages.lock.fileno())


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


def test_the_reason_may_be_said_by_argparse(stages, tmp_path) -> None:
    code = "import sys; print('train.py: error: no --foo'); print('error: train stopped'); sys.exit(2)"
    with pytest.raises(UserError, match=r"bad stopped with exit status 2: no --foo \(its output"):
        run_jobs("one", [python("bad", code, tmp_path)], 1, 1, stages.lock.fileno())


def test_jobs_that_may_fail(stages, tmp_path) -> None:
    code = "import sys; print('error: out of memory'); sys.exit(3)"
    jobs = [python("bad", code, tmp_path), python("good", "pass", tmp_path)]
    failed, done = [], []
    lock = stages.lock.fileno()
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
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
