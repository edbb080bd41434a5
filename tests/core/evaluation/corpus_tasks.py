"""Tasks over a prepared corpus of the tests, and its sentences, read from the text files."""

from __future__ import annotations

from pathlib import Path

from fairseq.tasks.translation import TranslationConfig, TranslationTask

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.files import read_lines
from gtransformer.plugin.config import TranslationDocConfig
from gtransformer.plugin.task import TranslationDocTask
from gtransformer.preprocess.instances import split_instance
from tests.support import ROOT

PREPARED = ROOT / "tests" / "prepared" / "len48"
PAIR = {"source_lang": "en", "target_lang": "de"}


def doc_task(prepared: Path = PREPARED, **options) -> TranslationDocTask:
    """The task of a model with these options."""
    cfg = TranslationDocConfig(
        data=str(prepared / "bin"), dataset_impl=None, train_subset="train", **PAIR, **options
    )
    return TranslationDocTask.setup_task(cfg)


def fairseq_task() -> TranslationTask:
    """fairseq's own."""
    return TranslationTask.setup_task(TranslationConfig(data=str(PREPARED / "bin"), **PAIR))


def text(task, split: str) -> tuple[InstanceIndex, list[list[list[list[int]]]]]:
    """The instance index, and of both sides the stored instances as sentences of indices, read from
    the text.
    """
    sides = []
    for lang, dictionary in (("en", task.source_dictionary), ("de", task.target_dictionary)):
        lines = map(split_instance, read_lines(PREPARED / "instances" / f"{split}.{lang}"))
        sides.append(
            [[[dictionary.index(w) for w in sentence.split()] for sentence in one] for one in lines]
        )
    return InstanceIndex.load(PREPARED / "bin" / f"{split}.en-de.instances.json"), sides


Sides = tuple[list[list[int]], list[list[int]]]


def tokens(side) -> int:
    return sum(len(sentence) + 2 for sentence in side)


def longer(source, target) -> int:
    return sum(max(len(one), len(other)) + 2 for one, other in zip(source, target, strict=True))


def sentences_of(split: str) -> dict[tuple[int, int], tuple[list[int], list[int]]]:
    """By document and place in it, source and target, from the text files."""
    instance_index, sides = text(doc_task(), split)
    found = {}
    for (document, first, count), source, target in zip(
        instance_index.instances, *sides, strict=True
    ):
        for number in range(count):
            found[document, first + number] = source[number], target[number]
    return found
