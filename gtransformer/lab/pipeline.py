"""An experiment as a graph of stages, each done once for its settings; results are kept or resumed.

A stage writes ``stages/NAME.json``, its record: what its result depends on, and whether it is done.

    state                                       action
    its settings, and all of its outputs        kept
    its settings, interrupted                   resumed
    its settings, an input was made again       made again; a model is kept
    other settings, its own or of an input      its outputs are removed; refused if there is a model
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gtransformer.errors import UserError
from gtransformer.files import digest, read_record, write_json
from gtransformer.lab.progress import Progress, print_status, spoken
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.paths import CHECKPOINTS


def shares(jobs: int | None = None) -> tuple[int, int | None]:
    """Return the number of programs that run at a time, ``jobs`` or by the machine, and the threads of each.

    With a GPU, one program runs at a time by default, with its own choice of threads (None). On a CPU programs share
    the cores.
    """
    if torch.cuda.is_available():
        return jobs or 1, None
    at_once = jobs or available_cores()
    return at_once, max(1, available_cores() // at_once)


def start_program(command: list[str], log: Path, threads: int | None, alone: bool) -> subprocess.Popen:
    """Start a program whose output is appended to a log.

    Args:
        threads: number of threads; None: its own choice.
        alone: no other program runs at the same time.
    """
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not alone:
            # Threads that spin while they wait make training seven times slower on a busy machine. Sleeping instead
            # costs half as much time again, but only on a machine that is not busy.
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as stream:
        # A process group of its own, so that its child processes can be ended with it.
        return subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, start_new_session=True)


def last_error(log: Path) -> str:
    """Return the last error message in the log of a failed program, shortened."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # argparse puts the program's name before it
    errors = [found[1] for line in lines if (found := re.match(r"(?:[\w./-]+: )?error: (.*)", line))]
    # The driver of a stage repeats the failure as the last error; the one before it has the cause.
    return (errors[-2] if len(errors) > 1 else (errors or lines or ["no output"])[-1])[:300]


@dataclass(frozen=True)
class Program:
    """The work of a stage that is a program.

    Attributes:
        command: the command, or a function that returns it when the input stages are done.
        log: file of its output; overwritten by each start unless ``keeps_log``.
        alone: no other program runs at the same time, and it has all cores.
        status: a function that returns a few words about its progress, None if not known yet.
    """

    command: list[str] | Callable[[], list[str]]
    log: Path
    status: Callable[[], str | None] = lambda: None
    keeps_log: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Stage:
    """One step of an experiment.

    Attributes:
        name: also that of its record.
        settings: JSON; all that the result depends on besides the input stages.
        outputs: files and folders that it writes.
        work: a program, which may run in parallel with others, or a function, which runs alone in this process.
        after: the input stages, whose results it reads.
        waits_for: stages that must end before it starts.
        budget: minutes of training (``--minutes``); it resumes with more, and fewer are refused.
        folder: its working directory, which is removed with the outputs when it restarts.
        precious: if ``folder/checkpoints`` has a model, other settings are refused. It is not repeated when an input
            stage was repeated with the same settings.
    """

    name: str
    settings: Any
    outputs: Sequence[Path]
    work: Program | Callable[[], None]
    after: Sequence[str] = ()
    waits_for: Sequence[str] = ()
    budget: float | None = None
    folder: Path | None = None
    precious: bool = False

    def has_model(self) -> bool:
        """Return whether there is a trained model."""
        return self.folder is not None and any((self.folder / CHECKPOINTS).glob("*.pt"))


def print_done(stage: Stage, seconds: float) -> None:
    """Print that a stage is done."""
    print_status(f"{stage.name}: done in {spoken(seconds)}")


