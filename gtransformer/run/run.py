"""A recipe on a corpus: its four commands, printed or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gtransformer.errors import UserError
from gtransformer.files import PARAMETERS, write_json
from gtransformer.preprocess.manifest import NOTED, check_noted, noted_digests
from gtransformer.run.before import BEFORE, before_training, keep_better, verdict
from gtransformer.run.commands import (
    as_typed_by_hand,
    device_options,
    fairseq_command,
    on_device,
    python_command,
)
from gtransformer.run.paths import CHECKPOINTS, corpus_directory, model_file, runs_directory
from gtransformer.run.recipe import LANGUAGES, Options, Recipe, load_recipe
from gtransformer.run.stage import SEARCH, run_stage

STAGES = ("prepare", "train", "generate", "score")
# In section generate: START makes the model that training started from the first pass; else a file
# is named.
FIRST_PASS, START = "first-pass", "start"


@dataclass
class Run:
    """One recipe on one corpus, with the paths of its files.

    Attributes:
        raw: the folder of the raw corpus.
        directory: where everything is written.
        prepared: the prepared corpus.
        checkpoint: the model that translates.
        split: what is translated: train, valid or test.
        preparer: the run of the recipe that prepares the corpus, if another one.
        start: the run whose model training starts from.
        gpus: number of GPUs; 0: the CPU.
        dry: print commands instead of running them.
        again: run stages that were run before.
    """

    recipe: Recipe
    raw: Path
    directory: Path
    prepared: Path
    checkpoint: Path
    split: str = "test"
    preparer: Run | None = None
    start: Run | None = None
    gpus: int = 0
    dry: bool = False
    again: bool = False

    def all(self, stages: Sequence[str] = STAGES) -> None:
        """Run all stages; first train the model that training starts from."""
        done = None
        if self.start and "train" in stages:
            self.start.all(("prepare", "train"))
            done = self.start.prepared
        for stage in stages:
            if stage != "prepare" or done != self.prepared:
                getattr(self, stage)()

    def prepare(self) -> None:
        """Prepare the raw corpus; the program itself keeps one that was prepared in the same
        way.
        """
        if self.preparer:
            return self.preparer.prepare()
        if not self.dry and not self.raw.is_dir():
            raise UserError(
                f"{self.raw}: no such directory; ted, news and europarl come by scripts/get_NAME.sh"
            )
        command = python_command(
            "gtransformer.cli.prepare", str(self.raw), str(self.prepared), self.recipe.preparing()
        )
        self._run("prepare", command, [], again=True)

    def train(self) -> None:
        """Run fairseq-train, which resumes from the last checkpoint if there is one; then average,
        if asked for.
        """
        checkpoints = self.directory / CHECKPOINTS
        options = {"save-dir": checkpoints, **self.training()}
        inputs = self._inputs(options, "finetune-from-model", "sentence-model")
        if not self.dry:
            if tuned := options.get("finetune-from-model"):
                check_noted(Path(tuned), self.prepared)
        if self.recipe.measure_start:
            start = before_training(options) | {"save-dir": self.directory / BEFORE}
            self._fairseq(BEFORE, "train", start, inputs)
        trained = self._fairseq("train", "train", options, inputs)
        if not self.dry:
            write_json(checkpoints / NOTED, noted_digests(self.prepared))
            write_json(self.directory / SEARCH, self.recipe.options("generate"))
        if self.recipe.measure_start and trained:
            keep_better(self.directory / BEFORE, self.checkpoint, self.recipe)
        if self.recipe.averaged:
            options = {"last": self.recipe.averaged, "or-fewer": True, "output": self.checkpoint}
            self._run(
                "average",
                python_command("gtransformer.cli.average", str(checkpoints), options),
                [],
                again=True,
            )

    def training(self) -> Options:
        """Return the options of fairseq-train but its save-dir."""
        options = self.recipe.training()
        if "tensorboard-logdir" in options:
            options["tensorboard-logdir"] = self.directory / options["tensorboard-logdir"]
        if self.start:
            options["finetune-from-model"] = self.start.checkpoint
        return on_device(
            options | device_options(options, self.recipe.devices, self.gpus), self.gpus
        )

    def generate(self) -> None:
        """Run fairseq-generate, which writes SPLIT.jsonl."""
        self._generate(self.checkpoint, self.directory, "generate")
        if self.recipe.measure_start:
            self._generate(
                self.directory / BEFORE / "checkpoint_best.pt", self.directory / BEFORE, BEFORE
            )

    def _generate(self, checkpoint: Path, output: Path, name: str) -> None:
        options = {"path": checkpoint, "gen-subset": self.split, "gen-output": output / self.split}
        options |= self.recipe.options("task", "generate")
        if options.get(FIRST_PASS) == START:
            started = self.start and self.start.checkpoint
            options[FIRST_PASS] = self.recipe.train.get("finetune-from-model", started)
        if not self.dry:
            check_noted(self.checkpoint, self.prepared)
        options, inputs = on_device(options, self.gpus), self._inputs(options, FIRST_PASS)
        self._fairseq(f"{name}.{self.split}", "generate", options, [checkpoint, *inputs])

    def _inputs(self, options: Options, *models: str) -> list[Path]:
        """Return the files that a stage's result depends on: the corpus, and the models that some
        options name.
        """
        named = [Path(options[name]) for name in models if options.get(name)]
        files = [path / PARAMETERS if path.is_dir() else path for path in named]
        return [self.prepared / "manifest.json", *files]

    def score(self) -> None:
        """Score the translations against the original text and as the authors' release does:
        SPLIT.scores.json.
        """
        translations = self.directory / f"{self.split}.jsonl"
        options = {
            "hypotheses": translations,
            "output": translations.with_suffix(".scores.json"),
            "reference": "both",
        }
        self._score("score", options | self.recipe.options("score"), [translations])
        if self.recipe.measure_start:
            before = self.directory / BEFORE / translations.name
            both = [f"before={before}", f"after={translations}"]
            options = {
                "hypotheses": both,
                "output": before.with_suffix(".scores.json"),
                "metrics": "bleu",
            }
            self._score("compare", options | {"test": True}, [before, translations])
            if not self.dry:
                print(verdict(self.directory / BEFORE, self.split))

    def _score(self, name: str, options: Options, inputs: list[Path]) -> None:
        command = python_command(
            "gtransformer.cli.score", str(self.prepared), {"split": self.split, **options}
        )
        self._run(f"{name}.{self.split}", command, [*inputs, self.prepared / "manifest.json"])

    def _fairseq(self, name: str, program: str, options: Options, inputs: list[Path]) -> bool:
        return self._run(name, fairseq_command(program, self.prepared / "bin", options), inputs)

    def _run(self, name: str, command: list[str], inputs: list[Path], again: bool = False) -> bool:
        """Run or print a stage's command; return whether it was run."""
        if self.dry:
            print(as_typed_by_hand(command))
            return False
        return run_stage(name, command, self.directory, inputs, self.again or again)


