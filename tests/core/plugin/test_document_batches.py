"""Batches of consecutive sentences: every sentence is current once an epoch, whoever trains and
stops.
"""

from __future__ import annotations

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
    """shares: of each process its batches, lists of instances. Every sentence once; batches of
    consecutive sentences of one document.
    """
    found = []
    for share in shares:
        for ids in share:
            assert ids == list(range(ids[0], ids[0] + len(ids)))
            assert len({spans[one].document for one in ids}) == 1
            found += ids
    assert sorted(found) == list(range(len(spans)))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_sentence_is_current_once_an_epoch(processes):
    task, dataset = load(**DOCFLAT)
    spans = spans_of(dataset)
    assert len({(place.document, place.current) for place in spans}) == len(spans)
    made = [
        iterator(task, dataset, num_shards=processes, shard_id=i, disable_iterator_cache=True)
        for i in range(processes)
    ]
    for _ in range(3):
        check_epoch([epoch_of(one) for one in made], spans)


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
        check_epoch(epoch, spans)