class Pipeline:
    """The stages of one directory. ``what``: kind of experiment, for messages."""

    def __init__(self, directory: Path, what: str):
        self.directory, self.what = directory, what
        self.stages: dict[str, Stage] = {}  # in an order in which each comes after its inputs
        self._identities: dict[str, str] = {}
        self._over: set[str] = set()  # known to be done

    def identify(self, settings: Any, after: Sequence[str] = ()) -> str:
        """Return the identity of a stage's result: a digest of its settings, its inputs' identities and budgets."""
        return digest([settings, [(self._identities[name], self.stages[name].budget) for name in after]])

    def add(self, *stages: Stage) -> None:
        """Add stages, each after those that it reads or waits for."""
        for stage in stages:
            assert stage.name not in self.stages and {*stage.after, *stage.waits_for} <= self.stages.keys(), stage.name
            self._identities[stage.name] = self.identify(stage.settings, stage.after)
            self.stages[stage.name] = stage

    def is_done(self, name: str) -> bool:
        """Return whether a stage and its inputs were done with these settings and their outputs exist."""
        stage, record = self.stages[name], self._record(name)
        return name in self._over or (
            record.get("done") is True
            and record == record | self._key(stage)
            and all(path.exists() for path in stage.outputs)
            and all(map(self.is_done, stage.after))
        )

    def _record(self, name: str) -> dict[str, Any]:
        return read_record(self._path(name))

    def _path(self, name: str) -> Path:
        return self.directory / "stages" / f"{name.replace('/', '-')}.json"

    def _key(self, stage: Stage) -> dict[str, Any]:
        """Return what a stage's result depends on, with the id of the run that made each input."""
        made = {} if stage.precious else {name: self._record(name).get("made") for name in stage.after}
        return {"identity": self._identities[stage.name], "budget": stage.budget, "inputs": made}

    def seconds(self, name: str) -> float:
        """Return the duration of a stage's last run."""
        return self._record(name).get("seconds", 0.0)

    def check(self) -> None:
        """Raise UserError, before anything is removed, for a model that would have to be removed or trained again."""
        for stage in self.stages.values():
            record = self._record(stage.name)
            if not stage.has_model() or not stage.precious:
                continue
            shorter = stage.budget is not None and (record.get("budget") or 0) > stage.budget
            if record.get("identity") != self._identities[stage.name] or shorter:
                raise UserError(
                    f"{stage.folder}: was trained with other settings, for longer or on another corpus than this "
                    f"{self.what} has; choose another output directory, or remove that folder to train the model again"
                )

    def run(
        self,
        label: str,
        at_once: int = 1,
        threads: int | None = None,
        finished: Callable[[Stage, float], None] = print_done,
        failed: Callable[[Stage, str], None] | None = None,
    ) -> None:
        """Run all stages that are not done: ``at_once`` programs at a time, ``threads`` threads each (None: free).

        Args:
            label: of the progress line.
            finished: called with every finished stage and its seconds; by default prints them.
            failed: called with every failed stage and the reason; the others continue. Without it, or if another stage
                reads the failed one, UserError is raised. Then, and on an interrupt, running programs are ended.
        """
        self.check()
        failures: set[str] = set()
        running: dict[str, _Running] = {}
        progress = Progress(label)

        def end(stage: Stage, seconds: float, status: int = 0) -> None:
            missing = [str(path) for path in stage.outputs if not path.exists()]
            if not status and not missing:
                self._end(stage, seconds)
                finished(stage, seconds)
                return
            reason = f"did not write {', '.join(missing)}"
            if status:
                reason = f"stopped with exit status {status}: {last_error(stage.work.log)}"
            if failed is None or any(stage.name in one.after for one in self.stages.values()):
                raise UserError(f"{label}: {stage.name} {reason}")
            failures.add(stage.name)
            failed(stage, reason)

        try:
            while True:
                ready = [stage for stage in self._ready(failures) if stage.name not in running]
                function = next((stage for stage in ready if not isinstance(stage.work, Program)), None)
                if function and not running:
                    self._begin(function)
                    began = time.monotonic()
                    function.work()
                    end(function, time.monotonic() - began)
                    continue
                for stage in ready:
                    if isinstance(stage.work, Program):
                        alone = stage.work.alone or any(one.stage.work.alone for one in running.values())
                        if len(running) >= at_once or (running and alone):
                            break
                        running[stage.name] = self._start(stage, at_once, threads)
                if not running:
                    break
                while not (over := [one for one in running.values() if one.process.poll() is not None]):
                    progress.show([f"{name} {one.stage.work.status() or 'running'}" for name, one in running.items()])
                    time.sleep(0.2)
                progress.clear()
                for one in sorted(over, key=lambda one: one.process.returncode != 0):  # failures last: they may raise
                    del running[one.stage.name]
                    end(one.stage, time.monotonic() - one.began, one.process.returncode)
        finally:
            progress.line.close()
            for one in running.values():
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.killpg(one.process.pid, signal.SIGTERM)
            for one in running.values():
                one.process.wait()

    def _ready(self, failures: set[str]) -> list[Stage]:
        """Return the stages that can start; print which are kept."""
        ready = []
        for name, stage in self.stages.items():
            if name in self._over:
                continue
            if self._over.issuperset(stage.after) and self.is_done(name):
                print_status(f"{name}: done before, kept")
                self._over.add(name)
            elif name not in failures and self._over.union(failures).issuperset([*stage.after, *stage.waits_for]):
                ready.append(stage)
        return ready

    def _start(self, stage: Stage, at_once: int, threads: int | None) -> _Running:
        self._begin(stage)
        program = stage.work
        if not program.keeps_log or (stage.folder and not stage.has_model()):  # then the training starts anew
            program.log.unlink(missing_ok=True)
        command = program.command() if callable(program.command) else program.command
        own = threads and (available_cores() if program.alone else threads)
        alone = program.alone or at_once == 1
        return _Running(stage, start_program(command, program.log, own, alone), time.monotonic())

    def _begin(self, stage: Stage) -> None:
        """Record that a stage has started; remove results of other settings."""
        record = self._record(stage.name)
        if record and record.get("identity") != self._identities[stage.name]:
            print_status(f"{stage.name}: restarted, since its results have other settings")
            for path in {*stage.outputs, *filter(None, [stage.folder])}:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        write_json(self._path(stage.name), self._key(stage) | {"done": False})

    def _end(self, stage: Stage, seconds: float) -> None:
        made = {"done": True, "seconds": round(seconds, 1), "made": uuid.uuid4().hex[:16]}
        write_json(self._path(stage.name), self._key(stage) | made)
        self._over.add(stage.name)


@dataclass(frozen=True)
class _Running:
    """A stage whose program is running; ``began`` by ``time.monotonic``."""

    stage: Stage
    process: subprocess.Popen
    began: float
