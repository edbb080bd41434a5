"""Batches of consecutive sentences: every sentence is current once an epoch, in order, whoever trains and stops."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest

from gtransformer.data.batch_fields import DOCUMENT_INDEX, FIRST_SENTENCE, first_sentences, with_input
from gtransformer.errors import UserError
from gtransformer.models.common.model import Needs
from gtransformer.tasks.generation import as_read
from tests.core.tasks.loaded import documents, load, read, sentences_of

DOCFLAT = {"instances": "sliding", "context_sentences": 3, "context_loss": "off", "batch_order": "document"}


def iterator(task, dataset, max_tokens=150, **options):
    return task.get_batch_iterator(dataset, max_tokens=max_tokens, max_positions=(1000, 1000), seed=1, **options)


def epoch_of(batches, shuffle=True):
    return [read(batch)[0] for batch in batches.next_epoch_itr(shuffle=shuffle)]


def check_epoch(shares, spans, joined=False):
    """shares: of each process its batches, lists of instances. Every sentence once, in order, by one process alone."""
    seen = {}
    for number, share in enumerate(shares):
        for ids in share:
            assert joined or len({spans[one].document for one in ids}) == 1
            assert ids == list(range(ids[0], ids[0] + len(ids)))
            for one in ids:
                first, count = spans[one].current
                seen.setdefault(spans[one].document, []).extend((i, number) for i in range(first, first + count))
    assert sorted(seen) == sorted({place.document for place in spans})
    for document, found in seen.items():
        expected = sorted(place.current[0] for place in spans if place.document == document)
        assert [sentence for sentence, _ in found] == expected
        yield document, {process for _, process in found}


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("joined", [False, True])
def test_every_sentence_is_current_once_an_epoch_in_order(processes, joined):
    task, dataset = load(**DOCFLAT, join_documents=joined)
    spans = dataset.spans()
    made = [
        iterator(task, dataset, 400 if joined else 150, num_shards=processes, shard_id=i, disable_iterator_cache=True)
        for i in range(processes)
    ]
    for _ in range(3):
        shares = [epoch_of(one) for one in made]
        assert len(set(map(len, shares))) == 1 and all(ids for share in shares for ids in share)
        assert any(len({spans[one].document for one in ids}) > 1 for share in shares for ids in share) is joined
        at = dict(check_epoch(shares, spans, joined))
        assert joined or all(len(which) == 1 for which in at.values())  # each document is one process's
        assert set.union(*at.values()) == set(range(processes))


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize(("taken", "joined"), [(1, False), (4, False), (1, True)])
def test_a_resumed_epoch_has_the_sentences_that_are_left(processes, taken, joined):
    settings, size = {**DOCFLAT, "join_documents": joined}, 400 if joined else 150
    spans, shares, following = load(**settings)[1].spans(), [], []
    for process in range(processes):
        options = {"num_shards": processes, "shard_id": process}
        interrupted = iterator(*load(**settings), size, **options)
        whole = [epoch_of(interrupted) for _ in range(3)]
        interrupted = iterator(*load(**settings), size, **options)
        epoch_of(interrupted)
        running = interrupted.next_epoch_itr(shuffle=True)
        begun = [read(next(running))[0] for _ in range(taken)]
        resumed = iterator(*load(**settings), size, **options, epoch=2)
        resumed.load_state_dict(interrupted.state_dict())
        shares.append(begun + epoch_of(resumed))
        following.append(epoch_of(resumed))
        assert [shares[-1], following[-1]] == whole[1:]
    for epoch in (shares, following):
        assert len(list(check_epoch(epoch, spans, joined))) > 2
        assert any(len({spans[one].document for one in ids}) > 1 for share in epoch for ids in share) is joined


def test_an_epoch_does_not_go_on_with_other_batches():
    begun = iterator(*load(**DOCFLAT))
    next(begun.next_epoch_itr(shuffle=True))
    state = begun.state_dict()
    with pytest.raises(
        UserError, match=r"an epoch of \d+ batches, and now there are \d+: it resumes only with the same data"
    ):
        iterator(*load(**DOCFLAT, join_documents=True), 400).load_state_dict(state)
    epoch_of(begun)
    iterator(*load(**DOCFLAT, join_documents=True), 400).load_state_dict(begun.state_dict())


def test_documents_take_turns_in_another_order_every_epoch():
    task, dataset = load(**DOCFLAT)
    batches = iterator(task, dataset)
    epochs = [epoch_of(batches) for _ in range(3)]
    order = [[dataset.documents[ids[0], 0] for ids in epoch] for epoch in epochs]
    assert order[0] != order[1] != order[2]
    for epoch in order:
        assert 2 * np.count_nonzero(np.diff(epoch)) > len(epoch)  # not document after document
    inorder = [ids for ids in epoch_of(iterator(*load(**DOCFLAT)), shuffle=False)]
    assert [one for ids in inorder for one in ids] == list(range(len(dataset)))


def test_joined_documents():
    """Training's batches say which rows are of one document, for models that read their batch; others' are as ever."""
    task, dataset = load(**DOCFLAT, join_documents=True)
    several = set()
    for batch in iterator(task, dataset, 400).next_epoch_itr(shuffle=True):
        documents = dataset.documents[batch["id"].numpy(), 0]
        _, expected = np.unique(documents, return_inverse=True)
        assert batch[DOCUMENT_INDEX].tolist() == expected.tolist() == sorted(expected)
        several.add(len(set(expected)) > 1)
        for reads in (True, False):
            read_so = as_read(batch, Namespace(needs=Needs(batch=reads)))["net_input"]
            assert (DOCUMENT_INDEX in read_so) is reads
    assert True in several
    task, dataset = load("valid", **DOCFLAT, join_documents=True)
    for batch in iterator(task, dataset, 400).next_epoch_itr(shuffle=False):
        assert DOCUMENT_INDEX not in batch and len(set(dataset.documents[batch["id"].numpy(), 0])) == 1


@pytest.mark.parametrize("kind", ["sliding", "stored"])
def test_numbers_of_first_sentences(kind):
    """Of each row, wherever collating puts it; in the model's input where it wants them."""
    options = {**DOCFLAT, "context_loss": "on"} if kind == "sliding" else {"batch_order": "document"}
    task, dataset = load(**options)
    spans = dataset.spans()
    for batch in iterator(task, dataset).next_epoch_itr(shuffle=True):
        assert batch[FIRST_SENTENCE].tolist() == [spans[one].first_sentence + 1 for one in batch["id"].tolist()]
        assert FIRST_SENTENCE not in batch["net_input"] and with_input(batch, FIRST_SENTENCE, False) is batch
        given = with_input(batch, FIRST_SENTENCE, True)["net_input"]
        assert given[FIRST_SENTENCE].equal(batch[FIRST_SENTENCE]) and given.keys() > batch["net_input"].keys()
    task, dataset = load(instances="sliding", context_sentences=3)
    batch = dataset.collater([dataset[0], dataset[5]])
    assert with_input(batch, FIRST_SENTENCE, True) is batch
    assert first_sentences(None, 2, "cpu").tolist() == [1, 1]


@pytest.mark.parametrize("order", ["document", "size"])
def test_everything_shuffled(order):
    """Pairs stay pairs and each is current once; of what stands before one, hardly anything stood there."""
    options = {**DOCFLAT, "batch_order": order, "shuffled_context": "everything"}
    task, dataset = load(**options)
    source, target = documents("train", "en"), documents("train", "de")
    pairs = sorted((source[key], target[key]) for key in source)
    found, right, wrong = [], 0, 0
    follows = {(tuple(source[d, i]), tuple(source[d, i + 1])) for d, i in source if (d, i + 1) in source}
    for i in range(len(dataset)):
        item = dataset[i]
        sides = sentences_of(task, item["source"]), sentences_of(task, item["prev_output_tokens"])
        found.append(tuple(side[-1] for side in sides))
        if len(sides[0]) > 1:
            known = tuple(map(tuple, sides[0][-2:])) in follows
            right, wrong = right + known, wrong + (not known)
    assert sorted(found) == pairs and wrong > 5 * right
    valid = load("valid", **options)[1]
    assert sentences_of(task, valid[1]["source"])[-1] == documents("valid", "en")[0, 1]
