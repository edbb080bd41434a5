"""Length robustness: one model on one test set, translated in instances of several lengths (Zhang et al. 2023)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from gtransformer.errors import UserError, check_counts
from gtransformer.evaluation.metrics import DEFAULT_METRICS
from gtransformer.evaluation.metrics import DEFAULT_TITLES as SCORES
from gtransformer.evaluation.realignment import MWER
from gtransformer.evaluation.text_table import align
from gtransformer.files import read_json, read_lines, sha256
from gtransformer.lab.planner import PlannedRun, Planner, Translation, text_measure
from gtransformer.run.recipe import Options, load_recipe
from gtransformer.run.run import make_run

# A recipe's options for instances, removed for other lengths.
INSTANCES = ("instances", "instance-tokens", "context-sentences", "target-context-sentences", "max-pair-tokens")


class Lengths(Planner):
    """The missing translations and scores, in a separate directory."""

    def __init__(self, args: argparse.Namespace):
        super().__init__(args.output, "measurement of lengths")
        check_counts(args, "jobs")
        if not (args.tokens or args.sentences) or min(args.tokens + args.sentences) < 1:
            raise UserError("give lengths of at least 1 with --tokens or --sentences")
        self.args, self.lengths = args, {}  # names of lengths, shortest first, and options of their instances
        for n in sorted(set(args.sentences)):
            self.lengths[f"{n} sentences"] = {"instances": "disjoint", "context-sentences": n - 1}
        for n in sorted(set(args.tokens)):
            self.lengths[f"{n} tokens"] = {"instances": "greedy", "instance-tokens": n}
        rest = {"output": args.run, "model_of": None, "start_on": None, "extra": [], "again": False, "dry_run": False}
        self.run = make_run(argparse.Namespace(**{**vars(args), **rest}))
        manifest = self.run.prepared / "manifest.json"
        for path, option in ((self.run.checkpoint, "--checkpoint"), (manifest, "--prepared")):
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file; prepare the corpus and train the recipe first, or give {option}"
                )
        self.model, self.corpus = sha256(self.run.checkpoint), sha256(manifest)
        scoring = self.run.recipe.options("score")  # the table has the default metrics against untouched text
        own = scoring.get("metrics", [])
        metrics = list(dict.fromkeys([*DEFAULT_METRICS, *(own if isinstance(own, list) else [own])]))
        self.scoring = scoring | {"metrics": metrics, "reference": "raw", "align": MWER}
        for name, options in self.lengths.items():
            self._add(name, options)

    def _add(self, name: str, options: Options) -> None:
        """Add translation and scores in instances of one length."""
        folder, split = self.folder(name), self.args.split
        # Also in section generate, as a recipe may translate other instances than it trains on.
        settings = product(("task", "generate"), {**dict.fromkeys(INSTANCES, ""), **options}.items())
        changes = [*self.args.set, *(f"{section}.{key}={value}" for section, (key, value) in settings)]
        recipe = load_recipe(self.args.recipe, changes)
        run = PlannedRun(folder.name, recipe, self.args.recipe, self.run.raw, self.run.prepared, folder, changes)
        settings = {"options": recipe.options("task", "generate"), "model": self.model, "corpus": self.corpus}
        checkpoint = self.run.checkpoint
        stage = Translation(split=split, settings=settings | {"split": split}, checkpoint=checkpoint)(run)
        options = {**self.scoring, "hypotheses": stage.outputs[0], "split": split}
        scores = text_measure("score", "score", self.scoring, options, f"{split}.scores.json")(run)
        self.pipeline.add(stage, scores)

    def folder(self, name: str) -> Path:
        """Return the folder of a length."""
        return self.directory / name.replace(" ", "-")

    def collect(self) -> dict[str, Any]:
        """Return scores by length, with sentences per instance and translation time."""
        found, split = {}, self.args.split
        for name in self.lengths:
            folder = self.folder(name)
            result = read_json(folder / f"{split}.scores.json")
            found[name] = {
                "instances": sum(1 for _ in read_lines(folder / f"{split}.jsonl")),
                "sentences": result["counts"]["sentences"],
                "misaligned_instances": result["counts"]["misaligned_instances"],
                "scores": result["scores"]["raw"],
                "seconds": read_json(folder / f"generate.{split}.json")["seconds"],
            }
        return {
            "version": 1,
            "recipe": self.args.recipe,
            "changes": list(self.args.set),
            "checkpoint": str(self.run.checkpoint),
            "checkpoint_sha256": self.model,
            "prepared": str(self.run.prepared),
            "manifest_sha256": self.corpus,
            "split": split,
            "lengths": found,
        }


def lengths_text(result: Mapping[str, Any]) -> str:
    """Return a row per length: mean sentences per instance, scores, instances with another number of sentences."""
    keys = [key for key in SCORES if all(key in part["scores"] for part in result["lengths"].values())]
    rows = [["instances of", "sentences each", *(SCORES[key] for key in keys), "other numbers", "seconds"]]
    for name, part in result["lengths"].items():
        each = part["sentences"] / part["instances"]
        scores = [f"{part['scores'][key]['score']:.2f}" for key in keys]
        other = f"{part['misaligned_instances']} of {part['instances']}"
        rows.append([name, f"{each:.1f}", *scores, other, f"{part['seconds']:.0f}"])
    signatures = {one["signature"] for part in result["lengths"].values() for one in part["scores"].values()}
    return "\n".join([align(rows, range(1, len(rows[0]))), *sorted(signatures)])
