"""Programs side by side, so many at a time, with their progress."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.progress import Progress


@dataclass
class Job:
    """A program to run: ``status`` says in a few words how far it is, None if that cannot be said yet.

    It waits for the jobs that are named in ``after``, as far as they are run together with it. ``command`` may be what
    makes the command when the program is about to start. One that is ``alone`` has all cores, and nothing runs beside
    it.
    """

    name: str
    command: list[str] | Callable[[], list[str]]
    log: Path
    status: Callable[[], str | None] = lambda: None
    after: Sequence[str] = ()
    alone: bool = False


def shares(jobs: int | None = None) -> tuple[int, int | None]:
    """How many programs run at a time, ``jobs`` or as many as suit the machine, and with how many threads each.

    A GPU has one at a time, and None, as many threads as it likes; those on a CPU share its cores.
    """
    if torch.cuda.is_available():
        return jobs or 1, None
    at_once = jobs or available_cores()
    return at_once, max(1, available_cores() // at_once)


def run_jobs(
    label: str,
    jobs: Sequence[Job],
    at_once: int,
    threads: int | None,
    lock: int,
    finished: Callable[[Job, float], None] = lambda job, seconds: None,
    failed: Callable[[Job, str], None] | None = None,
) -> None:
    """Run programs, ``at_once`` at a time with ``threads`` threads each (None: their own choice), showing progress.

    Their output goes to their logs. Raises UserError with the end of the log as soon as one fails; then, and on an
    interrupt, the others are ended too. ``lock`` is a file descriptor that they inherit; ``finished`` is called with
    every job that ends well and the seconds it took. ``failed`` is called with one that fails and why; unless it raises
    an error itself, the others go on.
    """
    waiting, running = list(jobs), {}
    progress = Progress(label)
    try:
        while waiting or running:
            if not running and next_job(waiting, running) is None:
                raise ValueError(f"{label}: {waiting[0].name} waits for itself")
            while len(running) < at_once and (job := next_job(waiting, running)):
                if running and (job.alone or any(other.alone for other, *_ in running.values())):
                    break
                waiting.remove(job)
                alone = job.alone or at_once == 1
                environment = _environment(threads and (available_cores() if job.alone else threads), alone)
                command = job.command() if callable(job.command) else job.command
                job.log.parent.mkdir(parents=True, exist_ok=True)
                with open(job.log, "ab") as log:
                    # A group of its own, so that ending it ends what it has started as well.
                    process = subprocess.Popen(
                        command, stdout=log, stderr=log, env=environment, start_new_session=True, pass_fds=[lock]
                    )
                running[job.name] = (job, process, time.monotonic())
            time.sleep(0.2)
            progress.show([f"{job.name} {job.status() or 'at work'}" for job, *_ in running.values()])
            for job, process, began in list(running.values()):
                if process.poll() is None:
                    continue
                del running[job.name]
                progress.end()
                if process.returncode:
                    reason = f"stopped with exit status {process.returncode}: {_last_error(job.log)}"
                    if failed is None:
                        raise failure(label, job, reason)
                    failed(job, reason)
                else:
                    finished(job, time.monotonic() - began)
    finally:
        progress.end()
        for _, process, _ in running.values():
            os.killpg(process.pid, signal.SIGTERM)
        for _, process, _ in running.values():
            process.wait()


def _environment(threads: int | None, alone: bool) -> dict[str, str]:
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not alone:
            # With threads that spin while they wait for each other, a busy machine slows training down sevenfold; to
            # sleep instead between the small parts of a step costs one that is not busy half as much time again.
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return environment


def failure(label: str, job: Job, reason: str) -> UserError:
    """What to say of a job that fails, and with it all."""
    return UserError(f"{label}: {job.name} {reason} (its output: {job.log})")


def next_job(waiting: Sequence[Job], running: Collection[str]) -> Job | None:
    """The first job none of those that it comes after is still to be finished; None if there is none."""
    unfinished = {job.name for job in waiting} | set(running)
    return next((job for job in waiting if unfinished.isdisjoint(job.after)), None)


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # argparse puts the program's name before it
    errors = [found[1] for line in lines if (found := re.match(r"(?:[\w./-]+: )?error: (.*)", line))]
    # The driver of a stage repeats the failure; the first error of the last program says what it was.
    return (errors[-2] if len(errors) > 1 else (errors or lines or ["no output"])[-1])[:300]
