"""Unrelated context, drawn anew in every epoch: as fairseq's training asks for it."""

from __future__ import annotations

import pytest

from tests.unit.tasks.test_grouping import documents, end_workers, iterator, load, read  # noqa: F401

pytestmark = pytest.mark.slow

DOCFLAT = {"instances": "sliding", "context_sentences": 3, "context_loss": "off", "batch_order": "document"}
KINDS = ["global", "everything"]


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
    if chosen == "global":
        assert all(one[number][0] == other[number][0] for number in one), "instances are as they were"
        seen = [one[number][1] & other[number][1] for number in one if one[number][1] and other[number][1]]
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
    assert sorted(current) == sorted(documents("train", "de").values())


def test_nothing_is_loaded_anew_where_nothing_is_drawn():
    assert not load(**DOCFLAT)[0].has_sharded_data("train")
