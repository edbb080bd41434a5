"""An experiment as a graph of stages, each done once for its settings; results are kept or resumed.

A stage writes ``stages/NAME.json``, its record: what its result depends on, and whether it is done.

    state                                           action
    its settings, and all of its outputs            kept
    its settings, but the model was removed         kept if all results of the model are there and none is a training
    its settings, interrupted or outputs missing    resumed
    its settings, a truncated output                repeated; refused if there is a model
    its settings, started with a smaller budget     resumed
    its settings, a model of a larger budget        refused
    an input stage was repeated since               repeated, outputs are overwritten; kept if it is precious
    an input stage got a larger budget              restarted: its outputs are removed
    other settings, its own or of an input stage    restarted; refused if it is precious and has a model or its results
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
from typing import Any, BinaryIO

import torch

from gtransformer.errors import UserError
from gtransformer.files import digest
from gtransformer.lab.progress import Progress, print_status, spoken
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.jobs import UNBUFFERED
from gtransformer.run.paths import CHECKPOINTS
from gtransformer.work import Record, take_lock


def shares(jobs: int | None = None) -> tuple[int, int | None]:
    """Return the number of programs that run at a time, ``jobs`` or by the machine, and the threads of each.

    With a GPU, one program runs at a time by default, with its own choice of threads (None). On a CPU programs share
    the cores.
    """
    if torch.cuda.is_available():
        return jobs or 1, None
    at_once = jobs or available_cores()
    return at_once, max(1, available_cores() // at_once)


def start_program(command: list[str], log: Path, lock: int, threads: int | None, alone: bool) -> subprocess.Popen:
    """Start a program whose output is appended to a log.

    Args:
        lock: a file descriptor that it inherits.
        threads: number of threads; None: its own choice.
        alone: no other program runs at the same time.
    """
    environment = os.environ | UNBUFFERED
    if threads:
        environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not alone:
            # Threads that spin while they wait make training seven times slower on a busy machine. Sleeping instead
            # costs half as much time again, but only on a machine that is not busy.
            environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as stream:
        # A process group of its own, so that its child processes can be ended with it.
        return subprocess.Popen(
            command, stdout=stream, stderr=stream, env=environment, start_new_session=True, pass_fds=[lock]
        )


def last_error(log: Path) -> str:
    """Return the last error message in the log of a failed program, shortened."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    # argparse puts the program's name before it
    errors = [found[1] for line in lines if (found := re.match(r"(?:[\w./-]+: )?error: (.*)", line))]
    # The driver of a stage repeats the failure as the last error; the one before it has the cause.
    return (errors[-2] if len(errors) > 1 else (errors or lines or ["no output"])[-1])[:300]


def sizes(path: Path) -> dict[str, int]:
    """Return the bytes of a file, as ``{".": bytes}``, or of every file in a folder, by its path there.

    Temporary files (``*.tmp``), locks and logs are left out.
    """
    within = path.rglob("*") if path.is_dir() else [path]
    results = (one for one in within if not one.name.endswith((".tmp", ".log")) and one.name != "lock")
    return {one.relative_to(path).as_posix(): one.stat().st_size for one in results if one.is_file()}


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

    def unwritten(self) -> str:
        """Return the message for missing outputs after the stage has ended without an error; empty if none."""
        missing = [str(path) for path in self.outputs if not path.exists()]
        return f"ended without an error but did not write {', '.join(missing)}" if missing else ""

    def has_model(self) -> bool:
        """Return whether there is a trained model."""
        return self.folder is not None and any((self.folder / CHECKPOINTS).glob("*.pt"))


def print_done(stage: Stage, seconds: float) -> None:
    """Print that a stage is done."""
    print_status(f"{stage.name}: done in {spoken(seconds)}")


