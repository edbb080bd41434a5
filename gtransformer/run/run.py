"""A recipe's run on a corpus: paths, and the stages prepare, train, generate, score."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.data.languages import plain_language
from gtransformer.errors import UserError
from gtransformer.evaluation.references import reference_option
from gtransformer.files import MODEL_FILE, digest, read_json, sha256, write_json
from gtransformer.installation import data_directory
from gtransformer.preprocess.corpus import BENCHMARKS, NoLanguagePair, find_splits, raw_file, split_of
from gtransformer.preprocess.corpus import SPLITS as RAW_SPLITS
from gtransformer.preprocess.manifest import NOTED, check_noted, check_translated, noted_digests, source_text
from gtransformer.run.commands import (
    as_typed_by_hand,
    device_options,
    fairseq_command,
    frequencies,
    on_device,
    python_command,
)
from gtransformer.run.dependencies import COUNTED, own_preparing, preparer_of
from gtransformer.run.paths import (
    BEST,
    Corpus,
    corpus_directory,
    last_checkpoint,
    model_file,
    run_directory,
)
from gtransformer.run.recipe import FILES, Options, Recipe, beside, load_recipe
from gtransformer.run.stage import check_start, noted_changes, run_stage, stage_changes, was_run
from gtransformer.settings import dashed
from gtransformer.tasks.checkpoints import LAST
from gtransformer.tasks.generation import NONE
from gtransformer.work import read_record

STAGES = ("prepare", "train", "generate", "score")
# In section generate: START makes the model that training started from the first pass; else a file is named.
FIRST_PASS, START = "first-pass", "start"
CONTINUE = "continue-once"  # in section train, START: resume that model's training, with optimizer and schedule
STARTS = ("finetune-from-model", "sentence-model", CONTINUE)  # in section train: models that it starts from
# Options that a resumed training may have changed: of its end, of what it saves and logs, and of the machine.
MAY_CHANGE = re.compile(
    "max-update|max-epoch|total-num-update|patience|stop-.*|save-.*|keep-.*|validate-.*|.*-valid|disable-validation|"
    "no-save.*|no-.*-checkpoints|log-.*|tensorboard-logdir|no-progress-bar|num-workers|data-buffer-size|distributed-.*|"
    "user-dir|average-checkpoints|reset-.*|restore-file|continue-once|cpu|device-id|ddp-backend|"
    "more-training-data"  # compared by digest
)


@dataclass
class Run:
    """One recipe on one corpus, with the paths of its files."""

    recipe: Recipe
    named: str  # the recipe as on the command line
    corpus: Corpus
    directory: Path
    prepared: Path
    vocabulary: Path | None
    checkpoint: Path
    split: str
    extra: list[str]
    again: bool = False
    pretrained: Path | None = None  # the checkpoint that training starts from
    start_on: Path | None = None  # the raw corpus on which that one was trained, if it is another
    dry: bool = False  # commands are printed, not run
    own_corpus: bool = True  # the prepared corpus was made of this one, not named with --prepared
    own: Collection[str] = ()  # options in which the recipe differs from the one whose prepared corpus it uses

    @property
    def raw(self) -> Path:
        """The folder of the raw corpus."""
        return self.corpus.raw

    @property
    def model(self) -> Path:
        """The model that training writes."""
        return model_file(self.recipe, self.directory)

    @property
    def translations(self) -> Path:
        """The file that the stage generate writes."""
        return self.directory / f"{self.split}.jsonl"

    def check_files(self, stages: Sequence[str]) -> None:
        """Raise UserError, before anything is done, if the raw corpus lacks a split that one of the stages needs.

        If the corpus is only prepared, print the missing splits: it may be for addition to other corpora, or for
        translation only.
        """
        langs = [plain_language(lang) for lang in self.recipe.pair]
        if "prepare" not in stages:
            return
        try:
            splits = find_splits(self.raw, *langs)
        except NoLanguagePair as error:
            advice = "; ".join(f"for {pair} give --langs {pair.replace('-', ',')}" for pair in error.pairs)
            if any("_" in lang for lang in self.recipe.pair):  # a pretrained model's, which --langs does not take
                advice = f"name its files as {langs[0]}2{langs[1]}"
            raise UserError(f"{error}; {advice}" if advice else str(error)) from None
        alone, stage_of = len(stages) == 1, {"train": "train", "valid": "train", self.split: "generate"}
        for old, new in RAW_SPLITS.items():
            if new not in splits and new in stage_of and (alone or stage_of[new] in stages):
                message = f"{raw_file(self.raw, langs, old, langs[0])}: no such file; stage {stage_of[new]} needs it"
                if not alone:
                    raise UserError(f"{message}; give one, or run stage by stage")
                print(f"[prepare] {message}", file=sys.stderr, flush=True)

    def check_pretrained(self) -> None:
        """Raise UserError if training starts from another recipe's model and it is missing."""
        if self.pretrained:
            self._need(self.pretrained, "starts from it", self.recipe.pretrained_from, "train")

    def execute(self, stage: str) -> None:
        """Run one stage; a finished training is not repeated unless ``again``."""
        getattr(self, stage)()

    def prepare(self) -> None:
        """Raw corpus to binary data.

        One that another recipe has prepared keeps the options that it was prepared with, unless they are given. Moses'
        rules are denied by an option of their own, since without any the program keeps those of an existing corpus.
        """
        options, manifest = self.recipe.preparing(), read_record(self.prepared / "manifest.json")
        given = {dashed(change.partition("=")[0]).removeprefix("prepare.") for change in self.recipe.changes}
        given |= set(self.own)
        if self.recipe.prepared_from and self.prepared != self.directory / "prepared":
            before = {dashed(name): value for name, value in (manifest.get("settings") or {}).items()}
            options |= {name: before[name] for name in (COUNTED & before.keys()) - given}
        asked = "--moses-rules" in str(manifest.get("command")).split()  # not kept from an earlier version
        needed = options.get("moses-rules") or options.get("bpe-codes")
        if not needed and (asked or "moses-rules" in given):
            options["no-moses-rules"] = True
        if self.vocabulary:
            lender = self.recipe.pretrained_from if self.start_on else self.recipe.vocabulary_from
            self._need(self.vocabulary / "manifest.json", "takes its dictionary from it", lender, "prepare")
            options["vocabulary"] = self.vocabulary
        if "bpe-merges" not in given and not {"vocabulary", "sentencepiece", "bpe-codes"}.isdisjoint(options):
            options.pop("bpe-merges", None)  # of a recipe that this one is based on; the subwords are given
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
            self.check_pretrained()
            options["finetune-from-model"] = self.pretrained
        if (tuned := options.get("finetune-from-model")) and not self.dry:
            check_noted(Path(tuned), self.prepared)
        if options.get(CONTINUE) == START:
            options[CONTINUE] = options.pop("finetune-from-model", None)
        learning = self._training_options(options)
        options |= device_options(options, self.recipe.devices, torch.cuda.device_count())
        command = fairseq_command("train", self.prepared / "bin", on_device(options))
        further = str(options.get("more-training-data") or "")
        corpus = "" if self.dry else self._hold_settings(checkpoints, further, learning, options)
        done = not self.dry and not self.again and was_run("train", command + self.extra, self.directory)
        if done and self._is_whole(checkpoints):
            how = "to train on, give a higher train.max-update, train.max-epoch or train.patience"
            print(f"[train] done before, see {self.directory / 'train.json'} ({how})")
        else:
            search = self.recipe.options("generate")
            if not self.dry:
                (self.directory / "average.json").unlink(missing_ok=True)
            self._run("train", command, {"checkpoints": str(checkpoints), "corpus": corpus, "generate": search})
            if self.again and not self.dry:
                write_json(checkpoints / NOTED, read_record(checkpoints / NOTED) | {"options": learning})
        if self.recipe.averaged:
            self._average()

    def _is_whole(self, checkpoints: Path) -> bool:
        """Return whether the model of a finished training exists.

        If checkpoints are averaged, the mean or the last one suffices.
        """
        others = [checkpoints / LAST, self.model] if self.recipe.averaged else []
        return any(path.is_file() for path in (checkpoints / BEST.name, *others))

    def _average(self) -> None:
        """Average the last checkpoints, or the existing ones, unless that was done after the end of training."""
        options = {"last": self.recipe.averaged, "or-fewer": True, "output": self.model}
        command = python_command("gtransformer.cli.average", str(self.model.parent), options)
        if self.dry:
            print(f"# average\n{as_typed_by_hand(command + self.extra)}")
        elif not (self.model.is_file() and was_run("average", command, self.directory)):
            run_stage("average", command, self.directory, {"model": str(self.model)})

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
            options[FIRST_PASS] = self._start_model()
        command = fairseq_command("generate", self.prepared / "bin", on_device(options))
        if not self.dry:  # a failure leaves no translation of another model
            self.translations.unlink(missing_ok=True)
        text = None if self.dry else source_text(self.prepared, self.split)
        self._run(f"generate.{self.split}", command, {"translations": str(self.translations), "translated": text})
        if not self.dry and not self.translations.is_file():
            raise UserError(f"{self.translations}: not written; see {self.directory / f'generate.{self.split}.log'}")

    def _start_model(self) -> Path:
        """Return the model that training started from, for the first pass."""
        model = self.recipe.sections["train"].get("finetune-from-model") or self.pretrained
        if model is None or not (self.dry or Path(model).is_file()):
            raise UserError(
                f"{model or self.recipe.name}: the model that training starts from is not there, but recipe "
                f"'{self.recipe.name}' takes its first pass from it; name one with --set generate.{FIRST_PASS}=FILE"
            )
        return Path(model)

    def score(self) -> None:
        """Score the translations against the original text and, if possible, as the release does.

        Writes SPLIT.scores.json, which also has the changes of the recipe.
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
            changes = read_json(self.directory / f"score.{self.split}.json")["changes"]
            write_json(output, {**read_json(output), "recipe": self.recipe.name, "changes": changes})

    def _hold_settings(self, checkpoints: Path, further: str, options: dict[str, str], given: Options) -> str:
        """Store digests of the training data and of the models it starts from, and its options, with the checkpoints.

        Returns the digest of the corpus.

        Args:
            further: as for ``--more-training-data``; what ``prepare`` did not write of them is not known.
            options: ``_training_options``. A model of an earlier version has none stored.
            given: all options, among them the files of the models (``STARTS``), which may be moved.

        Raises UserError if the existing model was trained on another corpus, or on others than these, or started from
        other models; without ``again`` also if its options were others, since these would not change what has been
        trained.
        """
        now, path = noted_digests(self.prepared), checkpoints / NOTED
        others = [
            Path(one).parent for one in further.split(":") if one and (Path(one).parent / "manifest.json").is_file()
        ]
        if others:
            now["further"] = digest([noted_digests(one)["corpus"] for one in others])
        there = any(checkpoints.glob("*.pt"))
        before = read_json(path) if path.is_file() else now
        changed = [kind for kind, value in now.items() if before.get(kind, value) != value]
        if "options" in before and before.get("further") != now.get("further"):
            changed = changed or ["further"]
        if there and changed:
            where = self.prepared if changed != ["further"] else further or "this one without --more-training-data"
            raise UserError(
                f"{checkpoints}: the model there was trained on another corpus than {where} is now; remove that folder "
                "to train again, or choose another directory with --output"
            )
        starts = {name: model_digest(Path(str(given[name]))) for name in STARTS if given.get(name)}
        known = before.get("starts", starts) if there else starts
        for name in sorted(starts.keys() | known.keys()):
            gone = name in starts and starts[name] is None  # deleted after the training
            if not gone and starts.get(name) != known.get(name):
                raise UserError(
                    f"{checkpoints}: the model there started from another model ({name}) than "
                    f"{given.get(name) or 'this training, which has none'}; choose another directory with --output, "
                    "or remove that folder to train again"
                )
        trained = before.get("options", options) if there else options
        other = sorted(name for name in trained.keys() | options.keys() if trained.get(name) != options.get(name))
        if other and not self.again:
            values = ", ".join(f"{name} {trained.get(name)}, not {options.get(name)}" for name in other)
            raise UserError(
                f"{checkpoints}: the model there was trained with other options ({values}); choose another directory "
                "with --output, or give --again to train it on with these"
            )
        if not there or "options" in before:
            now["options"] = trained
        if not there or "starts" in before:
            now["starts"] = known
        write_json(path, now)
        return now["corpus"]

    def _training_options(self, options: Options) -> dict[str, str]:
        """Return the options of a training that a resumed one must share.

        They are neither ``MAY_CHANGE`` nor names of files, which may be moved. ``update-freq`` counts batches on one
        device.
        """
        batches = [self.recipe.devices * number for number in frequencies(options.get("update-freq", 1))]
        extra, name = {}, ""
        for word in self.extra:
            if word.startswith("--"):
                name, _, value = word.removeprefix("--").replace("_", "-").partition("=")
                extra[name], words = value or "True", []
            elif not name:
                raise UserError(f"{word}: options after -- have long names here, as --lr 0.0005; give that of {word}")
            else:
                words.append(word)
                extra[name] = " ".join(words)
        given = options | {"update-freq": ",".join(map(str, batches))} | extra
        return {
            name: str(value)
            for name, value in given.items()
            if not (MAY_CHANGE.fullmatch(name) or f"train.{name}" in FILES)
        }

    def _note_corpus(self) -> None:
        self.corpus.note(self.directory, recipe=self.recipe.name, generate=self.recipe.options("generate"))

    def _run(self, name: str, command: list[str], results: Options) -> None:
        """Run a stage's program; its record also has the changes of the recipe, here and in earlier stages."""
        stage = name.partition(".")[0]
        if self.dry:
            return print(f"# {stage}\n{as_typed_by_hand(command + self.extra)}")
        changes = [*noted_changes(self._sources(stage)), *stage_changes(stage, self.recipe.changes, self.extra)]
        noted = {"recipe": self.recipe.name, "changes": list(dict.fromkeys(changes)), "raw": str(self.raw.resolve())}
        if self.start_on:
            noted["start_on"] = str(self.start_on.resolve())
        self._note_corpus()
        try:
            run_stage(name, command + self.extra, self.directory, noted | results)
        except KeyboardInterrupt:
            last, kept = last_checkpoint(self.directory), "nothing; the same command restarts it"
            if stage == "train" and last.is_file():
                kept = f"{last}; the same command resumes"
            elif stage == "prepare":
                kept = f"the steps that are done, in {self.prepared}; the same command resumes"
            print(f"\n[{name}] kept of this stage: {kept}", flush=True)
            raise

    def _sources(self, stage: str) -> list[Path]:
        """Return the records of a stage's inputs; corpus and model may belong to other runs."""
        if stage == "prepare":
            return [self.vocabulary.parent / "prepare.json"] if self.vocabulary else []
        records = [self.prepared.parent / "prepare.json", self.directory / "prepare.json"]
        model = self.pretrained if stage == "train" else self.checkpoint
        records += [model.parent.parent / "train.json"] if model else []
        return records + ([self.directory / f"generate.{self.split}.json"] if stage == "score" else [])

    def _need_prepared(self, split: str) -> None:
        if self.dry:
            return
        binaries = self.prepared / "bin"
        if not (self.prepared / "manifest.json").is_file():
            raise UserError(f"{self.prepared}: no prepared corpus; first run stage prepare")
        splits = sorted({path.name.split(".")[0] for path in binaries.glob("*.idx")})
        if split not in splits:
            raise UserError(f"{binaries}: no {split} set; it has {', '.join(splits)} (choose one with --split)")
        if self.own_corpus:
            self._check_text(("train", "valid") if split == "train" else (split,))

    def _check_text(self, splits: Collection[str]) -> None:
        """Raise UserError if a raw file of these splits is not what was prepared; renamed ones are not compared."""
        inputs = read_record(self.prepared / "manifest.json").get("inputs") or {}
        for name, found in self.corpus.sums.items():
            if split_of(name) in splits and inputs.get(name, found) != found:
                how = "run stage prepare first" if split_of(name) == "test" else "choose another one with --output"
                raise UserError(f"{self.prepared}: was made from another text than {self.raw / name} is now; {how}")

    def _need(self, path: Path, why: str, recipe: str | None, stage: str) -> None:
        """Raise UserError, with the command that makes it, for a missing file of another recipe."""
        if self.dry or path.is_file():
            return
        pair = any(change.startswith(("task.source-lang", "task.target-lang")) for change in self.recipe.changes)
        named = ",".join(self.recipe.pair)  # by the recipe's file, perhaps; --langs takes none of a pretrained model's
        langs = f" --langs {named}" if pair or (named != "en,de" and "_" not in named) else ""
        raise UserError(
            f"{path}: does not exist yet, but recipe '{self.recipe.name}' {why}; first run: gtransformer run "
            f"{beside(self.named, recipe) if recipe else self.named} {self.start_on or self.raw} {stage}{langs}"
        )


