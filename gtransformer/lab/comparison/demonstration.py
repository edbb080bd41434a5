"""The demonstration: corpus, preparation, two systems trained side by side, scored, and what came out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.evaluation.references import TOGETHER
from gtransformer.files import atomic_write, read_json, write_json
from gtransformer.lab.analysis.curves import plot_learning_curves, read_curve
from gtransformer.lab.comparison.demonstration_report import (
    Outcome,
    conclusion,
    failed_checks,
    samples,
    table,
    total_time,
)
from gtransformer.lab.demo.corpus import ITEMS
from gtransformer.modules.cpu.processor import trains_faster_in_bfloat16
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.plain_text import read_plain
from gtransformer.run.commands import call_command, python_command, run_command
from gtransformer.run.pipeline import Pipeline, Program, Stage, say_done
from gtransformer.run.progress import BATCHES, batch_status, last_line, say, training_status
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run_places import model_file, training_outputs, translation_outputs

DOCUMENTS, TEST_DOCUMENTS = 500, 24
RECIPES = {"gtransformer": ("demo", "G-Transformer"), "transformer": ("demo_full", "Transformer over the document")}


@dataclass
class Demo:
    """One demonstration: its options, its directory and what it is about to do there."""

    directory: Path
    documents: int
    test_documents: int
    max_update: int | None
    systems: list[str]
    set: list[str] = field(default_factory=list)
    recipes: dict[str, Recipe] = field(init=False)
    pipeline: Pipeline = field(init=False)

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(self.directory, "demonstration")
        full = int(load_recipe(RECIPES["gtransformer"][0]).sections["train"]["max-update"])
        self.changes = [f"train.max-update={self.max_update}"] if self.max_update else []
        if self.max_update and self.max_update > full:
            # A smaller budget is the beginning of the full one; in a larger one the learning rate decays later.
            self.changes.append(f"train.total-num-update={self.max_update}")
        if not torch.cuda.is_available() and trains_faster_in_bfloat16():
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

    def run(self) -> dict[str, Outcome]:
        """All stages; returns the systems' results."""
        corpus = {"documents": self.documents, "test_documents": self.test_documents}
        self.pipeline.add(Stage("corpus", corpus, [self.raw], self.write_corpus), self.preparation())
        self.pipeline.run("prepare", finished=self.prepared_now)
        # One step after the other, each of both systems side by side, so that their times can be compared.
        before: list[str] = []
        for step in (self.training, self.translation, self.scoring, self.contrastive):
            stages = [step(system, before) for system in self.systems]
            self.pipeline.add(*stages)
            before = [stage.name for stage in stages]
        self.pipeline.run("demonstration", self.at_once, None if torch.cuda.is_available() else self.threads)
        return {system: self.result(system) for system in self.systems}

    def write_corpus(self) -> None:
        """The demonstration corpus."""
        sizes = {"documents": self.documents, "test-documents": self.test_documents}
        call_command("lab.cli.demo_corpus", {"output": self.raw, **sizes})

    def command(self, system: str, stage: str, *changes: str) -> list[str]:
        """The command that runs one stage of a system's recipe."""
        options = {"output": self.directory / system, "prepared": self.prepared}
        return run_command(RECIPES[system][0], self.raw, stage, options, [*self.changes, *changes])

    def preparation(self) -> Stage:
        """Tokenisation to binary data, by the command that prepares any corpus."""
        log, options = self.directory / "prepare.log", self.recipes["gtransformer"].options("prepare")
        work = Program(self.command("gtransformer", "prepare"), log, lambda: last_line(log))
        return Stage("prepare", options, [self.prepared], work, ["corpus"])

    def prepared_now(self, stage: Stage, seconds: float) -> None:
        """Say what a corpus that has just been prepared holds."""
        if stage.name == "prepare":
            for split, count in read_json(self.prepared / "manifest.json")["splits"].items():
                sizes = ", ".join(f"{count[unit]} {unit}" for unit in ("sentences", "documents", "instances"))
                say(f"  {split}: {sizes}")
        say_done(stage, seconds)

    def training(self, system: str, before: Sequence[str]) -> Stage:
        """fairseq-train; it goes on from its last checkpoint."""
        folder = self.directory / system
        command, log = self.command(system, "train", "train.log-format=json"), folder / "train.log"
        status = partial(training_status, log, self.updates)
        work = Program(command, folder / "demo.train.log", status, keeps_log=True)
        outputs = training_outputs(self.recipes[system], folder)
        options = self.recipes[system].options("task", "train")
        return Stage(f"train-{system}", options, outputs, work, ["prepare"], before, folder=folder)

    def translation(self, system: str, before: Sequence[str]) -> Stage:
        """fairseq-generate."""
        log = self.directory / system / "demo.translate.log"
        work = Program(self.command(system, "generate", *BATCHES), log, partial(batch_status, log))
        outputs, options = translation_outputs(self.directory / system), self.recipes[system].options("generate")
        return Stage(f"translate-{system}", options, outputs, work, [f"train-{system}"], before)

    def scoring(self, system: str, before: Sequence[str]) -> Stage:
        """All scores, against the untouched text and as the release has them."""
        folder = self.directory / system
        options = {"hypotheses": folder / "test.jsonl", "reference": "both"}
        work = partial(call_command, "score", str(self.prepared), options)
        # The references are settings, so that an older version's scores against others are taken anew.
        outputs = [folder / "test.scores.json", folder / "test.txt"]
        return Stage(f"score-{system}", {"references": TOGETHER}, outputs, work, [f"translate-{system}"], before)

    def contrastive(self, system: str, before: Sequence[str]) -> Stage:
        """The contrastive items under a system."""
        folder = self.directory / system
        log, output = folder / "demo.contrastive.log", folder / "contrastive.json"
        options = {
            "path": model_file(self.recipes[system], folder),
            "items": self.raw / ITEMS,
            "output": output,
        }
        command = python_command("gtransformer.cli.contrastive", str(self.prepared), options)
        work = Program(command, log, partial(batch_status, log))
        return Stage(f"contrastive-{system}", {}, [output], work, [f"train-{system}"], before)

    def result(self, system: str) -> Outcome:
        """What the stages have left for one system."""
        folder = self.directory / system
        curve = read_curve(folder / "train.log")
        if not curve.valid:
            raise UserError(f"{folder / 'curve.log'}: no validation in it; remove {folder} and start again")
        scores, items = read_json(folder / "test.scores.json"), read_json(folder / "contrastive.json")
        seconds = {
            "training": curve.seconds or self.pipeline.seconds(f"train-{system}"),
            "translation": read_json(folder / "generate.test.json")["seconds"],
            "contrastive": items["seconds"],
        }
        return Outcome(RECIPES[system][1], curve, scores, items, seconds)


