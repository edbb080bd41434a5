"""A comparison of recipes: each is trained for the same number of minutes, then translates the test set."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError, check_counts
from gtransformer.evaluation.references import TOGETHER, reference_option
from gtransformer.evaluation.text_table import align
from gtransformer.files import read_json, read_lines, write_json
from gtransformer.lab.analysis.curves import Curve, plot_learning_curves, read_curve
from gtransformer.lab.pipeline import Stage, shares
from gtransformer.lab.planner import (
    UNLIMITED,
    PlannedRun,
    Planner,
    Translation,
    call_quietly,
    machine,
    refuse_own,
    stop_hours,
)
from gtransformer.lab.recipe_set import RecipeSet, outside_files, raw_digests
from gtransformer.lab.recipes import max_sentences
from gtransformer.preprocess.parallel import available_cores
from gtransformer.provenance import provenance
from gtransformer.run.paths import corpus_directory, model_file
from gtransformer.run.recipe import Recipe

OWN_OPTIONS = {  # recipe options that a comparison sets itself, and what they come from
    "train.log-format": "no option; curves are read from the log",
    "train.stop-time-hours": "--minutes",
    "score.": "no option; all are scored alike",
}
BLEU = ("s_bleu", "d_bleu", "d_bleu_instance")


class Comparison(Planner):
    """A comparison and its stages in a directory. Raises UserError for an invalid command line."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args.output, "comparison")
        for option in ("minutes", "start_minutes"):
            value = getattr(args, option)
            if value is not None and not 0.01 <= value < math.inf:
                raise UserError(f"--{option.replace('_', '-')} {value:g}: give a number, at least 0.01")
        check_counts(args, "jobs")
        self.changes, self.minutes = list(args.set), args.minutes
        refuse_own(self.changes, OWN_OPTIONS)
        self.recipe_set = RecipeSet([name for name in args.recipes.split(",") if name], self.changes)
        self.recipes = self.recipe_set.recipes
        self.start_minutes = args.minutes if args.start_minutes is None else args.start_minutes
        if args.start_minutes is not None and not self.recipe_set.starts:
            raise UserError(f"--start-minutes: none of {args.recipes} starts from another of them; leave it out")
        self.raw = corpus_directory(args.corpus)
        self.corpus = self.raw.resolve().name
        self.at_once, self.threads = shares(args.jobs)
        alone = self.threads and self.recipe_set.common_start
        self.start_threads = available_cores() if alone else self.threads
        self.results, self.curves = args.output / "comparison.json", args.output / "learning_curves.png"
        self._add_prepared()
        self.runs = {name: self._run(name) for name in self.recipes}
        self.add_runs(list(self.runs.values()), by_step=True)

    # Stages

    def prepared(self, name: str) -> Path:
        """Return the corpus prepared by recipe ``name``."""
        return self.directory / "prepared" / name.replace("/", "-")

    def budget(self, name: str) -> float:
        """Return a recipe's minutes of training."""
        return self.start_minutes if name in self.recipe_set.starts else self.minutes

    def _add_prepared(self) -> None:
        """Add the corpus, prepared by every preparing recipe."""
        files = raw_digests(self.raw, self.recipe_set.languages)
        for name, recipe in self.recipe_set.corpora.items():
            changes, after = list(self.changes), []
            options = recipe.options("prepare")
            settings = {"corpus": files, "options": options, "task": recipe.options("task")}
            settings |= {"files": outside_files(options)}
            self.add_corpus(self.recipe_set.arguments[name], self.raw, self.prepared(name), settings, after, changes)

    def _run(self, name: str) -> PlannedRun:
        """Return a recipe's run; its training starts after all corpora are prepared."""
        recipe, first = self.recipes[name], self.recipe_set.start(self.recipes[name])
        start = self.start_checkpoint(name)  # translating may make a first pass with it, too
        prepared = self.prepared(self.recipe_set.preparer(name))
        training = [*UNLIMITED, *self.changes, "train.log-format=json"]
        training.append(f"train.stop-time-hours={stop_hours(self.budget(name))}")
        if first:
            training.append(f"train.finetune-from-model={start}")
        settings = {"options": recipe.options("task", "train"), "files": outside_files(recipe.options("train"))}
        alone = name == self.recipe_set.common_start
        if self.at_once > 1 and not alone:  # a minute is worth less processor time
            settings["threads"] = self.threads
        return PlannedRun(
            name,
            recipe,
            self.recipe_set.arguments[name],
            self.raw,
            prepared,
            self.folder(name),
            self.changes,
            training,
            settings | {"devices": recipe.devices},
            after=[f"prepare-{prepared.name}", *([f"train-{first}"] if first else [])],
            waits_for=[stage for stage in self.pipeline.stages if stage.startswith("prepare-")],
            minutes=self.budget(name),
            alone=alone,
            measures=[Translation([f"train.finetune-from-model={start}"] if start else ()), self._score],
        )

    def folder(self, name: str) -> Path:
        """Return the folder of a recipe's run."""
        return self.directory / "runs" / name

    def start_checkpoint(self, name: str) -> Path | None:
        """Return the checkpoint that a recipe's training starts from: another recipe's model, or an external one."""
        recipe = self.recipes[name]
        if first := self.recipe_set.start(recipe):
            return model_file(self.recipes[first], self.folder(first))
        outside = recipe.sections["train"].get("finetune-from-model")
        return Path(str(outside)) if outside else None

    def _score(self, run: PlannedRun) -> Stage:
        """Return the stage of a translation's BLEU against the untouched text, and as in the release if possible."""
        output = run.folder / "test.scores.json"
        # In the settings, so that an older version's scores against other references are recomputed.
        settings, work = {"references": TOGETHER}, partial(self.score, run, output)
        return Stage(f"score-{run.name}", settings, [output], work, [f"translate-{run.name}"])

    def score(self, run: PlannedRun, output: Path) -> None:
        """Run the score command; its references are known only after preparation."""
        reference = reference_option(run.prepared, "test", run.recipe.pair[1])
        options = {"hypotheses": run.folder / "test.jsonl", "split": "test", "metrics": "bleu", "output": output}
        call_quietly("score", run.prepared, options | {"reference": reference})

    # Results

    def result(self, name: str) -> dict[str, Any]:
        """Return the result of one recipe."""
        folder, recipe = self.folder(name), self.recipes[name]
        before, earlier = {}, recipe
        while first := self.recipe_set.start(earlier):
            before[first] = self.budget(first)
            earlier = self.recipes[first]
        log = folder / "train.log"
        result = recipe_result(recipe, read_curve(log), count_parameters(log), self.budget(name), before)
        test = f"{self.corpus}_test"
        result["seconds"][f"generate {test}"] = read_json(folder / "generate.test.json")["seconds"]
        result["scores"][test] = set_scores(read_json(folder / "test.scores.json"))
        return result

    def sizes(self) -> dict[str, Any]:
        """Return numbers of sentences, documents and instances in training and translation, by preparing recipe."""
        found = {}
        for folder in map(self.prepared, self.recipe_set.corpora):
            found[folder.name] = {
                split: {unit: counts[unit] for unit in ("documents", "sentences", "instances")}
                for split, counts in read_json(folder / "manifest.json")["splits"].items()
            }
        return found

    def finish(self, argv: list[str] | None) -> None:
        """Write the results and the learning curves, and print the table."""
        recipes = {name: self.result(name) for name in self.recipes}
        curves = {name: read_curve(self.folder(name) / "train.log") for name in recipes}
        title = f"{self.corpus}: perplexity during {self.minutes:g} minutes of training each"
        if self.start_minutes != self.minutes:
            title += f", {self.start_minutes:g} minutes for the start"
        plot_learning_curves(curves, self.curves, title)
        result = {
            "version": 1,
            "corpus": {"name": self.corpus},
            "minutes": self.minutes,
            "start_minutes": self.start_minutes if self.recipe_set.starts else None,
            "jobs": self.at_once,
            "threads": self.threads,
            "start_threads": self.start_threads,
            "changes": self.changes,
            "machine": machine(),
            "sizes": self.sizes(),
            "recipes": recipes,
        }
        write_json(self.results, result | provenance("lab compare", argv))
        print(f"\n{comparison_table(recipes)}\n")
        print(f"results: {self.results}\ncurves:  {self.curves}", flush=True)


