"""A recipe's run on a corpus: paths, and the stages prepare, train, generate, score."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.evaluation.references import reference_option
from gtransformer.files import PARAMETERS, read_json, read_record, sha256, write_json
from gtransformer.preprocess.corpus import SPLITS as RAW_SPLITS
from gtransformer.preprocess.corpus import NoLanguagePair, find_splits, raw_file
from gtransformer.preprocess.manifest import (
    NOTED,
    check_noted,
    check_translated,
    checksums,
    noted_digests,
    source_text,
)
from gtransformer.run.commands import (
    as_typed_by_hand,
    device_options,
    fairseq_command,
    frequencies,
    on_device,
    python_command,
)
from gtransformer.run.paths import BEST, corpus_directory, model_file, run_directory
from gtransformer.run.recipe import FILES, Options, Recipe, beside, load_recipe
from gtransformer.run.stage import run_stage, was_run
from gtransformer.settings import dashed
from gtransformer.tasks.generation import NONE

STAGES = ("prepare", "train", "generate", "score")
# In section generate: START makes the model that training started from the first pass; else a file is named.
FIRST_PASS, START = "first-pass", "start"
CONTINUE = "continue-once"  # in section train, START: resume that model's training, with optimizer and schedule
# Options that a resumed training may have changed: of its end, of what it saves and logs, and of the machine.
MAY_CHANGE = re.compile(
    "max-update|max-epoch|total-num-update|patience|stop-.*|save-.*|keep-.*|validate-.*|.*-valid|disable-validation|"
    "no-save.*|no-.*-checkpoints|log-.*|tensorboard-logdir|no-progress-bar|num-workers|data-buffer-size|distributed-.*|"
    "user-dir|average-checkpoints|reset-.*|restore-file|continue-once|cpu|device-id|ddp-backend"
)


@dataclass
class Run:
    """One recipe on one corpus, with the paths of its files."""

    recipe: Recipe
    named: str  # the recipe as on the command line
    raw: Path  # the folder of the raw corpus
    directory: Path
    prepared: Path
    vocabulary: Path | None
    checkpoint: Path
    split: str
    extra: list[str]
    again: bool = False
    pretrained: Path | None = None  # the checkpoint that training starts from
    dry: bool = False  # commands are printed, not run
    other_prepared: bool = False  # the user names the prepared corpus

    @property
    def model(self) -> Path:
        """The model that training writes."""
        return model_file(self.recipe, self.directory)

    @property
    def translations(self) -> Path:
        """The file that the stage generate writes."""
        return self.directory / f"{self.split}.jsonl"

    def check_files(self, stages: Sequence[str]) -> None:
        """Raise UserError if a file that the recipe names is missing, or a split of the raw corpus.

        A corpus that is only prepared may lack splits: it may be for addition to others, or for translation.
        """
        for key in FILES:
            section, _, option = key.partition(".")
            path = self.recipe.sections[section].get(option)
            if section in stages and path is not None and not Path(str(path)).exists():
                raise UserError(f"{path}: missing, but recipe '{self.recipe.name}' needs it; give it with --set {key}=")
        if "prepare" not in stages:
            return
        langs = self.recipe.pair
        try:
            splits = find_splits(self.raw, *langs)
        except NoLanguagePair as error:
            advice = "".join(f"; for {pair} give --langs {pair.replace('-', ',')}" for pair in error.pairs)
            raise UserError(f"{error}{advice}") from None
        stage_of = {"train": "train", "valid": "train", self.split: "generate"}
        for old, new in RAW_SPLITS.items():
            if new not in splits and stage_of.get(new) in stages:
                path = raw_file(self.raw, langs, old, langs[0])
                raise UserError(f"{path}: no such file, but stage {stage_of[new]} needs it")

    def execute(self, stage: str) -> None:
        """Run one stage; a finished training is not repeated unless ``again``."""
        getattr(self, stage)()

    def prepare(self) -> None:
        """Raw corpus to binary data. A corpus that another recipe has prepared is kept, unless options are given."""
        manifest = self.prepared / "manifest.json"
        given = {dashed(change.partition("=")[0]) for change in self.recipe.changes}
        shared = self.recipe.prepared_from and self.prepared != self.directory / "prepared"
        if shared and manifest.is_file() and not self.dry and not any(name.startswith("prepare.") for name in given):
            self._check_inputs()
            print(f"[prepare] done before, see {manifest}")
            return
        options = self.recipe.preparing()
        if self.vocabulary:
            self._need(self.vocabulary / "manifest.json", "takes its dictionary from it", self.recipe.vocabulary_from)
            options["vocabulary"] = self.vocabulary
        command = python_command("gtransformer.cli.prepare", str(self.raw), str(self.prepared), options)
        self._run("prepare", command, {"prepared": str(self.prepared)})

    def train(self) -> None:
        """Run fairseq-train, resuming from the last checkpoint if there is one; then average, if the recipe does."""
        self._need_prepared("train")
        checkpoints = self.directory / BEST.parent
        options = {"save-dir": checkpoints, **self.recipe.training()}
        if "tensorboard-logdir" in options:
            options["tensorboard-logdir"] = self.directory / str(options["tensorboard-logdir"])
        if self.pretrained:
            self._need(self.pretrained, "starts from it", self.recipe.pretrained_from)
            options["finetune-from-model"] = self.pretrained
        if (tuned := options.get("finetune-from-model")) and not self.dry:
            check_noted(Path(tuned), self.prepared)
        if options.get(CONTINUE) == START:
            options[CONTINUE] = options.pop("finetune-from-model", None)
        learning = self._training_options(options)
        options |= device_options(options, self.recipe.devices, torch.cuda.device_count())
        command = fairseq_command("train", self.prepared / "bin", on_device(options))
        if not self.dry:
            self._check_resumed(checkpoints, learning, start_digests(options))
        trained = was_run("train", command + self.extra, self.directory) and any(checkpoints.glob("*.pt"))
        if trained and not self.again and not self.dry:
            print(f"[train] done before, see {self.directory / 'train.json'}; to train on, give a higher max-update")
        else:
            if self.recipe.averaged and not self.dry:
                self.model.unlink(missing_ok=True)  # of the training so far
            self._run("train", command, {"checkpoints": str(checkpoints)})
        if self.recipe.averaged:
            options = {"last": self.recipe.averaged, "or-fewer": True, "output": self.model}
            self._run("average", python_command("gtransformer.cli.average", str(checkpoints), options), {})

    def _check_resumed(self, checkpoints: Path, options: dict[str, str], starts: dict[str, str]) -> None:
        """Note the corpus, the options and the start models (``start_digests``) of a training with its checkpoints.

        Raises UserError if the existing model was trained on another corpus, from another model or (unless ``again``)
        with other options: fairseq-train would go on silently, or do nothing.
        """
        now = noted_digests(self.prepared) | {"options": options, "starts": starts}
        now["generate"] = self.recipe.options("generate")
        before = read_record(checkpoints / NOTED) if any(checkpoints.glob("*.pt")) else {}
        advice = f"choose another directory with --output, or remove {checkpoints} to train again"
        if before.get("corpus", now["corpus"]) != now["corpus"]:
            raise UserError(f"{checkpoints}: the model there was trained on another corpus; {advice}")
        for name, sha in before.get("starts", {}).items():
            if starts.get(name, sha) != sha:
                raise UserError(f"{checkpoints}: the training there began from another {name}; {advice}")
        trained = before.get("options", options)
        other = sorted(name for name in trained.keys() | options.keys() if trained.get(name) != options.get(name))
        if other and not self.again:
            values = ", ".join(f"{name} {trained.get(name)}, not {options.get(name)}" for name in other)
            raise UserError(f"{checkpoints}: the model there was trained with other options ({values}); {advice}")
        write_json(checkpoints / NOTED, now)

    def _training_options(self, options: Options) -> dict[str, str]:
        """Return the options of a training that a resumed one must share.

        They are neither ``MAY_CHANGE`` nor names of files, which may be moved. ``update-freq`` counts batches on one
        device.
        """
        batches = [self.recipe.devices * number for number in frequencies(options.get("update-freq", 1))]
        given = options | {"update-freq": ",".join(map(str, batches))}
        for part in f" {' '.join(self.extra)}".split(" --")[1:]:
            name, _, value = part.replace("=", " ", 1).partition(" ")
            given[name.replace("_", "-")] = value or "True"
        return {
            name: str(value)
            for name, value in given.items()
            if not (MAY_CHANGE.fullmatch(name) or f"train.{name}" in FILES)
        }

    def generate(self) -> None:
        """Run fairseq-generate, which writes SPLIT.jsonl."""
        self._need_prepared(self.split)
        if not self.dry:
            if not self.checkpoint.is_file():
                raise UserError(f"{self.checkpoint}: no such checkpoint; train first, or name one with --checkpoint")
            check_noted(self.checkpoint, self.prepared)
        options = {
            "path": self.checkpoint,
            "gen-subset": self.split,
            "gen-output": self.directory / self.split,
            "scoring": NONE,  # the stage score does it; fairseq would score subwords
            **self.recipe.options("task", "generate"),
        }
        if options.get(FIRST_PASS) == START:
            model = self.recipe.sections["train"].get("finetune-from-model") or self.pretrained
            if model is None:
                raise UserError(f"recipe '{self.recipe.name}' starts from no model; give --set generate.{FIRST_PASS}=")
            options[FIRST_PASS] = model
        command = fairseq_command("generate", self.prepared / "bin", on_device(options))
        if not self.dry:  # a failure leaves no translation of another model
            self.translations.unlink(missing_ok=True)
        text = None if self.dry else source_text(self.prepared, self.split)
        self._run(f"generate.{self.split}", command, {"translations": str(self.translations), "translated": text})
        if not self.dry and not self.translations.is_file():
            raise UserError(f"{self.translations}: not written; fairseq-generate did not translate every instance")

    def score(self) -> None:
        """Score the translations against the original text and, if possible, as the release does.

        Writes SPLIT.scores.json, which also has the changes of the recipe in all stages.
        """
        output = self.directory / f"{self.split}.scores.json"
        options = {"split": self.split, "hypotheses": self.translations, "output": output}
        options |= self.recipe.options("score")
        if not self.dry:
            if not self.translations.is_file():
                raise UserError(f"{self.translations}: no translations to score; first run stage generate")
            check_translated(self.translations, self.prepared, self.split)
        if "reference" not in options:
            options["reference"] = "both" if self.dry else reference_option(self.prepared, self.split)
        command = python_command("gtransformer.cli.score", str(self.prepared), options)
        self._run(f"score.{self.split}", command, {"scores": str(output)})
        if not self.dry:  # for the results page
            stages = ("prepare", "train", f"generate.{self.split}", f"score.{self.split}")
            records = [read_record(self.directory / f"{stage}.json") for stage in stages]
            changes = dict.fromkeys(change for record in records for change in record.get("changes", []))
            write_json(output, {**read_json(output), "recipe": self.recipe.name, "changes": list(changes)})

    def _run(self, name: str, command: list[str], results: Options) -> None:
        """Run a stage's program, or print its command; the record also has the changes of the recipe."""
        stage = name.partition(".")[0]
        extra = [] if stage == "average" else self.extra
        if self.dry:
            print(f"# {stage}\n{as_typed_by_hand(command + extra)}")
            return
        changes = [*self.recipe.changes, *([" ".join([stage, "--", *extra])] if extra else [])]
        run_stage(name, command + extra, self.directory, {"recipe": self.recipe.name, "changes": changes} | results)

    def _check_inputs(self) -> None:
        """Raise UserError if the corpus was prepared from other raw files: another corpus may have the same name."""
        splits = find_splits(self.raw, *self.recipe.pair)
        if read_json(self.prepared / "manifest.json")["inputs"] != checksums(splits):
            raise UserError(
                f"{self.prepared}: prepared from other files than {self.raw} holds now; give another --runs for "
                "another corpus of this name, or prepare again"
            )

    def _need_prepared(self, split: str) -> None:
        if self.dry:
            return
        if not (self.prepared / "manifest.json").is_file():
            raise UserError(f"{self.prepared}: no prepared corpus; first run stage prepare")
        if not self.other_prepared:
            self._check_inputs()
        if not list((self.prepared / "bin").glob(f"{split}.*.idx")):
            raise UserError(f"{self.prepared}: no {split} set; choose another one with --split")

    def _need(self, path: Path, why: str, recipe: str | None) -> None:
        """Raise UserError for a missing file of another recipe."""
        if not self.dry and not path.is_file():
            other = beside(self.named, recipe) if recipe else self.named
            raise UserError(
                f"{path}: does not exist yet, but recipe '{self.recipe.name}' {why}; first run recipe {other} on "
                f"{self.raw}"
            )


