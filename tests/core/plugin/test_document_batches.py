"""Batches of consecutive sentences: every sentence is current once an epoch, in order, whoever
trains and stops.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.plugin.loaded import load, read, spans_of

DOCFLAT = {
    "instances": "sliding",
    "context_sentences": 3,
    "context_loss": "off",
    "batch_order": "document",
}


def iterator(task, dataset, max_tokens=150, **options):
    return task.get_batch_iterator(
        dataset, max_tokens=max_tokens, max_positions=(1000, 1000), seed=1, **options
    )


def epoch_of(batches, shuffle=True):
    return [read(batch)[0] for batch in batches.next_epoch_itr(shuffle=shuffle) if batch]


def check_epoch(shares, spans):
    """shares: of each process its batches, lists of instances. Every sentence once, in order, by
    one process alone.
    """
    seen = {}
    for number, share in enumerate(shares):
        for ids in share:
            assert len({spans[one].document for one in ids}) == 1
            assert ids == list(range(ids[0], ids[0] + len(ids)))
            for one in ids:
                first, count = spans[one].current
                seen.setdefault(spans[one].document, []).extend(
                    (i, number) for i in range(first, first + count)
                )
    assert sorted(seen) == sorted({place.document for place in spans})
    for document, found in seen.items():
        expected = sorted(place.current[0] for place in spans if place.document == document)
        assert [sentence for sentence, _ in found] == expected
        yield document, {process for _, process in found}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_sentence_is_current_once_an_epoch_in_order(processes):
    task, dataset = load(**DOCFLAT)
    spans = spans_of(dataset)
    made = [
        iterator(task, dataset, num_shards=processes, shard_id=i, disable_iterator_cache=True)
        for i in range(processes)
    ]
    for _ in range(3):
        shares = [epoch_of(one) for one in made]
        at = dict(check_epoch(shares, spans))
        assert all(len(which) == 1 for which in at.values())  # each document is one process's
        assert set.union(*at.values()) == set(range(processes))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_resumed_epoch_has_the_sentences_that_are_left(processes):
    spans, shares, following = spans_of(load(**DOCFLAT)[1]), [], []
    for process in range(processes):
        options = {"num_shards": processes, "shard_id": process}
        interrupted = iterator(*load(**DOCFLAT), **options)
        whole = [epoch_of(interrupted) for _ in range(3)]
        interrupted = iterator(*load(**DOCFLAT), **options)
        epoch_of(interrupted)
        running = interrupted.next_epoch_itr(shuffle=True)
        begun = [read(next(running))[0] for _ in range(4)]
        resumed = iterator(*load(**DOCFLAT), **options, epoch=2)
        resumed.load_state_dict(interrupted.state_dict())
        shares.append(begun + epoch_of(resumed))
        following.append(epoch_of(resumed))
        assert [shares[-1], following[-1]] == whole[1:]
    for epoch in (shares, following):
        assert len(list(check_epoch(epoch, spans))) > 2


def test_documents_take_turns_in_another_order_every_epoch():
    task, dataset = load(**DOCFLAT)
    batches = iterator(task, dataset)
    orders = [[dataset.documents[ids[0], 0] for ids in epoch_of(batches)] for _ in range(2)]
    assert orders[0] != orders[1]
    assert 2 * np.count_nonzero(np.diff(orders[0])) > len(orders[0])  # not document after document
    in_order = epoch_of(iterator(*load(**DOCFLAT)), shuffle=False)
    assert sum(in_order, []) == list(range(len(dataset)))
