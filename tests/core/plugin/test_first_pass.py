"""Two passes through the task: where first translations come from, what a batch is, what cannot
be.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from gtransformer.data.instance_index import InstanceIndex
from gtransformer.data.translations import read_translations
from gtransformer.errors import UserError
from gtransformer.models.transformer import InstanceTransformerModel
from gtransformer.search.sequential import SecondPass
from tests.core.models.test_docflat import system
from tests.core.plugin.loaded import LEN48, documents, load, spans_of
from tests.core.plugin.test_document_batches import DOCFLAT, epoch_of, iterator
from tests.support import drawn

pytestmark = pytest.mark.slow

TWO = {**DOCFLAT, "context_loss": "on", "context_sentences": 2}
SEARCH = {"beam": 2, "max_len_a": 0, "max_len_b": 3}
SENTENCES = {"instances": "disjoint", "context_sentences": 0}


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    """First translations: the references."""
    path = tmp_path_factory.mktemp("first") / "some.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        for number, ((document, at), words) in enumerate(sorted(documents("test", "de").items())):
            place = {"document": document, "first_sentence": at, "sentences": 1, "current": [at, 1]}
            best = {"score": 0.0, "sentences": [" ".join(words[:-1])]}
            stream.write(json.dumps({"id": number, **place, "hypotheses": [best]}) + "\n")
    return path


def loaded(first_pass, model=None, **options):
    """A task with its test set, a model, and the generator."""
    task, dataset = load("test", **{**TWO, **options}, first_pass=str(first_pass))
    model = model or system(task.tgt_dict, "C").float()
    return task, dataset, model, task.build_generator([model], Namespace(**SEARCH))


def batches_of(task, dataset):
    return list(iterator(task, dataset, max_tokens=30).next_epoch_itr(shuffle=False))


def words(task, tokens) -> list[str]:
    return [task.tgt_dict[token] for token in tokens.tolist()]


def test_batches_and_what_each_translation_begins_with(given):
    """--batch-sentences whatever --max-tokens; references as first translations are the reference's
    context.
    """
    reference, expected = load("test", **TWO)[1], documents("test", "de")
    task, dataset, _, generator = loaded(given, batch_sentences=4)
    assert type(generator) is SecondPass
    sizes = [len(batch["id"]) for batch in batches_of(task, dataset)]
    lengths = [sum(place.document == number for place in spans_of(dataset)) for number in range(3)]
    assert sizes == [min(4, length - at) for length in lengths for at in range(0, length, 4)]
    for batch in batches_of(task, dataset):
        for number, prefix in zip(batch["id"].tolist(), generator.contexts(batch), strict=True):
            place = spans_of(dataset)[number]
            begun = [reference[number]["prev_output_tokens"], dataset[number]["prev_output_tokens"]]
            whole, own = (words(task, one) for one in begun)
            assert own == ["<s>", *expected[place.document, place.first_sentence]]
            assert [*words(task, prefix), *own] == whole
    whole = iterator(*loaded(given, batch_sentences=16)[:2])
    assert [len(ids) for ids in epoch_of(whole, shuffle=False)] == lengths


@torch.no_grad()
def test_translated_and_written(given, tmp_path):
    """Each sentence once; fairseq's score beside it is of what was translated."""
    prefix = tmp_path / "second"
    task, dataset, model, generator = loaded(given, batch_sentences=4, gen_output=str(prefix))
    for batch in batches_of(task, dataset):
        for nbest in task.inference_step(generator, [model], batch):
            assert len(nbest) == 2 and words(task, nbest[0]["tokens"])[-2:] == ["</s>", "[de]"]
    instance_index = InstanceIndex.load(LEN48 / "bin" / "test.en-de.instances.json")
    translations = read_translations(prefix.with_suffix(".jsonl"), instance_index)
    assert len(translations) == 22 and all(
        one.sentences == 1 and not one.misaligned for one in translations
    )


@torch.no_grad()
def test_also_for_a_transformer_that_reads_no_batch(given):
    """Doc2Doc by two passes: its batches are any, and hypotheses those of one sentence."""
    task = load("test", **TWO)[0]
    model = drawn(task.tgt_dict, InstanceTransformerModel).float()
    found = []
    for order in ("size", "document"):
        task, dataset, _, generator = loaded(given, model, batch_order=order, doc_mode="full")
        found.append({})
        for batch in batches_of(task, dataset):
            best = (
                nbest[0]["tokens"].tolist()
                for nbest in task.inference_step(generator, [model], batch)
            )
            found[-1] |= dict(zip(batch["id"].tolist(), best, strict=True))
    assert found[0] == found[1] and len(found[0]) == 22


def test_single_sentences_need_no_first_pass():
    """A decoder that reads the batch, without local context: sentences are translated together all
    the same.
    """
    task, dataset = load("test", **SENTENCES, batch_order="document", batch_sentences=3)
    model = system(task.tgt_dict, "C").float()
    generator = task.build_generator([model], Namespace(**SEARCH))
    assert type(generator) is SecondPass
    with torch.no_grad():
        batch = batches_of(task, dataset)[0]
        assert len(batch["id"]) == 3 and len(task.inference_step(generator, [model], batch)) == 3
    task.build_generator([model], Namespace(score_reference=True))


def test_first_passes_that_cannot_be(given, tmp_path):
    (tmp_path / "part.jsonl").write_text(given.read_text().split("\n")[0] + "\n")
    with pytest.raises(UserError, match="part.jsonl: sentence 1 of document 0"):
        loaded(tmp_path / "part.jsonl")
