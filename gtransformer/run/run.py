"""A recipe on a corpus: where its files lie, and its stages prepare, train, generate, score."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gtransformer.errors import UserError
from gtransformer.evaluation.references import reference_option
from gtransformer.files import read_json, write_json
from gtransformer.preprocess.corpus import SPLITS as RAW_SPLITS
from gtransformer.preprocess.corpus import NoLanguagePair, find_splits, raw_file
from gtransformer.preprocess.manifest import NOTED, check_noted, check_translated, noted_digests, source_text
from gtransformer.run.commands import (
    as_typed_by_hand,
    device_options,
    fairseq_command,
    on_device,
    python_command,
)
from gtransformer.run.recipe import Options, Recipe, beside, load_recipe
from gtransformer.run.run_places import (
    BENCHMARKS,
    BEST,
    Corpus,
    benchmark_directory,
    corpus_directory,
    model_file,
    run_directory,
)
from gtransformer.run.stage import check_start, noted_changes, run_stage, sign_scores, stage_changes, was_run
from gtransformer.tasks.checkpoint_file import training_done
from gtransformer.tasks.finetuning import LAST
from gtransformer.tasks.interrupted_save import finish_interrupted_save, had_best, is_cut_short
from gtransformer.tasks.long_work import spoken
from gtransformer.tasks.no_score import NONE
from gtransformer.work import read_record

SPLITS = ("train", "valid", "test")
STAGES = ("prepare", "train", "generate", "score")
# In section generate: what translates first is the model that training started from; else a file as fairseq-generate's.
FIRST_PASS, START = "first-pass", "start"
# Options of a prepared corpus that several recipes use; one of them may have been given others than its recipe says.
COUNTED = (
    "bpe_merges",
    "max_instance_tokens",
    "max_sentence_tokens",
    "max_sents",
    "moses_rules",
    "normalise_punctuation",
)
CONTINUE = "continue-once"  # in section train, START: that model's training goes on, with optimizer and schedule


@dataclass
class Run:
    """One recipe on one corpus, and where its files lie."""

    recipe: Recipe
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

    @property
    def raw(self) -> Path:
        """The folder of the raw corpus."""
        return self.corpus.raw

    def check_files(self, stages: Sequence[str]) -> None:
        """Raise UserError, before anything is done, where the raw corpus lacks a split that one of the stages needs.

        Where it is only prepared, say what it lacks for the others.
        """
        if "prepare" not in stages or not any(self.raw.glob("concatenated_*")):
            return
        langs = [lang.partition("_")[0] for lang in self.recipe.pair]
        try:
            splits = find_splits(self.raw, *langs)
        except NoLanguagePair as error:
            advice = "; ".join(f"for {pair} give --langs {pair.replace('-', ',')}" for pair in error.pairs)
            raise UserError(f"{error}; {advice}" if advice else str(error)) from None
        alone = len(stages) == 1
        wanted = ["train", "valid"] if alone or "train" in stages else []
        wanted += [self.split] if alone or {"generate", "score"} & set(stages) else []
        for old, new in RAW_SPLITS.items():
            if new in wanted and new not in splits:
                what = {"train": "training", "valid": "development", "test": "test"}[new]
                path = raw_file(self.raw, langs, old, langs[0])
                if alone:  # corpora to be added to others, or translated by another's model, have not all of them
                    later = "generate" if new == "test" else "train"
                    said = f"[prepare] {path}: no such file; stage {later} will need a {what} set"
                    print(said, file=sys.stderr, flush=True)
                    continue
                raise UserError(f"{path}: no such file; 'all' needs a {what} set; give one, or run stage by stage")

    def check_pretrained(self) -> None:
        """Raise UserError where the model that training starts from is another recipe's and is not there."""
        if self.pretrained and not self.dry and not self.pretrained.is_file():
            raise UserError(
                f"{self.pretrained}: not there yet, but recipe '{self.recipe.name}' starts from it; first run: "
                f"{self._other_recipe(self.recipe.pretrained_from, 'train', self.start_on)}"
            )

    def execute(self, stage: str) -> None:
        """Run one stage; a finished training is not repeated unless ``again``."""
        getattr(self, stage)()

    def prepare(self) -> None:
        """Raw corpus to binary data.

        One that another recipe has prepared keeps the options that it was prepared with, unless they are given.
        """
        if not any(self.raw.glob("concatenated_*")):
            langs = [lang.partition("_")[0] for lang in self.recipe.pair]
            one, other = (raw_file(self.raw, langs, "train", lang).name for lang in langs)
            raise UserError(
                f"{self.raw}: holds no corpus; its files must be named {one}, {other} and so on (another language "
                "pair: --langs)"
            )
        options = self.recipe.preparing()
        if self.recipe.prepared_from and self.prepared != self.directory / "prepared":
            options |= self._prepared_with()
        if self.vocabulary:
            if not self.dry and not (self.vocabulary / "manifest.json").is_file():
                lender = self.recipe.pretrained_from if self.start_on else self.recipe.vocabulary_from
                raise UserError(
                    f"{self.vocabulary}: not there yet, but recipe '{self.recipe.name}' takes its dictionary from it; "
                    f"first run: {self._other_recipe(lender, 'prepare', self.start_on)}"
                )
            options["vocabulary"] = self.vocabulary
        command = python_command("gtransformer.cli.prepare", str(self.raw), str(self.prepared), options)
        self._run("prepare", command, {"prepared": str(self.prepared)})

    def _prepared_with(self) -> Options:
        """The options that the prepared corpus has been made with, but for those that the command line gives."""
        settings = read_record(self.prepared / "manifest.json").get("settings") or {}
        given = {change.partition("=")[0] for change in self.recipe.changes}
        return {
            name.replace("_", "-"): value
            for name, value in settings.items()
            if name in COUNTED and not {f"prepare.{name}", f"prepare.{name.replace('_', '-')}"} & given
        }

    def train(self) -> None:
        """fairseq-train, going on from the last checkpoint if there is one; then the mean of the last, if wanted."""
        self._need_prepared("train")
        options = {"save-dir": self.directory / "checkpoints", **self.recipe.training()}
        if "tensorboard-logdir" in options:
            options["tensorboard-logdir"] = self.directory / str(options["tensorboard-logdir"])
        if self.pretrained:
            self.check_pretrained()
            options["finetune-from-model"] = self.pretrained
        if (tuned := options.get("finetune-from-model")) and not self.dry:
            check_noted(Path(tuned), self.prepared)
        if options.get(CONTINUE) == START:
            options[CONTINUE] = options.pop("finetune-from-model", None)
        options |= device_options(options, self.recipe.devices, torch.cuda.device_count())
        command = fairseq_command("train", self.prepared / "bin", on_device(options))
        checkpoints = self.directory / BEST.parent
        if self.dry:
            self._run("train", command, {})
            if self.recipe.averaged:
                self._average(model_file(self.recipe, self.directory))
            return
        corpus = self._hold_corpus(checkpoints)
        if not self.again and was_run("train", command + self.extra, self.directory) and self._is_whole(checkpoints):
            print(f"[train] done before, see {self.directory / 'train.json'} (--again trains on)")
        else:
            (self.directory / "average.json").unlink(missing_ok=True)
            search = self.recipe.options("generate")
            self._run("train", command, {"checkpoints": str(checkpoints), "corpus": corpus, "generate": search})
        if self.recipe.averaged:
            self._average(model_file(self.recipe, self.directory))

    def _is_whole(self, checkpoints: Path) -> bool:
        """Whether the model of a finished training is there; what was cut is made again if another file is the same.

        Where checkpoints are averaged, the mean or the last one will do. False, too, where there never was a best one.
        Raises UserError if the model was lost, but others of the training are there: fairseq would find nothing to do.
        """
        if not any(checkpoints.glob("*.pt")):
            return False
        finish_interrupted_save(checkpoints)
        best, last = checkpoints / BEST.name, checkpoints / LAST
        others = [last, model_file(self.recipe, self.directory)] if self.recipe.averaged else []
        if any(map(_is_sound, [best, *others])):
            return True
        if not self.recipe.averaged and not best.exists() and _is_sound(last) and not had_best(last):
            return False
        raise UserError(
            f"{others[0] if others else best}: missing or cut short, though the training was finished; put it back, or "
            f"remove {checkpoints} to train again"
        )

    def _average(self, model: Path) -> None:
        """The mean of the last checkpoints, or of those that there are, unless it was made since the training ended."""
        options = {"last": self.recipe.averaged, "or-fewer": True, "output": model}
        command = python_command("gtransformer.cli.average", str(model.parent), options)
        earlier = [part for part in command if part != "--or-fewer"]  # as it was before there was that option
        if self.dry:
            return self._run("average", command, {})
        made = any(was_run("average", one, self.directory) for one in (command, earlier))
        if not (made and model.is_file()):
            run_stage("average", command, self.directory, {"model": str(model)})

    def generate(self) -> None:
        """fairseq-generate; writes SPLIT.jsonl."""
        self._need_prepared(self.split)
        if not self.dry:
            if not self.checkpoint.is_file():
                raise UserError(f"{self.checkpoint}: no such checkpoint; train first, or name one with --checkpoint")
            check_noted(self.checkpoint, self.prepared)
        options = {
            "path": self.checkpoint,
            "gen-subset": self.split,
            "gen-output": self.directory / self.split,
            "scoring": NONE,  # the stage score does; fairseq's would be of subwords
            **self.recipe.options("task", "generate"),
        }
        if options.get(FIRST_PASS) == START:
            options[FIRST_PASS] = self._start_model()
        command = fairseq_command("generate", self.prepared / "bin", on_device(options))
        if self.dry:
            return self._run("generate", command, {})
        translations = self._translations()
        results = {"translations": str(translations), "translated": source_text(self.prepared, self.split)}
        self._run(f"generate.{self.split}", command, results)
        if not translations.is_file():
            raise UserError(f"{translations}: not written; see {self.directory / f'generate.{self.split}.log'}")

    def _start_model(self) -> Path:
        """The model that training started from, which translates first."""
        model = self.recipe.sections["train"].get("finetune-from-model") or self.pretrained
        if model is None or not (self.dry or Path(model).is_file()):
            raise UserError(
                f"{model or self.recipe.name}: the model that training starts from is not there, but recipe "
                f"'{self.recipe.name}' takes its first pass from it; name one with --set generate.{FIRST_PASS}=FILE"
            )
        return Path(model)

    def score(self) -> None:
        """Scores of the translations against the untouched text, and as the release has them where that can be.

        Writes SPLIT.scores.json, which says what was changed in the recipe.
        """
        translations = self._translations()
        if not self.dry and not translations.is_file():
            raise UserError(f"{translations}: no translations to score; first run stage generate")
        if not self.dry:
            check_translated(translations, self.prepared, self.split)
        output = self.directory / f"{self.split}.scores.json"
        options = {"split": self.split, "hypotheses": translations, "output": output, **self.recipe.options("score")}
        if not {"reference", "paper"} & options.keys():
            options["reference"] = "both" if self.dry else reference_option(self.prepared, self.split)
        command = python_command("gtransformer.cli.score", str(self.prepared), options)
        if self.dry:
            return self._run("score", command, {})
        self._run(f"score.{self.split}", command, {"scores": str(output)})
        sign_scores(output, self.recipe.name, read_json(self.directory / f"score.{self.split}.json")["changes"])

    def _hold_corpus(self, checkpoints: Path) -> str:
        """Digest of what a training reads of the prepared corpus, noted beside its checkpoints.

        Raises UserError if the model there is of another corpus: it would be kept, or trained on, as if of this one.
        """
        now, path = noted_digests(self.prepared), checkpoints / NOTED
        before = read_json(path) if path.is_file() else now
        if any(checkpoints.glob("*.pt")) and before not in (now, now["corpus"]):  # a text: of an earlier version
            raise UserError(
                f"{checkpoints}: the model there was trained on another corpus than {self.prepared} holds now; remove "
                "that folder to train anew, or choose another directory with --output"
            )
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_json(path, now)
        return now["corpus"]

    def _run(self, name: str, command: list[str], results: Options) -> None:
        """Run a stage's program; its record also says what was changed in the recipe, here and before."""
        if self.dry:
            return print(f"# {name}\n{as_typed_by_hand(command + self.extra)}")
        stage = name.partition(".")[0]
        before = noted_changes(self._sources(stage))
        changes = dict.fromkeys([*before, *stage_changes(stage, self.recipe.changes, self.extra)])
        noted = {"recipe": self.recipe.name, "changes": list(changes), "raw": str(self.raw.resolve()), **results}
        if self.start_on:
            noted["start_on"] = str(self.start_on.resolve())
        self.directory.mkdir(parents=True, exist_ok=True)
        self.corpus.note(self.directory, recipe=self.recipe.name, generate=self.recipe.options("generate"))
        try:
            run_stage(name, command + self.extra, self.directory, noted)
        except KeyboardInterrupt:
            print(f"\n[{name}] {self._kept(stage)}", flush=True)
            raise

    def _kept(self, stage: str) -> str:
        """What an interrupted stage leaves for the same command to go on with."""
        last = self.directory / BEST.with_name(LAST)
        if stage == "train" and last.is_file():
            age = spoken(time.time() - last.stat().st_mtime)
            done = f"{last} (update {training_done(last).updates}, written {age} ago) is kept"
            return f"{done}; the same command goes on from there"
        if stage == "prepare":
            return f"the steps that are done are kept in {self.prepared}; the same command goes on after them"
        return "nothing is kept of this stage; the same command begins it anew, after those that are done"

    def _sources(self, stage: str) -> list[Path]:
        """The records of what a stage builds on; corpus and model may be those of other runs."""
        if stage == "prepare":
            return [self.vocabulary.parent / "prepare.json"] if self.vocabulary else []
        records = [self.prepared.parent / "prepare.json", self.directory / "prepare.json"]
        model = self.pretrained if stage == "train" else self.checkpoint
        if model:
            records.append(model.parent.parent / "train.json")
        if stage == "score":
            records.append(self.directory / f"generate.{self.split}.json")
        return records

    def _translations(self) -> Path:
        return self.directory / f"{self.split}.jsonl"

    def _need_prepared(self, split: str) -> None:
        if self.dry:
            return
        binaries = self.prepared / "bin"
        if not (self.prepared / "manifest.json").is_file():
            raise UserError(f"{self.prepared}: no prepared corpus; first run stage prepare")
        splits = sorted({path.name.split(".")[0] for path in binaries.glob("*.idx")})
        if split not in splits:
            raise UserError(f"{binaries}: no {split} set; it has {', '.join(splits)} (choose one with --split)")

    def _other_recipe(self, name: str | None, stage: str, raw: Path | None = None) -> str:
        pair = [change for change in self.recipe.changes if change.startswith(("task.source-lang", "task.target-lang"))]
        langs = f" --langs {','.join(self.recipe.pair)}" if pair else ""
        return f"bash scripts/run.sh {name or self.recipe.name} {raw or self.raw} {stage}{langs}"


