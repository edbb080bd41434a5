"""How a comparison is run: the programs that make what is missing."""

from __future__ import annotations

import argparse
import contextlib
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gtransformer.analysis.curves import read_curve
from gtransformer.evaluation.references import reference_option, references_of
from gtransformer.experiments.commands import call_command, python_command
from gtransformer.experiments.comparison.corpus import split_files, thin_corpus, write_split
from gtransformer.experiments.comparison.layout import PREPARED, Layout
from gtransformer.experiments.comparison.plan import Plan, TextSet, check_budget, stop_hours
from gtransformer.experiments.comparison.result import count_parameters, recipe_result, set_scores
from gtransformer.experiments.jobs import Job, run_jobs
from gtransformer.experiments.pipeline import Stages, digest
from gtransformer.experiments.progress import batch_status, last_line, say, training_status
from gtransformer.files import read_json, sha256, write_json
from gtransformer.preprocess.corpus import read_documents
from gtransformer.preprocess.parallel import available_cores
from gtransformer.tasks.checkpoint_file import trained_seconds


class Comparison(Layout):
    """A comparison, and what is about to be done in its directory."""

    def __init__(self, args: argparse.Namespace, stages: Stages, plan: Plan, sets: list[TextSet]):
        super().__init__(args, plan, sets)
        self.stages, self.changes, self.at_once = stages, list(args.set), args.jobs
        self.threads = None if torch.cuda.is_available() else max(1, available_cores() // args.jobs)
        self.begun: dict[str, Any] = {}  # settings of the jobs of this run, by name

    def run(self) -> dict[str, Any]:
        """All that is missing; returns the results by recipe."""
        self.write_corpora()
        jobs = [*self.preparations(), *self.trainings(), *self.translations()]
        run_jobs("compare", jobs, self.at_once, self.threads, self.stages.lock.fileno(), self.finished)
        self.score()
        return {name: self.result(name) for name in self.plan.recipes}

    def finished(self, job: Job, seconds: float) -> None:
        """Note that a job is done."""
        self.stages.finish(job.name, self.begun[job.name], seconds)

    def check_models(self) -> None:
        """Before anything is removed: UserError for a trained model that this comparison would have to throw away."""
        for name in self.plan.recipes:
            check_budget(self.folder(name), digest(self.model(name)), self.minutes)

    def write_corpora(self) -> None:
        """The raw corpora: fewer training documents, and of further sets the split alone."""
        if self.every > 1:
            output = self.directory / "corpus"
            work = partial(thin_corpus, self.raw, output, self.plan.languages, self.every)
            self.stages.run("corpus", self.corpus, [output], work)
        for one in self.sets[1:]:
            files = split_files(one.directory, self.plan.languages, one.split)
            output = self.directory / "sets" / one.name
            self.stages.run(
                f"set-{one.name}",
                {"files": [sha256(path) for path in files], "split": one.split},
                [output],
                lambda files=files, one=one, output=output: write_split(
                    read_documents(*files), output, self.plan.languages, one.split
                ),
            )

    def job(
        self,
        stage: str,
        settings: Any,
        outputs: list[Path],
        command: list[str],
        log: Path,
        status: Callable[[], str | None],
        after: Sequence[str],
    ) -> Job | None:
        """A job, noted as begun; None if it was done before."""
        if self.stages.is_done(stage, settings, outputs):
            return None
        self.stages.begin(stage, settings, [])
        self.begun[stage] = settings
        return Job(stage, command, log, status, after)

    def command(self, name: str, corpus: Path, stage: str, options: dict[str, Any], changes: list[str]) -> list[str]:
        """The command that runs one stage of a recipe."""
        command = python_command("gtransformer.cli.run", self.plan.arguments[name], str(corpus), stage, options)
        return command + [argument for change in changes for argument in ("--set", change)]

    def preparations(self) -> list[Job]:
        """Corpus and further sets, by every recipe that prepares."""
        jobs = []
        for name in self.plan.corpora:
            for one in self.sets:
                first = one is self.sets[0]
                lender = self.plan.lender(name) if first else name
                output = self.prepared(name, one)
                changes = list(self.changes)
                if lender:
                    changes.append(f"prepare.vocabulary={self.prepared(lender)}")
                corpus = self.training_corpus if first else self.directory / "sets" / one.name
                log = output.parent / "logs" / f"{output.name}.log"
                folder = output.parent / "logs" / output.name
                command = self.command(name, corpus, "prepare", {"output": folder, "prepared": output}, changes)
                stage, settings = f"prepare-{output.name}", self.preparing(name, one)
                status, after = partial(last_line, log), [f"prepare-{lender}"] if lender else []
                jobs.append(self.job(stage, settings, [output / "manifest.json"], command, log, status, after))
        return [job for job in jobs if job]

    def trainings(self) -> list[Job]:
        """fairseq-train for every recipe; none begins while corpora are being prepared."""
        jobs = []
        for name, recipe in self.plan.recipes.items():
            folder, start = self.folder(name), self.plan.start(recipe)
            log, best = folder / "train.log", self.best(name)
            # Minutes are the budget, so nobody stops early; curves come from the log.
            changes = ["train.patience=", "train.tensorboard-logdir=", *self.changes]
            changes += ["train.log-format=json", f"train.stop-time-hours={stop_hours(self.minutes)}"]
            if start:
                changes.append(f"train.finetune-from-model={self.start_checkpoint(name)}")
            options = {"output": folder, "prepared": self.prepared(self.plan.preparer(name))}
            command = self.command(name, self.training_corpus, "train", options, changes)
            stage, outputs = f"train-{name}", [best, log]
            after = sorted(stage for stage in self.begun if stage.startswith("prepare-"))
            after += [f"train-{start}"] if start else []
            status = partial(training_status, log, None)
            job = self.job(stage, self.training(name), outputs, command, folder / "compare.train.log", status, after)
            if job:
                self.begin_training(name)
                jobs.append(job)
        return jobs

    def begin_training(self, name: str) -> None:
        """Note the budget; what never got as far as a model is removed, and a model whose start is trained on."""
        folder, start = self.folder(name), self.plan.start(self.plan.recipes[name])
        record = {"settings": digest(self.model(name)), "minutes": self.minutes}
        record["start"] = self.minutes if start else None
        before = read_json(folder / "budget.json") if (folder / "budget.json").is_file() else {}
        if before and any(before.get(key) != record[key] for key in ("settings", "start")):
            if any((folder / "checkpoints").glob("*.pt")):
                say(f"{name}: trained again from the beginning, since {start} is trained on")
            shutil.rmtree(folder)
        write_json(folder / "budget.json", record)

    def translations(self) -> list[Job]:
        """fairseq-generate for every recipe and set."""
        jobs = []
        for name in self.plan.recipes:
            for one in self.sets:
                output = self.translation(name, one)
                log = output.parent / "compare.generate.log"
                options = {
                    "output": output.parent,
                    "prepared": self.prepared(self.plan.preparer(name), one),
                    "checkpoint": self.best(name),
                    "split": PREPARED[one.split],
                }
                changes = [*self.changes, "generate.log-format=simple", "generate.log-interval=1"]
                changes.append("generate.quiet=true")
                command = self.command(name, self.training_corpus, "generate", options, changes)
                stage, settings = f"generate-{name}-{one.name}", self.translating(name, one)
                status = partial(batch_status, log)
                after = [f"train-{name}", f"prepare-{options['prepared'].name}"]
                job = self.job(stage, settings, [output], command, log, status, after)
                if job:
                    log.unlink(missing_ok=True)  # its progress is read from there
                    jobs.append(job)
        return jobs

    def score(self) -> None:
        """BLEU of every translation against the untouched text, and as the release has it where that can be."""
        for name in self.plan.recipes:
            for one in self.sets:
                hypotheses = self.translation(name, one)
                prepared, split = self.prepared(self.plan.preparer(name), one), PREPARED[one.split]
                reference = reference_option(prepared, split, self.target(name))
                output = hypotheses.with_suffix(".scores.json")
                options = {"hypotheses": hypotheses, "split": split, "reference": reference, "metrics": "bleu"}
                options["output"] = output
                settings = {"translation": self.translating(name, one), "sha256": sha256(hypotheses)}
                # In the settings, so that an older version's scores against something else are taken anew.
                settings["references"] = references_of(reference)
                work = partial(self.score_one, prepared, options, output.with_name("score.log"))
                self.stages.run(f"score-{name}-{one.name}", settings, [output], work)

    @staticmethod
    def score_one(prepared: Path, options: dict[str, Any], log: Path) -> None:
        """Run the score command, its table going to a log."""
        with open(log, "w", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
            call_command("score", str(prepared), options)

    def result(self, name: str) -> dict[str, Any]:
        """What one recipe has achieved."""
        folder, recipe = self.folder(name), self.plan.recipes[name]
        before, earlier = [], recipe
        while first := self.plan.start(earlier):
            before.append(first)
            earlier = self.plan.recipes[first]
        spent = trained_seconds(folder / "checkpoints" / "checkpoint_last.pt")
        if start := self.start_checkpoint(name):
            spent -= trained_seconds(start)  # fairseq goes on counting from there
        log = folder / "train.log"
        result = recipe_result(recipe, read_curve(log), spent, count_parameters(log), self.minutes, before)
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
