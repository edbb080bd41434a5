"""A recipe on a corpus: its four commands, printed or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gtransformer.files import write_json
from gtransformer.installation import PACKAGE, corpus_directory, runs_directory
from gtransformer.plugin.checkpoints import AVERAGE, keep_better
from gtransformer.preprocess.manifest import DIGEST_FILE, check_vocabulary, vocabulary_digest
from gtransformer.run.commands import (
    as_typed,
    device_options,
    executable,
    on_device,
    to_arguments,
)
from gtransformer.run.recipe import LANGUAGES, Options, Recipe, load_recipe
from gtransformer.run.stage import SEARCH, run_stage

CHECKPOINTS = "checkpoints"  # in a run's directory
STAGES = ("prepare", "train", "generate", "score")
SPLIT = "test"  # what is translated
TRANSLATIONS = f"{SPLIT}.jsonl"  # in a run's directory
# In section generate: START lets the first pass be the translations of the model that training
# started from; else a file is named.
FIRST_PASS, START = "first-pass", "start"


def model_file(recipe: Recipe, directory: Path) -> Path:
    """Return the model of a recipe's run: its best checkpoint, or the mean of its last ones."""
    return (
        directory / CHECKPOINTS / (AVERAGE if recipe.average_checkpoints else "checkpoint_best.pt")
    )


@dataclass
class Run:
    """One recipe on one corpus, with the paths of its files.

    Attributes:
        raw: the folder of the raw corpus.
        directory: where everything is written.
        prepared: the prepared corpus.
        start: the run whose model training starts from.
        before: the run that saves the model before training (``measure-start``).
        gpus: number of GPUs; 0: the CPU.
        dry: print commands instead of running them.
        again: run stages that were run before.
    """

    recipe: Recipe
    raw: Path
    directory: Path
    prepared: Path
    start: Run | None = None
    before: Run | None = None
    gpus: int = 0
    dry: bool = False
    again: bool = False

    @property
    def checkpoint(self) -> Path:
        """The model that translates."""
        return model_file(self.recipe, self.directory)

    def all(self, stages: Sequence[str] = STAGES) -> None:
        """Run all stages; first train the model that training starts from."""
        if self.start:
            self.start.all(("prepare", "train"))
        is_prepared = self.start and self.start.prepared == self.prepared
        for stage in stages[1:] if is_prepared else stages:
            getattr(self, stage)()

    def prepare(self) -> None:
        """Prepare the raw corpus; the program itself keeps one that was prepared in the same
        way.
        """
        words = ["gtransformer", "prepare", str(self.raw), str(self.prepared)]
        task = self.recipe.task
        languages = {key: task[key] for key in LANGUAGES if key in task}
        self._run("prepare", words, self.recipe.options("prepare") | languages)

    def train(self) -> None:
        """Run fairseq-train, which resumes from the last checkpoint if there is one; then average,
        if asked for.
        """
        if self.before:
            self.before.train()
        checkpoints = self.directory / CHECKPOINTS
        options = {"save-dir": checkpoints, **self.training()}
        names = ("finetune-from-model", "sentence-model")
        models = [Path(options[name]) for name in names if options.get(name)]
        for model in () if self.dry else models:
            check_vocabulary(model, self.prepared)
        # The models are inputs: another one at the same path is another training.
        self._fairseq("train", "train", options, *models)
        if not self.dry:  # also when done before: an interruption may have come in between
            write_json(checkpoints / DIGEST_FILE, vocabulary_digest(self.prepared))
            write_json(self.directory / SEARCH, self.recipe.options("generate"))
            # The mean of checkpoints has no validation loss to compare.
            if self.before and not self.recipe.average_checkpoints:
                higher = bool(options.get("maximize-best-checkpoint-metric"))
                print(keep_better(self.before.checkpoint, self.checkpoint, higher))
        if self.recipe.average_checkpoints:
            options = {"last": self.recipe.average_checkpoints, "output": self.checkpoint}
            words = ["gtransformer", "average", str(checkpoints)]
            self._run("average", words, options, checkpoints / "checkpoint_last.pt")

    def training(self) -> Options:
        """Return the options of fairseq-train but its save-dir."""
        options = self.recipe.training()
        if "tensorboard-logdir" in options:
            options["tensorboard-logdir"] = self.directory / options["tensorboard-logdir"]
        if self.start:
            options["finetune-from-model"] = self.start.checkpoint
        # A recipe is written for some number of GPUs; with fewer, updates keep their size by
        # --update-freq.
        options |= device_options(options, self.recipe.devices, self.gpus)
        return on_device(options, self.gpus)

    def generate(self) -> None:
        """Run fairseq-generate on the test set, which writes test.jsonl."""
        options = self.recipe.options("task", "generate")
        if options.get(FIRST_PASS) == START:
            if self.start:
                self.start.generate()
            start = Path(self.training()["finetune-from-model"]).parents[1]
            options[FIRST_PASS] = start / TRANSLATIONS
        inputs = [Path(options[FIRST_PASS])] if options.get(FIRST_PASS) else []
        if not self.dry:
            check_vocabulary(self.checkpoint, self.prepared)
        files = {"path": self.checkpoint, "gen-output": self.directory / SPLIT}
        options = on_device({**files, "gen-subset": SPLIT, **options}, self.gpus)
        self._fairseq(f"generate.{SPLIT}", "generate", options, self.checkpoint, *inputs)
        if self.before:
            self.before.generate()

    def score(self) -> None:
        """Score the translations against the original text and as the authors' release does:
        test.scores.json.
        """
        translations = self.directory / TRANSLATIONS
        options = {"hypotheses": translations, "reference": "both"} | self.recipe.options("score")
        self._score("score", "scores.json", options, translations)
        if self.before:
            before = self.before.directory / TRANSLATIONS
            both = [f"before={before}", f"after={translations}"]
            options = {"hypotheses": both, "metrics": "bleu", "test": True}
            self._score("compare", "comparison.json", options, before, translations)

    def _score(self, name: str, file: str, options: Options, *inputs: Path) -> None:
        words = ["gtransformer", "score", str(self.prepared)]
        options = {"split": SPLIT, "output": self.directory / f"{SPLIT}.{file}", **options}
        self._run(f"{name}.{SPLIT}", words, options, *inputs)

    def _fairseq(self, name: str, program: str, options: Options, *inputs: Path) -> None:
        words = [f"fairseq-{program}", str(self.prepared / "bin")]
        inputs = self.prepared / "manifest.json", *inputs
        self._run(name, words, {"user-dir": PACKAGE, **options}, *inputs)

    def _run(self, name: str, words: list[str], options: Options, *inputs: Path) -> None:
        """Run or print a stage's command."""
        command = [*words, *to_arguments(options)]
        if self.dry:
            print(as_typed(command))
            return
        # gtransformer prepare itself keeps a corpus that is what it would make.
        again = self.again or name == "prepare"
        run_stage(name, executable(command), self.directory, inputs, again)


