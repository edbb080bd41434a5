"""The demonstration: corpus, preparation, two systems trained side by side, scored, and what came out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gtransformer.analysis.curves import plot_learning_curves, read_curve
from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.evaluation.references import TOGETHER
from gtransformer.experiments.commands import call_command, python_command
from gtransformer.experiments.demonstration_report import (
    System,
    conclusion,
    failed_checks,
    read_text,
    samples,
    table,
    total_time,
)
from gtransformer.experiments.jobs import Job, run_jobs
from gtransformer.experiments.pipeline import Stages
from gtransformer.experiments.progress import batch_status, last_line, say, training_status
from gtransformer.experiments.recipe import Recipe, load_recipe
from gtransformer.experiments.recipe_check import check_recipe
from gtransformer.files import atomic_write, read_json, write_json
from gtransformer.modules.linear import has_bfloat16
from gtransformer.preprocess.parallel import available_cores

DOCUMENTS, TEST_DOCUMENTS = 500, 24


RECIPES = {"gtransformer": ("demo", "G-Transformer"), "transformer": ("demo_full", "Transformer over the document")}


@dataclass
class Demo:
    """One demonstration: its options, its directory and what it is about to do there."""

    stages: Stages
    directory: Path
    documents: int
    test_documents: int
    max_update: int | None
    systems: list[str]
    set: list[str] = field(default_factory=list)
    recipes: dict[str, Recipe] = field(init=False)

    def __post_init__(self) -> None:
        full = int(load_recipe(RECIPES["gtransformer"][0]).sections["train"]["max-update"])
        self.changes = [f"train.max-update={self.max_update}"] if self.max_update else []
        if self.max_update and self.max_update > full:
            # A smaller budget is the beginning of the full one; in a larger one the learning rate decays later.
            self.changes.append(f"train.total-num-update={self.max_update}")
        if not torch.cuda.is_available() and has_bfloat16():
            self.changes.append("train.autocast=bfloat16")
        self.changes += self.set
        self.recipes = {system: load_recipe(RECIPES[system][0], self.changes) for system in self.systems}
        for recipe in self.recipes.values():
            check_recipe(recipe, ["prepare", "train", "generate"])
        self.updates = int(self.recipes["gtransformer"].sections["train"]["max-update"])
        self.full_budget = self.documents >= DOCUMENTS and self.updates >= full
        self.raw, self.prepared = self.directory / "corpus", self.directory / "prepared"
        # On the CPU two programs with half of the cores each are faster than one after the other with all of them.
        cores = available_cores()
        side_by_side = len(self.systems) if cores > 1 and not torch.cuda.is_available() else 1
        self.at_once, self.threads = side_by_side, max(1, cores // side_by_side)

    def run(self) -> dict[str, System]:
        """All stages; returns the systems' results."""
        corpus = {"documents": self.documents, "test_documents": self.test_documents}
        self.stages.run("corpus", corpus, [self.raw], self.write_corpus)
        prepare = {"corpus": corpus, "options": self.recipes["gtransformer"].options("prepare")}
        self.stages.run("prepare", prepare, [self.prepared], self.prepare)
        trained = {
            system: {"prepare": prepare, "options": recipe.options("task", "train")}
            for system, recipe in self.recipes.items()
        }
        self.each("train", trained, ["checkpoints", "train.log"], self.training_jobs)
        translated = {
            system: {"train": trained[system], "options": recipe.options("generate")}
            for system, recipe in self.recipes.items()
        }
        self.each("translate", translated, ["test.jsonl"], self.translation_jobs)
        for system in self.systems:
            folder = self.directory / system
            outputs = [folder / "test.scores.json", folder / "test.txt"]
            # The references are settings, so that an older version's scores against others are taken anew.
            settings = translated[system] | {"references": TOGETHER}
            self.stages.run(f"score-{system}", settings, outputs, lambda folder=folder: self.score(folder))
        self.each("contrastive", trained, ["contrastive.json"], self.contrastive_jobs)
        return {system: self.result(system) for system in self.systems}

    def each(self, name: str, settings: dict, outputs: list[str], jobs: Callable[[list[str]], list[Job]]) -> None:
        """One stage of all systems, side by side where that is faster; of those done before, nothing is done."""
        paths = {system: [self.directory / system / output for output in outputs] for system in self.systems}
        todo = [s for s in self.systems if not self.stages.is_done(f"{name}-{s}", settings[s], paths[s])]
        for system in todo:
            self.stages.begin(f"{name}-{system}", settings[system], paths[system])
        threads = None if torch.cuda.is_available() else self.threads
        seconds = run_jobs(name, jobs(todo), self.at_once, threads, self.stages.lock.fileno())
        for system in todo:
            self.stages.finish(f"{name}-{system}", settings[system], seconds[RECIPES[system][1]])

    def write_corpus(self) -> None:
        """The demonstration corpus."""
        sizes = {"documents": self.documents, "test-documents": self.test_documents}
        call_command("demo_corpus", {"output": self.raw, **sizes})

    def prepare(self) -> None:
        """Tokenisation to binary data, by the command that prepares any corpus."""
        log = self.directory / "prepare.log"
        command = self.recipe_command("gtransformer", "prepare")
        run_jobs("prepare", [Job("corpus", command, log, lambda: last_line(log))], 1, None, self.stages.lock.fileno())
        counts = read_json(self.prepared / "manifest.json")["splits"]
        for split, count in counts.items():
            sizes = ", ".join(f"{count[unit]} {unit}" for unit in ("sentences", "documents", "instances"))
            say(f"  {split}: {sizes}")

    def recipe_command(self, system: str, stage: str, *changes: str) -> list[str]:
        """The command that runs one stage of a system's recipe."""
        options = {"output": self.directory / system, "prepared": self.prepared}
        changes = (*self.changes, *changes)
        command = python_command("gtransformer.cli.run", RECIPES[system][0], str(self.raw), stage, options)
        return command + [argument for change in changes for argument in ("--set", change)]

    def training_jobs(self, systems: list[str]) -> list[Job]:
        """fairseq-train for each system; it goes on from its last checkpoint."""
        jobs = []
        for system in systems:
            curve = self.directory / system / "train.log"
            command = self.recipe_command(system, "train", "train.log-format=json")
            log = self.directory / system / "demo.train.log"
            jobs.append(Job(RECIPES[system][1], command, log, lambda curve=curve: training_status(curve, self.updates)))
        return jobs

    def translation_jobs(self, systems: list[str]) -> list[Job]:
        """fairseq-generate for each system."""
        jobs = []
        for system in systems:
            log = self.directory / system / "demo.translate.log"
            log.unlink(missing_ok=True)
            changes = ["generate.log-format=simple", "generate.log-interval=1", "generate.quiet=true"]
            command = self.recipe_command(system, "generate", *changes)
            jobs.append(Job(RECIPES[system][1], command, log, lambda log=log: batch_status(log)))
        return jobs

    def score(self, folder: Path) -> None:
        """All scores, against the untouched text and as the release has them."""
        call_command("score", str(self.prepared), {"hypotheses": folder / "test.jsonl", "reference": "both"})

    def contrastive_jobs(self, systems: list[str]) -> list[Job]:
        """The contrastive items under each system."""
        jobs = []
        for system in systems:
            folder = self.directory / system
            log = folder / "demo.contrastive.log"
            log.unlink(missing_ok=True)
            options = {
                "path": folder / "checkpoints" / "checkpoint_best.pt",
                "items": self.raw / "contrastive.json",
                "output": folder / "contrastive.json",
            }
            command = python_command("gtransformer.cli.contrastive", str(self.prepared), options)
            jobs.append(Job(RECIPES[system][1], command, log, lambda log=log: batch_status(log)))
        return jobs

    def result(self, system: str) -> System:
        """What the stages have left for one system."""
        folder = self.directory / system
        curve = read_curve(folder / "train.log")
        if not curve.valid:
            raise UserError(f"{folder / 'curve.log'}: no validation in it; remove {folder} and start again")
        scores, items = read_json(folder / "test.scores.json"), read_json(folder / "contrastive.json")
        seconds = {
            "training": curve.seconds or self.stages.seconds(f"train-{system}"),
            "translation": read_json(folder / "generate.test.json")["seconds"],
            "contrastive": items["seconds"],
        }
        return System(RECIPES[system][1], curve, scores, items, seconds)


