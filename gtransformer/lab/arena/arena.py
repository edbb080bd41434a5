"""The arena: the systems and their runs, on one corpus with one budget."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import logging
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from gtransformer.errors import UserError, check_counts
from gtransformer.evaluation.metrics import DEFAULT_METRICS
from gtransformer.evaluation.prepared_split import RAW as TEXT
from gtransformer.evaluation.realignment import MWER
from gtransformer.files import read_json, sha256, write_json
from gtransformer.lab.arena.budget import (
    MINUTES,
    TOKENS,
    UNITS,
    UPDATES,
    endless,
    has_one_size,
    limited,
    measure_epoch,
    read_budget,
    updates_of_tokens,
)
from gtransformer.lab.arena.systems import BASELINE, FROM_SCRATCH, SIZES, recipe_argument, system_names
from gtransformer.lab.demo.reach_corpus import ITEMS, SET, write_context_items
from gtransformer.lab.pipeline import shares
from gtransformer.lab.planner import (
    UNLIMITED,
    Measure,
    PlannedRun,
    Planner,
    Translation,
    machine,
    model_measure,
    refuse_own,
    stop_hours,
    text_measure,
)
from gtransformer.lab.recipe_set import RAW, RecipeSet, outside_files, raw_digests, split_files
from gtransformer.lab.recipes import call_command, recipe_name
from gtransformer.run.paths import corpus_directory, model_file
from gtransformer.run.recipe import Options, Recipe, UnknownRecipe, load_recipe
from gtransformer.run.run import FIRST_PASS, START
from gtransformer.tasks.checkpoints import read_state

DEMO = "demo"  # name of the generated corpus, which has a set by distance of context
# Recipe options that an arena sets itself, and the option that they come from.
OWN_OPTIONS = {
    "train.seed": "--seeds",
    "train.max-update": "--updates and --start-updates",
    "train.total-num-update": "--updates and --start-updates",
    "train.max-epoch": "--updates, --minutes and --tokens",
    "train.stop-time-hours": "--minutes",
    "train.finetune-from-model": "'pretrained-from' of the recipe",
    "train.log-format": "no option; results are read from the log",
    "train.patience": "no option; every training has its whole budget",
    "train.tensorboard-logdir": "no option; curves are read from the log",
    "score.reference": "no option; all are scored against untouched text",
}
LOGGED = "train.log-format=json"  # precision is the recipes': not every machine of a run has bfloat16


class Arena(Planner):
    """An arena and its stages in a directory. Raises UserError for an invalid command line.

    Attributes:
        start: the recipe whose model all systems start from; it also prepares the corpus.
        from_scratch: systems start from random weights, without a start model.
        systems: names of the recipes, in the order of the results.
        shows_reach: the corpus is the generated one, with its contrastive set.
        runs: of every system and seed.
    """

    def __init__(self, args: argparse.Namespace):
        super().__init__(args.output, "arena")
        self._read_terms(args)
        self._read_systems(args)
        self._read_corpus(args)
        self.at_once, self.threads = shares(args.jobs)
        self.results = {end: self.directory / f"arena.{end}" for end in ("json", "txt", "png", "tar.xz")}
        self._add_corpora()
        if not self.from_scratch:
            self.add_runs([self._start_run()])
        self._add_epochs()
        # First one seed of all systems, so that an interrupted arena can be compared.
        self.runs = {(name, seed): self._run(name, seed) for seed, name in product(self.seeds, self.systems)}
        self.add_runs(list(self.runs.values()))

    # The command line

    def _read_terms(self, args: argparse.Namespace) -> None:
        check_counts(args, "jobs", "start_updates")
        self.budget, self.from_scratch, self.start_updates = (
            read_budget(args),
            args.begin == FROM_SCRATCH,
            args.start_updates,
        )
        if self.from_scratch and args.start_updates:
            raise UserError(
                f"--start-updates {args.start_updates}: with --from {FROM_SCRATCH} there is no start; leave it out"
            )
        self.seeds = list(args.seeds)
        if len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise UserError(f"--seeds {' '.join(map(str, self.seeds))}: give different numbers, none below 0")
        refuse_own(args.set, OWN_OPTIONS)

    def _read_systems(self, args: argparse.Namespace) -> None:
        """Read the recipes: the start's and the systems', including the baseline."""
        names = [BASELINE, *(name for name in args.systems or system_names() if name != BASELINE)]
        self.systems, changes = [Path(name).stem for name in names], [LOGGED, *args.set]
        if len(set(self.systems)) < len(self.systems):
            raise UserError(f"--systems {' '.join(names[1:])}: name every system once")
        recipes = [self._system(name, changes) for name in names]
        self.start = recipe_name(recipes[0].pretrained_from)
        for recipe in recipes:
            others = {"prepared-from": recipe.prepared_from, "pretrained-from": recipe.pretrained_from}
            shared = {key: other and recipe_name(other) for key, other in others.items()}
            for key in shared if not self.from_scratch else ["prepared-from"]:
                if shared[key] != self.start:
                    raise UserError(
                        f"recipe '{recipe.name}': {key} is {shared[key]}, but the systems of an arena share corpus and "
                        f"start; write '{key}: {self.start}' into it, or leave the recipe out"
                    )
        if self.from_scratch:  # changes for recipes that normally start from the start's model
            train = load_recipe(recipe_argument(self.start), changes).sections["train"]
            left_out = ("pretrained-from", "train.load-partial", "train.freeze-sentence-parameters")
            scratch_changes = [
                *(f"{key}=" for key in left_out),
                f"train.warmup-updates={train.get('warmup-updates', '')}",
            ]
            changes = [LOGGED, *scratch_changes, *args.set]
        self.changes = changes
        self.recipe_set = RecipeSet([recipe_argument(name) for name in (self.start, *names)], changes)

    def _system(self, name: str, changes: Sequence[str]) -> Recipe:
        try:
            return load_recipe(recipe_argument(name), list(changes))
        except UnknownRecipe:
            known = system_names()
            like = ", ".join(difflib.get_close_matches(name, known) or known)
            raise UserError(
                f"--systems {name}: not a system of the arena; give {like}, or the path of a recipe's YAML file"
            ) from None

    def _read_corpus(self, args: argparse.Namespace) -> None:
        given = {key: getattr(args, key) for key in SIZES}
        self.shows_reach = args.corpus == DEMO
        if self.shows_reach:
            self.raw = self.directory / "corpus"
            self.sizes = {key: SIZES[key] if value is None else value for key, value in given.items()}
            self.corpus: dict[str, Any] = {"name": DEMO, **self.sizes}
        else:
            for key in (key for key, value in given.items() if value is not None):
                raise UserError(f"--{key.replace('_', '-')} is a size of the generated corpus, {DEMO}; leave it out")
            self.raw = corpus_directory(args.corpus)
            self.corpus = {"name": self.raw.resolve().name, "files": raw_digests(self.raw, self.recipe_set.languages)}
        self.prepared, self.set, self.items = (
            self.directory / "prepared",
            self.directory / "set",
            self.raw / SET / ITEMS,
        )
        self.context_items = self.directory / "context_items.json"

    # Common settings of the systems

    def recipe(self, name: str) -> Recipe:
        """Return a system's recipe, or the start's."""
        return self.recipe_set.recipes[name]

    def common(self) -> dict[str, Any]:
        """Return the settings that all systems share, as in ``arena.json``."""
        updates = self.start_updates or self.recipe(self.start).sections["train"].get("max-update")
        return {
            "corpus": self.corpus,
            "seeds": self.seeds,
            UPDATES: None,  # always present; minutes and tokens only as the budget
            **{unit: self.budget.amount for unit in UNITS if unit == self.budget.unit},
            "start": None if self.from_scratch else {"recipe": self.start, "updates": updates},
            "baseline": BASELINE,
            "changes": self.changes,
        }

    def speed_settings(self) -> dict[str, Any]:
        """Return the settings that determine speed, as in ``arena.json``."""
        return {"machine": machine(), "jobs": self.at_once, "threads": self.threads}

    def files(self) -> dict[str, Any]:
        """Return SHA-256 checksums of contrastive items, test set and start parameters."""
        paths = split_files(self.raw, self.recipe_set.languages, RAW["test"])
        start = None if self.from_scratch else weights_digest(self.model(self.start))
        own = {"items": sha256(self.items)} if self.shows_reach else {}
        return {**own, "test": [sha256(path) for path in paths], "start": start}

    def folder(self, name: str, seed: int | None = None) -> Path:
        """Return the folder of a system's run with one seed; without seed, the start's."""
        return self.directory / "runs" / (name if seed is None else f"{name}-{seed}")

    def folders(self, name: str) -> list[Path]:
        """Return the folders of a system's runs, one for each seed."""
        return [self.folder(name, seed) for seed in self.seeds]

    def reference(self) -> Path:
        """Return the untouched reference of the test set."""
        return self.prepared / TEXT / f"test.{self.recipe_set.languages[1]}"

    def model(self, name: str, seed: int | None = None) -> Path:
        """Return the model of a system's run; without seed, the start's."""
        return model_file(self.recipe(name), self.folder(name, seed))

    def epoch(self, name: str) -> Path:
        """Return the size of an epoch of a system's training."""
        return self.directory / "epochs" / f"{name}.json"

    def has_epoch(self, name: str) -> bool:
        """Return whether a system's updates have one size, as a budget in tokens requires."""
        return self.budget.unit == TOKENS or has_one_size(self.recipe(name))

    # Stages

    def _add_corpora(self) -> None:
        """Add the corpus, prepared by the start's recipe; if generated, also its contrastive set."""
        argument, options = self.recipe_set.arguments[self.start], self.recipe(self.start).preparing()
        if not self.shows_reach:
            settings = {"options": options, "files": self.corpus["files"] | outside_files(options)}
            self.add_corpus(argument, self.raw, self.prepared, settings, (), self.changes)
            return
        sizes = {key.replace("_", "-"): value for key, value in self.sizes.items()}
        work = partial(call_command, "lab.cli.reach_corpus", {"output": self.raw, **sizes})
        self.add("corpus", sizes, [self.raw / "corpus.json", self.raw], work)
        options |= _files(options)
        self.add_corpus(argument, self.raw, self.prepared, options, ["corpus"], self.changes)
        changes = [*self.changes, f"prepare.vocabulary={self.prepared}"]
        self.add_corpus(argument, self.raw / SET, self.set, options, ["prepare-prepared"], changes)
        work = partial(write_context_items, self.raw, self.context_items)
        self.add("context-items", {}, [self.context_items], work, ["corpus"])

    def _start_run(self) -> PlannedRun:
        """Return the run of the sentence model that all systems start from."""
        updates = self.start_updates or self.recipe(self.start).sections["train"].get("max-update")
        own = limited(self.recipe(self.start).sections["train"], updates) if self.start_updates else []
        training = [*self.changes, *UNLIMITED, "train.max-epoch=", *own]
        return self._planned(self.start, None, training, {"own": own}, after=["prepare-prepared"], updates=updates)

    def _add_epochs(self) -> None:
        """Add the stages that count updates and target tokens of an epoch for every system."""
        for name in filter(self.has_epoch, self.systems):
            recipe = self.recipe(name)
            settings = {"options": recipe.options("task", "train"), "devices": recipe.devices}
            self.add(f"epoch-{name}", settings, [self.epoch(name)], partial(self._measure, name), ["prepare-prepared"])

    def _measure(self, name: str) -> None:
        self.epoch(name).parent.mkdir(exist_ok=True)
        logging.disable(logging.INFO)  # fairseq logs every opened file
        try:
            write_json(self.epoch(name), measure_epoch(self.recipe(name), self.prepared))
        finally:
            logging.disable(logging.NOTSET)

    def _run(self, name: str, seed: int) -> PlannedRun:
        """Return the run of one system with one seed: training, translation, scores and contrastive choices."""
        train, budget, own = self.recipe(name).sections["train"], self.budget, [f"train.seed={seed}"]
        started = [] if self.from_scratch else [f"train.finetune-from-model={self.model(self.start)}"]
        after = ["prepare-prepared"] if self.from_scratch else [f"train-{self.start}"]
        begin = [*self.changes, *UNLIMITED, "train.max-epoch=", *own]
        amount = {budget.unit: budget.amount} if budget.unit != TOKENS else {}
        hours = stop_hours(budget.amount) if budget.unit == MINUTES else ""
        end = [f"train.stop-time-hours={hours}", *started]
        if budget.unit == TOKENS:
            settings, after = {"own": own, TOKENS: budget.amount}, [*after, f"epoch-{name}"]

            def training() -> list[str]:  # the number of updates is known after preparation
                updates = updates_of_tokens(budget.amount, read_json(self.epoch(name)))
                return [*begin, *limited(train, updates), *end]

        else:
            length = endless(train) if budget.unit == MINUTES else limited(train, budget.amount)
            settings, training = {"own": [*own, *length]}, [*begin, *length, *end]
            if budget.unit == MINUTES and self.at_once > 1:  # a minute is worth less processor time
                settings["threads"] = self.threads
        waits = {"waits_for": ["prepare-set"] if self.shows_reach else []}
        measures = self._measures(self.recipe(name), seed, started)
        return self._planned(name, seed, training, settings, after=after, measures=measures, **waits, **amount)

    def _measures(self, recipe: Recipe, seed: int, started: list[str]) -> list[Measure]:
        """Return the measures: translation, scores (also realigned), CXMI, contrastive choices; ``started``: names the
        start.
        """
        first, also = recipe.sections["generate"].get(FIRST_PASS), []
        if self.from_scratch and first == START:  # no start: the baseline makes the first pass
            started = [f"generate.{FIRST_PASS}={self.model(BASELINE, seed)}"]
            also = [f"train-{self.folder(BASELINE, seed).name}"]
        score, split = recipe.options("score"), {"split": "test"}
        again, align = {**score, "metrics": list(DEFAULT_METRICS), "align": MWER}, {"align": MWER}
        text = {"text": self.folder(recipe.name, seed) / "test.aligned.txt"}
        translated, items = {"items": self.context_items}, {"items": self.items}
        reach = [
            model_measure("contrastive", "lab.cli.items", self.set, items, ["prepare-set"]),
            text_measure(
                "generative", "lab.cli.items", align, align | translated, "generative.json", ["context-items"]
            ),
        ]
        return [
            Translation(changes=started if first else (), after=also),
            text_measure("score", "score", score, score | split, "test.scores.json"),
            *(reach if self.shows_reach else ()),
            text_measure("align", "score", again, again | split | text, "test.aligned.json"),
            model_measure("cxmi", "lab.cli.cxmi", self.prepared),
        ]

    def _planned(self, name: str, seed: int | None, training: Any, own: dict[str, Any], **more: Any) -> PlannedRun:
        """Return ``own`` settings of a training that are not in its recipe, except paths and minutes."""
        recipe, folder = self.recipe(name), self.folder(name, seed)
        settings = {"options": recipe.options("task", "train"), "devices": recipe.devices, **own}
        settings |= _files(recipe.options("train"))
        argument = self.recipe_set.arguments[name]
        return PlannedRun(
            folder.name, recipe, argument, self.raw, self.prepared, folder, self.changes, training, settings, **more
        )


def _files(options: Options) -> dict[str, Any]:
    """Return the SHA-256 of files named in options, for the settings of a stage; nothing if there are none."""
    found = outside_files(options)
    return {"files": found} if found else {}


def weights_digest(path: Path) -> str:
    """Return the SHA-256 of a checkpoint's parameters and their names: equal only for bit-equal parameters."""
    found = hashlib.sha256()
    for name, values in sorted(read_state(path)["model"].items()):
        found.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        found.update(values.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
