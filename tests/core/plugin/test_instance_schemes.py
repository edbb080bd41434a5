"""Instances that are grouped at loading: through the task, fairseq's iterator, its workers, its
generator.
"""

from argparse import Namespace
from collections import defaultdict

import numpy as np
import pytest

from gtransformer.data.instances import parts
from gtransformer.plugin.criterion import FusedLabelSmoothedCrossEntropy
from tests.core.plugin.loaded import documents, iterator, load, sentences_of, setup, spans_of
from tests.support import model_options, read_jsonl, tiny_model, trainable

pytestmark = pytest.mark.slow

SCHEMES = {
    "greedy": {"instances": "greedy", "instance_tokens": 70},
    "disjoint": {"instances": "disjoint", "context_sentences": 1},
    "sliding": {"instances": "sliding", "context_sentences": 2},
    "parts": {"instances": "parts", "instance_tokens": 70},
    "current": {"instances": "current", "context_sentences": 2, "doc_mode": "full"},
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("kind", SCHEMES)
def test_instances_are_what_their_places_say(kind, split):
    task, dataset = load(split, **SCHEMES[kind])
    source, target = documents(split, "en"), documents(split, "de")
    spans, taken = spans_of(dataset), []
    assert len(spans) == len(dataset)
    for number, place in enumerate(spans):
        item, document = dataset[number], place.document
        first, count = place.current
        translated = range(place.first_sentence, place.first_sentence + place.sentences)
        assert sentences_of(task, item["prev_output_tokens"]) == [
            target[document, i] for i in translated
        ]
        read_sentences = sentences_of(task, item["source"])
        last = translated[-1]
        assert read_sentences == [
            source[document, last - i] for i in range(len(read_sentences) - 1, -1, -1)
        ]
        assert len(read_sentences) == len(translated) or kind == "current" and len(translated) == 1
        assert item["target"].tolist() == [*item["prev_output_tokens"].tolist()[1:], task.language]
        assert dataset.src_sizes[number] == len(item["source"]) and dataset.tgt_sizes[
            number
        ] == len(item["target"])
        taken += [(document, i) for i in range(first, first + count)]
    assert taken == sorted(source)


@pytest.mark.parametrize("kind", SCHEMES)
def test_without_an_instance_index_an_instance_is_the_document(corpus, kind):
    """The release's files: an instance can be cut, and is never joined with another."""
    task, dataset = load(folder=corpus(train=6))
    stored = [sentences_of(task, dataset[i]["prev_output_tokens"]) for i in range(6)]
    task, dataset = load(folder=corpus(train=6), **SCHEMES[kind])
    found = {}
    for number, place in enumerate(spans_of(dataset)):
        sentences = sentences_of(task, dataset[number]["prev_output_tokens"])
        first = place.current[0] - place.first_sentence
        found.setdefault(place.document, []).extend(sentences[first : first + place.current[1]])
    assert [found[number] for number in range(6)] == stored
    if kind == "greedy":
        assert len(dataset) == 6


def test_sets_that_are_combined(corpus):
    folder = corpus(train=2, train1=3)
    counts = []
    for names in (["train"], ["train1"], None):
        options = {
            "instances": "sliding",
            "context_sentences": 1,
            "context_loss": "off",
            "batch_order": "document",
        }
        task = setup(folder, **options, train_subset=(names or ["train"])[0])
        task.load_dataset(task.cfg.train_subset, combine=names is None)
        dataset = task.dataset(task.cfg.train_subset)
        counts.append(
            (len(dataset), dataset.documents[-1, 0] + 1, dataset.context.sum(), dataset.sizes.sum())
        )
        assert dataset.ordered_indices().tolist() == list(range(len(dataset)))
    assert counts[2] == tuple(one + other for one, other in zip(*counts[:2], strict=True))


class Optimizer:
    """What a training step needs of one."""

    def backward(self, loss):
        loss.backward()


def test_the_loss_of_a_step_is_that_of_the_current_sentences():
    """Training and validation; sums over a corpus have as many tokens as single sentences have."""
    alone = load(instances="disjoint", context_sentences=0)[1]
    results = {}
    for switch in ("on", "off"):
        task, dataset = load(instances="sliding", context_sentences=2, context_loss=switch)
        model = trainable(tiny_model(task.tgt_dict))
        criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1)
        batch = dataset.collater([dataset[i] for i in range(len(dataset))])
        whole = batch["target"].clone()
        loss, size, _ = task.train_step(batch, model.train(), criterion, Optimizer(), 0)
        valid, valid_size, logs = task.valid_step(batch, model.eval(), criterion)
        assert valid_size == size == logs["ntokens"] and valid.item() == pytest.approx(
            loss.item(), rel=1e-4
        )
        assert batch["target"].equal(whole)
        results[switch] = size
    assert results["off"] == alone.tgt_sizes.sum() < results["on"]


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("sliding", "on"),
        ("sliding", "off"),
        ("current", "off"),
        ("greedy", "on"),
        ("disjoint", "on"),
    ],
)
def test_every_sentence_of_validation_is_counted_once(kind, loss):
    """At both levels; context counts nowhere, in the loss or not."""
    options = {
        "eval_bleu": True,
        "eval_tokenized_bleu": True,
        "eval_bleu_remove_bpe": None,
        "context_loss": loss,
    }
    options |= {"target_context_sentences": 1} if kind == "current" else {}
    task, dataset = load("valid", **SCHEMES[kind], **options)
    cfg = model_options(doc_mode=task.cfg.doc_mode)
    built = task.build_model(cfg, from_checkpoint=True)
    batch = dataset.collater([dataset[i] for i in range(len(dataset))])
    perfect = [[{"tokens": row[row.ne(task.tgt_dict.pad())]}] for row in batch["target"]]
    task.sequence_generator = Namespace(generate=lambda models, sample, **more: perfect)
    logs = task.valid_step(batch, built.eval(), FusedLabelSmoothedCrossEntropy(task, False, 0.1))[2]
    words = sum(len(sentence) - 1 for sentence in documents("valid", "de").values())
    assert logs["_bleu_ref_len"] == logs["_bleu_sys_len"] == words


