"""The data of a study: the corpus, prepared once, and what is drawn from it, with its dictionary."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gtransformer.cli import demo_corpus
from gtransformer.cli.demo_stages import Job, Stages, digest, last_line, run_jobs
from gtransformer.cli.recipe import Options, Recipe
from gtransformer.cli.run import corpus_directory, python_command
from gtransformer.cli.study_plan import Data
from gtransformer.errors import UserError
from gtransformer.evaluation.prepared_split import find_sidecar
from gtransformer.files import atomic_write, read_json, read_lines, sha256
from gtransformer.preprocess.corpus import Pair, document_lines, find_splits, read_documents
from gtransformer.preprocess.instances import sentence_costs, split_instance
from gtransformer.preprocess.sidecar import Sidecar

DEMO = "demo"  # as a corpus: the demonstration's, which is generated
SAMPLE_SEED = 1  # training instances are drawn once for all systems and seeds of training


@dataclass
class Corpora:
    """The corpus of a study and its derivatives under ``directory``: corpora/NAME (raw), prepared/NAME.

    Attributes:
        corpus: a directory in the raw corpus format, a benchmark's name, or "demo".
        sizes: options of the demonstration corpus, as demo_corpus takes them.
        recipe: whose section ``prepare`` and languages are used.
    """

    stages: Stages
    directory: Path
    corpus: str
    sizes: dict[str, int]
    recipe: Recipe
    raw: Path = field(init=False)
    fingerprint: str = field(init=False)
    made: dict[Data, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        task = self.recipe.sections["task"]
        self.pair = str(task.get("source-lang", "en")), str(task.get("target-lang", "de"))
        self.options: Options = self.recipe.options("prepare")
        self.options |= {key: task[key] for key in ("source-lang", "target-lang", "langs") if key in task}
        self.length = int(self.options.get("max-instance-tokens", 512))
        self.base = self.directory / "prepared" / "base"

    def begin(self) -> None:
        """The raw corpus, found or generated, and prepared as the recipe says."""
        if self.corpus == DEMO:
            self.raw = self.directory / "corpora" / "demo"
            self.stages.run("corpus", self.sizes, [self.raw], self._write_demo)
        else:
            self.raw = corpus_directory(self.corpus)
        files = [path for pair in find_splits(self.raw, *self.pair).values() for path in pair]
        self.fingerprint = digest({path.name: sha256(path) for path in files})
        self._prepare("base", self.raw, self.base, {})

    def instances(self, data: Data) -> int:
        """How many training instances there are before any are drawn, cut to the length of ``data``."""
        whole = self.prepared(replace(data, instances=None))
        return read_json(whole / "manifest.json")["splits"]["train"]["instances"]

    def prepared(self, data: Data) -> Path:
        """The prepared directory of some data, made if need be. UserError if the corpus has less than is asked for."""
        if data not in self.made:
            self.made[data] = self._make(data)
        return self.made[data]

    def _make(self, data: Data) -> Path:
        if data == Data(self.length):
            return self.base
        target, raw = self.directory / "prepared" / data.name, self.raw
        if data.instances is not None:
            whole = self.prepared(replace(data, instances=None))
            raw = self._derive(data, whole)
        elif data.min_document_tokens is not None:
            raw = self._derive(data, self.base)
        changed = {"max-instance-tokens": data.length, "vocabulary": self.base}
        self._prepare(data.name, raw, target, changed, self.options.keys() - {"bpe-merges"})
        return target

    def _prepare(self, name: str, raw: Path, target: Path, changed: Options, kept: Iterable[str] | None = None) -> None:
        options = {key: value for key, value in self.options.items() if kept is None or key in kept} | changed
        settings = {"corpus": self.fingerprint, "options": {key: str(value) for key, value in options.items()}}

        def work() -> None:
            log = self.directory / "prepared" / f"{name}.log"
            command = python_command("gtransformer.cli.prepare", str(raw), str(target), options)
            job = Job(name, command, log, lambda: last_line(log))
            run_jobs("prepare", [job], 1, None, self.stages.lock.fileno())

        self.stages.run(f"prepare-{name}", settings, [target], work)

    def _derive(self, data: Data, source: Path) -> Path:
        """A raw corpus whose training set is part of that of ``source``, a prepared directory."""
        target = self.directory / "corpora" / data.name
        settings = {"corpus": self.fingerprint, "data": vars(data), "seed": SAMPLE_SEED}
        self.stages.run(f"corpus-{data.name}", settings, [target], lambda: self._write(data, source, target))
        return target

    def _write(self, data: Data, source: Path, target: Path) -> None:
        sidecar = Sidecar.load(find_sidecar(source, "train"))
        if data.instances is not None:
            cuts = sampled(sidecar, data.instances)
        else:
            cuts = long_documents(sidecar, source, self.pair, data.min_document_tokens or 0)
        if not cuts:
            raise UserError(
                f"{self.raw}: no training document has {data.min_document_tokens} tokens, which this study asks for"
            )
        write_part(source, target, self.pair, cuts)
        for split, files in find_splits(self.raw, *self.pair).items():
            if split != "train":
                for path in files:
                    (target / path.name).unlink(missing_ok=True)
                    (target / path.name).symlink_to(path.resolve())

    def _write_demo(self) -> None:
        options = [word for name, value in self.sizes.items() for word in (f"--{name}", str(value))]
        if demo_corpus.main(["--output", str(self.raw), *options]):
            raise UserError("the demonstration corpus could not be written; see above")


Cuts = dict[int, list[tuple[int, int | None]]]  # document -> (first sentence, sentences; None: to its end)


def sampled(sidecar: Sidecar, number: int) -> Cuts:
    """So many instances drawn without replacement, each to be a document of its own.

    The draw depends on the number of instances that there are, and nothing else. Raises UserError if there are fewer.
    """
    if number > len(sidecar.instances):
        raise UserError(f"{number} training instances were asked for, but the corpus has {len(sidecar.instances)}")
    cuts: Cuts = {}
    for index in sorted(random.Random(SAMPLE_SEED).sample(range(len(sidecar.instances)), number)):
        document, first, count = sidecar.instances[index]
        cuts.setdefault(document, []).append((first, count))
    return cuts


def long_documents(sidecar: Sidecar, prepared: Path, pair: tuple[str, str], tokens: int) -> Cuts:
    """The documents of at least so many tokens, counted as instances are: max(source, target) + 2 a sentence."""
    lengths: dict[int, int] = {}
    sides = (read_lines(prepared / "instances" / f"train.{lang}") for lang in pair)
    for (document, _, _), *lines in zip(sidecar.instances, *sides, strict=True):
        source, target = ([len(sentence.split()) for sentence in split_instance(line)] for line in lines)
        lengths[document] = lengths.get(document, 0) + sum(sentence_costs(source, target))
    return {document: [(0, None)] for document, length in lengths.items() if length >= tokens}


def write_part(prepared: Path, target: Path, pair: tuple[str, str], cuts: Cuts) -> None:
    """Write the chosen runs of sentences of the training text as documents in the raw corpus format."""
    chosen: list[list[Pair]] = []
    for number, document in enumerate(read_documents(*(prepared / "text" / f"train.{lang}" for lang in pair))):
        for first, count in cuts.get(number, []):
            chosen.append(document[first : None if count is None else first + count])
    for side, lang in enumerate(pair):
        with atomic_write(target / f"concatenated_{pair[0]}2{pair[1]}_train_{lang}.txt") as stream:
            stream.writelines(document_lines([[sentence[side] for sentence in document] for document in chosen]))