def make_run(
    name: str,
    corpus: str,
    changes: Sequence[str] = (),
    output: Path | None = None,
    prepared: Path | None = None,
    checkpoint: Path | None = None,
    **settings,
) -> Run:
    """Return a recipe's run in ``RUNS/RECIPE/CORPUS``, and those of other recipes that it needs.

    Args:
        name: of the recipe, or a path.
        corpus: ted, news, europarl, or a directory in the raw format.
        changes: of the recipe, ``SECTION.OPTION=VALUE``. Those of preparation and languages are
            also for the others.
        output: another directory of the run, which then has its own prepared corpus.
        prepared, checkpoint: another prepared corpus, another model.
        settings: further attributes of ``Run``.
    """
    recipe, raw = load_recipe(name, changes), corpus_directory(corpus)
    recipe.measure_start &= checkpoint is None
    directory = output or runs_directory() / recipe.name / raw.resolve().name
    languages = tuple(f"task.{option}=" for option in LANGUAGES)
    common = [change for change in changes if change.startswith(("prepare.", *languages))]
    shared = {key: value for key, value in settings.items() if key in ("gpus", "dry", "again")}
    preparer = start = None
    if recipe.prepared_from and not (prepared or output):
        preparer = make_run(recipe.prepared_from, corpus, common, **shared)
    if recipe.pretrained_from and "finetune-from-model" not in recipe.options("train"):
        start = make_run(recipe.pretrained_from, corpus, common, prepared=prepared, **shared)
    prepared = prepared or (preparer.prepared if preparer else directory / "prepared")
    checkpoint = checkpoint or model_file(recipe, directory)
    return Run(
        recipe, raw, directory, prepared, checkpoint, preparer=preparer, start=start, **settings
    )