@pytest.mark.parametrize(("split", "lang"), [("valid", "de"), ("test", "en")])
def test_parts_of_a_test_set_do_not_ask_the_reference(split, lang):
    """As translating plain text, which has none; in training the target's tokens count."""
    _, dataset = load(split, instances="parts", instance_tokens=40)
    found = [(place.document, place.first_sentence, place.sentences) for place in spans_of(dataset)]
    expected = {}
    for side in ("en", "de"):
        lengths = defaultdict(list)
        for (document, _), words in sorted(documents(split, side).items()):
            lengths[document].append(len(words) + 2 - words.count("</s>"))
        expected[side] = [
            (document, first, last - first)
            for document, one in sorted(lengths.items())
            for first, last in parts(np.array(one), 40)
        ]
    assert found == expected[lang] != expected["en" if lang == "de" else "de"]


@pytest.mark.parametrize("kind", ["greedy", "disjoint", "sliding", "parts"])
def test_translations_say_what_is_current(tmp_path, kind):
    task, dataset = load(
        "test", **SCHEMES[kind], gen_output=str(tmp_path / "t"), batch_order="document"
    )
    model = tiny_model(task.tgt_dict)
    generator = task.build_generator([model], Namespace(beam=1, max_len_a=0, max_len_b=2))
    for batch in iterator(task, dataset, max_sentences=4).next_epoch_itr(shuffle=False):
        task.inference_step(generator, [model], batch)
    current, written = 0, read_jsonl(tmp_path / "t.jsonl")
    for number, (found, place) in enumerate(zip(written, spans_of(dataset), strict=True)):
        (best,) = found.pop("hypotheses")
        expected = {**vars(place), "current": list(place.current), "id": number}
        assert found == expected and len(best["sentences"]) == place.sentences
        current += place.current[1]
    assert current == 22