def finish(demo: Demo, systems: dict[str, System], argv: list[str] | None) -> int:
    """Write results, curves and samples, print them, check them."""
    directory = demo.directory
    seconds = {name: demo.stages.seconds(name) for name in ("corpus", "prepare")}
    # Of systems that ran side by side, the time of the slower is the time that passed.
    together = max if demo.at_once > 1 else sum
    for name in ("train", "translate", "score", "contrastive"):
        times = [demo.stages.seconds(f"{name}-{key}") for key in systems]
        if name == "train":  # the stage knows its last run only, the log all resumptions
            times = [
                max(time, system.seconds["training"]) for time, system in zip(times, systems.values(), strict=True)
            ]
        seconds[name] = sum(times) if name == "score" else together(times)
    failed = failed_checks(systems["gtransformer"]) if demo.full_budget else []
    shown = show_samples(demo, systems)
    with atomic_write(directory / "samples.txt") as stream:
        stream.write(shown + "\n")
    curves = {system.name: system.curve for system in systems.values()}
    plot_learning_curves(curves, directory / "learning_curves.png", "Demonstration corpus: perplexity while training")
    result = {
        "version": 1,
        "settings": {
            "documents": demo.documents,
            "test_documents": demo.test_documents,
            "max_update": demo.updates,
            "changes": demo.changes,
        },
        "device": device_name(),
        "side_by_side": demo.at_once,
        "threads": demo.threads,
        "systems": {key: system.to_json() for key, system in systems.items()},
        "seconds": seconds,
        "full_budget": demo.full_budget,
        "failed": failed,
    }
    write_json(directory / "results.json", result | provenance("gtransformer.cli.demo", argv))
    print(f"\n{shown}\n\n{table(systems)}\n\n{conclusion(systems, demo.updates)}\n\n{total_time(seconds)}")
    print(f"results: {directory / 'results.json'}\ncurves:  {directory / 'learning_curves.png'}", flush=True)
    for line in failed:
        print(
            f"FAILED: the G-Transformer's {line}; please report this with {directory / 'results.json'}", file=sys.stderr
        )
    return 1 if failed else 0


def show_samples(demo: Demo, systems: dict[str, System]) -> str:
    """Some sentences of the test set with both translations."""
    texts = {
        name: read_text(demo.prepared / "text" / f"test.{lang}")
        for name, lang in (("source", "en"), ("reference", "de"))
    }
    translations = {system.name: read_text(demo.directory / key / "test.txt") for key, system in systems.items()}
    return samples(read_json(demo.raw / "contrastive.json")["items"], texts, translations)
