"""The instances that items are scored in are those that the model's own options ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from gtransformer.data.places import Place
from gtransformer.data.sidecar import Sidecar, join
from gtransformer.errors import UserError
from gtransformer.evaluation.corpus_instances import corpus_instances
from gtransformer.files import read_lines
from gtransformer.preprocess.instances import split_instance
from gtransformer.tasks.config import TranslationDocConfig
from gtransformer.tasks.translation_doc import TranslationDocTask
from tests.support import ROOT

PREPARED = ROOT / "tests" / "prepared" / "len48"
PAIR = {"source_lang": "en", "target_lang": "de"}


def doc_task(prepared: Path = PREPARED, **options) -> TranslationDocTask:
    """The task of a model with these options."""
    cfg = TranslationDocConfig(data=str(prepared / "bin"), dataset_impl=None, train_subset="train", **PAIR, **options)
    return TranslationDocTask.setup_task(cfg)


def fairseq_task() -> TranslationTask:
    """fairseq's own."""
    return TranslationTask.setup_task(TranslationConfig(data=str(PREPARED / "bin"), **PAIR))


def text(task, split: str) -> tuple[Sidecar, list[list[list[list[int]]]]]:
    """The sidecar, and of both sides the stored instances as sentences of indices, read from the text."""
    sides = []
    for lang, dictionary in (("en", task.source_dictionary), ("de", task.target_dictionary)):
        lines = map(split_instance, read_lines(PREPARED / "instances" / f"{split}.{lang}"))
        sides.append([[[dictionary.index(w) for w in sentence.split()] for sentence in one] for one in lines])
    return Sidecar.load(PREPARED / "bin" / f"{split}.en-de.instances.json"), sides


@pytest.mark.parametrize("make", [doc_task, fairseq_task])
@pytest.mark.parametrize("split", ["test", "train"])
def test_as_prepared(make, split):
    """Every instance that lies there, in training, too, where words are dropped otherwise; and of fairseq's task."""
    task = make(doc_noise_mask=0.9) if make is doc_task else make()
    sidecar, (sources, targets) = text(task, split)
    found = corpus_instances(task, PREPARED, split)
    assert list(found.places) == [Place(*row) for row in sidecar.instances]
    assert [found.read(number) for number in range(len(found.places))] == list(zip(sources, targets, strict=True))


def test_single_sentences():
    task = doc_task(instances="disjoint", context_sentences=0)
    sidecar, sides = text(task, "test")
    found = corpus_instances(task, PREPARED, "test")
    source, target = (join(sidecar, side) for side in sides)
    sentences = [(document, number) for document, one in enumerate(source) for number in range(len(one))]
    assert list(found.places) == [Place(document, number, 1, (number, 1)) for document, number in sentences]
    expected = [([source[document][number]], [target[document][number]]) for document, number in sentences]
    assert [found.read(number) for number in range(len(sentences))] == expected


def test_context_of_the_source_alone():
    task = doc_task(instances="current", context_sentences=2, doc_mode="full")
    sidecar, sides = text(task, "test")
    found = corpus_instances(task, PREPARED, "test")
    source, target = (join(sidecar, side) for side in sides)
    place = next(number for number, place in enumerate(found.places) if place.current[0] == 3)
    document = found.places[place].document
    assert found.places[place] == Place(document, 3, 1, (3, 1))
    assert found.read(place) == (source[document][1:4], [target[document][3]])


def test_what_is_missing_or_damaged(tmp_path):
    with pytest.raises(UserError, match="no split 'dev'; it has: test, train, valid"):
        corpus_instances(doc_task(), PREPARED, "dev")
    prepared = shutil.copytree(PREPARED, tmp_path / "prepared")
    path = prepared / "bin" / "test.en-de.instances.json"
    sidecar = Sidecar.load(path)
    document, first, count = sidecar.instances[0]
    sidecar.instances[0] = (document, first, count + 1)
    sidecar.save(path)
    with pytest.raises(UserError, match=r"test.en-de.instances.json: instance 0 has 3 sentences, in the data it has 2"):
        corpus_instances(doc_task(prepared), prepared, "test").read(0)
    sidecar.instances.pop()
    sidecar.save(path)
    with pytest.raises(UserError, match="prepare the corpus again"):
        corpus_instances(doc_task(prepared), prepared, "test")
