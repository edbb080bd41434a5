"""An experiment as a graph of stages, each done once for its settings: what it has left is kept, or gone on with.

A stage leaves ``stages/NAME.json``, its record: what its result depends on, and whether it is done.

    what a stage finds there                        what becomes of it
    its settings, and all of its outputs            kept
    its settings, interrupted or outputs missing    gone on with
    its settings, an output that was cut short      done again; refused if there is a model
    its settings, begun with a smaller budget       gone on with
    its settings, a model of a larger budget        refused
    a stage that it reads was done again since      done again, over what is there; kept if it is precious
    a stage that it reads got a larger budget       begun again: what it has left is removed
    other settings, its own or of what it reads     begun again; refused if it is precious and there is a model
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gtransformer.errors import UserError
from gtransformer.files import digest, sizes
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.jobs import last_error, start_program
from gtransformer.run.progress import Progress, print_status
from gtransformer.tasks.training import spoken
from gtransformer.work import Record, take_lock


@dataclass(frozen=True)
class Program:
    """The work of a stage that is a program.

    command: what to run, or what says it when the stages that this one reads are done.
    log: where its output goes; begun again with the program unless ``keeps_log``.
    alone: nothing runs beside it, and it has all cores.
    status: a few words about how far it is, None if that cannot be said yet.
    """

    command: list[str] | Callable[[], list[str]]
    log: Path
    status: Callable[[], str | None] = lambda: None
    keeps_log: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Stage:
    """One step of an experiment.

    name: of its record, too.
    settings: JSON; all that the result depends on besides the stages that it reads.
    outputs: files and folders that are there afterwards.
    work: a program, which runs beside others, or a function of this process, beside which nothing runs.
    after: the stages whose results it reads; what they depend on it depends on, too.
    waits_for: stages that only have to be over before it begins.
    budget: minutes of training, by an option ``--minutes``; with more of them it goes on, with fewer it is refused.
    folder: what it writes lies here, and goes with the outputs when it is begun again.
    precious: as long as ``folder/checkpoints`` holds a model, other settings are refused instead; nor is it done
        again since something that it reads was done again with the same settings.
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
        """What to say if the stage has ended well and some of its outputs are not there; empty if they are."""
        missing = [str(path) for path in self.outputs if not path.exists()]
        return f"ended well but did not write {', '.join(missing)}" if missing else ""

    def has_model(self) -> bool:
        """Whether there is something that has been trained."""
        return self.folder is not None and any((self.folder / "checkpoints").glob("*.pt"))


def print_done(stage: Stage, seconds: float) -> None:
    """That a stage is done."""
    print_status(f"{stage.name}: done in {spoken(seconds)}")


