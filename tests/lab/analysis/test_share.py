"""Share of attention on the aligned source sentence: every system against loops over tokens, and what must come out."""

from __future__ import annotations

import random

import pytest
import torch

from gtransformer.lab.analysis.split_attention import ShareMeter, aligned_sentences, run, share_table
from tests.core.models.test_declared_blocks import DECLARED, declared_model
from tests.core.search.systems import SYSTEMS, windows
from tests.lab.analysis import share_oracle
from tests.support import pad_batch, random_document, tiny_model, with_engine

ALL = {
    **SYSTEMS,
    "window by sentence, narrow": windows(train_alignment="sentence", decode_alignment="sentence", window=2),
    "window one-to-one, narrow": windows(train_alignment="one-to-one", decode_alignment="linear", window=1),
    "gtransformer full": lambda dictionary: tiny_model(dictionary, doc_mode="full").double(),
    "gated, concatenated": lambda dictionary: declared_model(dictionary, *DECLARED["gated, concatenated"]),
}
# Words by sentence, source and target.
SHAPES = [([3, 1, 5], [2, 2, 4]), ([0], [0]), ([1, 6], [7, 0]), ([2, 2, 2, 2], [3, 1, 1, 4])]


def pairs(dictionary, shapes=SHAPES) -> list[tuple[list[int], list[int]]]:
    draw = random.Random(2)
    return [tuple(random_document(draw, dictionary, lengths) for lengths in shape) for shape in shapes]


def measure(model, dictionary, documents, current=None, decoding=False) -> ShareMeter:
    """All documents in one batch, padded on both sides."""
    source = pad_batch([one for one, _ in documents], dictionary.pad(), left=True)
    target = pad_batch([one for _, one in documents], dictionary.pad(), left=False)
    current = None if current is None else torch.tensor(current)
    sentences = aligned_sentences(source, target, (dictionary, dictionary), current)
    meter = ShareMeter()
    with torch.no_grad(), meter.on(model, sentences):
        run(model, {"src_tokens": source, "src_lengths": None, "prev_output_tokens": target}, decoding)
    return meter


def check(model, meter: ShareMeter, documents, current=None, decoding=False) -> None:
    """The meter's sums are those of the loops, document by document."""
    found = [
        share_oracle.shares(model, *pair, None if current is None else current[number], decoding)
        for number, pair in enumerate(documents)
    ]
    expected = [{}, {}]
    for kinds in found:
        for sums, kind in zip(expected, kinds, strict=True):
            for place, rows in kind.items():
                sums.setdefault(place, []).extend(rows)
    attentions = {(place.layer, place.reach): sums for place, sums in meter.attentions.items()}
    for sums, rows in zip((attentions, meter.layers), expected, strict=True):
        assert sums.keys() == rows.keys()
        for place, values in rows.items():
            total = torch.tensor([(*row, 1.0) for row in values], dtype=torch.float64).sum(dim=0)
            assert torch.allclose(sums[place], total, rtol=0, atol=1e-11, equal_nan=True), place


@pytest.mark.parametrize(("decoding", "engine"), [(False, "packed"), (True, "packed"), (True, "dense")])
@pytest.mark.parametrize("system", ALL)
def test_equals_loops_over_tokens(dictionary, system, decoding, engine):
    """Of a target that is known, and as it is seen while it is translated, token by token."""
    model = with_engine(ALL[system](dictionary), engine)
    documents = pairs(dictionary)
    meter = measure(model, dictionary, documents, decoding=decoding)
    # Each sentence has its words and its <s>.
    assert meter.queries == sum(words + 1 for _, target in SHAPES for words in target)
    check(model, meter, documents, decoding=decoding)


def test_known_targets_and_decoding_differ_where_windows_mind_the_length(dictionary):
    documents = pairs(dictionary)
    for system, same in (("window linear, relative", False), ("doc_transformer", True), ("gtransformer", True)):
        model = ALL[system](dictionary)
        one, other = (measure(model, dictionary, documents, decoding=decoding).to_json() for decoding in (False, True))
        assert (one == other) is same, system


@pytest.mark.parametrize("system", ["doc_transformer", "lst_transformer", "gtransformer full"])
def test_current_sentences_behind_context(dictionary, system):
    """More source than target sentences, as many, and fewer; the last ones belong together."""
    shapes = [([3, 1, 5], [4]), ([2, 2], [3, 1]), ([4], [2, 3]), ([1, 2, 3], [3, 2, 1])]
    documents, current = pairs(dictionary, shapes), [1, 1, 1, 2]
    model = ALL[system](dictionary)
    meter = measure(model, dictionary, documents, current)
    assert meter.queries == (4 + 1) + (1 + 1) + (3 + 1) + (2 + 1 + 1 + 1)
    check(model, meter, documents, current)