def _is_sound(path: Path) -> bool:
    return path.is_file() and not is_cut_short(path)


def stages_of(args: argparse.Namespace) -> tuple[str, ...]:
    """The stages to run. Raises UserError for an unknown one, or options for fairseq that no single stage gets."""
    if args.stage not in (*STAGES, "all"):
        raise UserError(f"unknown stage '{args.stage}': known are {', '.join(STAGES)} and all")
    if args.stage != "all":
        return (args.stage,)
    if args.extra:
        raise UserError("options after -- are for one stage; with 'all' write --set train.OPTION=VALUE")
    return tuple(stage for stage in STAGES if not (stage == "train" and (args.model_of or args.checkpoint)))


def make_run(args: argparse.Namespace) -> Run:
    """Work out the paths of a run."""
    recipe = load_recipe(args.recipe, args.set)
    corpus = Corpus.find(args.corpus, recipe.pair)
    directory = args.output or run_directory(recipe.name, corpus)
    prepared, vocabulary = args.prepared, None
    if recipe.vocabulary_from and "vocabulary" not in recipe.sections["prepare"]:
        vocabulary = run_directory(recipe.vocabulary_from, corpus) / "prepared"
    if prepared is None and recipe.prepared_from and not (args.output or args.model_of or args.start_on):
        prepared = run_directory(recipe.prepared_from, corpus) / "prepared"
    start_on = corpus_directory(args.start_on) if args.start_on else None
    check_start(directory, start_on and str(start_on.resolve()))
    checkpoint, pretrained = model_file(recipe, directory), None
    if recipe.pretrained_from and "finetune-from-model" not in recipe.sections["train"]:
        pretrained = _start(recipe, args, corpus)
    if args.start_on:
        vocabulary, pretrained = _start_on(recipe, args)
    if args.model_of:
        other = Corpus.find(args.model_of, recipe.pair) if _is_corpus(args.model_of) else Corpus(args.model_of)
        vocabulary = run_directory(recipe.prepared_from or recipe.name, other) / "prepared"
        checkpoint = model_file(recipe, run_directory(recipe.name, other))
        pretrained = pretrained and _start(recipe, args, other)
    return Run(
        recipe,
        corpus,
        directory,
        prepared or directory / "prepared",
        vocabulary,
        args.checkpoint or checkpoint,
        args.split,
        args.extra,
        args.again,
        pretrained,
        start_on,
        args.dry_run,
    )


