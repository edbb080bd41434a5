"""Run a study: its runs, several at a time, and their results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gtransformer.errors import UserError
from gtransformer.evaluation.prepared_split import RAW as TEXT
from gtransformer.evaluation.score import score_translations
from gtransformer.files import read_json, write_json
from gtransformer.lab.analysis.study_figures import draw_study
from gtransformer.lab.pipeline import Program, Stage, shares
from gtransformer.lab.planner import batch_status, training_status
from gtransformer.lab.processor import trains_faster_in_bfloat16
from gtransformer.lab.progress import print_status, spoken
from gtransformer.lab.records import REFERENCE, Translations, pack
from gtransformer.lab.studies.data import DEMO, Corpora
from gtransformer.lab.studies.one_run import CONTRASTIVE, ORDER, RESULT, remove_checkpoints
from gtransformer.lab.studies.plan import ALL_INSTANCES, check_changes, load_study
from gtransformer.lab.studies.study import Panel, Study, StudyRun
from gtransformer.lab.studies.table import summary, table
from gtransformer.provenance import device_name, provenance
from gtransformer.run.commands import python_command
from gtransformer.run.paths import model_file
from gtransformer.run.recipe import load_recipe

# Options for the training log that a study reads; the paper's figures also need entropies.
REQUIRED_CHANGES = ("train.log-format=json",)
ENTROPY = "train.doc-attn-entropy=true"
BFLOAT16 = "train.autocast=bfloat16"  # for miniatures, on a CPU that is faster with it
LOG = "study.log"  # of each run
TRANSLATION = "test.txt"  # plain text, a line <d> before each document
CONTRASTIVE_KEY = "contrastive"  # of a run in a study's result
MORE_OF_PANELS = ("quantity", "by", "baseline")  # keys of some panels


@dataclass
class Runner:
    """Runner of a study's unfinished parts, in the directory of its corpora.

    A run is one stage: its program trains, translates and scores. Its checkpoints are deleted when the result is
    written.
    """

    study: Study
    corpora: Corpora
    jobs: int
    keep_checkpoints: bool = False

    def folder(self, run: StudyRun) -> Path:
        """Return the folder of a run; its name identifies everything that affects the result."""
        return self.corpora.directory / "runs" / run.name(self.corpora.fingerprint)

    def users(self, run: StudyRun) -> list[StudyRun]:
        """Return the runs that start from a run's model."""
        return [other for other in self.study.runs() if run == other.needed]

    def is_done(self, run: StudyRun) -> bool:
        """Return whether a run has its result and, if unfinished runs need it, its model."""
        return all(path.is_file() for path in self.outputs(run))

    def outputs(self, run: StudyRun) -> list[Path]:
        """Return the files that a run must write: its result and, if unfinished runs need it, its model."""
        folder = self.folder(run)
        needs_model = not all(map(self.is_done, self.users(run)))
        choices = [folder / CONTRASTIVE] if self.corpora.items else []
        return [folder / RESULT, *choices, *([model_file(run.settings(), folder)] if needs_model else [])]

    def run(self, runs: Sequence[StudyRun]) -> dict[str, str]:
        """Run the unfinished runs, several at a time; return the reasons of failures by run name."""
        todo = [run for run in runs if not self.is_done(run)]
        for run in runs:
            if run not in todo:
                remove_checkpoints(self.folder(run))  # of a run that was interrupted after its result
        print_status(f"{len(runs)} runs, {len(runs) - len(todo)} done before; {self.jobs} at a time")
        left, failures = iter(range(len(todo) - 1, -1, -1)), {}

        def finished(stage: Stage, seconds: float) -> None:
            score = read_json(stage.outputs[0])["scores"]["d_bleu"]["score"]
            print_status(f"{stage.name}: d-BLEU {score:.2f}, {spoken(seconds)}; {next(left)} to go")

        def failed(stage: Stage, reason: str) -> None:
            failures[stage.name] = reason
            print_status(f"{stage.name} {reason} (its output: {stage.work.log}); {next(left)} to go")

        for run in todo:
            write_json(self.folder(run) / ORDER, self.order(run))
        pipeline = self.corpora.pipeline
        for run in todo:  # in order, as a run waits for those added before it
            if self.folder(run).name not in pipeline.stages:
                pipeline.add(self.stage(run))
        pipeline.run(self.study.figure, *shares(self.jobs), finished, failed)
        return failures

    def data(self, run: StudyRun) -> tuple[Path, list[str]]:
        """Return the prepared directory of a run, made if needed, and the changes of its recipe to read it."""
        if run.settings().sections["task"].get("instances"):  # grouped by the recipe, whatever the corpus has
            return self.corpora.prepared(run.data), []
        return self.corpora.read(run.data)

    def order(self, run: StudyRun) -> dict[str, Any]:
        """Return the order of a run."""
        folder, (prepared, loading) = self.folder(run), self.data(run)
        return {
            "name": folder.name,
            "recipe": run.recipe,
            "changes": run.all_changes,
            "data": run.data.settings,
            "seed": run.seed,
            "corpus": self.corpora.corpus,
            "prepared": os.path.relpath(prepared, folder),
            "loading": loading,
            "pretrained": os.path.relpath(self.folder(run.needed), folder) if run.needed else None,
            "metrics": ["bleu", *(["ter"] if self.study.is_table else [])],  # TER of failed models takes hours
            "contrastive": self.items(folder),
            "keep_checkpoints": self.keep_checkpoints or bool(self.users(run)),
        }

    def items(self, folder: Path) -> dict[str, str] | None:
        """Return the contrastive items for a model, and their corpus."""
        if not self.corpora.items:
            return None
        prepared = os.path.relpath(self.corpora.contrastive_corpus(), folder)
        return {"prepared": prepared, "items": str(self.corpora.items)}

    def stage(self, run: StudyRun) -> Stage:
        """Return the stage of a run, whose program reads its order."""
        folder, needed = self.folder(run), [self.folder(run.needed).name] if run.needed else []
        updates = run.settings().sections["train"].get("max-update", "?")
        command = python_command("gtransformer.lab.studies.one_run", str(folder))
        work = Program(command, folder / LOG, partial(_status, folder, updates), keeps_log=True)
        waits_for = [name for name in needed if self.corpora.pipeline.stages.get(name)]  # others are finished
        return Stage(folder.name, folder.name, self.outputs(run), work, waits_for=waits_for)

    def collect(self, failures: Mapping[str, str]) -> dict[str, Any]:
        """Return the study's result: its panels, with run names in their lines, and every run's result.

        Failed runs are left out, and listed with the reason under ``missing``.
        """
        names = {run: name for run in self.study.runs() if (name := self.folder(run).name) not in failures}
        results = {names[run]: read_result(self.folder(run)) for run in names}
        texts = Translations(lambda **how: score_translations(self.corpora.folder(self.corpora.base), "test", **how))

        def test(key: str, *runs: list[str]) -> dict[str, Any]:
            folder = self.corpora.directory / "runs"
            return texts.test(key, *([folder / name / TRANSLATION for name in names] for names in runs))

        return {
            "version": 1,
            "figure": self.study.figure,
            "description": self.study.description,
            "miniature": self.study.miniature,
            "corpus": self.corpora.corpus,
            "systems": self.study.systems,
            "panels": summary([self._panel(panel, names) for panel in self.study.panels], results, test),
            "missing": dict(failures),
            "runs": results,
        }

    def pack_translations(self, failures: Mapping[str, str], path: Path) -> None:
        """Write the test set's translations of all runs as ``NAME.txt`` into a tar file, compressed by its suffix.

        With the generated corpus the reference is in it as well; a user's corpus may not be passed on.
        """
        folders = [self.folder(run) for run in self.study.runs()]
        texts = {f"{one.name}.txt": one / TRANSLATION for one in folders if one.name not in failures}
        if self.corpora.corpus == DEMO:
            texts[REFERENCE] = self.reference()
        pack(texts, path)

    def reference(self) -> Path:
        """Return the untouched reference of the test set."""
        return self.corpora.folder(self.corpora.base) / TEXT / f"test.{self.corpora.pair[1]}"

    def _panel(self, panel: Panel, names: Mapping[StudyRun, str]) -> dict[str, Any]:
        """Return a panel with the lines that have a run in ``names``."""
        lines = [
            {
                "system": line.system,
                "x": self.corpora.instances(line.runs[0].data) if line.x == ALL_INSTANCES else line.x,
                "curve": line.curve,
                "label": line.label,
                "flat": line.flat,
                "runs": [names[run] for run in line.runs if run in names],
            }
            for line in panel.lines
            if not names.keys().isdisjoint(line.runs)
        ]
        more = {key: getattr(panel, key) for key in MORE_OF_PANELS if getattr(panel, key)}
        return {"kind": panel.kind, "title": panel.title, "axis": panel.axis, **more, "lines": lines}


