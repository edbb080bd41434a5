"""Length robustness: one model on one test set, translated in instances of several lengths (Zhang et al. 2023)."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError
from gtransformer.evaluation.metrics import USUAL
from gtransformer.evaluation.realignment import MWER
from gtransformer.evaluation.text_table import align
from gtransformer.files import read_json, read_lines, sha256
from gtransformer.run.commands import call_command, run_command
from gtransformer.run.pipeline import Pipeline, Program, Stage
from gtransformer.run.progress import BATCHES, batch_status
from gtransformer.run.recipe import Options, load_recipe
from gtransformer.run.run import make_run

MANIFEST = "manifest.json"  # of a prepared corpus
SCORES = {"s_bleu": "s-BLEU", "d_bleu": "d-BLEU", "chrf": "chrF", "ter": "TER"}
# What a recipe may say of its instances, and no other length has.
INSTANCES = ("instances", "instance-tokens", "context-sentences", "target-context-sentences", "max-pair-tokens")


def lengths_of(tokens: list[int], sentences: list[int]) -> dict[str, Options]:
    """Names of lengths, shortest first, and how instances are made: filled up to N tokens, or of N sentences."""
    for name, values in (("--tokens", tokens), ("--sentences", sentences)):
        if values and min(values) < 1:
            raise UserError(f"{name} {min(values)}: give 1 or more")
    by_sentences = {n: {"instances": "disjoint", "context-sentences": n - 1} for n in sorted(set(sentences))}
    by_tokens = {n: {"instances": "greedy", "instance-tokens": n} for n in sorted(set(tokens))}
    return {
        **{f"{n} sentences": options for n, options in by_sentences.items()},
        **{f"{n} tokens": options for n, options in by_tokens.items()},
    }


class Lengths:
    """The translations and scores that are missing, in a directory of their own."""

    def __init__(self, args: argparse.Namespace):
        self.lengths = lengths_of(args.tokens, args.sentences)
        rest = {"output": args.run, "model_of": None, "start_on": None, "extra": [], "again": False, "dry_run": False}
        self.run = make_run(argparse.Namespace(**{**vars(args), **rest}))
        if not self.run.checkpoint.is_file():
            raise UserError(f"{self.run.checkpoint}: no such checkpoint; train the recipe first, or give --checkpoint")
        self.recipe, self.args = args.recipe, args
        self.directory = args.output.absolute()
        manifest = self.run.prepared / MANIFEST
        if not manifest.is_file():
            raise UserError(f"{manifest}: no such file; prepare the recipe's corpus first, or give --prepared")
        self.model, self.corpus = sha256(self.run.checkpoint), sha256(manifest)
        scoring = self.run.recipe.options("score")  # the table is of the usual metrics against untouched text
        own = scoring.get("metrics", [])
        metrics = dict.fromkeys([*USUAL, *(own if isinstance(own, list) else [own])])
        self.scoring = {**scoring, "metrics": list(metrics), "reference": "raw", "align": MWER}
        self.scoring.pop("paper", None)
        self.pipeline = Pipeline(self.directory, "measurement of lengths")
        for name, options in self.lengths.items():
            self._add(name, options)

    def folder(self, name: str) -> Path:
        """Where the files of a length lie."""
        return self.directory / name.replace(" ", "-")

    def _add(self, name: str, options: Options) -> None:
        folder, split = self.folder(name), self.args.split
        told = {**dict.fromkeys(INSTANCES, ""), **options}
        # In section generate, too, where a recipe may say that it translates other instances than it trains on.
        of_sections = product(("task", "generate"), told.items())
        changes = [*self.args.set, *(f"{section}.{key}={value}" for section, (key, value) in of_sections)]
        options = load_recipe(self.recipe, changes).options("task", "generate")
        settings = {"options": options, "model": self.model, "corpus": self.corpus}
        places = {"output": folder, "prepared": self.run.prepared, "checkpoint": self.run.checkpoint, "split": split}
        command = run_command(self.recipe, self.run.raw, "generate", places, [*changes, *BATCHES])
        log, translations = folder / "translate.log", folder / f"{split}.jsonl"
        work = Program(command, log, partial(batch_status, log))
        self.pipeline.add(Stage(f"translate-{folder.name}", {**settings, "split": split}, [translations], work))
        output = folder / f"{split}.scores.json"
        work = partial(self._score, translations, output)
        scored = Stage(f"score-{folder.name}", self.scoring, [output], work, [f"translate-{folder.name}"])
        self.pipeline.add(scored)

    def _score(self, translations: Path, output: Path) -> None:
        options = {**self.scoring, "hypotheses": translations, "split": self.args.split, "output": output}
        with open(output.with_name("score.log"), "w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
            call_command("score", str(self.run.prepared), options)

    def collect(self) -> dict[str, Any]:
        """Scores by length, with what stood together and how long translating took."""
        found = {}
        for name in self.lengths:
            folder, split = self.folder(name), self.args.split
            result = read_json(folder / f"{split}.scores.json")
            counts = result["counts"]
            found[name] = {
                "instances": sum(1 for _ in read_lines(folder / f"{split}.jsonl")),
                "sentences": counts["sentences"],
                "misaligned_instances": counts["misaligned_instances"],
                "scores": result["scores"]["raw"],
                "seconds": read_json(folder / f"generate.{split}.json")["seconds"],
            }
        return {
            "version": 1,
            "recipe": self.recipe,
            "changes": list(self.args.set),
            "checkpoint": str(self.run.checkpoint),
            "checkpoint_sha256": self.model,
            "prepared": str(self.run.prepared),
            "manifest_sha256": self.corpus,
            "split": self.args.split,
            "lengths": found,
        }


def lengths_text(result: Mapping[str, Any]) -> str:
    """A row a length: sentences that stand together on average, scores, instances of other numbers of sentences."""
    rows = [["instances of", "sentences each", *SCORES.values(), "other numbers", "seconds"]]
    for name, part in result["lengths"].items():
        each = part["sentences"] / part["instances"]
        scores = [f"{part['scores'][key]['score']:.2f}" for key in SCORES]
        other = f"{part['misaligned_instances']} of {part['instances']}"
        rows.append([name, f"{each:.1f}", *scores, other, f"{part['seconds']:.0f}"])
    signatures = {one["signature"] for part in result["lengths"].values() for one in part["scores"].values()}
    return "\n".join([align(rows, range(1, len(rows[0]))), *sorted(signatures)])