def finish(demo: Demo, systems: dict[str, Outcome], argv: list[str] | None) -> int:
    """Write results, curves and samples, print them, check them."""
    directory = demo.directory
    seconds = {name: demo.pipeline.seconds(name) for name in ("corpus", "prepare")}
    # Of systems that ran side by side, the time of the slower is the time that passed.
    together = max if demo.at_once > 1 else sum
    for name in ("train", "translate", "score", "contrastive"):
        times = [demo.pipeline.seconds(f"{name}-{key}") for key in systems]
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
    write_json(directory / "results.json", result | provenance("gtransformer.lab.cli.demo", argv))
    print(f"\n{shown}\n\n{table(systems)}\n\n{conclusion(systems, demo.updates)}\n\n{total_time(seconds)}")
    print(f"results: {directory / 'results.json'}\ncurves:  {directory / 'learning_curves.png'}", flush=True)
    for line in failed:
        print(
            f"FAILED: the G-Transformer's {line}; please report this with {directory / 'results.json'}", file=sys.stderr
        )
    return 1 if failed else 0


def show_samples(demo: Demo, systems: dict[str, Outcome]) -> str:
    """Some sentences of the test set with both translations."""
    texts = {
        name: read_plain(demo.prepared / "text" / f"test.{lang}")[0]
        for name, lang in (("source", "en"), ("reference", "de"))
    }
    translations = {system.name: read_plain(demo.directory / key / "test.txt")[0] for key, system in systems.items()}
    return samples(read_json(demo.raw / ITEMS)["items"], texts, translations)
