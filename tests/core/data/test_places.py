"""The places of instances that were grouped anew."""

import numpy as np
import torch
from fairseq.data import ListDataset

from gtransformer.data.instances import Grouping, group
from gtransformer.data.places import Place, regrouped_places
from gtransformer.data.sentences import Sentences, StoredSide
from gtransformer.data.sidecar import Sidecar
from gtransformer.data.stored import InstanceDataset

S, E, WORD = 0, 2, 4


def view(places, dropped=()):
    """Sentences of one word in stored instances (document, first sentence, sentences)."""
    stored = [torch.tensor([S, WORD, E] * count) for *_, count in places]
    sizes = list(map(len, stored))
    side = StoredSide(InstanceDataset(ListDataset(stored, sizes), sizes, S, E, False))
    return Sentences(side, side, "x", Sidecar("test", "en", "de", 3, list(places), list(dropped)))


def places(sentences, *grouping):
    made = group(Grouping(*grouping), sentences.source.lengths, sentences.target.lengths, sentences.runs())
    return regrouped_places(sentences, made)


def test_documents_and_sentences_are_those_of_the_sidecar():
    """Sentence 2 of document 0 was left out as too long; document 1 was left out whole."""
    sentences = view([(0, 0, 2), (0, 3, 1), (2, 0, 1)], dropped=[(0, 2), (1, 0)])
    assert places(sentences, "sliding", None, 1) == [
        Place(0, 0, 1, (0, 1)), Place(0, 0, 2, (1, 1)), Place(0, 3, 1, (3, 1)), Place(2, 0, 1, (0, 1))
    ]  # fmt: skip
    assert places(sentences, "current", None, 2, 0) == [
        Place(0, 0, 1, (0, 1)), Place(0, 1, 1, (1, 1)), Place(0, 3, 1, (3, 1)), Place(2, 0, 1, (0, 1))
    ]  # fmt: skip
    whole = places(sentences, "greedy", 100)
    assert whole == [Place(0, 0, 2, (0, 2)), Place(0, 3, 1, (3, 1)), Place(2, 0, 1, (0, 1))]
    numbers = [number for place in whole for number in (place.document, place.first_sentence, *place.current)]
    assert all(type(number) is int for number in numbers)  # what a file of translations can hold


def test_no_instances():
    sentences = view([(0, 0, 1)])
    made = group(Grouping("sliding", None, 1), np.zeros(0, int), np.zeros(0, int), [])
    assert regrouped_places(sentences, made) == []


class Counted(np.ndarray):
    """An array that counts how often it is read."""

    reads = 0

    def __getitem__(self, index):
        Counted.reads += 1
        return super().__getitem__(index)


def test_arrays_are_read_as_wholes():
    """An element at a time takes seconds for a corpus of millions of sentences."""
    sentences = view([(document, 0, 10) for document in range(20)])
    made = group(Grouping("sliding", None, 2), sentences.source.lengths, None, sentences.runs())
    expected = regrouped_places(sentences, made)
    sentences.document, sentences.position = sentences.document.view(Counted), sentences.position.view(Counted)
    Counted.reads = 0
    assert regrouped_places(sentences, made) == expected and len(expected) == 200
    assert 0 < Counted.reads < 10
