"""What a model attends to, what it prefers and what its context gives, each against another
computation."""

from __future__ import annotations

import math

import pytest
import torch

from gtransformer.cli.main import main
from gtransformer.evaluation.contrastive import Capacity
from gtransformer.evaluation.sentence_scores import Request, sentence_encoder
from gtransformer.files import read_json
from gtransformer.lab.attention import inspect, inspect_split
from gtransformer.lab.cxmi import measure
from gtransformer.lab.items import BatchScorer, read_items
from gtransformer.models.batch_readers import DocFlatConfig, DocFlatModel
from gtransformer.plugin.load_model import load_scorer
from gtransformer.preprocess.plain_text import read_plain
from tests.support import drawn, tiny_dictionary, tiny_model

pytestmark = pytest.mark.slow


def test_entropy_is_that_of_the_weights():
    """Of a cross-attention by sentence, worked out by loops."""
    dictionary = tiny_dictionary(30)
    model = tiny_model(dictionary)
    kept = []
    for layer in model.decoder.layers:
        layer.encoder_attn_local.register_forward_hook(
            lambda module, inputs, output: kept.append((module, inputs))
        )
    bos, eos = dictionary.bos(), dictionary.eos()
    source, target = [bos, 5, 6, eos, bos, 7, eos], [bos, 8, eos, bos, 9, 10, 11, eos]
    found = inspect(model, source, target)
    groups = [one for one in found if (one.part, one.reach) == ("cross", "group")]
    for one, (module, (x, memory, *_)) in zip(groups, kept, strict=True):
        sides = module.q_proj(x), module.k_proj(memory)
        q, k = (side.unflatten(-1, (module.heads, -1)).double() for side in sides)
        bits, flat = [], []
        for i, tag in enumerate([1] * 3 + [2] * 5):
            seen = range(4) if tag == 1 else range(4, 7)
            weights = torch.zeros(len(seen), dtype=torch.float64)
            for head in range(2):
                scores = torch.stack([q[i, head] @ k[j, head] / math.sqrt(8) for j in seen])
                weights += torch.softmax(scores, dim=0) / 2
            bits.append(-sum(p * math.log2(p) for p in weights.tolist()))
            flat.append(math.log2(len(seen)))
        expected = sum(bits) / len(bits), sum(flat) / len(flat)
        assert one.entropy() == pytest.approx(expected, abs=1e-4) and one.queries() == len(bits)
    for one in found:
        assert one.share() == pytest.approx(1.0) or one.reach == "global"
        assert one.by_sentence().sum(dim=1).tolist() == pytest.approx([1.0, 1.0])
        assert 0 <= one.entropy()[0] <= one.entropy()[1] + 1e-9 <= math.log2(len(target))


def test_attention_of_a_trained_model(finished, tmp_path):
    """The command: its gates and its picture."""
    run = finished.runs[1]
    picture, numbers = tmp_path / "attention.svg", tmp_path / "attention.json"
    command = ["lab", "attention", str(finished.prepared(run)), "--path", str(finished.model(run))]
    assert not main([*command, "--instances=1", f"--picture={picture}", f"--output={numbers}"])
    rows = read_json(numbers)["attention"]
    gates = {row["layer"]: row["gate"] for row in rows if row["part"] == "cross" and row["gate"]}
    assert len(gates) == 1 and picture.stat().st_size > 1000
    (first,) = inspect_split(finished.prepared(run), finished.model(run), "test", 1)
    for one in first:
        if one.part == "cross" and one.gate is not None:
            sentences = one.gate_by_sentence()
            tokens = torch.bincount(one.query_tags)[1:]
            mean = float((sentences * tokens).sum() / tokens.sum())
            assert mean == pytest.approx(gates[one.layer], rel=1e-4)


@pytest.fixture(scope="module")
def document_model(finished):
    run = finished.runs[1]
    scorer, _ = load_scorer(finished.prepared(run), finished.model(run), 4096, True)
    prepared = finished.prepared(run)
    encode = [
        sentence_encoder(prepared, lang, words)
        for lang, words in (("en", scorer.source), ("de", scorer.target))
    ]
    return finished, scorer, encode


def test_items_are_scored_in_their_document(document_model):
    finished, scorer, encode = document_model
    result = read_json(finished.runs[1].folder / "contrastive.json")
    examples = read_items(finished.raw / "contrastive.json")
    documents = [
        read_plain(finished.raw / f"concatenated_en2de_test_{lang}.txt")[0] for lang in ("en", "de")
    ]
    items = read_json(finished.raw / "contrastive.json")["items"]
    early = sorted(range(len(items)), key=lambda number: items[number]["sentence"])[:3]
    for number in early:  # so that all of the document before fits into an instance
        item, example = items[number], examples[number]
        source, target = (side[item["document"]][: item["sentence"] + 1] for side in documents)
        assert list(example.source) == source and target[-1] == item["correct"]
        scored = []
        for text in (item["correct"], *item["wrong"]):
            sides = encode[0](source), encode[1]([*target[:-1], text])
            scored.append(scorer.score([Request(*sides, (len(source) - 1,))])[0][0])
        assert result["items"][number]["scores"] == pytest.approx(scored, rel=1e-4)
    right = [one["scores"][0] > max(one["scores"][1:]) for one in result["items"]]
    assert result["total"]["accuracy"] == pytest.approx(100 * sum(right) / len(right))


def test_a_model_that_reads_its_batch_gets_the_sentences_before():
    dictionary = tiny_dictionary(30)
    model = drawn(dictionary, DocFlatModel, DocFlatConfig)
    scorer = BatchScorer(model, dictionary, dictionary)
    scorer.capacity = Capacity(2, 2)
    source, target = [[5, 6], [7], [8, 9]], [[10], [11, 12], [13]]
    whole = scorer.score([Request(source, target, (2,))])[0][0]
    assert whole == scorer.score([Request(source, target, (2,))])[0][0] < 0
    changed = scorer.score([Request([[6, 6], *source[1:]], target, (2,))])[0][
        0
    ]  # two sentences back, by the batch
    assert changed != pytest.approx(whole, abs=1e-6)
    scorer.capacity = Capacity(2, 2)
    alone = scorer.score([Request(source[1:], target[1:], (1,))])[0][0]
    assert alone != pytest.approx(whole, abs=1e-6)


def test_what_context_gives(document_model):
    finished, scorer, encode = document_model
    run = finished.runs[1]
    found = measure(finished.prepared(run), finished.model(run), "test", [1], True, list)
    text = finished.prepared(run) / "text"
    total, tokens = 0.0, 0
    documents = (read_plain(text / f"test.{lang}")[0] for lang in ("en", "de"))
    for source, target in zip(*documents, strict=True):
        sides = [encode[0](source), encode[1](target)]
        for last in range(len(source)):
            first = max(0, last - 1)
            pair = Request(*(side[first : last + 1] for side in sides), (last - first,))
            alone = Request(*(side[last : last + 1] for side in sides))
            total += scorer.score([pair])[0][0] - scorer.score([alone])[0][0]
        tokens += sum(len(one) + 1 for one in sides[1])
    assert found["0"]["cxmi"] == 0
    assert found["1"]["cxmi"] == pytest.approx(total / tokens, abs=1e-4)
    single = finished.runs[0]
    found = measure(finished.prepared(single), finished.model(single), "test", [1], True, list)
    assert found["all"]["cxmi"] == 0
