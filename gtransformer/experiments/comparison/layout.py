"""Where the files of a comparison lie, and what each of its parts depends on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gtransformer.experiments.comparison.corpus import RAW, split_files
from gtransformer.experiments.comparison.plan import Plan, TextSet, outside_files
from gtransformer.files import sha256

PREPARED = {raw: prepared for prepared, raw in RAW.items()}


class Layout:
    """One comparison: its options and its directory."""

    def __init__(self, args: argparse.Namespace, plan: Plan, sets: list[TextSet]):
        self.plan, self.directory, self.sets = plan, args.output.absolute(), sets
        self.raw, self.every, self.minutes = sets[0].directory, args.every, args.minutes
        files = [path for split in RAW.values() for path in split_files(self.raw, plan.languages, split)]
        self.corpus = {"every": self.every, "files": {path.name: sha256(path) for path in files}}

    # Where things lie

    @property
    def training_corpus(self) -> Path:
        """The raw corpus that is trained on."""
        return self.directory / "corpus" if self.every > 1 else self.raw

    def prepared(self, name: str, one: TextSet | None = None) -> Path:
        """The corpus prepared by recipe ``name``; that of a further set."""
        return self.directory / "prepared" / (name if one in (None, self.sets[0]) else f"{name}.{one.name}")

    def folder(self, name: str) -> Path:
        """A recipe's run."""
        return self.directory / "runs" / name

    def best(self, name: str) -> Path:
        """A recipe's best checkpoint."""
        return self.folder(name) / "checkpoints" / "checkpoint_best.pt"

    def start_checkpoint(self, name: str) -> Path | None:
        """The checkpoint that a recipe's training starts from: another recipe's best one, or one from outside."""
        recipe = self.plan.recipes[name]
        if first := self.plan.start(recipe):
            return self.best(first)
        outside = recipe.sections["train"].get("finetune-from-model")
        return Path(str(outside)) if outside else None

    def translation(self, name: str, one: TextSet) -> Path:
        """A recipe's translation of a set."""
        return self.folder(name) / one.name / f"{PREPARED[one.split]}.jsonl"

    def target(self, name: str) -> str:
        """The target language of a recipe as its corpora call it (mBART's de_DE)."""
        return str(self.plan.recipes[name].sections["task"].get("target-lang", "de"))

    # What things depend on

    def preparing(self, name: str, one: TextSet | None = None) -> dict[str, Any]:
        """What a prepared corpus depends on."""
        recipe, lender = self.plan.corpora[name], self.plan.lender(name)
        settings = {"corpus": self.corpus, "options": recipe.options("prepare"), "task": recipe.options("task")}
        settings["files"] = outside_files(settings["options"])
        settings["lender"] = self.preparing(lender) if lender else None
        if one in (None, self.sets[0]):
            return settings
        files = split_files(one.directory, self.plan.languages, one.split)
        return {"set": [sha256(path) for path in files], "split": one.split, "lender": settings}

    def model(self, name: str) -> dict[str, Any]:
        """What a model depends on, but for its minutes."""
        recipe, start = self.plan.recipes[name], self.plan.start(self.plan.recipes[name])
        return {
            "prepare": self.preparing(self.plan.preparer(name)),
            "options": recipe.options("task", "train"),
            "files": outside_files(recipe.options("train")),
            "devices": recipe.devices,
            "start": self.model(start) if start else None,
        }

    def training(self, name: str) -> dict[str, Any]:
        """What a trained model depends on."""
        return {"model": self.model(name), "minutes": self.minutes}

    def translating(self, name: str, one: TextSet) -> dict[str, Any]:
        """What a translation depends on."""
        prepared = self.preparing(self.plan.preparer(name), one)
        return {
            "training": self.training(name),
            "prepare": prepared,
            "options": self.plan.recipes[name].options("generate"),
        }
