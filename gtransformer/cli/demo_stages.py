"""How the demonstration runs: stages that are kept when done before, and programs side by side with their progress."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtransformer.cli.processes import take_lock
from gtransformer.errors import UserError
from gtransformer.files import read_json, write_json

EVERY = 20.0  # seconds between progress lines where the output is not a terminal


def digest(settings: Any) -> str:
    """A short name of settings, by which a later stage refers to those of an earlier one."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def stamp_path(directory: Path, name: str) -> Path:
    """Where a stage of an output directory leaves its settings."""
    return directory / "stages" / f"{name}.json"


def read_stamp(directory: Path, name: str) -> dict[str, Any]:
    """What a stage has left there, empty if nothing."""
    try:
        stamp = read_json(stamp_path(directory, name))
    except UserError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def was_done(directory: Path, name: str, settings: Any, outputs: Sequence[Path]) -> bool:
    """Whether a stage was done with these settings and its outputs are all there; needs no lock."""
    stamp = read_stamp(directory, name)
    done = stamp.get("settings") == digest(settings) and stamp.get("done") is True
    return done and all(path.exists() for path in outputs)


class Stages:
    """The stages of one output directory, which is locked while this object or a program started under it lives.

    A stage leaves ``stages/NAME.json`` with its settings. Begun with the same settings, it is gone on with; begun or
    done with others, what it had written is removed first.
    """

    def __init__(self, directory: Path, what: str = "demonstration"):
        self.directory = directory
        try:
            (directory / "stages").mkdir(parents=True, exist_ok=True)
            # Inherited: a training that outlives a killed demonstration still holds it.
            self.lock = take_lock(
                directory / "stages" / "lock",
                f"{directory}: another {what}, or a training that a killed one has left behind, is at work in "
                "this directory; wait for it or choose another directory",
            )
        except OSError as error:
            raise UserError(f"{directory}: cannot be written ({error.strerror}); choose another directory") from None

    def close(self) -> None:
        """Let go of the directory."""
        self.lock.close()

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_done(self, name: str, settings: Any, outputs: Sequence[Path]) -> bool:
        """Whether a stage was done with these settings and its outputs are all there; says so if it was."""
        kept = was_done(self.directory, name, settings, outputs)
        if kept:
            say(f"{name}: done before, kept")
        return kept

    def run(self, name: str, settings: Any, outputs: Sequence[Path], work: Callable[[], None]) -> None:
        """Do ``work`` unless it was done with these settings and its outputs (files or folders) are all there."""
        if not self.is_done(name, settings, outputs):
            self.begin(name, settings, outputs)
            began = time.monotonic()
            work()
            self.finish(name, settings, time.monotonic() - began)

    def begin(self, name: str, settings: Any, outputs: Sequence[Path]) -> None:
        """Note that a stage is begun; what it had written with other settings is removed."""
        if read_stamp(self.directory, name).get("settings") != digest(settings):
            for path in outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        write_json(stamp_path(self.directory, name), {"settings": digest(settings), "done": False})

    def finish(self, name: str, settings: Any, seconds: float) -> None:
        """Note that a stage is done."""
        stamp = {"settings": digest(settings), "done": True, "seconds": round(seconds, 1)}
        write_json(stamp_path(self.directory, name), stamp)
        say(f"{name}: done in {duration(seconds)}")

    def seconds(self, name: str) -> float:
        """How long a finished stage took when it was last done."""
        return read_stamp(self.directory, name).get("seconds", 0.0)


@dataclass
class Job:
    """A program to run: ``status`` says in a few words how far it is, None if that cannot be said yet.

    It waits for the jobs that are named in ``after``, as far as they are run together with it.
    """

    name: str
    command: list[str]
    log: Path
    status: Callable[[], str | None] = lambda: None
    after: Sequence[str] = ()