def recipe_result(
    recipe: Recipe, curve: Curve, parameters: int | None, minutes: float, before: Mapping[str, float]
) -> dict[str, Any]:
    """Return one recipe's training as a JSON object, without scores.

    Args:
        parameters: number of the model's, with shared embeddings counted once.
        minutes: the budget.
        before: the recipes that this one's model started from, directly or indirectly, with their budgets.
    """
    those = ", ".join(f"{spent:g} of {name}" for name, spent in before.items())
    notes = [f"fine-tuned: its {minutes:g} minutes are on top of {those}"] if before else []
    ends = [key for key in ("max-update", "max-epoch") if recipe.sections["train"].get(key)]
    if ends and curve.seconds < 0.95 * 60 * minutes:
        notes.append(f"trained for {curve.seconds / 60:.1f} of {minutes:g} minutes: it ends by {' or '.join(ends)}")
    best = None if recipe.averaged else curve.best  # an average of checkpoints was not validated
    return {
        "description": recipe.description,
        "doc_mode": recipe.sections["task"].get("doc-mode"),
        "sentences_per_instance": max_sentences(recipe) or "as many as fit",
        "minutes": minutes,
        "minutes_with_pretraining": minutes + sum(before.values()),
        "note": "; ".join(notes) or None,
        "updates": curve.updates,
        "parameters": parameters,
        "validation_perplexity": curve.last_valid,
        "averaged": recipe.averaged,
        "best_update": best,
        "word_perplexity": dict(curve.words).get(best),
        "curve": {"train": curve.train, "valid": curve.valid, "words": curve.words},
        "seconds": {"training": curve.seconds},
        "scores": {},
    }