def test_aligned_sentences_by_hand(dictionary):
    bos, eos, pad = dictionary.bos(), dictionary.eos(), dictionary.pad()
    source = torch.tensor([[bos, 5, eos, bos, 6, eos], [pad, pad, pad, bos, 5, eos]])
    target = torch.tensor([[bos, 7, eos, bos, eos, pad, pad], [bos, 7, eos, bos, 8, 9, eos]])
    both = dictionary, dictionary
    # The second document has no second source sentence.
    assert aligned_sentences(source, target, both).tolist() == [1, 1, 0, 2, 0, 1, 1, 0, 0, 0, 0, 0]
    # Aligned from the end, its first target sentence has no source.
    current = torch.tensor([2, 2])
    assert aligned_sentences(source, target, both, current).tolist() == [1, 1, 0, 2, 0, 0, 0, 0, 1, 1, 1, 0]
    current = torch.tensor([1, 1])
    assert aligned_sentences(source, target, both, current).tolist() == [0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize("system", ALL)
def test_flat_attention_has_the_share_of_tokens(dictionary, system):
    """Queries that are all zero: what they see of the sentence over what they see."""
    model = ALL[system](dictionary)
    for layer in model.decoder.layers:
        for name in share_oracle.MODULES:
            if hasattr(layer, name):
                module = getattr(layer, name)
                for linear in (module.q_proj, *([] if module.query_numbers is None else [module.query_numbers.map])):
                    torch.nn.init.zeros_(linear.weight)
                    torch.nn.init.zeros_(linear.bias)
    meter = measure(model, dictionary, pairs(dictionary))
    expected = 0.0  # over the document
    for source, target in SHAPES:
        tokens = [words + 2 for words in source]
        expected += sum((words + 1) * own / sum(tokens) for words, own in zip(target, tokens, strict=True))
    for place, (share, flat, number) in meter.attentions.items():
        assert share == pytest.approx(float(flat), abs=1e-12)
        if place.reach != "window":
            whole = expected / meter.queries if place.reach == "global" else 1.0
            assert flat / number == pytest.approx(whole, abs=1e-12)
    assert meter.to_json()["mean"] == meter.to_json()["flat"]


@pytest.mark.parametrize("system", ["gtransformer", "window by sentence, narrow", "gated, concatenated"])
def test_sentences_by_themselves_have_all(dictionary, system):
    shapes = [([words], [words + 1]) for words in (0, 1, 5, 9)]
    found = measure(ALL[system](dictionary), dictionary, pairs(dictionary, shapes)).to_json()
    assert found["queries"] == 2 + 3 + 7 + 11 and found["mean"] == found["flat"] == 1.0
    assert all(one["share"] == 1.0 for one in (*found["layers"], *found["attentions"]))


def test_group_attention_stays_and_the_gate_weighs(dictionary):
    """What the result file has: group alone in the lowest layer, gated ones above; the mean is that of the layers."""
    found = measure(ALL["gtransformer"](dictionary), dictionary, pairs(dictionary)).to_json()
    by_place = {(one["reach"], one["layer"]): one for one in found["attentions"]}
    assert by_place.keys() == {("group", 1), ("group", 2), ("group", 3), ("global", 2), ("global", 3)}
    assert all(one["share"] == one["flat"] == 1.0 for (reach, _), one in by_place.items() if reach == "group")
    first, *gated = found["layers"]
    assert first == {"layer": 1, "share": 1.0, "flat": 1.0, "gate": None}
    for one in gated:
        assert 0 < one["gate"] < 1 and by_place["global", one["layer"]]["share"] < one["share"] < 1
    assert found["mean"] == pytest.approx(sum(one["share"] for one in found["layers"]) / 3, abs=1e-6)
    lines = share_table(found).splitlines()
    assert len(lines) == 2 + 5 + 2 + 1 and lines[-1].split() == [
        "mean", f"{100 * found['flat']:.2f}", f"{100 * found['mean']:.2f}"
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 50])
def test_blocks_and_batches_change_nothing(dictionary, monkeypatch, limit):
    model, documents = ALL["gtransformer"](dictionary), pairs(dictionary)
    whole = measure(model, dictionary, documents).to_json()
    monkeypatch.setattr("gtransformer.lab.analysis.watching.WEIGHTS_AT_ONCE", limit)
    assert measure(model, dictionary, documents).to_json() == whole
    meter = ShareMeter()
    for one in documents:
        alone = measure(model, dictionary, [one])
        meter.queries += alone.queries
        for sums, more in ((meter.attentions, alone.attentions), (meter.layers, alone.layers)):
            for place, values in more.items():
                sums[place] = sums.get(place, 0) + values
    assert meter.to_json() == whole