def run_jobs(
    label: str,
    jobs: Sequence[Job],
    at_once: int,
    threads: int | None,
    lock: int,
    finished: Callable[[Job, float], None] = lambda job, seconds: None,
    failed: Callable[[Job, str], None] | None = None,
) -> dict[str, float]:
    """Run programs, ``at_once`` at a time with ``threads`` threads each (None: their own choice), showing progress.

    Their output goes to their logs. Returns the seconds that each took. Raises UserError with the end of the log as
    soon as one fails; then, and on an interrupt, the others are ended too. ``lock`` is a file descriptor that they
    inherit; ``finished`` is called with every job that ends well and the seconds it took. For jobs that do not depend
    on each other: ``failed`` is called with one that fails and why, and the others go on.
    """
    waiting, running, seconds = list(jobs), {}, {}
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "1"}
    if threads:
        # Passive waiting: with threads that spin for each other, a busy machine slows training down sevenfold.
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    progress = Progress(label)
    try:
        while waiting or running:
            if not running and next_job(waiting, running) is None:
                raise ValueError(f"{label}: {waiting[0].name} waits for itself")
            while len(running) < at_once and (job := next_job(waiting, running)):
                waiting.remove(job)
                job.log.parent.mkdir(parents=True, exist_ok=True)
                with open(job.log, "ab") as log:
                    # A group of its own, so that ending it ends what it has started as well.
                    process = subprocess.Popen(
                        job.command, stdout=log, stderr=log, env=environment, start_new_session=True, pass_fds=[lock]
                    )
                running[job.name] = (job, process)
                seconds[job.name] = time.monotonic()
            time.sleep(0.2)
            progress.show([f"{job.name} {job.status() or 'at work'}" for job, _ in running.values()])
            for job, process in list(running.values()):
                if process.poll() is None:
                    continue
                del running[job.name]
                seconds[job.name] = time.monotonic() - seconds[job.name]
                if process.returncode:
                    progress.end()
                    reason = f"stopped with exit status {process.returncode}: {_last_error(job.log)}"
                    if failed is None:
                        raise UserError(f"{label}: {job.name} {reason} (its output: {job.log})")
                    failed(job, reason)
                    continue
                progress.end()
                finished(job, seconds[job.name])
    finally:
        progress.end()
        for _, process in running.values():
            os.killpg(process.pid, signal.SIGTERM)
        for _, process in running.values():
            process.wait()
    return seconds


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


class Progress:
    """One line about what is running: redrawn on a terminal, printed every so often elsewhere."""

    def __init__(self, label: str):
        self.label, self.began, self.shown, self.width = label, time.monotonic(), time.monotonic(), 0
        self.terminal = sys.stderr.isatty()

    def show(self, parts: Sequence[str]) -> None:
        """Show the state if it is time to."""
        if time.monotonic() - self.shown < (1.0 if self.terminal else EVERY):
            return
        self.shown = time.monotonic()
        line = f"  {self.label}: {'; '.join(parts)} [{duration(self.shown - self.began)}]"
        if self.terminal:
            line = line[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + line.ljust(self.width))
            self.width = len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self.terminal and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            self.width = 0


def duration(seconds: float) -> str:
    """``75.2`` as ``1 min 15 s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def tail(path: Path, size: int = 4096) -> str:
    """The last bytes of a file as text, empty if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_status(log: Path, updates: int | None) -> str | None:
    """``128/550 updates, perplexity 1.92, validation 1.81``, from fairseq's JSON log; the end may be unknown."""
    text = tail(log)
    done = re.findall(r'num_updates": "(\d+)"', text)
    if not done:
        return None
    parts = [f"{done[-1]}/{updates} updates" if updates else f"{done[-1]} updates"]
    for kind, name in (("ppl", "perplexity"), ("valid_ppl", "validation")):
        found = re.findall(rf'"{kind}": "([\d.]+)"', text)
        parts += [f"{name} {found[-1]}"] if found else []
    return ", ".join(parts)


def batch_status(log: Path) -> str | None:
    """``3/8 batches``, from the progress line of generation or of the contrastive command."""
    found = re.findall(r"(\d+) ?/ ?(\d+)(?: \[|\s)", tail(log))
    return f"{found[-1][0]}/{found[-1][1]} batches" if found else None


def last_line(log: Path) -> str | None:
    """The last line of a log, in short."""
    lines = re.split(r"[\r\n]+", tail(log).strip())
    return lines[-1].removeprefix("| ")[:70] or None


def say(line: str) -> None:
    """A line about what the demonstration does."""
    print(f"| {line}", flush=True)