def before_training(run: Run) -> Run:
    """Return a run whose training is one update that changes nothing: it saves the start of a
    training, validated.
    """
    # A learning rate of zero: fairseq then validates and saves the model as it starts.
    changing = "warmup-init-lr", "patience", "stop-min-lr", "validate-after-updates"
    options = dict.fromkeys(changing)
    options |= {"lr": 0, "max-update": 1, "no-save-optimizer-state": True}
    recipe = replace(run.recipe, train=run.recipe.train | options, average_checkpoints=None)
    return replace(run, recipe=recipe, directory=run.directory / "before")


def make_run(
    name: str,
    corpus: str,
    changes: Sequence[str] = (),
    output: Path | None = None,
    prepared: Path | None = None,
    **settings,
) -> Run:
    """Return a recipe's run in ``RUNS/RECIPE/CORPUS``, and those of other recipes that it needs.

    Args:
        name: of the recipe, or a path.
        corpus: ted, news, europarl, or a directory in the raw format.
        changes: of the recipe, ``SECTION.OPTION=VALUE``. Those of preparation and languages are
            also for the others.
        output: another directory of the run, which then has its own prepared corpus.
        prepared: another prepared corpus.
        settings: further attributes of ``Run``.
    """
    recipe, raw = load_recipe(name, changes), corpus_directory(corpus)
    runs, corpus_name = runs_directory(), raw.resolve().name
    directory = output or runs / recipe.name / corpus_name
    # The other recipes' runs must read the same corpus in the same languages.
    shared = ("prepare.", *(f"task.{option}=" for option in LANGUAGES))
    common = [change for change in changes if change.startswith(shared)]
    folder = prepared or directory / "prepared"
    if recipe.prepared_from and not (prepared or output):
        owner = load_recipe(recipe.prepared_from, common)
        folder = runs / owner.name / corpus_name / "prepared"
        recipe = replace(recipe, prepare=owner.prepare)
    run = Run(recipe, raw, directory, folder, **settings)
    if recipe.pretrained_from and "finetune-from-model" not in recipe.options("train"):
        run.start = make_run(recipe.pretrained_from, corpus, common, prepared=prepared, **settings)
    if recipe.measure_start:
        run.before = before_training(run)
    return run
