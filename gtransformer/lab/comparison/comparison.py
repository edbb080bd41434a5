"""A comparison: where its files lie, its stages, and what one recipe has achieved."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.evaluation.provenance import provenance
from gtransformer.evaluation.references import TOGETHER, reference_option
from gtransformer.files import read_json, sha256, write_json
from gtransformer.lab.analysis.curves import plot_learning_curves, read_curve
from gtransformer.lab.comparison.corpus import RAW, split_files, thin_corpus, write_split
from gtransformer.lab.comparison.plan import Plan, TextSet, outside_files, stop_hours
from gtransformer.lab.comparison.result import (
    comparison_table,
    count_parameters,
    machine,
    recipe_result,
    set_scores,
)
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.parallel import available_cores
from gtransformer.run.commands import call_command, run_command
from gtransformer.run.jobs import shares
from gtransformer.run.pipeline import Pipeline, Program, Stage
from gtransformer.run.progress import BATCHES, batch_status, last_line, training_status
from gtransformer.run.run_places import last_checkpoint, model_file, training_outputs, translation_outputs
from gtransformer.tasks.checkpoint_file import trained_seconds

PREPARED = {raw: prepared for prepared, raw in RAW.items()}


class Comparison:
    """A comparison, and what is about to be done in its directory."""

    def __init__(self, args: argparse.Namespace, plan: Plan, sets: list[TextSet]):
        self.plan, self.directory, self.sets = plan, args.output.absolute(), sets
        self.raw, self.every, self.minutes, self.changes = sets[0].directory, args.every, args.minutes, list(args.set)
        self.start_minutes = args.minutes if args.start_minutes is None else args.start_minutes
        self.at_once, self.threads = shares(args.jobs)
        self.start_threads = self.threads and (available_cores() if self.plan.common_start else self.threads)
        self.results, self.curves = (args.output / name for name in ("comparison.json", "learning_curves.png"))
        self.pipeline = Pipeline(self.directory, "comparison")
        self._add_corpora()
        self._add_preparations()
        self._add_trainings()
        self._add_translations()
        self._add_scores()

    def run(self) -> dict[str, Any]:
        """All that is missing; returns the results by recipe."""
        self.pipeline.run("compare", self.at_once, self.threads)
        return {name: self.result(name) for name in self.plan.recipes}

    # Where things lie

    @property
    def training_corpus(self) -> Path:
        """The raw corpus that is trained on."""
        return self.directory / "corpus" if self.every > 1 else self.raw

    def prepared(self, name: str, one: TextSet | None = None) -> Path:
        """The corpus prepared by recipe ``name``; that of a further set."""
        flat = name.replace("/", "-")
        return self.directory / "prepared" / (flat if one in (None, self.sets[0]) else f"{flat}.{one.name}")

    def folder(self, name: str) -> Path:
        """A recipe's run."""
        return self.directory / "runs" / name

    def model(self, name: str) -> Path:
        """The model of a recipe's run."""
        return model_file(self.plan.recipes[name], self.folder(name))

    def budget(self, name: str) -> float:
        """A recipe's minutes of training."""
        return self.start_minutes if name in self.plan.starts else self.minutes

    def start_checkpoint(self, name: str) -> Path | None:
        """The checkpoint that a recipe's training starts from: another recipe's model, or one from outside."""
        recipe = self.plan.recipes[name]
        if first := self.plan.start(recipe):
            return self.model(first)
        outside = recipe.sections["train"].get("finetune-from-model")
        return Path(str(outside)) if outside else None

    def translation(self, name: str, one: TextSet) -> Path:
        """A recipe's translation of a set."""
        return self.folder(name) / one.name / f"{PREPARED[one.split]}.jsonl"

    # What is to be done

    def _add_corpora(self) -> None:
        """The raw corpora: fewer training documents, and of further sets the split alone."""
        pair = self.plan.languages
        files = [path for split in RAW.values() for path in split_files(self.raw, pair, split)]
        self.corpus = {"every": self.every, "files": {path.name: sha256(path) for path in files}}
        if self.every > 1:
            output = self.training_corpus
            work = partial(thin_corpus, self.raw, output, pair, self.every)
            self.pipeline.add(Stage("corpus", self.corpus, [output], work))
        for one in self.sets[1:]:
            files = split_files(one.directory, pair, one.split)
            output = self.directory / "sets" / one.name
            work = partial(_write_set, files, output, pair, one.split)
            settings = {"files": [sha256(path) for path in files], "split": one.split}
            self.pipeline.add(Stage(f"set-{one.name}", settings, [output], work))

    def _add_preparations(self) -> None:
        """Corpus and further sets, by every recipe that prepares."""
        for name, recipe in self.plan.corpora.items():
            for one in self.sets:
                first = one is self.sets[0]
                lender = self.plan.lender(name) if first else name
                output, changes = self.prepared(name, one), list(self.changes)
                after = [f"prepare-{self.prepared(lender).name}"] if lender else []
                if lender:
                    changes.append(f"prepare.vocabulary={self.prepared(lender)}")
                if first:
                    corpus = self.training_corpus
                    settings = {"corpus": self.corpus, "options": recipe.options("prepare")}
                    settings |= {"task": recipe.options("task"), "files": outside_files(recipe.options("prepare"))}
                    after += ["corpus"] if self.every > 1 else []
                else:
                    corpus, settings = self.directory / "sets" / one.name, {}  # it is prepared as the lender's is
                    after.append(f"set-{one.name}")
                log, folder = (output.parent / "logs" / f"{output.name}{end}" for end in (".log", ""))
                command = run_command(
                    self.plan.arguments[name], corpus, "prepare", {"output": folder, "prepared": output}, changes
                )
                work = Program(command, log, partial(last_line, log))
                outputs = [output / "manifest.json", output]
                self.pipeline.add(Stage(f"prepare-{output.name}", settings, outputs, work, after, folder=output))

    def _add_trainings(self) -> None:
        """fairseq-train for every recipe; none begins while corpora are being prepared."""
        preparations = [name for name in self.pipeline.stages if name.startswith("prepare-")]
        for name, recipe in self.plan.recipes.items():
            folder, start, preparer = self.folder(name), self.plan.start(recipe), self.plan.preparer(name)
            # Minutes are the budget, so nobody stops early; curves come from the log.
            changes = ["train.patience=", "train.tensorboard-logdir=", *self.changes]
            changes += ["train.log-format=json", f"train.stop-time-hours={stop_hours(self.budget(name))}"]
            if start:
                changes.append(f"train.finetune-from-model={self.start_checkpoint(name)}")
            prepared = self.prepared(preparer)
            options = {"output": folder, "prepared": prepared}
            command = run_command(self.plan.arguments[name], self.training_corpus, "train", options, changes)
            log = folder / "train.log"
            settings = {
                "options": recipe.options("task", "train"),
                "files": outside_files(recipe.options("train")),
                "devices": recipe.devices,
            }
            stage = Stage(
                f"train-{name}",
                settings,
                outputs=training_outputs(recipe, folder),
                work=Program(
                    command,
                    folder / "compare.train.log",
                    partial(training_status, log, None),
                    keeps_log=True,
                    alone=name == self.plan.common_start,
                ),
                after=[f"prepare-{prepared.name}", *([f"train-{start}"] if start else [])],
                waits_for=preparations,
                budget=self.budget(name),
                folder=folder,
                precious=True,
            )
            self.pipeline.add(stage)

    def _add_translations(self) -> None:
        """fairseq-generate for every recipe and set."""
        for name, recipe in self.plan.recipes.items():
            for one in self.sets:
                output, prepared = self.translation(name, one), self.prepared(self.plan.preparer(name), one)
                log = output.parent / "compare.generate.log"
                options = {"output": output.parent, "prepared": prepared, "checkpoint": self.model(name)}
                options["split"] = PREPARED[one.split]
                changes = [*self.changes, *BATCHES]
                command = run_command(self.plan.arguments[name], self.training_corpus, "generate", options, changes)
                work = Program(command, log, partial(batch_status, log))
                after = [f"train-{name}", f"prepare-{prepared.name}"]
                stage = f"generate-{name}-{one.name}"
                outputs = translation_outputs(output.parent, PREPARED[one.split])
                self.pipeline.add(Stage(stage, recipe.options("generate"), outputs, work, after))

    def _add_scores(self) -> None:
        """BLEU of every translation against the untouched text, and as the release has it where that can be."""
        for name in self.plan.recipes:
            for one in self.sets:
                output = self.translation(name, one).with_suffix(".scores.json")
                # In the settings, so that an older version's scores against something else are taken anew.
                settings, after = {"references": TOGETHER}, [f"generate-{name}-{one.name}"]
                work = partial(self.score, name, one, output)
                self.pipeline.add(Stage(f"score-{name}-{one.name}", settings, [output], work, after))

    def score(self, name: str, one: TextSet, output: Path) -> None:
        """Run the score command, its table going to a log."""
        prepared, split = self.prepared(self.plan.preparer(name), one), PREPARED[one.split]
        # As the corpora of a recipe call it: mBART's de_DE.
        target = str(self.plan.recipes[name].sections["task"].get("target-lang", "de"))
        options = {"hypotheses": self.translation(name, one), "split": split, "metrics": "bleu", "output": output}
        options["reference"] = reference_option(prepared, split, target)
        with open(output.with_name("score.log"), "w", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
            call_command("score", str(prepared), options)

    # What came out

    def result(self, name: str) -> dict[str, Any]:
        """What one recipe has achieved."""
        folder, recipe = self.folder(name), self.plan.recipes[name]
        before, earlier = {}, recipe
        while first := self.plan.start(earlier):
            before[first] = self.budget(first)
            earlier = self.plan.recipes[first]
        spent = trained_seconds(last_checkpoint(folder))
        if start := self.start_checkpoint(name):
            spent -= trained_seconds(start)  # fairseq goes on counting from there
        log = folder / "train.log"
        result = recipe_result(recipe, read_curve(log), spent, count_parameters(log), self.budget(name), before)
        for one in self.sets:
            record = self.translation(name, one).with_name(f"generate.{PREPARED[one.split]}.json")
            result["seconds"][f"generate {one.name}"] = read_json(record)["seconds"]
            result["scores"][one.name] = set_scores(read_json(self.translation(name, one).with_suffix(".scores.json")))
        return result

    def sizes(self) -> dict[str, Any]:
        """Sentences, documents and instances of what was trained on and translated, by preparing recipe."""
        return {
            self.prepared(name, one).name: {
                split: {unit: counts[unit] for unit in ("documents", "sentences", "instances")}
                for split, counts in read_json(self.prepared(name, one) / "manifest.json")["splits"].items()
            }
            for name in self.plan.corpora
            for one in self.sets
        }

    def finish(self, recipes: dict[str, Any], argv: list[str] | None) -> None:
        """Write the results and the learning curves, and print the table."""
        curves = {name: read_curve(self.folder(name) / "train.log") for name in recipes}
        title = f"{self.sets[0].corpus}: perplexity while training, {self.minutes:g} minutes each"
        if self.start_minutes != self.minutes:
            title += f", starts {self.start_minutes:g}"
        plot_learning_curves(curves, self.curves, title)
        result = {
            "version": 1,
            "corpus": {"name": self.sets[0].corpus, "every": self.every},
            "minutes": self.minutes,
            "start_minutes": self.start_minutes if self.plan.starts else None,
            "jobs": self.at_once,
            "threads": self.threads,
            "start_threads": self.start_threads,
            "changes": self.changes,
            "machine": machine(),
            "sets": {one.name: {key: str(value) for key, value in asdict(one).items()} for one in self.sets},
            "sizes": self.sizes(),
            "recipes": recipes,
        }
        write_json(self.results, result | provenance("gtransformer.lab.cli.compare", argv))
        print(f"\n{comparison_table(recipes, [one.name for one in self.sets])}\n")
        print(f"results: {self.results}\ncurves:  {self.curves}", flush=True)


def _write_set(files: tuple[Path, Path], output: Path, pair: tuple[str, str], split: str) -> None:
    write_split(read_documents(*files), output, pair, split)
