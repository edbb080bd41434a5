"""Unrelated context, drawn anew in every epoch: as fairseq's training asks for it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.tasks.loaded import documents, iterator, load, read

pytestmark = pytest.mark.slow

DOCFLAT = {"instances": "sliding", "context_sentences": 3, "context_loss": "off", "batch_order": "document"}
KINDS = ["global", "everything", "added"]


def epoch_of(number, chosen, processes=1, workers=0, **options):
    """What each process reads in an epoch, loaded as fairseq loads the data of an epoch's own, and the task."""
    shares = []
    for process in range(processes):
        task, _ = load(**DOCFLAT, shuffled_context=chosen, **options)
        assert task.has_sharded_data("train")
        task.load_dataset("train", epoch=number)
        share = {"num_shards": processes, "shard_id": process}
        batches = iterator(task, task.dataset("train"), workers, epoch=number, disable_iterator_cache=True, **share)
        shares.append([read(batch) for batch in batches.next_epoch_itr(shuffle=True)])
    return shares, task


def beside(shares, task):
    """By the number of each instance: its source, and the numbers of the others in its batch."""
    found = {}
    for ids, sources, *_ in (batch for share in shares for batch in share):
        for number, source in zip(ids, sources, strict=True):
            words = tuple(token for token in source if token != task.src_dict.pad())
            found[number] = words, frozenset(ids) - {number}
    return found


@pytest.mark.parametrize("chosen", KINDS)
def test_what_stood_around_an_instance_does_not_come_back(chosen):
    """A resumed epoch has what it had, whether workers load it or not."""
    (first, task), (second, _) = (epoch_of(number, chosen) for number in (1, 2))
    one, other = beside(first, task), beside(second, task)
    assert one.keys() == other.keys()
    if chosen != "everything":
        assert all(one[number][0] == other[number][0] for number in one), "instances are as they were"
        drawn = [number for number in one if chosen == "global" or number >= len(one) // 2]
        seen = [one[number][1] & other[number][1] for number in drawn if one[number][1] and other[number][1]]
    else:
        seen = [one[number][0] == other[number][0] for number in one]
    assert sum(map(bool, seen)) < len(seen) / 2
    assert epoch_of(2, chosen, workers=1)[0] == second
    assert epoch_of(2, chosen, doc_seed=2)[0] != second


@pytest.mark.parametrize("chosen", KINDS)
def test_processes_have_drawn_the_same(chosen):
    """Each sentence of the corpus is the current one, which is the last, of one instance of one of them."""
    shares, task = epoch_of(2, chosen, processes=2)
    symbols, current = task.tgt_dict, []
    for *_, inputs, _ in (batch for share in shares for batch in share):
        for tokens in inputs:
            words = [symbols[token] for token in tokens if token != symbols.pad()]
            opens = len(words) - words[::-1].index("<s>")
            current.append(words[opens:])
    assert all(shares) and len(shares[0]) == len(shares[1])
    assert sorted(current) == sorted([*documents("train", "de").values()] * (2 if chosen == "added" else 1))


@pytest.mark.parametrize("joined", [False, True])
def test_added_to_the_corpus_as_it_is(joined):
    """Each instance comes twice, among those of its document and among others; batches say which."""
    shares, task = epoch_of(2, "added", join_documents=joined)
    dataset = task.dataset("train")
    half = len(dataset) // 2
    for number in range(half):
        assert dataset[number]["source"].equal(dataset[half + number]["source"])
        assert dataset[number]["target"].equal(dataset[half + number]["target"])
    ids = [number for batch in shares[0] for number in batch[0]]
    original, several = load(**DOCFLAT)[1].documents[:, 0], []
    assert sorted(ids) == list(range(2 * half)) and half == len(original)
    for batch in iterator(task, dataset, epoch=2, disable_iterator_cache=True).next_epoch_itr(shuffle=True):
        numbers, in_order = batch["id"].numpy(), batch["in_order"].numpy()
        assert (in_order == (numbers < half)).all()
        stretch = batch["stretch"].numpy() if joined else np.zeros(len(numbers), dtype=int)
        for one in set(stretch):
            inside = stretch == one
            assert len(set(in_order[inside])) == 1
            documents = set(original[numbers[inside] % half])
            assert len(documents) == 1 or not in_order[inside][0]
            several += [len(documents) > 1] if inside.sum() > 1 and not in_order[inside][0] else []
    assert sum(several) > len(several) / 2
    assert "in_order" not in next(iter(iterator(*load("valid", **DOCFLAT)).next_epoch_itr(shuffle=False)))


def test_nothing_is_loaded_anew_where_nothing_is_drawn():
    assert not load(**DOCFLAT)[0].has_sharded_data("train")