def _status(folder: Path, updates: Any) -> str | None:
    """Return the progress of a run."""
    translating = folder / "generate.test.log"
    if translating.is_file():
        return f"translates {batch_status(translating) or ''}"
    return training_status(folder / "train.log", updates)


def read_result(folder: Path) -> dict[str, Any]:
    """Return the result of a run, with contrastive accuracies if it has them."""
    result = read_json(folder / RESULT)
    if (folder / CONTRASTIVE).is_file():
        choices = read_json(folder / CONTRASTIVE)
        result[CONTRASTIVE_KEY] = {key: choices[key] for key in choices if key == "total" or key.startswith("by_")}
    return result


def make_study(args: argparse.Namespace) -> Study:
    """Return the study adapted to this machine. Raises UserError for errors that are visible before anything runs."""
    check_changes(args.set, "--set ")
    given = load_study(args.figure, args.miniature)
    changes = [*REQUIRED_CHANGES, *([] if given.is_table else [ENTROPY])]
    if args.miniature and not torch.cuda.is_available() and trains_faster_in_bfloat16():
        changes.append(BFLOAT16)
    study = load_study(args.figure, args.miniature, [*changes, *args.set])
    sharing, *others = (load_recipe(name, study.changes) for name in dict.fromkeys(run.recipe for run in study.runs()))
    for recipe in others:
        if recipe.preparing() != sharing.preparing():
            raise UserError(
                f"{study.figure}: recipes '{sharing.name}' and '{recipe.name}' prepare the corpus differently, but the "
                "systems of a study share it; set the option for both with --set prepare.OPTION=VALUE"
            )
    return study


