"""An experiment as a graph of stages, each done once for its settings: what it has left is kept, or gone on with.

A stage leaves ``stages/NAME.json``, its stamp: what its result depends on, and whether it is done.

    what a stage finds there                        what becomes of it
    its settings, and all of its outputs            kept
    its settings, interrupted or outputs missing    gone on with
    its settings, an output that was cut short      done again; refused if there is a model
    its settings, begun with a smaller budget       gone on with
    its settings, a model of a larger budget        refused
    a stage that it reads was done again since      done again, over what is there; kept if it is precious
    a stage that it reads got a larger budget       begun anew: what it has left is removed
    other settings, its own or of what it reads     begun anew; refused if it is precious and there is a model
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gtransformer.errors import UserError
from gtransformer.files import digest, read_json, sizes, write_json
from gtransformer.run.jobs import Job, failure, run_jobs
from gtransformer.run.processes import take_lock
from gtransformer.run.progress import duration, say


def read_stamp(path: Path) -> dict[str, Any]:
    """What a stage has noted of itself; empty if there is nothing, or nothing that can be read."""
    try:
        stamp = read_json(path)
    except UserError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


@dataclass(frozen=True)
class Program:
    """The work of a stage that is a program.

    command: what to run, or what says it when the stages that this one reads are done.
    log: where its output goes; begun anew with the program unless ``keeps_log``.
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

    name: of its stamp, too.
    settings: JSON; all that the result depends on besides the stages that it reads.
    outputs: files and folders that are there afterwards.
    work: a program, which runs beside others, or a function of this process, beside which nothing runs.
    after: the stages whose results it reads; what they depend on it depends on, too.
    waits_for: stages that only have to be over before it begins.
    budget: minutes of training, by an option ``--minutes``; with more of them it goes on, with fewer it is refused.
    folder: what it writes lies here, and goes with the outputs when it is begun anew.
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


