"""Plan experiments: a list of runs (recipe, changes, measures) becomes the stages of one pipeline.

The demonstration, comparisons and the arena differ in their runs and tables. Trainings, translations and measures are
defined here for all of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.lab.pipeline import Pipeline, Program, Stage
from gtransformer.lab.recipes import call_command, run_command
from gtransformer.modules.processor import processor_fields
from gtransformer.provenance import device_name
from gtransformer.run.commands import python_command
from gtransformer.run.paths import model_file
from gtransformer.run.recipe import Options, Recipe
from gtransformer.settings import dashed

# All have the same budget, so no training stops early; curves are read from the log.
UNLIMITED = ("train.patience=", "train.tensorboard-logdir=")
# Makes fairseq-generate log only its progress, in the form that ``batch_status`` reads.
BATCHES = ("generate.log-format=simple", "generate.log-interval=1", "generate.quiet=true")


def refuse_own(changes: Sequence[str], own: Mapping[str, str]) -> None:
    """Raise UserError for a change of an option, or of a section ("score."), that an experiment sets itself.

    ``own``: what each comes from instead.
    """
    for change in changes:
        option = dashed(change.partition("=")[0])
        for name in (option, f"{option.partition('.')[0]}."):
            if name in own:
                raise UserError(f"--set {change}: {option} cannot be changed here; it comes from {own[name]}")


@dataclass(frozen=True)
class PlannedRun:
    """One training, and the measures of its model.

    Attributes:
        name: of the stages, ``train-NAME``.
        recipe, argument: the recipe with the changes of the whole experiment, and its name on a command line.
        raw, prepared, folder: its raw corpus, its prepared corpus, and the directory of its files.
        changes: ``SECTION.OPTION=VALUE`` for translation.
        training: the changes for training, or a function that returns them after the corpus is prepared.
        settings: what identifies the training; None: only the recipe's options.
        after, waits_for: as in ``Stage``.
        updates, minutes: the budget, in updates or in minutes, if limited.
        precious: a finished model is never overwritten.
        alone: no other training runs at the same time.
        measures: functions from this run to a stage, such as ``Translation()``.
    """

    name: str
    recipe: Recipe
    argument: str
    raw: Path
    prepared: Path
    folder: Path
    changes: Sequence[str] = ()
    training: Sequence[str] | Callable[[], Sequence[str]] = ()
    settings: Any = None
    after: Sequence[str] = ()
    waits_for: Sequence[str] = ()
    updates: float | None = None
    minutes: float | None = None
    precious: bool = True
    alone: bool = False
    measures: Sequence[Measure] = ()

    @property
    def model(self) -> Path:
        """Return the checkpoint used for translation."""
        return model_file(self.recipe, self.folder)

    def command(self, changes: Sequence[str] | Callable[[], Sequence[str]]) -> list[str]:
        """Return the command of the training."""
        changes = changes() if callable(changes) else changes
        return run_command(
            self.argument, self.raw, "train", {"output": self.folder, "prepared": self.prepared}, changes
        )


Measure = Callable[[PlannedRun], Stage]  # a measure of a run


class Planner:
    """An experiment in a directory: prepared corpora, and runs. ``what``: the kind of experiment."""

    def __init__(self, directory: Path, what: str):
        self.directory = directory.absolute()
        self.pipeline = Pipeline(self.directory, what)

    def add(self, name: str, settings: Any, outputs: Sequence[Path], work: Any, after: Sequence[str] = ()) -> str:
        """Add a stage that belongs to no run, and return its name."""
        self.pipeline.add(Stage(name, settings, outputs, work, after))
        return name

    def add_corpus(
        self,
        argument: str,
        raw: Path,
        output: Path,
        settings: Any,
        after: Sequence[str] = (),
        changes: Sequence[str] = (),
        name: str | None = None,
    ) -> str:
        """Add the stage ``prepare-OUTPUT``, a raw corpus prepared by a recipe, and return its name."""
        folder = self.directory / "logs" / output.name
        options, log = {"output": folder, "prepared": output}, folder / "prepare.log"
        work = Program(run_command(argument, raw, "prepare", options, changes), log, partial(last_line, log))
        outputs = [output / "manifest.json", output]
        return self.add(name or f"prepare-{output.name}", settings, outputs, work, after)

    def add_runs(self, runs: Sequence[PlannedRun], by_step: bool = False, wait: bool = False) -> None:
        """Add the stages of runs, run by run or (``by_step``) the same step of all runs before the next.

        ``wait``: a step begins when all runs have finished the previous one, so that times are comparable.
        """
        columns = [[training(run), *(measure(run) for measure in run.measures)] for run in runs]
        if not by_step:
            return self.pipeline.add(*chain(*columns))
        before: list[str] = []
        for step in zip_longest(*columns):
            stages = [stage for stage in step if stage is not None]
            for stage in stages:
                self.pipeline.add(replace(stage, waits_for=[*stage.waits_for, *before]) if wait else stage)
            before = [stage.name for stage in stages]


def training(run: PlannedRun) -> Stage:
    """Return the stage of fairseq-train, which resumes from its last checkpoint."""
    settings = run.recipe.options("task", "train") if run.settings is None else run.settings
    command = partial(run.command, run.training) if callable(run.training) else run.command(run.training)
    log = run.folder / "train.log"  # the stage's log, which also has its driver's messages
    status = partial(training_status, log, run.updates)
    return Stage(
        f"train-{run.name}",
        settings,
        [run.model, log, run.folder / "train.json"],
        Program(command, log, status, keeps_log=True, alone=run.alone),
        run.after,
        run.waits_for,
        run.minutes,
        run.folder,
        run.precious,
    )


@dataclass(frozen=True)
class Translation:
    """A measure: fairseq-generate with a run's model on its test set.

    Attributes:
        changes: ``SECTION.OPTION=VALUE`` in addition to the run's.
        after: stages whose results it reads, in addition to the training.
    """

    changes: Sequence[str] = ()
    after: Sequence[str] = ()

    def __call__(self, run: PlannedRun) -> Stage:
        """Return the stage of a run."""
        folder, changes = run.folder, [*run.changes, *BATCHES, *self.changes]
        options = {"output": folder, "prepared": run.prepared, "checkpoint": run.model, "split": "test"}
        log = folder / "generate.test.log"
        command = run_command(run.argument, run.raw, "generate", options, changes)
        work = Program(command, log, partial(batch_status, log))
        outputs, after = [folder / "test.jsonl", folder / "generate.test.json"], [f"train-{run.name}", *self.after]
        return Stage(f"translate-{run.name}", run.recipe.options("generate"), outputs, work, after)


def model_measure(
    name: str, command: str, prepared: Path, options: Options | None = None, after: Sequence[str] = ()
) -> Measure:
    """Return a measure of a run's model on a prepared corpus (contrastive choices, CXMI), which writes NAME.json.

    ``command``: a module of the package.
    """

    def stage(run: PlannedRun) -> Stage:
        log, output = run.folder / f"{name}.log", run.folder / f"{name}.json"
        given = {"path": run.model, "user-dir": run.recipe.training().get("user-dir"), **(options or {})}
        line = python_command(f"gtransformer.{command}", str(prepared), given | {"output": output})
        work = Program(line, log, partial(batch_status, log))
        return Stage(f"{name}-{run.name}", {}, [output], work, [f"train-{run.name}", *after])

    return stage


def text_measure(
    name: str, command: str, settings: Any, options: Options, file: str, after: Sequence[str] = ()
) -> Measure:
    """Return a measure of a run's translation by a command in this process, whose table goes to a log."""

    def stage(run: PlannedRun) -> Stage:
        given = {"hypotheses": run.folder / "test.jsonl", **options, "output": run.folder / file}
        work = partial(call_quietly, command, run.prepared, given)
        return Stage(f"{name}-{run.name}", settings, [given["output"]], work, [f"translate-{run.name}", *after])

    return stage