def make_figure(runner: Runner, argv: Sequence[str] | None, allow_missing: bool = False) -> None:
    """Run the study: data, runs, result, and figure if any.

    Raises UserError if runs fail, unless that is allowed, or if there is no run to show.
    """
    study, corpora = runner.study, runner.corpora
    corpora.begin()
    for note in study.limit(corpora.instances):
        print_status(note)
    runs = study.runs()
    if not runs:
        raise UserError(f"{corpora.corpus}: too small for every point of {study.figure}; use a larger corpus")
    path = corpora.directory / f"{study.figure}.json"
    translations, picture = path.with_suffix(".tar.xz"), path.with_suffix(".png")
    for old in (path, translations, picture):
        old.unlink(missing_ok=True)
    failures = runner.run(runs)
    if failures and not (allow_missing and len(failures) < len(runs)):
        logs = ", ".join(str(corpora.directory / "runs" / name / LOG) for name in failures)
        raise UserError(
            f"{study.figure}: {len(failures)} of {len(runs)} runs failed, see {logs}; the same command resumes "
            "them; --allow-missing makes the figure or table without those that fail again"
        )
    result = runner.collect(failures) | {"device": device_name(), **provenance("lab study", argv)}
    runner.pack_translations(failures, translations)
    if not study.is_table:
        draw_study(result, picture)
    write_json(path, result)
    print(f"\n{table(result)}\n\nresults: {path}\ntranslations: {translations}", flush=True)
    if not study.is_table:
        print(f"figure:  {picture}", flush=True)
