"""The demonstration: two systems learn from the same documents with the same budget, are scored and compared."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import torch

from gtransformer.errors import UserError, check_counts
from gtransformer.evaluation.provenance import device_name, provenance
from gtransformer.evaluation.references import TOGETHER
from gtransformer.files import atomic_write, read_json, write_json
from gtransformer.lab.analysis.curves import plot_learning_curves, read_curve
from gtransformer.lab.comparison.demonstration_report import Outcome, conclusion, failed_checks, samples, table
from gtransformer.lab.demo.corpus import ITEMS
from gtransformer.lab.planner import ModelMeasure, PlannedRun, Planner, Translation
from gtransformer.modules.processor import trains_faster_in_bfloat16
from gtransformer.preprocess.parallel import available_cores
from gtransformer.preprocess.plain_text import read_plain
from gtransformer.run.commands import call_command
from gtransformer.run.pipeline import Stage, say_done
from gtransformer.run.progress import say
from gtransformer.run.recipe import Recipe, load_recipe
from gtransformer.run.recipe_check import check_recipe
from gtransformer.run.run_places import runs_directory
from gtransformer.tasks.training import spoken

DOCUMENTS, TEST_DOCUMENTS = 500, 24
RECIPES = {"gtransformer": ("demo", "G-Transformer"), "transformer": ("demo_full", "Transformer over the document")}
STEPS = ("train", "translate", "score", "contrastive")


class Demo(Planner):
    """One demonstration, and what is about to be done in its directory."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args.output or runs_directory() / "demo", "demonstration")
        check_counts(args, "documents", "test_documents", "max_update")
        full = int(load_recipe(RECIPES["gtransformer"][0]).sections["train"]["max-update"])
        self.changes = [f"train.max-update={args.max_update}"] if args.max_update else []
        if (args.max_update or 0) > full:
            # A smaller budget is the beginning of the full one; in a larger one the learning rate decays later.
            self.changes.append(f"train.total-num-update={args.max_update}")
        if not torch.cuda.is_available() and trains_faster_in_bfloat16():
            self.changes.append("train.autocast=bfloat16")
        self.changes += args.set
        systems = ["gtransformer"] if args.skip_baseline else list(RECIPES)
        self.recipes = {system: load_recipe(RECIPES[system][0], self.changes) for system in systems}
        for recipe in self.recipes.values():
            check_recipe(recipe, ["prepare", "train", "generate"])
        train = self.recipes["gtransformer"].sections["train"]
        self.updates, self.bfloat16 = int(train["max-update"]), train.get("autocast") == "bfloat16"
        self.sizes = {"documents": args.documents, "test_documents": args.test_documents}
        self.full_budget = args.documents >= DOCUMENTS and self.updates >= full
        self.raw, self.prepared = self.directory / "corpus", self.directory / "prepared"
        self.results, self.curves = self.directory / "results.json", self.directory / "learning_curves.png"
        # On the CPU two programs with half of the cores each are faster than one after the other with all of them.
        cores = available_cores()
        self.at_once = len(systems) if cores > 1 and not torch.cuda.is_available() else 1
        self.threads = max(1, cores // self.at_once)
        options = {"output": self.raw, **{key.replace("_", "-"): value for key, value in self.sizes.items()}}
        self.add("corpus", self.sizes, [self.raw], partial(call_command, "lab.cli.demo_corpus", options))
        recipe, settings = RECIPES["gtransformer"][0], self.recipes["gtransformer"].options("prepare")
        self.add_corpus(recipe, self.raw, self.prepared, settings, ["corpus"], self.changes, "prepare")
        self.add_runs([self._run(name, recipe) for name, recipe in self.recipes.items()], by_step=True, wait=True)

    def _run(self, system: str, recipe: Recipe) -> PlannedRun:
        return PlannedRun(
            system,
            recipe,
            RECIPES[system][0],
            self.raw,
            self.prepared,
            self.directory / system,
            self.changes,
            [*self.changes, "train.log-format=json"],
            after=["prepare"],
            updates=self.updates,
            precious=False,
            measures=[
                Translation(),
                self._scores,
                ModelMeasure("contrastive", "cli.contrastive", self.prepared, {"items": self.raw / ITEMS}),
            ],
        )

    def _scores(self, run: PlannedRun) -> Stage:
        """Return all scores, against the untouched text and as the release has them."""
        options = {"hypotheses": run.folder / "test.jsonl", "reference": "both"}
        work = partial(call_command, "score", str(self.prepared), options)
        # The references are settings, so that an older version's scores against others are taken anew.
        outputs = [run.folder / "test.scores.json", run.folder / "test.txt"]
        return Stage(f"score-{run.name}", {"references": TOGETHER}, outputs, work, [f"translate-{run.name}"])

    def run(self) -> None:
        """All stages that are not done."""
        threads = None if torch.cuda.is_available() else self.threads
        self.pipeline.run("demonstration", self.at_once, threads, finished=self.finished)

    def finished(self, stage: Stage, seconds: float) -> None:
        """Say that a stage is done, and what a corpus that has just been prepared holds."""
        if stage.name == "prepare":
            for split, count in read_json(self.prepared / "manifest.json")["splits"].items():
                sizes = ", ".join(f"{count[unit]} {unit}" for unit in ("sentences", "documents", "instances"))
                say(f"  {split}: {sizes}")
        say_done(stage, seconds)

    def outcome(self, system: str) -> Outcome:
        """Return what the stages have left for one system."""
        folder = self.directory / system
        curve = read_curve(folder / "train.log")
        if not curve.valid:
            raise UserError(f"{folder / 'train.log'}: no validation in it; remove {folder} and start again")
        scores, items = read_json(folder / "test.scores.json"), read_json(folder / "contrastive.json")
        seconds = {
            "training": curve.seconds or self.pipeline.seconds(f"train-{system}"),
            "translation": read_json(folder / "generate.test.json")["seconds"],
            "contrastive": items["seconds"],
        }
        return Outcome(RECIPES[system][1], curve, scores, items, seconds)

    def step_seconds(self, systems: dict[str, Outcome]) -> dict[str, float]:
        """Return how long each step took: of systems that ran side by side as long as the slower one."""
        seconds = {name: self.pipeline.seconds(name) for name in ("corpus", "prepare")}
        for step in STEPS:
            times = [self.pipeline.seconds(f"{step}-{system}") for system in systems]
            if step == "train":  # the stage knows its last run only, the log all resumptions
                logged = [system.seconds["training"] for system in systems.values()]
                times = list(map(max, times, logged))
            seconds[step] = max(times) if self.at_once > 1 and step != "score" else sum(times)
        return seconds

    def samples(self, systems: dict[str, Outcome]) -> str:
        """Return some sentences of the test set with all translations."""
        text = self.prepared / "text"
        texts = {name: read_plain(text / f"test.{lang}")[0] for name, lang in (("source", "en"), ("reference", "de"))}
        found = {system.name: read_plain(self.directory / key / "test.txt")[0] for key, system in systems.items()}
        return samples(read_json(self.raw / ITEMS)["items"], texts, found)

    def finish(self, argv: list[str] | None) -> int:
        """Write results, curves and samples, print them, check them; 1 if the G-Transformer falls short."""
        systems = {system: self.outcome(system) for system in self.recipes}
        failed = failed_checks(systems["gtransformer"]) if self.full_budget else []
        seconds, shown = self.step_seconds(systems), self.samples(systems)
        with atomic_write(self.directory / "samples.txt") as stream:
            stream.write(shown + "\n")
        curves = {system.name: system.curve for system in systems.values()}
        plot_learning_curves(curves, self.curves, "Demonstration corpus: perplexity while training")
        result: dict[str, Any] = {
            "version": 1,
            "settings": {**self.sizes, "max_update": self.updates, "changes": self.changes},
            "device": device_name(),
            "side_by_side": self.at_once,
            "threads": self.threads,
            "systems": {key: system.to_json() for key, system in systems.items()},
            "seconds": seconds,
            "full_budget": self.full_budget,
            "failed": failed,
        }
        write_json(self.results, result | provenance("gtransformer.lab.cli.demo", argv))
        each = ", ".join(f"{name} {spoken(value)}" for name, value in seconds.items())
        print(f"\n{shown}\n\n{table(systems)}\n\n{conclusion(systems, self.updates)}\n")
        print(f"time: {spoken(sum(seconds.values()))} ({each})")
        print(f"results: {self.results}\ncurves:  {self.curves}", flush=True)
        for line in failed:
            print(f"FAILED: the G-Transformer's {line}; please report this with {self.results}", file=sys.stderr)
        return 1 if failed else 0