def model_digest(path: Path) -> str | None:
    """Return the SHA-256 of a checkpoint or of the model in a directory; None if there is none."""
    path = path / MODEL_FILE if path.is_dir() else path
    return sha256(path) if path.is_file() else None


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the stages to run. Raise UserError for an unknown stage, for options after ``--`` with ``all``, and for
    options that a stage does not use.
    """
    if args.stage not in (*STAGES, "all"):
        raise UserError(f"unknown stage '{args.stage}': known are {', '.join(STAGES)} and all")
    if args.stage != "all":
        uses = {"--checkpoint": ("generate",), "--split": ("generate", "score"), "--again": ("train",)}
        given = {"--checkpoint": args.checkpoint, "--split": args.split != "test", "--again": args.again}
        for option, stages in uses.items():
            if given[option] and args.stage not in stages:
                raise UserError(f"{option} is for {' and '.join(stages)}, not for {args.stage}; leave it out")
        return (args.stage,)
    if args.extra:
        raise UserError("options after -- are for one stage; with 'all' write --set train.OPTION=VALUE")
    return tuple(stage for stage in STAGES if not (stage == "train" and (args.model_of or args.checkpoint)))


def make_run(args: argparse.Namespace) -> Run:
    """Return a run with its paths."""
    recipe = load_recipe(args.recipe, args.set)
    if args.model_of and "/" in args.model_of and not Path(args.model_of).is_dir():
        raise UserError(f"--model-of {args.model_of}: no such directory; give the corpus of the other run")
    corpus = Corpus.find(args.corpus, recipe.pair)
    directory = args.output or run_directory(recipe.name, corpus)

    def run_of(other: str, corpus: Corpus) -> Path:
        return run_directory(load_recipe(beside(args.recipe, other)).name, corpus)

    prepared, vocabulary, pretrained = args.prepared, None, None
    if recipe.vocabulary_from and "vocabulary" not in recipe.sections["prepare"]:
        vocabulary = run_of(recipe.vocabulary_from, corpus) / "prepared"
    if prepared is None and recipe.prepared_from and not (args.output or args.model_of or args.start_on):
        prepared = run_of(recipe.prepared_from, corpus) / "prepared"
    own = own_preparing(args.recipe) if prepared else {}
    start_on = corpus_directory(args.start_on) if args.start_on else None
    check_start(directory, start_on and str(start_on.resolve()))
    checkpoint, of = model_file(recipe, directory), corpus  # ``of``: the corpus of its model and of the start model
    if args.model_of:
        known = args.model_of in BENCHMARKS and (data_directory() / args.model_of).is_dir()
        # A removed corpus is known by the name of its runs.
        of = Corpus.find(args.model_of, recipe.pair) if known or Path(args.model_of).is_dir() else Corpus(args.model_of)
        if not {"bpe-codes", "sentencepiece", "bert", "vocabulary"} & recipe.sections["prepare"].keys():
            lender = run_of(recipe.prepared_from, of) if recipe.prepared_from else run_directory(recipe.name, of)
            vocabulary = lender / "prepared"
        checkpoint = model_file(recipe, run_directory(recipe.name, of))
    own_start = "finetune-from-model" in recipe.sections["train"]
    if start_on:
        if not recipe.pretrained_from or args.model_of or recipe.sections["train"].get("finetune-from-model"):
            reason = "starts from no other recipe's model" if not recipe.pretrained_from else "has another model here"
            raise UserError(f"--start-on {args.start_on}: recipe '{recipe.name}' {reason}; leave the option out")
        of, own_start = Corpus.find(args.start_on, recipe.pair), False
        preparer = load_recipe(preparer_of(beside(args.recipe, recipe.pretrained_from)))
        vocabulary = run_directory(preparer.name, of) / "prepared"
    if recipe.pretrained_from and not own_start:
        start = load_recipe(beside(args.recipe, recipe.pretrained_from))
        pretrained = model_file(start, run_directory(start.name, of))
    prepared = prepared or directory / "prepared"
    if ":" in str(prepared):
        raise UserError(f"{prepared}: fairseq takes a path with a colon for several; give another with --prepared")
    return Run(
        recipe,
        args.recipe,
        corpus,
        directory,
        prepared,
        vocabulary,
        args.checkpoint or checkpoint,
        args.split,
        args.extra,
        args.again,
        pretrained,
        start_on,
        args.dry_run,
        args.prepared is None,
        own,
    )
