"""The arena: every system on one corpus with one budget; where its files lie, and its stages."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.evaluation.metrics import USUAL
from gtransformer.evaluation.realignment import MWER
from gtransformer.files import read_json, sha256, write_json
from gtransformer.lab.arena.beside import ASKED, STARTED, TEST, read_beside
from gtransformer.lab.arena.budget import (
    MINUTES,
    TOKENS,
    UNITS,
    UPDATES,
    has_one_size,
    measure_epoch,
    updates_of_tokens,
)
from gtransformer.lab.arena.plan import BASELINE, DEMO, SIZES, Terms
from gtransformer.lab.comparison.corpus import RAW, split_files
from gtransformer.lab.comparison.plan import stop_hours
from gtransformer.lab.comparison.result import machine
from gtransformer.lab.demo.reach_corpus import ITEMS, SET, write_context_items
from gtransformer.run.commands import call_command, python_command, run_command
from gtransformer.run.jobs import shares
from gtransformer.run.pipeline import Pipeline, Program, Stage
from gtransformer.run.progress import BATCHES, batch_status, last_line, training_status
from gtransformer.run.recipe import Options
from gtransformer.run.run import FIRST_PASS, START
from gtransformer.run.run_places import model_file, training_outputs, translation_outputs
from gtransformer.tasks.checkpoint_file import weights_digest

# The budget is the same for all: nobody stops early.
UNLIMITED = ("train.patience=", "train.max-epoch=", "train.tensorboard-logdir=")


class Arena:
    """An arena, and what is about to be done in its directory."""

    def __init__(self, args: argparse.Namespace, terms: Terms):
        self.terms, self.directory = terms, args.output.absolute()
        self.at_once, self.threads = shares(args.jobs)
        self.shows_reach = terms.corpus is None
        self.raw, self.prepared = terms.corpus or self.directory / "corpus", self.directory / "prepared"
        self.set, self.items = self.directory / "set", self.raw / SET / ITEMS
        self.context_items = self.directory / "context_items.json"
        self.results = {end: self.directory / f"arena.{end}" for end in ("json", "txt", "png")}
        if self.shows_reach:
            given = {key: getattr(args, key) for key in SIZES}
            self.sizes = {key: SIZES[key] if value is None else value for key, value in given.items()}
            self.corpus = {"name": DEMO, **self.sizes}
        else:
            files = [path for split in RAW.values() for path in split_files(self.raw, terms.plan.languages, split)]
            self.corpus = {"name": self.raw.resolve().name, "files": {path.name: sha256(path) for path in files}}
        self.beside = read_beside(args.beside, self.common(), terms.systems, self.clock())
        self.pipeline = Pipeline(self.directory, "arena")
        if self.shows_reach:
            self._add_corpus()
        else:
            self._add_prepared(self.raw, self.prepared, self.corpus["files"])
        if not terms.fresh:
            self._add_start()
        self._add_epochs()
        for seed in terms.seeds:  # first one seed of all systems, so that what is interrupted can be compared
            for name in terms.systems:
                self._add_run(name, seed)

    def common(self) -> dict[str, Any]:
        """What the systems of two arenas must have in common to be compared, as in ``arena.json``."""
        terms, budget = self.terms, self.terms.budget
        start = None if terms.fresh else {"recipe": terms.start, "updates": terms.updates_of_start()}
        return {
            "corpus": self.corpus,
            "seeds": list(terms.seeds),
            UPDATES: None,  # always there; minutes and tokens where they are the budget
            **{unit: budget.amount for unit in UNITS if unit == budget.unit},
            "start": start,
            "baseline": BASELINE,
            "changes": list(terms.changes),
        }

    def clock(self) -> dict[str, Any]:
        """What decides how much is done in a minute, as in ``arena.json``."""
        return {"machine": machine(), "jobs": self.at_once, "threads": self.threads}

    def files(self) -> dict[str, Any]:
        """Checksums (SHA-256) of what all were asked and translated, and of the parameters that they start from."""
        paths = split_files(self.raw, self.terms.plan.languages, RAW["test"])
        start = None if self.terms.fresh else weights_digest(self.model(self.terms.start))
        own = {ASKED: sha256(self.items)} if self.shows_reach else {}
        return {**own, TEST: [sha256(path) for path in paths], STARTED: start}

    def run(self) -> None:
        """All that is missing."""
        self.pipeline.run("arena", self.at_once, self.threads)

    def folder(self, name: str, seed: int | None = None) -> Path:
        """Where a system's run with one seed lies; without one, the start's."""
        return self.directory / "runs" / (name if seed is None else f"{name}-{seed}")

    def model(self, name: str, seed: int | None = None) -> Path:
        """The model of a system's run; without a seed, the start's."""
        return model_file(self.terms.recipe(name), self.folder(name, seed))

    def epoch(self, name: str) -> Path:
        """What an epoch of a system's training is."""
        return self.directory / "epochs" / f"{name}.json"

    # What is to be done

    def _add_corpus(self) -> None:
        """The generated corpus with its set, and both prepared, the set with the corpus's vocabulary."""
        sizes = {key.replace("_", "-"): value for key, value in self.sizes.items()}
        work = partial(call_command, "lab.cli.reach_corpus", {"output": self.raw, **sizes})
        self.pipeline.add(Stage("corpus", sizes, [self.raw / "corpus.json", self.raw], work, folder=self.raw))
        self._add_prepared(self.raw, self.prepared, None, ["corpus"])
        changes = [f"prepare.vocabulary={self.prepared}"]
        self._add_prepared(self.raw / SET, self.set, None, ["prepare-prepared"], changes)
        work = partial(write_context_items, self.raw, self.context_items)
        self.pipeline.add(Stage("context-items", {}, [self.context_items], work, ["corpus"]))

    def _add_prepared(
        self, raw: Path, output: Path, files: Any, after: Sequence[str] = (), changes: Sequence[str] = ()
    ) -> None:
        """A raw corpus prepared by the start's recipe; ``files``: what tells it, where no stage before does."""
        options = self.terms.recipe(self.terms.start).preparing()
        settings = {"options": options, "files": files} if files else options
        folder = self.directory / "logs" / output.name
        command = self._command(self.terms.start, raw, "prepare", folder, output, changes)
        log, outputs = folder.with_suffix(".log"), [output / "manifest.json", output]
        work = Program(command, log, partial(last_line, log))
        self.pipeline.add(Stage(f"prepare-{output.name}", settings, outputs, work, after, folder=output))

    def _add_start(self) -> None:
        """The sentence model that all systems start from."""
        name = self.terms.start
        own = self.terms.own_changes(name, None)
        command = self._command(name, self.raw, "train", self.folder(name), self.prepared, [*UNLIMITED, *own])
        updates, settings = self.terms.updates_of_start(), {"own": own}
        self._add_training(name, self.folder(name), settings, command, updates, ["prepare-prepared"])

    def has_epoch(self, name: str) -> bool:
        """Whether a system's updates are of one size, so that so many make an epoch; tokens as budget demand it."""
        return self.terms.budget.unit == TOKENS or has_one_size(self.terms.recipe(name))

    def _add_epochs(self) -> None:
        """How many updates and target tokens an epoch of every system has."""
        for name in filter(self.has_epoch, self.terms.systems):
            recipe, output = self.terms.recipe(name), self.epoch(name)
            settings = {"options": recipe.options("task", "train"), "devices": recipe.devices}
            work = partial(self._measure, name)
            self.pipeline.add(Stage(f"epoch-{name}", settings, [output], work, ["prepare-prepared"]))

    def _measure(self, name: str) -> None:
        self.epoch(name).parent.mkdir(exist_ok=True)
        logging.disable(logging.INFO)  # what fairseq says of every file that it opens
        try:
            write_json(self.epoch(name), measure_epoch(self.terms.recipe(name), self.prepared))
        finally:
            logging.disable(logging.NOTSET)

    def _add_run(self, name: str, seed: int) -> None:
        """One system with one seed: trained, translating, scored, and asked for its contrastive choices."""
        terms, folder, recipe = self.terms, self.folder(name, seed), self.terms.recipe(name)
        started, after = [], ["prepare-prepared"]
        if not terms.fresh:
            started = [f"train.finetune-from-model={self.model(terms.start)}"]
            after = [f"train-{self.folder(terms.start).name}"]
        settings, updates = {"own": terms.own_changes(name, seed)}, None
        command = partial(self._training_command, name, seed, started)
        if terms.budget.unit == TOKENS:  # known when the corpus is prepared
            settings, after = settings | {TOKENS: terms.budget.amount}, [*after, f"epoch-{name}"]
        else:
            command, updates = command(), terms.budget.amount if terms.budget.unit == UPDATES else None
        waits_for = ["prepare-set"] if self.shows_reach else []
        self._add_training(name, folder, settings, command, updates, after, waits_for, terms.minutes)
        translates_first, run = [], folder.name
        after = [f"train-{run}"]
        if FIRST_PASS in recipe.sections["generate"]:
            translates_first = started
            if terms.fresh and recipe.sections["generate"][FIRST_PASS] == START:  # there is no start: the baseline
                translates_first = [f"generate.{FIRST_PASS}={self.model(BASELINE, seed)}"]
                after.append(f"train-{self.folder(BASELINE, seed).name}")
        log = folder / "arena.translate.log"
        command = self._command(name, self.raw, "generate", folder, self.prepared, [*BATCHES, *translates_first])
        work, outputs = Program(command, log, partial(batch_status, log)), translation_outputs(folder)
        translation = Stage(f"translate-{run}", recipe.options("generate"), outputs, work, after)
        output = folder / "test.scores.json"
        work, after = partial(self._score, folder, output, recipe.options("score")), [translation.name]
        self.pipeline.add(translation, Stage(f"score-{run}", recipe.options("score"), [output], work, after))
        loading = {"path": self.model(name, seed), "user-dir": recipe.training().get("user-dir")}
        if self.shows_reach:
            self._add_reach(folder, loading)
        self._add_metrics(folder, loading, recipe.options("score"))

    def _training_command(self, name: str, seed: int, started: Sequence[str]) -> list[str]:
        """fairseq-train of a system, with as many updates as the budget has, or for as long."""
        terms, updates = self.terms, None
        if terms.budget.unit == TOKENS:
            updates = updates_of_tokens(terms.budget.amount, read_json(self.epoch(name)))
        hours = stop_hours(terms.minutes) if terms.budget.unit == MINUTES else ""
        timed = f"train.stop-time-hours={hours}"
        changes = [*UNLIMITED, *terms.own_changes(name, seed, updates), timed, *started]
        return self._command(name, self.raw, "train", self.folder(name, seed), self.prepared, changes)

    def _add_reach(self, folder: Path, loading: Options) -> None:
        """Of a run: its choices on the set, and accuracy of what was translated; ``loading``: what tells its model."""
        run = folder.name
        log, output = folder / "arena.contrastive.log", folder / "contrastive.json"
        options = {**loading, "items": self.items, "output": output}
        command = python_command("gtransformer.cli.contrastive", str(self.set), options)
        work, after = Program(command, log, partial(batch_status, log)), [f"train-{run}", "prepare-set"]
        self.pipeline.add(Stage(f"contrastive-{run}", {}, [output], work, after))
        output = folder / "generative.json"
        options = {"items": self.context_items, "hypotheses": folder / "test.jsonl", "align": MWER, "output": output}
        work, after = partial(self._quietly, "generative", options), [f"translate-{run}", "context-items"]
        self.pipeline.add(Stage(f"generative-{run}", {"align": MWER}, [output], work, after))

    def _add_metrics(self, folder: Path, loading: Options, scoring: Options) -> None:
        """Of a run: scores over sentences whatever their number, and CXMI."""
        run = folder.name
        output, options = folder / "test.aligned.json", {**scoring, "metrics": list(USUAL), "align": MWER}
        work = partial(self._score, folder, output, {**options, "text": output.with_suffix(".txt")})
        aligned = Stage(f"align-{run}", options, [output], work, [f"translate-{run}"])
        log, output = folder / "arena.cxmi.log", folder / "cxmi.json"
        command = python_command("gtransformer.lab.cli.cxmi", str(self.prepared), {**loading, "output": output})
        work = Program(command, log, partial(batch_status, log))
        self.pipeline.add(aligned, Stage(f"cxmi-{run}", {}, [output], work, [f"train-{run}"]))

    def _add_training(
        self,
        name: str,
        folder: Path,
        own: dict[str, Any],
        command: Any,
        updates: float | None,
        after: Sequence[str],
        waits_for: Sequence[str] = (),
        minutes: float | None = None,
    ) -> None:
        """fairseq-train; ``own``: what of the command no recipe says, but for where files lie and for minutes."""
        recipe = self.terms.recipe(name)
        settings = {"options": recipe.options("task", "train"), "devices": recipe.devices, **own}
        log = folder / "train.log"
        work = Program(command, folder / "arena.train.log", partial(training_status, log, updates), keeps_log=True)
        outputs, stage = training_outputs(recipe, folder), f"train-{folder.name}"
        self.pipeline.add(
            Stage(stage, settings, outputs, work, after, waits_for, budget=minutes, folder=folder, precious=True)
        )

    def _command(
        self, name: str, raw: Path, stage: str, folder: Path, prepared: Path, changes: Sequence[str]
    ) -> list[str]:
        """The command that runs one stage of a recipe."""
        options = {"output": folder, "prepared": prepared}
        return run_command(self.terms.plan.arguments[name], raw, stage, options, [*self.terms.changes, *changes])

    def _score(self, folder: Path, output: Path, options: Options) -> None:
        """Scores of a run's translation."""
        self._quietly("score", {**options, "hypotheses": folder / "test.jsonl", "split": "test", "output": output})

    def _quietly(self, command: str, options: Options) -> None:
        """A command over the prepared corpus in this process, its table going to a log beside its output."""
        log = options["output"].with_suffix(".log")
        with open(log, "w", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
            call_command(command, str(self.prepared), options)
