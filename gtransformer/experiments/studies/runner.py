"""Doing a study: its runs, so many at a time, and what they have found."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gtransformer.errors import UserError
from gtransformer.experiments.commands import python_command
from gtransformer.experiments.jobs import Job, run_jobs
from gtransformer.experiments.progress import batch_status, duration, say, training_status
from gtransformer.experiments.recipe import load_recipe
from gtransformer.experiments.recipe_check import check_recipe
from gtransformer.experiments.studies.check import ALL, check_changes
from gtransformer.experiments.studies.data import Corpora
from gtransformer.experiments.studies.one_run import ORDER, RESULT, remove_checkpoints
from gtransformer.experiments.studies.plan import Study, StudyRun, load_study
from gtransformer.experiments.studies.table import summary
from gtransformer.files import read_json, write_json
from gtransformer.modules.linear import has_bfloat16
from gtransformer.preprocess.parallel import available_cores

# What a study reads from the log of a training.
NEEDED = ("train.log-format=json", "train.doc-attn-entropy=true")


BFLOAT16 = "train.autocast=bfloat16"  # of miniatures, on a CPU that is faster with it


LOG = "study.log"  # of each run


@dataclass
class Runner:
    """Does what a study lacks in one directory."""

    study: Study
    corpora: Corpora
    directory: Path
    jobs: int
    keep_checkpoints: bool = False

    def folder(self, run: StudyRun) -> Path:
        """Where a run lies."""
        return self.directory / "runs" / run.name(self.corpora.fingerprint)

    def is_done(self, run: StudyRun) -> bool:
        """Whether a run has its result."""
        return (self.folder(run) / RESULT).is_file()

    def run(self, runs: Sequence[StudyRun]) -> dict[str, str]:
        """Do the runs that are not done, so many at a time; returns why runs failed, by name."""
        todo = [run for run in runs if not self.is_done(run)]
        for run in runs:
            if run not in todo:
                remove_checkpoints(self.folder(run))  # of one that was ended between its result and this
        say(f"{len(runs)} runs, {len(runs) - len(todo)} done before; {self.jobs} at a time")
        left, failures = len(todo), {}

        def finished(job: Job, seconds: float) -> None:
            nonlocal left
            left -= 1
            score = read_json(self.directory / "runs" / job.name / RESULT)["scores"]["d_bleu"]["score"]
            say(f"{job.name}: d-BLEU {score:.2f}, {duration(seconds)}; {left} to go")

        def failed(job: Job, reason: str) -> None:
            nonlocal left
            left -= 1
            failures[job.name] = reason
            say(f"{job.name} {reason} (its output: {job.log}); {left} to go")

        threads = None if torch.cuda.is_available() else max(1, available_cores() // self.jobs)
        lock = self.corpora.stages.lock.fileno()
        run_jobs(self.study.figure, [self.job(run) for run in todo], self.jobs, threads, lock, finished, failed)
        return failures

    def job(self, run: StudyRun) -> Job:
        """The program of a run, whose order it writes first."""
        folder, recipe = self.folder(run), run.settings()
        if recipe.sections["task"].get("instances"):  # grouped as the recipe says, whatever the corpus holds
            prepared, loading = self.corpora.prepared(run.data), []
        else:
            prepared, loading = self.corpora.read(run.data)
        order = {
            "name": folder.name,
            "recipe": run.recipe,
            "changes": [*run.changes, *([f"train.arch={run.model}"] if run.model else []), f"train.seed={run.seed}"],
            "data": vars(run.data),
            "seed": run.seed,
            "corpus": self.corpora.corpus,
            "prepared": os.path.relpath(prepared, folder),
            "loading": loading,
            "keep_checkpoints": self.keep_checkpoints,
        }
        write_json(folder / ORDER, order)
        command = python_command("gtransformer.cli.study_run", str(folder))
        updates = recipe.sections["train"].get("max-update", "?")

        def status() -> str | None:
            translating = folder / "generate.test.log"
            if translating.is_file():
                return f"translates {batch_status(translating) or ''}"
            return training_status(folder / "train.log", updates)

        return Job(folder.name, command, folder / LOG, status)

    def collect(self, failures: Mapping[str, str]) -> dict[str, Any]:
        """The study's result: its panels, whose lines name their runs, and every run's result.

        Runs that failed are left out, and named with the reason under ``missing``.
        """
        names = {run: name for run in self.study.runs() if (name := self.folder(run).name) not in failures}
        panels = [
            {
                "kind": panel.kind,
                "title": panel.title,
                "axis": panel.axis,
                "lines": [
                    {
                        "system": line.system,
                        "x": self.corpora.instances(line.runs[0].data) if line.x == ALL else line.x,
                        "curve": line.curve,
                        "label": line.label,
                        "flat": line.flat,
                        "runs": [names[run] for run in line.runs if run in names],
                    }
                    for line in panel.lines
                    if not names.keys().isdisjoint(line.runs)
                ],
            }
            for panel in self.study.panels
        ]
        results = {names[run]: read_json(self.folder(run) / RESULT) for run in names}
        return {
            "version": 1,
            "figure": self.study.figure,
            "description": self.study.description,
            "miniature": self.study.miniature,
            "corpus": self.corpora.corpus,
            "systems": self.study.systems,
            "panels": summary(panels, results),
            "missing": dict(failures),
            "runs": results,
        }


def make_study(args: argparse.Namespace) -> Study:
    """The study that was asked for, as this machine can do it. UserError for what shows before anything is done."""
    check_changes(args.set, "--set ")
    changes = list(NEEDED)
    if args.miniature and not torch.cuda.is_available() and has_bfloat16():
        changes.append(BFLOAT16)
    study = load_study(args.figure, args.miniature, [*changes, *args.set])
    first, *others = dict.fromkeys(study.recipes.values())
    sharing = load_recipe(first, study.changes)
    for recipe in others:
        if load_recipe(recipe, study.changes).preparing() != sharing.preparing():
            raise UserError(
                f"{study.figure}: recipes '{first}' and '{recipe}' prepare the corpus differently, but the systems of "
                "a study share it; change one of them, or set the option for both with --set prepare.OPTION=VALUE"
            )
    check_recipe(sharing, ["prepare"])
    for run in {(run.recipe, run.model): run for run in study.runs()}.values():  # data and seed do not matter here
        settings = run.settings()
        check_recipe(settings, ["train", "generate", "score"])
        train = settings.sections["train"]
        epochs = train.get("max-epoch")
        if isinstance(epochs, int) and 0 < epochs < train.get("validate-interval", 1):
            raise UserError(
                f"{study.figure}: train.max-epoch is {epochs}, but training validates by updates here and would end "
                "without a validation; set train.max-update or train.stop-time-hours instead"
            )
    return study


def check_complete(study: Study, runner: Runner, failures: Mapping[str, str], allowed: bool) -> None:
    """UserError if runs failed, unless that is allowed and there are others."""
    total = len(study.runs())
    if failures and not (allowed and len(failures) < total):
        logs = ", ".join(str(runner.directory / "runs" / name / LOG) for name in failures)
        raise UserError(
            f"{study.figure}: {len(failures)} of {total} runs failed, see {logs}; the same command goes on with them, "
            "--allow-missing draws the figure without those that fail again"
        )
