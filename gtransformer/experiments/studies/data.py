"""The data of a study: the corpus, prepared once, and what is drawn from it, with its dictionary."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gtransformer.data.sidecar import Sidecar
from gtransformer.errors import UserError
from gtransformer.evaluation.prepared_split import find_sidecar
from gtransformer.experiments.commands import call_command, python_command
from gtransformer.experiments.jobs import Job, run_jobs
from gtransformer.experiments.pipeline import Stages, digest, was_done
from gtransformer.experiments.progress import last_line
from gtransformer.experiments.recipe import Options, Recipe
from gtransformer.experiments.run import BENCHMARKS, corpus_directory
from gtransformer.experiments.studies.plan import Data
from gtransformer.files import atomic_write, read_json, read_lines, sha256
from gtransformer.preprocess.corpus import Pair, document_lines, find_splits, read_documents
from gtransformer.preprocess.instances import sentence_costs, split_instance

DEMO = "demo"  # as a corpus: the demonstration's, which is generated
SAMPLE_SEED = 1  # training instances are drawn once for all systems and seeds of training


@dataclass
class Corpora:
    """The corpus of a study and its derivatives under ``directory``: corpora/NAME (raw), prepared/NAME.

    A name ends in a digest of all that its content depends on, the settings of what it was derived from included: what
    other settings make lies elsewhere, so that no run goes on with other data than it was begun with.

    Attributes:
        stages: of the directory; None only to look at what is there.
        corpus: a directory in the raw corpus format, a benchmark's name, or "demo".
        sizes: options of the demonstration corpus, as demo_corpus takes them.
        recipe: whose section ``prepare`` and languages are used.
    """

    stages: Stages | None
    directory: Path
    corpus: str
    sizes: dict[str, int]
    recipe: Recipe
    raw: Path = field(init=False)
    fingerprint: str = field(init=False)  # of the raw files
    made: set[Data] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.options = self.recipe.preparing()
        self.pair = str(self.options.get("source-lang", "en")), str(self.options.get("target-lang", "de"))
        self.length = int(self.options.get("max-instance-tokens", 512))
        self.generated = self.directory / "corpora" / f"demo-{digest(self.sizes)[:8]}"

    def begin(self) -> None:
        """The raw corpus, found or generated, and prepared as the recipe says."""
        if self.corpus == DEMO:
            self.stages.run(self.generated.name, self.sizes, [self.generated], self._write_demo)
        self._read_raw()
        self.prepared(Data(self.length))

    def look(self) -> str | None:
        """Find the raw corpus without making anything; says what is missing if it is not there yet.

        Raises UserError for a directory that is no corpus.
        """
        if self.corpus == DEMO and not was_done(self.directory, self.generated.name, self.sizes, [self.generated]):
            return "the demonstration corpus is not generated yet"
        try:
            self._read_raw()
        except UserError as error:
            if self.corpus not in BENCHMARKS:
                raise
            return str(error)
        return None

    def _read_raw(self) -> None:
        self.raw = self.generated if self.corpus == DEMO else corpus_directory(self.corpus)
        files = [path for pair in find_splits(self.raw, *self.pair).values() for path in pair]
        self.fingerprint = digest({path.name: sha256(path) for path in files})

    def instances(self, data: Data) -> int:
        """How many training instances there are before any are drawn, cut to the length of ``data``."""
        self.prepared(replace(data, instances=None))
        return self.known_instances(data)

    def known_instances(self, data: Data) -> int | None:
        """The same if they are prepared already, else None."""
        manifest = self.folder(replace(data, instances=None)) / "manifest.json"
        return read_json(manifest)["splits"]["train"]["instances"] if manifest.is_file() else None

    def source(self, data: Data) -> Data | None:
        """The data whose training set that of ``data`` is part of; None if it is all of the corpus."""
        if data.instances is not None:
            return replace(data, instances=None)
        return Data(self.length) if data.min_document_tokens is not None else None

    def deriving(self, data: Data) -> Any:
        """What the raw corpus of some data depends on."""
        source = self.source(data)
        if source is None:
            return self.fingerprint
        return {"from": self.settings(source), "data": vars(data), "seed": SAMPLE_SEED}

    def settings(self, data: Data) -> dict[str, Any]:
        """What a prepared directory depends on."""
        if data == Data(self.length):
            return {"corpus": self.fingerprint, "options": self.options}
        options = {key: value for key, value in self.options.items() if key != "bpe-merges"}
        lender = self.settings(Data(self.length))
        return {
            "corpus": self.deriving(data),
            "options": options | {"max-instance-tokens": data.length},
            "lender": lender,
        }

    def folder(self, data: Data) -> Path:
        """Where some data is prepared."""
        name = "base" if data == Data(self.length) else data.name
        return self.directory / "prepared" / f"{name}-{digest(self.settings(data))[:8]}"

    def prepared(self, data: Data) -> Path:
        """The prepared directory of some data, made if need be. UserError if the corpus has less than is asked for."""
        folder = self.folder(data)
        if data not in self.made:
            source, raw = self.source(data), self.raw
            if source is not None:
                raw = self.directory / "corpora" / f"{data.name}-{digest(self.deriving(data))[:8]}"
                whole = self.prepared(source)
                work = partial(self._write, data, whole, raw)
                self.stages.run(f"corpus-{raw.name}", self.deriving(data), [raw], work)
            settings, vocabulary = self.settings(data), {}
            if data != Data(self.length):
                vocabulary = {"vocabulary": self.prepared(Data(self.length))}
            work = partial(self._prepare, raw, folder, settings["options"] | vocabulary)
            self.stages.run(f"prepare-{folder.name}", settings, [folder], work)
            self.made.add(data)
        return folder

    def read(self, data: Data) -> tuple[Path, list[str]]:
        """The prepared directory that a run on some data reads, and changes to its recipe so that it reads that data.

        Data of another length are those of the recipe's, grouped greedily when loaded: the same instances in the same
        order as if prepared at that length. Instances that are drawn, or cut by a number of sentences, are prepared.
        """
        if data.length == self.length or data.instances is not None or "max-sents" in self.options:
            return self.prepared(data), []
        shared = self.prepared(replace(data, length=self.length))
        return shared, ["task.instances=greedy", f"task.instance-tokens={data.length}"]

    def _prepare(self, raw: Path, target: Path, options: Options) -> None:
        log = target.with_name(f"{target.name}.log")
        command = python_command("gtransformer.cli.prepare", str(raw), str(target), options)
        job = Job(target.name, command, log, lambda: last_line(log))
        run_jobs("prepare", [job], 1, None, self.stages.lock.fileno())

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
        call_command("demo_corpus", {"output": self.generated, **self.sizes})


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
