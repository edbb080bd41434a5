"""An experiment from one YAML file: systems x seeds with one budget, their translations, a table
and two figures.

A run is a row with a seed. ``gtransformer run`` trains it, translates the test set and scores the
translation. A finished run leaves the record ``done.json``; a run without it goes on from its last
checkpoint.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.files import read_json, read_record, write_json
from gtransformer.installation import corpus_directory, current_commit, device_name
from gtransformer.lab.budget import UNITS, budget_changes, updates_of_tokens
from gtransformer.lab.corpora import DEMO, ITEMS, REACH, make_corpus, with_first_documents
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.run import model_file
from gtransformer.settings import read_yaml, typed

DONE = "done.json"  # the record of a finished run
BEGUN = "begun.json"  # which finished start model a run began with
ALWAYS = {"train.log-format": "json", "train.tensorboard-logdir": None, "train.patience": None}
EVERY = 20.0  # seconds between lines of progress


@dataclass
class Row:
    """A system of an experiment.

    Attributes:
        recipe: the name or the path of its recipe.
        set: changes of the recipe, SECTION.OPTION: value; null removes an option.
        start: the row whose model training starts from, with the same seed or with its only one.
        baseline: the row that it is compared with (default: the experiment's).
        budget: as the experiment's.
        seeds: as the experiment's.
        documents: train on so many of the first training documents (default: all).
    """

    recipe: str = ""
    set: dict[str, Any] = field(default_factory=dict)
    start: str | None = None
    baseline: str | None = None
    budget: dict[str, float] | None = None
    seeds: list[int] | None = None
    documents: int | None = None


@dataclass
class Settings:
    """The keys of an experiment's file.

    Attributes:
        corpus: demo, reach or random (generated), a benchmark's name or a folder in the raw format.
        sizes: of a generated corpus.
        rows: the systems by name; the first prepares the corpus.
        budget: of every training: updates, tokens (target subwords) or minutes; empty: the
            recipes' own.
        set: changes of all recipes.
        baseline: the row that the others are compared with.
    """

    corpus: str
    rows: dict[str, Row]
    seeds: list[int] = field(default_factory=lambda: [1])
    description: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    budget: dict[str, float] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    baseline: str | None = None


@dataclass
class Run:
    """One training of a row with a seed; ``start``: the run whose model it begins with."""

    name: str
    system: str
    seed: int
    row: Row
    folder: Path
    start: Run | None = None


def read_experiment(path: Path) -> Settings:
    """Read an experiment's file. Raise UserError for unknown keys, rows and budgets."""
    settings = typed(read_yaml(path), Settings, str(path))
    for name, row in settings.rows.items():
        for other in filter(None, (row.start, row.baseline, settings.baseline)):
            if other not in settings.rows:
                raise UserError(f"{path}: row '{name}' names '{other}', which is no row")
        budget = settings.budget if row.budget is None else row.budget
        if len(budget) > 1 or not set(budget) <= set(UNITS):
            raise UserError(f"{path}: give one budget of {', '.join(UNITS)}")
    return settings


class Experiment:
    """An experiment in a folder: its corpus, its runs and their results.

    Args:
        settings: of its file.
        folder: where everything is written: corpus, prepared, a folder for each run.
        jobs: trainings at a time.
    """

    def __init__(self, settings: Settings, folder: Path, jobs: int = 1, dry: bool = False):
        self.settings, self.folder, self.jobs, self.dry = settings, folder.absolute(), jobs, dry
        self.generated = settings.corpus in (DEMO, REACH, "random")
        self.raw = self.folder / "corpus" if self.generated else Path(settings.corpus)
        if not self.generated and not dry:
            self.raw = corpus_directory(settings.corpus)
        self.runs: list[Run] = []
        self._recipes: dict[str, Recipe] = {}  # by run: to read one takes time
        for seed in settings.seeds:  # one seed of all rows before the next
            for name, row in settings.rows.items():
                if seed in (row.seeds or settings.seeds):
                    self._add(name, seed)

    def _add(self, name: str, seed: int) -> Run:
        found = next((run for run in self.runs if (run.system, run.seed) == (name, seed)), None)
        if found:
            return found
        row, start = self.settings.rows[name], None
        seeds = row.seeds or self.settings.seeds
        if row.start:
            theirs = self.settings.rows[row.start].seeds or self.settings.seeds
            start = self._add(row.start, seed if seed in theirs else theirs[0])
        folder = f"{name}-{seed}" if len(seeds) > 1 else name
        run = Run(folder, name, seed, row, self.folder / folder, start)
        self.runs.append(run)
        return run

    def keep(self, rows: list[str]) -> None:
        """Leave out all runs but those of some rows and those that they start from."""
        kept = []
        for run in self.runs:
            chain = run if run.system in rows else None
            while chain:
                kept.append(chain.name)
                chain = chain.start
        self.runs = [run for run in self.runs if run.name in kept]

    # Commands

    def prepared(self, run: Run) -> Path:
        """Return the prepared corpus of a run."""
        return self.folder / (f"prepared-{run.row.documents}" if run.row.documents else "prepared")

    def recipe(self, run: Run) -> Recipe:
        """Return a run's recipe with all changes but those of its budget."""
        if run.name not in self._recipes:
            self._recipes[run.name] = load_recipe(run.row.recipe, self._changes(run))
        return self._recipes[run.name]

    def model(self, run: Run) -> Path:
        """Return the model of a run."""
        return model_file(self.recipe(run), run.folder)

    def _changes(self, run: Run) -> list[str]:
        changes = ALWAYS | self.settings.set | run.row.set | {"train.seed": run.seed}
        if run.start:
            changes["train.finetune-from-model"] = self.model(run.start)
        return [f"{key}={'' if value is None else value}" for key, value in changes.items()]

    def _budget(self, run: Run) -> list[str]:
        recipe = self.recipe(run)
        budget = self.settings.budget if run.row.budget is None else run.row.budget
        if "tokens" in budget and self.dry:  # the updates are known when the corpus is prepared
            return [f"train.max-update=BY_TOKENS_{budget['tokens']:.0f}"]
        if "tokens" in budget:
            budget = {"updates": updates_of_tokens(budget["tokens"], recipe, self.prepared(run))}
        return budget_changes(budget, recipe)

    def commands(self, run: Run) -> list[list[str]]:
        """Return the commands of a run: train, generate, score and, with contrastive items, their
        accuracy."""
        common = ["--output", str(run.folder), "--prepared", str(self.prepared(run))]
        for change in [*self._changes(run), *self._budget(run)]:
            common += ["--set", change]
        raw = str(self.raw)
        lines = [
            ["run", run.row.recipe, raw, stage, *common] for stage in ("train", "generate", "score")
        ]
        if self.settings.corpus in ITEMS:  # letters with contrastive items
            options = {
                "--items": self.raw / ITEMS[self.settings.corpus],
                "--path": self.model(run),
                "--output": run.folder / "contrastive.json",
                "--user-dir": self.recipe(run).training().get("user-dir"),
            }
            given = [str(word) for pair in options.items() if pair[1] for word in pair]
            lines.append(["lab", "items", str(self.prepared(run)), *given])
        return lines

    def preparations(self) -> dict[Path, tuple[int | None, list[str]]]:
        """Return by prepared corpus the number of training documents (None: all) and the command.

        The whole corpus comes first. It gives its words to those with part of the documents.
        """
        found: dict[Path, tuple[int | None, list[str]]] = {}
        for run in sorted(self.runs, key=lambda run: run.row.documents is not None):
            raw, prepared, count = self.raw, self.prepared(run), run.row.documents
            names = ("prepare.", "task.")
            changes = [change for change in self._changes(run) if change.startswith(names)]
            if count:
                raw = self.folder / f"corpus-{count}"
                changes.append(f"prepare.vocabulary={self.folder / 'prepared'}")
            paths = ["--output", str(self.folder / "logs"), "--prepared", str(prepared)]
            sets = [word for change in changes for word in ("--set", change)]
            line = ["run", run.row.recipe, str(raw), "prepare", *paths, *sets]
            found.setdefault(prepared, (count, line))
        return found

    # Running

    def run(self) -> None:
        """Make the corpora and all runs that have no record. Raise UserError if any of them
        fails."""
        if self.generated and not self.raw.exists():
            make_corpus(self.settings.corpus, self.raw, self.settings.sizes)
        for prepared, (count, command) in self.preparations().items():
            if (prepared / "manifest.json").is_file():
                continue
            if count:
                with_first_documents(self.raw, self.folder / f"corpus-{count}", count)
            print(f"| prepare {prepared.name}", flush=True)
            call(command, {})
        futures: dict[str, Future] = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            for run in self.runs:
                futures[run.name] = pool.submit(self._make, run, futures)
            self._watch(futures)
        failures = {name: error for name, one in futures.items() if (error := one.exception())}
        if failures:
            lines = "; ".join(f"{name}: {error}" for name, error in failures.items())
            raise UserError(
                f"{len(failures)} of {len(futures)} runs failed; the same command goes on. {lines}"
            )

    def _make(self, run: Run, futures: dict[str, Future]) -> None:
        """Make one run unless its record has the same commands and the same start model."""
        start = None
        if run.start:
            # Waits for the start model, and raises its error. Runs are submitted in an order in
            # which no run waits for a later one.
            futures[run.start.name].result()
            start = read_json(run.start.folder / DONE)["finished"]
        commands = self.commands(run)
        inputs = {"commands": commands, "start": start}
        record = read_record(run.folder / DONE)
        if record == record | inputs:  # the record has more: when, which commit, which machine
            print(f"| {run.name}: done before", flush=True)
            return
        if read_record(run.folder / BEGUN).get("start") != start:
            shutil.rmtree(run.folder, ignore_errors=True)  # what was trained from another model
        run.folder.mkdir(parents=True, exist_ok=True)
        write_json(run.folder / BEGUN, {"start": start})
        (run.folder / DONE).unlink(missing_ok=True)
        began = time.monotonic()
        for command in commands:
            call(command, self._environment())
        ended = datetime.datetime.now(datetime.UTC).isoformat()
        made = {"finished": ended, "commit": current_commit(), "machine": device_name()}
        write_json(run.folder / DONE, inputs | made)
        print(f"| {run.name}: done in {time.monotonic() - began:.0f} s", flush=True)

    def _environment(self) -> dict[str, str]:
        if self.jobs == 1:
            return {}
        # Threads that spin while they wait slow trainings down that share the cores.
        threads = max(1, len(os.sched_getaffinity(0)) // self.jobs)
        return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}

    def _watch(self, futures: dict[str, Future]) -> None:
        """Print how far the runs are until all are done."""
        checked, shown = time.monotonic(), ""
        while not all(one.done() for one in futures.values()):
            time.sleep(0.2)
            if time.monotonic() - checked > EVERY:
                checked = time.monotonic()
                running = [run for run in self.runs if futures[run.name].running()]
                text = ", ".join(f"{run.name} {progress(run.folder)}" for run in running)
                if text != shown:
                    print(f"  {text}", file=sys.stderr, flush=True)
                shown = text


def call(arguments: list[str], environment: dict[str, str]) -> None:
    """Run a command of this package. Raise UserError with its last line of errors if it fails."""
    command = [sys.executable, "-m", "gtransformer", *arguments]
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"{shlex.join(['gtransformer', *arguments[:4]])} failed: {last}")


def progress(folder: Path) -> str:
    """Return the stage of a run whose log is the newest; for a training the updates so far, too."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    if not logs:
        return "begins"
    text = logs[-1].read_text(encoding="utf-8", errors="replace")
    updates = re.findall(r'num_updates": "(\d+)"', text)
    return f"{logs[-1].stem} {updates[-1] if updates else ''}".rstrip()
