"""Packed batches: what is in them, and that nothing is cut."""

import random

import numpy as np
import pytest
import torch

from gtransformer.data.packing import (
    DOCUMENTS,
    SENTENCES,
    Packer,
    Symbols,
    capacity_of,
)

BOS, PAD, EOS = 0, 1, 2


def side(draw, sentences):
    lengths = [draw.randint(0, 70) for _ in range(sentences)]
    words = [[BOS, *(draw.randint(4, 9) for _ in range(length)), EOS] for length in lengths]
    return torch.tensor(sum(words, []))


def corpus(seed=1, number=40):
    """Documents of equally many source and target sentences, and batches of some of each."""
    draw = random.Random(seed)
    counts = [draw.randint(1, 5) for _ in range(number)]
    pairs = [(side(draw, count), side(draw, count)) for count in counts]
    batches = np.split(np.array(draw.sample(range(number), number)), [1, 4, 20, 31])
    sizes = [np.array([len(pair[place]) for pair in pairs]) for place in (0, 1)]
    return pairs, batches, capacity_of(batches, sizes, np.array(counts), 72)


PLAIN = Symbols(BOS, PAD)


def packed(pairs, capacity, source=PLAIN, target=PLAIN):
    sources, inputs = map(list, zip(*pairs, strict=True))
    return Packer(capacity, source, target)(sources, inputs, [one + 100 for one in inputs])


def segments(tokens, bounds):
    """The segments that have tokens."""
    pieces = np.split(tokens.numpy(), bounds[1:-1].numpy())
    return [piece.tolist() for piece in pieces if len(piece)]


def sentences_of(tokens):
    starts = [place for place, token in enumerate(tokens) if token == BOS]
    return [tokens[a:b] for a, b in zip(starts, [*starts[1:], len(tokens)], strict=True)]


def test_all_batches_have_one_shape_and_hold_their_documents():
    pairs, batches, capacity = corpus()
    shapes = set()
    for batch in batches:
        chosen = [pairs[one] for one in batch]
        made = packed(chosen, capacity)
        for place, name in enumerate(("source", "target")):
            own, documents = made[name], [pair[place].tolist() for pair in chosen]
            found = segments(own["tokens"], own["bounds"][DOCUMENTS])
            assert found[: len(documents)] == documents
            assert all(set(piece) == {PAD} for piece in found[len(documents) :])
            sentences = sum(map(sentences_of, documents), [])
            found = segments(own["tokens"], own["bounds"][SENTENCES])
            assert found[: len(sentences)] == sentences
            longest = own["longest"]
            assert max(map(len, found)) <= longest[SENTENCES]
            assert max(map(len, documents)) <= longest[DOCUMENTS]
            real = own["tokens"].ne(PAD)
            positions = sum((list(range(len(one))) for one in documents), [])
            assert own["position"][real].tolist() == positions
            tags = [np.cumsum(np.array(one) == BOS).tolist() for one in documents]
            assert own["tag"][real].tolist() == sum(tags, [])
            shapes.add((name, own["tokens"].shape, *(b.shape for b in own["bounds"].values())))
        for kind in (SENTENCES, DOCUMENTS):  # no query is without keys
            lengths = [made[name]["bounds"][kind].diff() for name in ("source", "target")]
            assert torch.equal(lengths[0] > 0, lengths[1] > 0)
        target = made["target"]
        counts = target["predicted"].ne(PAD)
        assert (target["predicted"][counts] == target["tokens"][counts] + 100).all()
    assert len(shapes) == 2


def test_a_target_with_fewer_sentences_keeps_its_place():
    pairs = [(torch.tensor([BOS, 5, EOS, BOS, 6, EOS]), torch.tensor([BOS, 7, EOS]))] * 2
    sizes = [np.array([6, 6, 900]), np.array([3, 3, 9])]  # the last is left out of training
    capacity = capacity_of([np.arange(2)], sizes, np.full(3, 2), 65)
    assert capacity.longest_document == capacity.longest_sentence == 128
    made = packed(pairs, capacity)
    assert made["source"]["bounds"][SENTENCES][:5].tolist() == [0, 3, 6, 9, 12]
    assert made["target"]["bounds"][SENTENCES][:5].tolist() == [0, 3, 3, 6, 6]


def test_positions_restart_and_the_source_begins_without_its_mark():
    pairs = [(torch.tensor([BOS, 5, 6, EOS, BOS, 7, EOS]), torch.tensor([BOS, 7, EOS, BOS, EOS]))]
    capacity = capacity_of([np.arange(1)], [np.array([7]), np.array([5])], np.array([2]), 4)
    made = packed(pairs, capacity, Symbols(BOS, PAD, True, True), Symbols(BOS, PAD, False, True))
    source, target = made["source"], made["target"]
    assert source["tokens"][:6].tolist() == [5, 6, EOS, 7, EOS, PAD]
    assert source["tag"][:5].tolist() == [1, 1, 1, 2, 2]
    assert source["position"][:5].tolist() == [0, 1, 2, 0, 1]
    assert target["position"][:5].tolist() == [0, 1, 2, 0, 1]
    assert source["bounds"][SENTENCES][:3].tolist() == [0, 3, 5]


@pytest.mark.parametrize("more", ["documents", "sentences", "tokens", "longest_document"])
def test_more_than_the_capacity_is_refused(more):
    pairs, batches, capacity = corpus()
    largest = max(batches, key=len)
    object.__setattr__(capacity, more, getattr(capacity, more) // 3)
    with pytest.raises(ValueError, match="does not fit"):
        packed([pairs[one] for one in largest], capacity)
