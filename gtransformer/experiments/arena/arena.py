"""The arena: every system from one start, with one budget, on one corpus; where its files lie, and its stages."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.analysis.curves import read_curve
from gtransformer.analysis.reach_figure import draw_reach
from gtransformer.demo.reach_corpus import ITEMS, SET, write_context_items
from gtransformer.evaluation.metrics import USUAL
from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.realignment import MWER
from gtransformer.experiments.arena.beside import put_beside, read_beside
from gtransformer.experiments.arena.plan import BASELINE, DEMO, Terms
from gtransformer.experiments.arena.result import accuracies, contexts_of, scores_of, spread
from gtransformer.experiments.arena.table import arena_text
from gtransformer.experiments.commands import call_command, python_command, run_command
from gtransformer.experiments.comparison.result import count_parameters, machine
from gtransformer.experiments.jobs import shares
from gtransformer.experiments.pipeline import Pipeline, Program, Stage
from gtransformer.experiments.progress import BATCHES, batch_status, last_line, training_status
from gtransformer.experiments.recipe import Options, Recipe
from gtransformer.experiments.run import FIRST_PASS
from gtransformer.experiments.run_places import model_file
from gtransformer.files import atomic_write, read_json, write_json
from gtransformer.tasks.checkpoint_file import trained_seconds

UNLIMITED = ("train.patience=", "train.tensorboard-logdir=")  # the budget is the same for all: nobody stops early
FULL = "full"  # the strategy of who names none


class Arena:
    """An arena, and what is about to be done in its directory."""

    def __init__(self, args: argparse.Namespace, terms: Terms):
        self.terms, self.directory = terms, args.output.absolute()
        self.sizes = {key: getattr(args, key) for key in ("documents", "dev_documents", "test_documents", "items")}
        self.at_once, self.threads = shares(args.jobs)
        self.raw, self.prepared = self.directory / "corpus", self.directory / "prepared"
        self.set, self.items = self.directory / "set", self.raw / SET / ITEMS
        self.context_items = self.directory / "context_items.json"
        self.results = {end: self.directory / f"arena.{end}" for end in ("json", "txt", "png")}
        self.beside = read_beside(args.beside, self._terms(), terms.systems)
        self.pipeline = Pipeline(self.directory, "arena")
        self._add_corpus()
        self._add_start()
        for seed in terms.seeds:  # first one seed of all systems, so that what is interrupted can be compared
            for name in terms.systems:
                self._add_run(name, seed)

    def run(self) -> None:
        """All that is missing."""
        self.pipeline.run("arena", self.at_once, self.threads)

    def folder(self, name: str, seed: int | None = None) -> Path:
        """Where a system's run with one seed lies; without one, the start's."""
        return self.directory / "runs" / (name if seed is None else f"{name}-{seed}")

    def model(self, name: str, seed: int | None = None) -> Path:
        """The model of a system's run; without a seed, the start's."""
        return model_file(self.terms.recipe(name), self.folder(name, seed))

    # What is to be done

    def _add_corpus(self) -> None:
        """The generated corpus with its set, and both prepared, the set with the corpus's vocabulary."""
        sizes = {key.replace("_", "-"): value for key, value in self.sizes.items()}
        work = partial(call_command, "reach_corpus", {"output": self.raw, **sizes})
        self.pipeline.add(Stage("corpus", sizes, [self.raw / "corpus.json", self.raw], work, folder=self.raw))
        options, after = self.terms.recipe(self.terms.start).preparing(), ["corpus"]
        for raw, output, changes in (
            (self.raw, self.prepared, []),
            (self.raw / SET, self.set, [f"prepare.vocabulary={self.prepared}"]),
        ):
            name, folder = f"prepare-{output.name}", self.directory / "logs" / output.name
            command = self._command(self.terms.start, raw, "prepare", folder, output, changes)
            log = folder.with_suffix(".log")
            work = Program(command, log, partial(last_line, log))
            self.pipeline.add(Stage(name, options, [output / "manifest.json", output], work, after, folder=output))
            after = [name]
        work = partial(write_context_items, self.raw, self.context_items)
        self.pipeline.add(Stage("context-items", {}, [self.context_items], work, ["corpus"]))

    def _add_start(self) -> None:
        """The sentence model that all systems start from."""
        name = self.terms.start
        recipe, folder, own = self.terms.recipe(name), self.folder(name), self.terms.own_changes(name, None)
        command = self._command(name, self.raw, "train", folder, self.prepared, [*UNLIMITED, *own])
        self._add_training(folder, recipe, own, command, self.terms.updates_of_start(), ["prepare-prepared"])

    def _add_run(self, name: str, seed: int) -> None:
        """One system with one seed: fine-tuned, translating, scored, and asked for its contrastive choices."""
        folder, start, recipe = self.folder(name, seed), self.folder(self.terms.start), self.terms.recipe(name)
        run, own = folder.name, self.terms.own_changes(name, seed)
        started = f"train.finetune-from-model={self.model(self.terms.start)}"
        changes = [*UNLIMITED, *own, started]
        command = self._command(name, self.raw, "train", folder, self.prepared, changes)
        self._add_training(folder, recipe, own, command, self.terms.updates, [f"train-{start.name}"], ["prepare-set"])
        log = folder / "arena.translate.log"
        changes = [*BATCHES, *([started] if FIRST_PASS in recipe.sections["generate"] else [])]
        command = self._command(name, self.raw, "generate", folder, self.prepared, changes)
        work, outputs = Program(command, log, partial(batch_status, log)), [folder / "test.jsonl"]
        translation = Stage(f"translate-{run}", recipe.options("generate"), outputs, work, [f"train-{run}"])
        output = folder / "test.scores.json"
        work, after = partial(self._score, folder, output, recipe.options("score")), [translation.name]
        scoring = Stage(f"score-{run}", recipe.options("score"), [output], work, after)
        log, output = folder / "arena.contrastive.log", folder / "contrastive.json"
        options = {"path": self.model(name, seed), "items": self.items, "output": output}
        command = python_command("gtransformer.cli.contrastive", str(self.set), options)
        work, after = Program(command, log, partial(batch_status, log)), [f"train-{run}", "prepare-set"]
        self.pipeline.add(translation, scoring, Stage(f"contrastive-{run}", {}, [output], work, after))
        self._add_metrics(folder, self.model(name, seed), recipe.options("score"))

    def _add_metrics(self, folder: Path, model: Path, scoring: Options) -> None:
        """Of a run: scores over sentences whatever their number, accuracy of what was translated, and CXMI."""
        run, translated = folder.name, f"translate-{folder.name}"
        output, options = folder / "test.aligned.json", {**scoring, "metrics": list(USUAL), "align": MWER}
        work = partial(self._score, folder, output, {**options, "text": output.with_suffix(".txt")})
        aligned = Stage(f"align-{run}", options, [output], work, [translated])
        output = folder / "generative.json"
        options = {"items": self.context_items, "hypotheses": folder / "test.jsonl", "align": MWER, "output": output}
        work = partial(self._quietly, "generative", options)
        generative = Stage(f"generative-{run}", {"align": MWER}, [output], work, [translated, "context-items"])
        log, output = folder / "arena.cxmi.log", folder / "cxmi.json"
        command = python_command("gtransformer.cli.cxmi", str(self.prepared), {"path": model, "output": output})
        work = Program(command, log, partial(batch_status, log))
        self.pipeline.add(aligned, generative, Stage(f"cxmi-{run}", {}, [output], work, [f"train-{run}"]))

    def _add_training(
        self,
        folder: Path,
        recipe: Recipe,
        own: list[str],
        command: list[str],
        updates: int | None,
        after: list[str],
        waits_for: Sequence[str] = (),
    ) -> None:
        """fairseq-train; ``own``: what of the command no recipe says, but for where files lie."""
        settings = {"options": recipe.options("task", "train"), "devices": recipe.devices, "own": own}
        log = folder / "train.log"
        work = Program(command, folder / "arena.train.log", partial(training_status, log, updates), keeps_log=True)
        outputs, name = [model_file(recipe, folder), log], f"train-{folder.name}"
        self.pipeline.add(Stage(name, settings, outputs, work, after, waits_for, folder=folder, precious=True))

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

    # What came out

    def collect(self) -> dict[str, Any]:
        """The results of all systems, as in ``arena.json``."""
        terms = self.terms
        choices = {name: [self._choices(name, seed) for seed in terms.seeds] for name in terms.systems}
        written = {name: [self._written(name, seed) for seed in terms.seeds] for name in terms.systems}
        systems = {}
        for name in terms.systems:
            baseline, beside = (None if name == BASELINE else found[BASELINE] for found in (choices, written))
            scores, seconds = ([get(name, seed) for seed in terms.seeds] for get in (self._scores, self._seconds))
            aligned, cxmi = (
                [read_json(self.folder(name, seed) / file) for seed in terms.seeds]
                for file in ("test.aligned.json", "cxmi.json")
            )
            systems[name] = {
                "description": terms.recipe(name).description,
                "strategy": terms.recipe(name).options("task", "generate").get("strategy", FULL),
                "parameters": count_parameters(self.folder(name, terms.seeds[0]) / "train.log"),
                "scores": scores_of(scores),
                "aligned": scores_of(aligned),
                "accuracy": accuracies(choices[name], baseline),
                "generative": accuracies(written[name], beside),
                "cxmi": contexts_of(cxmi),
                "validation_perplexity": [
                    read_curve(self.folder(name, seed) / "train.log").last_valid for seed in terms.seeds
                ],
                "seconds": seconds,
                "speed": {
                    "updates_per_second": spread([terms.updates / max(one["training"], 0.1) for one in seconds]),
                    "sentences_per_second": spread(
                        [
                            run["counts"]["sentences"] / one["translation"]
                            for run, one in zip(scores, seconds, strict=True)
                        ]
                    ),
                },
            }
        own = {"machine": machine(), "jobs": self.at_once, "threads": self.threads, "systems": systems}
        return put_beside({"version": 1, **self._terms(), **own}, self.beside)

    def _terms(self) -> dict[str, Any]:
        """What the systems of two arenas must have in common to be compared."""
        terms = self.terms
        return {
            "corpus": {"name": DEMO, **self.sizes},
            "seeds": list(terms.seeds),
            "updates": terms.updates,
            "start": {"recipe": terms.start, "updates": terms.updates_of_start()},
            "baseline": BASELINE,
            "changes": list(terms.changes),
        }

    def finish(self, argv: list[str] | None) -> None:
        """Write the results, their table and the picture, and print the table."""
        result = self.collect()
        shown = arena_text(result)
        with atomic_write(self.results["txt"]) as stream:
            stream.write(shown + "\n")
        draw_reach(result, self.results["png"])
        write_json(self.results["json"], result | provenance("gtransformer.cli.arena", argv))
        print(f"\n{shown}\n")
        for path in self.results.values():
            print(f"written: {path}", flush=True)

    def _choices(self, name: str, seed: int) -> list[dict[str, Any]]:
        return read_json(self.folder(name, seed) / "contrastive.json")["items"]

    def _written(self, name: str, seed: int) -> list[dict[str, Any]]:
        (found,) = read_json(self.folder(name, seed) / "generative.json")["systems"].values()
        return found["outcomes"]

    def _scores(self, name: str, seed: int) -> dict[str, Any]:
        return read_json(self.folder(name, seed) / "test.scores.json")

    def _seconds(self, name: str, seed: int) -> dict[str, float]:
        folder = self.folder(name, seed)
        last = folder / "checkpoints" / "checkpoint_last.pt"
        return {
            # fairseq goes on counting from the start's.
            "training": round(trained_seconds(last) - trained_seconds(self.model(self.terms.start)), 1),
            "translation": read_json(folder / "generate.test.json")["seconds"],
            "contrastive": read_json(folder / "contrastive.json")["seconds"],
        }