def call_quietly(command: str, prepared: Path, options: Options) -> None:
    """Run a command on a prepared corpus in this process, with its standard output in a log next to its output."""
    with (
        open(options["output"].with_suffix(".log"), "w", encoding="utf-8") as stream,
        contextlib.redirect_stdout(stream),
    ):
        call_command(command, str(prepared), options)


def stop_hours(minutes: float) -> str:
    """Return a budget as fairseq's ``--stop-time-hours``.

    fairseq stores the time spent in its checkpoints. So a resumed training gets the remaining time, and repeats the
    updates after its last checkpoint.
    """
    return f"{minutes / 60:.6f}"


def machine() -> dict[str, Any]:
    """Return the machine of an experiment; the processor's name is from Linux, None if it cannot be read."""
    return {"device": device_name(), "processor": processor_fields().get("model name")}


# Progress of a program, read from the end of its log


def _tail(path: Path, size: int = 4096) -> str:
    """Return the last bytes of a file as text, empty if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_status(log: Path, updates: int | None) -> str | None:
    """Return ``128/550 updates, perplexity 1.92, validation 1.81`` from fairseq's JSON log; "550" may be missing."""
    text = _tail(log)
    done = re.findall(r'num_updates": "(\d+)"', text)
    if not done:
        return None
    parts = [f"{done[-1]}/{updates} updates" if updates else f"{done[-1]} updates"]
    for kind, name in (("ppl", "perplexity"), ("valid_ppl", "validation")):
        found = re.findall(rf'"{kind}": "([\d.]+)"', text)
        parts += [f"{name} {found[-1]}"] if found else []
    return ", ".join(parts)


def batch_status(log: Path) -> str | None:
    """Return ``3/8 batches``, from the progress line of generation or of the contrastive command."""
    found = re.findall(r"(\d+) ?/ ?(\d+)(?: \[|\s)", _tail(log))
    return f"{found[-1][0]}/{found[-1][1]} batches" if found else None


def last_line(log: Path) -> str | None:
    """Return the last line of a log, shortened."""
    lines = re.split(r"[\r\n]+", _tail(log).strip())
    return lines[-1].removeprefix("| ")[:70] or None