class Pipeline:
    """The stages of one directory. As a context manager it locks the directory, which ``run`` needs.

    Programs inherit the lock: a program that continues after a killed experiment still holds it.

    Args:
        what: kind of experiment, for messages.
    """

    def __init__(self, directory: Path, what: str):
        self.directory, self.what = directory, what
        self.stages: dict[str, Stage] = {}  # in an order in which each comes after its inputs
        self._identities: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._over: set[str] = set()  # known to be done
        self._lock: BinaryIO | None = None

    def __enter__(self) -> Pipeline:
        busy = (
            f"another {self.what}, or a training left from a killed one, is running in this directory; wait for it or "
            "choose another directory"
        )
        self._lock = take_lock(self.directory / "stages" / "lock", self.directory, busy)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def identify(self, settings: Any, after: Sequence[str] = ()) -> str:
        """Return the identity of a stage's result: a digest of its settings and its inputs' identities."""
        return digest([settings, [self._identities[name] for name in after]])

    def add(self, *stages: Stage) -> None:
        """Add stages, each after those that it reads or waits for. Raise ValueError for another order."""
        for stage in stages:
            for name in (*stage.after, *stage.waits_for):
                if name not in self.stages:
                    raise ValueError(f"{stage.name} comes after {name}, which is not there yet")
            if stage.name in self.stages:
                raise ValueError(f"{stage.name} is there already")
            self.stages[stage.name] = stage
            identity = self._identities[stage.name] = self.identify(stage.settings, stage.after)
            self._keys[stage.name] = digest([identity, stage.budget, [self._keys[name] for name in stage.after]])

    def is_done(self, name: str, assumed: frozenset[str] = frozenset()) -> bool:
        """Return whether a stage and its inputs were done with these settings and their outputs exist.

        A removed model counts as done if all its results are there, none of them another model. The stages ``assumed``
        count as done.
        """
        if name in self._over or name in assumed:
            return True
        stage = self.stages[name]
        found = self._has_result(stage) or self._is_spent(stage, assumed)
        return found and all(self.is_done(one, assumed) for one in stage.after)

    def _has_result(self, stage: Stage) -> bool:
        return all(path.exists() for path in stage.outputs) and self._was_done(stage)

    def _was_done(self, stage: Stage) -> bool:
        return self._record(stage).holds(lambda noted: not self._cut(stage, noted))

    def _is_spent(self, stage: Stage, assumed: frozenset[str]) -> bool:
        if not stage.precious or not self._was_done(stage):
            return False
        missing = {path.parent for path in stage.outputs if not path.exists()}
        if not missing <= {stage.folder / CHECKPOINTS}:
            return False
        readers, assumed = self._readers(stage), assumed | {stage.name}
        return bool(readers) and all(
            not one.precious and self._has_result(one) and all(self.is_done(other, assumed) for other in one.after)
            for one in readers
        )

    def _readers(self, stage: Stage) -> list[Stage]:
        return [one for one in self.stages.values() if stage.name in one.after]

    def _is_protected(self, stage: Stage) -> bool:
        """Return whether there is a trained model, or results of one that was removed."""
        done = stage.precious and self._record(stage).noted().get("done")
        written = (path for one in self._readers(stage) if not one.precious for path in one.outputs)
        return stage.has_model() or bool(done and any(path.exists() for path in written))

    def seconds(self, name: str) -> float:
        """Return the duration of a stage's last run."""
        return self._record(self.stages[name]).noted().get("seconds", 0.0)

    def check(self) -> None:
        """Raise UserError, before anything is removed, for a model that would have to be removed or trained again."""
        for stage in filter(self._is_protected, self.stages.values()):
            noted = self._record(stage).noted()
            if noted.get("identity") != self._identities[stage.name]:
                if stage.precious or (noted and "identity" not in noted):
                    raise UserError(
                        f"{stage.folder}: was trained with other settings, on another corpus, or by an older version "
                        f"than this {self.what} has; choose another output directory, or remove that folder to train "
                        "the model again"
                    )
            elif cut := self._cut(stage, noted):
                raise UserError(f"{cut}: shorter than {stage.name} left it; put it back, or remove {stage.folder}")
            elif stage.budget is not None and (noted.get("budget") or 0) > stage.budget:
                raise UserError(
                    f"{stage.folder}: was started with {noted['budget']:g} minutes of training, more than --minutes "
                    f"{stage.budget:g}; choose another output directory"
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
            reason = f"stopped with exit status {status}: {last_error(stage.work.log)}" if status else stage.unwritten()
            if not reason:
                self._end(stage, seconds)
                return finished(stage, seconds)
            program, read = isinstance(stage.work, Program), any(stage.name in one.after for one in self._left())
            if failed is None or not program or read:
                output = f" (its output: {stage.work.log})" if program else ""
                raise UserError(f"{label}: {stage.name} {reason}{output}")
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

    def _left(self) -> list[Stage]:
        return [stage for name, stage in self.stages.items() if name not in self._over]

    def _ready(self, failures: set[str]) -> list[Stage]:
        """Return the stages that can start; print which are kept."""
        ready = []
        for stage in self._left():
            if self._over.issuperset(stage.after) and self.is_done(stage.name):
                print_status(f"{stage.name}: done before, kept")
                self._over.add(stage.name)
            elif stage.name not in failures and self._over.union(failures).issuperset([*stage.after, *stage.waits_for]):
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
        return _Running(stage, start_program(command, program.log, self._lock.fileno(), own, alone), time.monotonic())

    def _begin(self, stage: Stage) -> None:
        """Record that a stage has started; remove results that cannot be resumed."""
        record = self._record(stage)
        noted, inputs = record.noted(), record.key["inputs"]
        before = noted.get("inputs") or {}
        other = noted.get("identity") != self._identities[stage.name]
        grown = [name for name in stage.after if before.get(name, {}).get("key") != inputs[name]["key"]]
        if other or grown or noted.get("removing"):
            there = [path for path in {*stage.outputs, *filter(None, [stage.folder])} if path.exists()]
            if noted or any(path.exists() for path in stage.outputs):  # else the folder is that of an earlier stage
                reason = f"{', '.join(grown)} was resumed" if grown and not other else "its results have other settings"
                print_status(f"{stage.name}: restarted, since {reason}")
            # So that a kill in between leaves no partial result that looks complete.
            record.begin(record.key | {"done": False, "removing": True})
            for path in there:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        record.begin(record.key | {"done": False})

    def _end(self, stage: Stage, seconds: float) -> None:
        left = {os.path.relpath(path, self.directory): sizes(path) for path in stage.outputs}
        self._record(stage).end(done=True, seconds=round(seconds, 1), made=uuid.uuid4().hex[:16], sizes=left)
        self._over.add(stage.name)

    def _cut(self, stage: Stage, noted: dict[str, Any]) -> str:
        """Return a file that is shorter than recorded, or missing in a folder; empty if there is none."""
        for path in filter(Path.exists, stage.outputs):
            now = sizes(path)
            for name, size in noted.get("sizes", {}).get(os.path.relpath(path, self.directory), {}).items():
                if now.get(name, -1) < size:
                    return str(path / name)
        return ""

    def _record(self, stage: Stage) -> Record:
        """Return a stage's record. It has the key of every input stage, and the id of the run that made its result."""
        inputs = {
            name: {
                "key": self._keys[name],
                "made": None if stage.precious else self._record(self.stages[name]).noted().get("made"),
            }
            for name in stage.after
        }
        key = {"identity": self._identities[stage.name], "budget": stage.budget, "inputs": inputs}
        return Record(self.directory / "stages" / f"{stage.name.replace('/', '-')}.json", key)


@dataclass(frozen=True)
class _Running:
    """A stage whose program is running; ``began`` by ``time.monotonic``."""

    stage: Stage
    process: subprocess.Popen
    began: float