def start_digests(options: Options) -> dict[str, str]:
    """Return the SHA-256 of the models that a training starts from, by option; of a model directory its parameters."""
    found = {}
    for name in ("finetune-from-model", "sentence-model"):
        path = Path(str(options.get(name)))
        path = path / PARAMETERS if path.is_dir() else path
        if name in options and path.is_file():
            found[name] = sha256(path)
    return found


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the stages to run. Raise UserError for an unknown stage, and for options after ``--`` with ``all``."""
    if args.stage not in (*STAGES, "all"):
        raise UserError(f"unknown stage '{args.stage}': known are {', '.join(STAGES)} and all")
    if args.stage != "all":
        return (args.stage,)
    if args.extra:
        raise UserError("options after -- are for one stage; with 'all' write --set train.OPTION=VALUE")
    return tuple(stage for stage in STAGES if not (stage == "train" and args.checkpoint))


def make_run(args: argparse.Namespace) -> Run:
    """Return a run with its paths."""
    recipe = load_recipe(args.recipe, args.set)
    raw = corpus_directory(args.corpus)
    directory = args.output or run_directory(recipe.name, raw)

    def run_of(other: str) -> tuple[Recipe, Path]:
        loaded = load_recipe(beside(args.recipe, other))
        return loaded, run_directory(loaded.name, raw)

    prepared, vocabulary, pretrained = args.prepared, None, None
    if recipe.vocabulary_from and "vocabulary" not in recipe.sections["prepare"]:
        vocabulary = run_of(recipe.vocabulary_from)[1] / "prepared"
    if prepared is None and recipe.prepared_from and not args.output:
        prepared = run_of(recipe.prepared_from)[1] / "prepared"
    if recipe.pretrained_from and "finetune-from-model" not in recipe.sections["train"]:
        pretrained = model_file(*run_of(recipe.pretrained_from))
    return Run(
        recipe,
        args.recipe,
        raw,
        directory,
        prepared or directory / "prepared",
        vocabulary,
        args.checkpoint or model_file(recipe, directory),
        args.split,
        args.extra,
        args.again,
        pretrained,
        args.dry_run,
        args.prepared is not None,
    )