def say_done(stage: Stage, seconds: float) -> None:
    """That a stage is done."""
    say(f"{stage.name}: done in {duration(seconds)}")


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
        self._lock: TextIO | None = None

    def __enter__(self) -> Pipeline:
        busy = (
            f"{self.directory}: another {self.what}, or a training that a killed one has left behind, is at work in "
            "this directory; wait for it or choose another directory"
        )
        try:
            (self.directory / "stages").mkdir(parents=True, exist_ok=True)
            self._lock = take_lock(self.directory / "stages" / "lock", busy)
        except OSError as error:
            raise UserError(
                f"{self.directory}: cannot be written ({error.strerror}); choose another directory"
            ) from None
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
        stage, stamp = self.stages[name], self._stamp(name)
        if name in self._over:
            return True
        found = [stamp.get(key) for key in ("identity", "budget", "inputs")]
        same = found == [self._identities[name], stage.budget, self._inputs(stage)]
        there = all(path.exists() for path in stage.outputs) and not self._cut(stage)
        return stamp.get("done") is True and same and there and all(map(self.is_done, stage.after))

    def seconds(self, name: str) -> float:
        """How long a stage took when it was last done."""
        return self._stamp(name).get("seconds", 0.0)

    def check(self) -> None:
        """Before anything is removed: UserError for a model that would have to be thrown away or trained back."""
        for stage in filter(Stage.has_model, self.stages.values()):
            stamp = self._stamp(stage.name)
            if stamp.get("identity") != self._identities[stage.name]:
                if stage.precious or (stamp and "identity" not in stamp):
                    raise UserError(
                        f"{stage.folder}: was trained with other settings, on another corpus, or by an older version "
                        f"than this {self.what} has; choose another output directory, or remove that folder to train "
                        "the model again"
                    )
            elif cut := self._cut(stage):
                raise UserError(f"{cut}: shorter than {stage.name} left it; put it back, or remove {stage.folder}")
            elif stage.budget is not None and (stamp.get("budget") or 0) > stage.budget:
                raise UserError(
                    f"{stage.folder}: was begun with {stamp['budget']:g} minutes of training, more than --minutes "
                    f"{stage.budget:g}; choose another output directory"
                )

    def run(
        self,
        label: str,
        at_once: int = 1,
        threads: int | None = None,
        finished: Callable[[Stage, float], None] = say_done,
        failed: Callable[[Stage, str], None] | None = None,
    ) -> None:
        """Do all that is not done, programs ``at_once`` at a time with ``threads`` threads each (None: their choice).

        Args:
            label: of the line of progress.
            finished: called with every stage that is done now and the seconds it took, instead of saying so.
            failed: called with every stage whose program fails, and why; the others go on. Without it, or where a
                stage reads the result of the one that fails, UserError ends them all.
        """
        self.check()
        failures: set[str] = set()

        def finish(stage: Stage, seconds: float) -> None:
            left = {os.path.relpath(path, self.directory): sizes(path) for path in stage.outputs}
            self._note(stage, done=True, seconds=round(seconds, 1), made=uuid.uuid4().hex[:16], sizes=left)
            self._over.add(stage.name)
            finished(stage, seconds)

        def fail(job: Job, reason: str) -> None:
            if failed is None or any(job.name in stage.after for stage in self._left()):
                raise failure(label, job, reason)
            failures.add(job.name)
            failed(self.stages[job.name], reason)

        def ended(job: Job, seconds: float) -> None:
            stage = self.stages[job.name]
            fail(job, reason) if (reason := stage.unwritten()) else finish(stage, seconds)

        while left := [stage for stage in self._left() if stage.name not in failures]:
            jobs: dict[str, Job] = {}
            for stage in left:
                if self._over.issuperset(stage.after) and self.is_done(stage.name):
                    say(f"{stage.name}: done before, kept")
                    self._over.add(stage.name)
                    continue
                missing = {*stage.after, *stage.waits_for} - self._over - failures
                if isinstance(stage.work, Program) and missing <= jobs.keys():
                    jobs[stage.name] = self._job(stage, sorted(missing))
                elif not isinstance(stage.work, Program) and not missing:
                    self._begin(stage)
                    began = time.monotonic()
                    stage.work()
                    if reason := stage.unwritten():
                        raise UserError(f"{label}: {stage.name} {reason}")
                    finish(stage, time.monotonic() - began)
            run_jobs(label, list(jobs.values()), at_once, threads, self._lock.fileno(), ended, fail)

    def _left(self) -> list[Stage]:
        return [stage for name, stage in self.stages.items() if name not in self._over]

    def _job(self, stage: Stage, after: Sequence[str]) -> Job:
        program = stage.work

        def start() -> list[str]:
            self._begin(stage)
            if not program.keeps_log:
                program.log.unlink(missing_ok=True)
            return program.command() if callable(program.command) else program.command

        return Job(stage.name, start, program.log, program.status, after, program.alone)

    def _begin(self, stage: Stage) -> None:
        """Note that a stage is begun; what cannot be gone on with is removed."""
        stamp, inputs = self._stamp(stage.name), self._inputs(stage)
        before = stamp.get("inputs") or {}
        other = stamp.get("identity") != self._identities[stage.name]
        grown = [name for name in stage.after if before.get(name, {}).get("key") != inputs[name]["key"]]
        if other or grown or stamp.get("removing"):
            there = [path for path in {*stage.outputs, *filter(None, [stage.folder])} if path.exists()]
            if stamp or any(path.exists() for path in stage.outputs):  # else the folder is that of what came before
                reason = f"{', '.join(grown)} went on" if grown and not other else "what is there has other settings"
                say(f"{stage.name}: begun anew, since {reason}")
            self._note(stage, done=False, removing=True)  # a kill in between leaves no half that passes for whole
            for path in there:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self._note(stage, done=False)

    def _note(self, stage: Stage, **state: Any) -> None:
        settings = {"identity": self._identities[stage.name], "budget": stage.budget, "inputs": self._inputs(stage)}
        write_json(self._stamp_file(stage.name), settings | state)

    def _cut(self, stage: Stage) -> str:
        """A file that is shorter than the stage left it, or gone from a folder; empty if none is."""
        left = self._stamp(stage.name).get("sizes", {})
        for path in filter(Path.exists, stage.outputs):
            now = sizes(path)
            for name, size in left.get(os.path.relpath(path, self.directory), {}).items():
                if now.get(name, -1) < size:
                    return str(path / name)
        return ""

    def _stamp(self, name: str) -> dict[str, Any]:
        return read_stamp(self._stamp_file(name))

    def _stamp_file(self, name: str) -> Path:
        return self.directory / "stages" / f"{name.replace('/', '-')}.json"

    def _inputs(self, stage: Stage) -> dict[str, dict[str, Any]]:
        """Of every stage that one reads: its key, and which time of doing it made what is there."""
        return {
            name: {"key": self._keys[name], "made": None if stage.precious else self._stamp(name).get("made")}
            for name in stage.after
        }