class Pipeline:
    """The stages of one directory; as a context manager it locks the directory, which running them needs.

    Programs inherit the lock: one that outlives a killed experiment still holds it.

    Args:
        what: the experiment in a word, for messages.
    """

    def __init__(self, directory: Path, what: str):
        self.directory, self.what = directory, what
        self.stages: dict[str, Stage] = {}  # each stands behind those that it reads or waits for
        self._identities: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._over: set[str] = set()  # known to be done
        self._lock: BinaryIO | None = None

    def __enter__(self) -> Pipeline:
        busy = (
            f"another {self.what}, or a training that a killed one has left behind, is at work in "
            "this directory; wait for it or choose another directory"
        )
        self._lock = take_lock(self.directory / "stages" / "lock", self.directory, busy)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def identify(self, settings: Any, after: Sequence[str] = ()) -> str:
        """What tells a stage's result from all others: its settings, and the identities of what it reads."""
        return digest([settings, [self._identities[name] for name in after]])

    def add(self, *stages: Stage) -> None:
        """Add stages, each behind those that it reads or waits for; ValueError for one that comes too early."""
        for stage in stages:
            for name in (*stage.after, *stage.waits_for):
                if name not in self.stages:
                    raise ValueError(f"{stage.name} comes after {name}, which is not there yet")
            if stage.name in self.stages:
                raise ValueError(f"{stage.name} is there already")
            self.stages[stage.name] = stage
            identity = self._identities[stage.name] = self.identify(stage.settings, stage.after)
            self._keys[stage.name] = digest([identity, stage.budget, [self._keys[name] for name in stage.after]])

    def is_done(self, name: str) -> bool:
        """Whether a stage, and those that it reads, were done with these settings and left their outputs."""
        stage = self.stages[name]
        return name in self._over or (
            all(path.exists() for path in stage.outputs)
            and self._record(stage).holds(lambda noted: not self._cut(stage, noted))
            and all(map(self.is_done, stage.after))
        )

    def seconds(self, name: str) -> float:
        """How long a stage took when it was last done."""
        return self._record(self.stages[name]).noted().get("seconds", 0.0)

    def check(self) -> None:
        """Before anything is removed: UserError for a model that would have to be thrown away or trained back."""
        for stage in filter(Stage.has_model, self.stages.values()):
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
                    f"{stage.folder}: was begun with {noted['budget']:g} minutes of training, more than --minutes "
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
        """Do all that is not done, programs ``at_once`` at a time with ``threads`` threads each (None: their choice).

        Args:
            label: of the line of progress.
            finished: called with every stage that is done now and the seconds it took, instead of saying so.
            failed: called with every stage whose program fails, and why; the others go on. Without it, or where a
                stage reads the result of the one that fails, UserError ends them all. Then, and on an interrupt,
                programs that run are ended too.
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
                    progress.show([f"{name} {one.stage.work.status() or 'at work'}" for name, one in running.items()])
                    time.sleep(0.2)
                progress.clear()
                for one in sorted(over, key=lambda one: one.process.returncode != 0):  # a failure may end all
                    del running[one.stage.name]
                    end(one.stage, time.monotonic() - one.began, one.process.returncode)
        finally:
            progress.line.close()
            for one in running.values():
                with contextlib.suppress(ProcessLookupError):  # of one that has ended meanwhile
                    os.killpg(one.process.pid, signal.SIGTERM)
            for one in running.values():
                one.process.wait()

    def _left(self) -> list[Stage]:
        return [stage for name, stage in self.stages.items() if name not in self._over]

    def _ready(self, failures: set[str]) -> list[Stage]:
        """What can be begun; of what was done before is said that it is kept."""
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
        if not program.keeps_log:
            program.log.unlink(missing_ok=True)
        command = program.command() if callable(program.command) else program.command
        own = threads and (available_cores() if program.alone else threads)
        alone = program.alone or at_once == 1
        return _Running(stage, start_program(command, program.log, self._lock.fileno(), own, alone), time.monotonic())

    def _begin(self, stage: Stage) -> None:
        """Note that a stage is begun; what cannot be gone on with is removed."""
        record = self._record(stage)
        noted, inputs = record.noted(), record.key["inputs"]
        before = noted.get("inputs") or {}
        other = noted.get("identity") != self._identities[stage.name]
        grown = [name for name in stage.after if before.get(name, {}).get("key") != inputs[name]["key"]]
        if other or grown or noted.get("removing"):
            there = [path for path in {*stage.outputs, *filter(None, [stage.folder])} if path.exists()]
            if noted or any(path.exists() for path in stage.outputs):  # else the folder is that of what came before
                reason = f"{', '.join(grown)} went on" if grown and not other else "what is there has other settings"
                print_status(f"{stage.name}: begun again, since {reason}")
            # A kill in between leaves no half that passes for whole.
            record.begin(record.key | {"done": False, "removing": True})
            for path in there:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        record.begin(record.key | {"done": False})

    def _end(self, stage: Stage, seconds: float) -> None:
        left = {os.path.relpath(path, self.directory): sizes(path) for path in stage.outputs}
        self._record(stage).end(done=True, seconds=round(seconds, 1), made=uuid.uuid4().hex[:16], sizes=left)
        self._over.add(stage.name)

    def _cut(self, stage: Stage, noted: dict[str, Any]) -> str:
        """A file that is shorter than the stage left it, or gone from a folder; empty if none is."""
        for path in filter(Path.exists, stage.outputs):
            now = sizes(path)
            for name, size in noted.get("sizes", {}).get(os.path.relpath(path, self.directory), {}).items():
                if now.get(name, -1) < size:
                    return str(path / name)
        return ""

    def _record(self, stage: Stage) -> Record:
        """A stage's record. Of every stage that it reads it has the key, and which time of doing it made the result."""
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
    """A stage whose program is at work; ``began`` by ``time.monotonic``."""

    stage: Stage
    process: subprocess.Popen
    began: float