def set_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison's part of a score file; ``aligned``: s-BLEU pairs corresponding sentences.

    There is no d-BLEU by instance if instances overlap.
    """
    kept = {
        reference: {key: values[key] for key in BLEU if key in values} for reference, values in scores["scores"].items()
    }
    return {"aligned": scores["counts"]["misaligned_instances"] == 0, "counts": scores["counts"], **kept}


def count_parameters(log: Path) -> int | None:
    """Return the model's number of parameters from fairseq's training log, or None."""
    found = (re.search(r"num\. shared model params: ([\d,]+)", line) for line in read_lines(log))
    return next((int(one[1].replace(",", "")) for one in found if one), None)


def comparison_table(recipes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row per recipe: updates, validation perplexity, and s-BLEU and d-BLEU against the raw text.

    Perplexity is over words, for the model that translated, if all have it but averages of checkpoints, which were not
    validated; else over all targets at the end of training.
    """
    words = [result.get("word_perplexity") for result in recipes.values() if not result.get("averaged")]
    by_words = bool(words) and all(words)
    header = ["recipe", "updates", "minutes", "validation ppl of words" if by_words else "validation ppl"]
    rows = [[*header, "s-BLEU", "d-BLEU"]]
    scores = [one for result in recipes.values() for one in result["scores"].values()]
    for (name, result), found in zip(recipes.items(), scores, strict=True):
        perplexity = result["word_perplexity" if by_words else "validation_perplexity"]
        row = [name, str(result["updates"]), f"{result['seconds']['training'] / 60:.1f}"]
        row.append("-" if perplexity is None else f"{perplexity:.2f}")
        row.append(f"{found['raw']['s_bleu']['score']:.2f}" if found["aligned"] else "-")
        row.append(f"{found['raw']['d_bleu']['score']:.2f}")
        rows.append(row)
    lines = align(rows).splitlines()
    lines.insert(1, "-" * len(lines[0]))
    unaligned = [one for one in scores if not one["aligned"]]
    if unaligned:
        lines.append("-: sentences are not aligned (the model chose their number); d-BLEU does not need that")
    if any("d_bleu_instance" not in one["raw"] for one in unaligned):
        lines[-1] += ", but for overlapping instances it uses sentences aligned by order"
    lines += [f"BLEU: {one}" for one in sorted({one["raw"]["s_bleu"]["signature"] for one in scores})]
    lines += [f"{name}: {result['note']}" for name, result in recipes.items() if result["note"]]
    return "\n".join(lines)
