"""The data of a study: the corpus, prepared once, and samples of it with its dictionary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.errors import UserError
from gtransformer.evaluation.prepared_split import find_instance_index
from gtransformer.files import digest, read_json, read_lines, sha256
from gtransformer.lab.demo.reach_corpus import ITEMS, SET
from gtransformer.lab.demo.shipped import ITEMS as DEMO_ITEMS
from gtransformer.lab.pipeline import Program
from gtransformer.lab.planner import Planner, last_line
from gtransformer.lab.recipes import call_command
from gtransformer.lab.studies.study import Data
from gtransformer.preprocess.corpus import find_splits, read_documents
from gtransformer.preprocess.formats import write_split
from gtransformer.preprocess.instances import sentence_costs, split_instance
from gtransformer.run.commands import python_command
from gtransformer.run.paths import corpus_directory
from gtransformer.run.recipe import Options, Recipe

DEMO = "demo"  # name of the generated demonstration corpus
CONTRASTIVE_ITEMS = "contrastive-items"  # size that adds the demonstration's own contrastive items
SAMPLE_SEED = 1  # one draw of training instances for all systems and seeds

Cuts = dict[int, list[tuple[int, int | None]]]  # document -> (first sentence, sentences; None: to its end)


class Corpora(Planner):
    """The corpus of a study and its derivatives in the study's directory: corpora/NAME (raw), prepared/NAME.

    A name ends in the identity of the stage that makes it. Other settings have other folders, so no run resumes with
    other data.

    Args:
        corpus: a directory in the raw corpus format, a benchmark's name, or "demo".
        sizes: options of the demonstration corpus, as for demo_corpus; with ``items`` as for reach_corpus, with its set
            by distance.
        recipe: gives the section ``prepare`` and the languages.
    """

    raw: Path  # set when it is found
    fingerprint: str  # of its files
    items: Path | None = None  # contrastive items: the generated set has some, the demonstration corpus if asked for

    def __init__(self, directory: Path, corpus: str, sizes: dict[str, int], recipe: Recipe):
        super().__init__(directory, "study")
        self.corpus, self.options = corpus, recipe.preparing()
        self.pair = str(self.options.get("source-lang", "en")), str(self.options.get("target-lang", "de"))
        self.length = int(self.options.get("max-instance-tokens", 512))
        self.base = Data(self.length)  # the corpus as prepared by the recipe
        self._stages: dict[Data, str] = {}
        if corpus == DEMO:
            self.generated = self.directory / "corpora" / f"demo-{self.pipeline.identify(sizes)[:8]}"
            maker = "lab.cli.reach_corpus" if "items" in sizes else "lab.cli.demo_corpus"
            if "items" in sizes:
                self.items = self.generated / SET / ITEMS
            elif CONTRASTIVE_ITEMS in sizes:
                self.items = self.generated / DEMO_ITEMS
            work = partial(call_command, maker, {"output": self.generated, **sizes})
            self.add(self.generated.name, sizes, [self.generated], work)

    def begin(self) -> None:
        """Find or generate the raw corpus, and prepare it by the recipe."""
        self.pipeline.run("corpus")
        self.raw = self.generated if self.corpus == DEMO else corpus_directory(self.corpus)
        files = [path for pair in find_splits(self.raw, *self.pair).values() for path in pair]
        self.fingerprint = digest({path.name: sha256(path) for path in files})
        self.prepared(self.base)

    def instances(self, data: Data) -> int:
        """Return the number of training instances of the length of ``data`` before sampling."""
        manifest = self.prepared(replace(data, instances=None)) / "manifest.json"
        return read_json(manifest)["splits"]["train"]["instances"]

    def folder(self, data: Data) -> Path:
        """Return the folder of prepared data."""
        return self.pipeline.stages[self._stage(data)].outputs[0]

    def prepared(self, data: Data) -> Path:
        """Return the directory of prepared data, made if needed. Raises UserError if the corpus is too small."""
        folder = self.folder(data)
        self.pipeline.run("prepare")
        return folder

    def contrastive_corpus(self) -> Path:
        """Return the prepared corpus of the contrastive items, made if needed."""
        if self.items != self.generated / SET / ITEMS:
            return self.prepared(self.base)
        after = [self.generated.name, self._stage(self.base)]
        name = self._preparing("set", self.generated / SET, self._derived(self.base), after)
        self.pipeline.run("prepare")
        return self.pipeline.stages[name].outputs[0]

    def read(self, data: Data) -> tuple[Path, list[str]]:
        """Return the prepared directory for data, and the changes of a recipe to read that data there.

        Data of another length are the recipe's, grouped greedily when loaded, with the same instances in the same order
        as if prepared at that length. Sampled instances, or instances with a number of sentences, are prepared.
        """
        # The sample depends on the instances' length, and the task has no option to load a sample of a split. Such an
        # option, with a list of instances, would only save their binaries.
        if data.length == self.length or data.instances is not None or "max-sents" in self.options:
            return self.prepared(data), []
        shared = self.prepared(replace(data, length=self.length))
        return shared, ["task.instances=greedy", f"task.instance-tokens={data.length}"]

    def _source(self, data: Data) -> Data | None:
        """Return the data whose training set contains that of ``data``; None if that is the whole corpus."""
        if data.instances is not None:
            return replace(data, instances=None)
        return self.base if data.min_document_tokens is not None else None

    def _stage(self, data: Data) -> str:
        """Return the stage that prepares data; it is added after the stages that it depends on."""
        if data in self._stages:
            return self._stages[data]
        raw, after = self.raw, []
        if source := self._source(data):
            whole, after = self.folder(source), [self._stage(source)]
            settings = {"data": data.settings, "seed": SAMPLE_SEED}
            raw = self.directory / "corpora" / f"{data.name}-{self.pipeline.identify(settings, after)[:8]}"
            after = [self.add(f"corpus-{raw.name}", settings, [raw], partial(self._draw, data, whole, raw), after)]
        if data == self.base:
            name, options = "base", self.options
        else:
            name, options, after = data.name, self._derived(data), [*after, self._stage(self.base)]
        self._stages[data] = self._preparing(name, raw, options, after)
        return self._stages[data]

    def _derived(self, data: Data) -> Options:
        """Return the settings to prepare other text with the corpus's dictionary."""
        return self.options | {"max-instance-tokens": data.length}

    def _preparing(self, name: str, raw: Path, options: Options, after: Sequence[str]) -> str:
        """Add the stage that prepares a raw corpus, unless it exists; derived data with the base's dictionary."""
        settings = {"corpus": self.fingerprint, "options": options}
        target = self.directory / "prepared" / f"{name}-{self.pipeline.identify(settings, after)[:8]}"
        stage, log = f"prepare-{target.name}", target.with_name(f"{target.name}.log")
        if stage not in self.pipeline.stages:
            vocabulary = {} if options is self.options else {"vocabulary": self.folder(self.base)}
            command = python_command("gtransformer.cli.prepare", str(raw), str(target), options | vocabulary)
            self.add(stage, settings, [target], Program(command, log, partial(last_line, log)), after)
        return stage

    def _draw(self, data: Data, source: Path, target: Path) -> None:
        """Write the raw corpus of data: a part of the training set, and links to the other splits."""
        instance_index = InstanceIndex.load(find_instance_index(source, "train"))
        if data.instances is not None:
            cuts = sampled(instance_index, data.instances)
        else:
            cuts = long_documents(instance_index, source, self.pair, data.min_document_tokens or 0)
        if not cuts:
            tokens = data.min_document_tokens
            raise UserError(f"{self.raw}: no training document has {tokens} tokens, which this study needs")
        write_part(source, target, self.pair, cuts)
        for split, files in find_splits(self.raw, *self.pair).items():
            for path in files if split != "train" else ():
                (target / path.name).unlink(missing_ok=True)
                (target / path.name).symlink_to(path.resolve())