def _is_corpus(name: str) -> bool:
    """Whether a corpus is there; else it is known by the name that its runs have."""
    return name in BENCHMARKS and benchmark_directory(name).is_dir() or Path(name).is_dir()


def _start_on(recipe: Recipe, args: argparse.Namespace) -> tuple[Path, Path]:
    """Vocabulary and checkpoint of the start of a recipe that was trained on another corpus (``--start-on``)."""
    if not recipe.pretrained_from or args.model_of or recipe.sections["train"].get("finetune-from-model"):
        reason = "starts from no other recipe's model" if not recipe.pretrained_from else "has another model here"
        raise UserError(f"--start-on {args.start_on}: recipe '{recipe.name}' {reason}; leave the option out")
    corpus = Corpus.find(args.start_on, recipe.pair)
    preparer = load_recipe(beside(args.recipe, recipe.pretrained_from)).prepared_from or recipe.pretrained_from
    return run_directory(preparer, corpus) / "prepared", _start(recipe, args, corpus)


def _start(recipe: Recipe, args: argparse.Namespace, corpus: Corpus) -> Path:
    """The model that a recipe starts from, as trained on a corpus."""
    start = load_recipe(beside(args.recipe, recipe.pretrained_from))
    return model_file(start, run_directory(recipe.pretrained_from, corpus))