def sampled(instance_index: InstanceIndex, number: int) -> Cuts:
    """Return ``number`` instances drawn without replacement; each becomes a document.

    The draw depends only on the total number of instances. Raises UserError if there are too few.
    """
    if number > len(instance_index.instances):
        raise UserError(f"{number} training instances are needed, but the corpus has {len(instance_index.instances)}")
    cuts: Cuts = {}
    for index in sorted(random.Random(SAMPLE_SEED).sample(range(len(instance_index.instances)), number)):
        document, first, count = instance_index.instances[index]
        cuts.setdefault(document, []).append((first, count))
    return cuts


def long_documents(instance_index: InstanceIndex, prepared: Path, pair: tuple[str, str], tokens: int) -> Cuts:
    """Return the documents of at least ``tokens`` tokens, counted as for instances: max(source, target) + 2 per
    sentence.
    """
    lengths: dict[int, int] = {}
    sides = (read_lines(prepared / "instances" / f"train.{lang}") for lang in pair)
    for (document, _, _), *lines in zip(instance_index.instances, *sides, strict=True):
        source, target = ([len(sentence.split()) for sentence in split_instance(line)] for line in lines)
        lengths[document] = lengths.get(document, 0) + sum(sentence_costs(source, target))
    return {document: [(0, None)] for document, length in lengths.items() if length >= tokens}


def write_part(prepared: Path, target: Path, pair: tuple[str, str], cuts: Cuts) -> None:
    """Write the chosen runs of sentences of the training text as documents in the raw corpus format."""
    documents = enumerate(read_documents(*(prepared / "text" / f"train.{lang}" for lang in pair)))
    chosen = (
        document[first : None if count is None else first + count]
        for number, document in documents
        for first, count in cuts.get(number, [])
    )
    write_split(target, "train", pair, chosen)
