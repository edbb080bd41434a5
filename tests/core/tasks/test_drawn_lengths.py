"""Instances cut anew in every epoch, and words of current sentences masked: as fairseq's training asks for them."""

from __future__ import annotations

import pytest

from gtransformer.data.instances import DRAWN
from tests.core.tasks.loaded import iterator, load, read

GREEDY = {"instances": "greedy", "instance_tokens": 90, "instance_lengths": DRAWN}


def epoch_of(number, shards=1, workers=0, **options):
    """(batches of each process, places) of an epoch, loaded as fairseq loads the data of an epoch's own."""
    shares = []
    for shard in range(shards):
        task, _ = load(**GREEDY, **options)
        assert task.has_sharded_data("train")
        task.load_dataset("train", epoch=number)
        dataset = task.dataset("train")
        batches = iterator(
            task, dataset, workers, num_shards=shards, shard_id=shard, epoch=number, disable_iterator_cache=True
        )
        shares.append([read(batch) for batch in batches.next_epoch_itr(shuffle=True)])
    return shares, dataset.places()


def sentences(places):
    return sorted((place.document, place.current[0] + i) for place in places for i in range(place.current[1]))


def test_every_epoch_has_other_instances_and_a_resumed_one_the_same():
    (first,), places = epoch_of(1)
    (second,), others = epoch_of(2)
    assert sentences(places) == sentences(others)
    cuts = [{(place.document, place.current) for place in one} for one in (places, others)]
    assert len(cuts[0] & cuts[1]) < len(cuts[0]) / 2 and {place.current[1] for place in places} > {1, 2}
    assert epoch_of(2, workers=1)[0] == [second] and first != second
    assert epoch_of(1, doc_seed=2)[1] != places


@pytest.mark.parametrize("order", ["size", "document"])
def test_processes_share_the_sentences_of_an_epoch(order):
    for number in (1, 2):
        shares, places = epoch_of(number, shards=2, batch_order=order)
        ids = [instance for share in shares for batch in share for instance in batch[0]]
        assert sorted(ids) == list(range(len(places)))
        assert len(shares[0]) == len(shares[1]) and all(shares)


def test_validation_and_translation_are_cut_as_ever():
    for split in ("valid", "test"):
        drawn, fixed = (
            load(split, **options)[1].places() for options in (GREEDY, GREEDY | {"instance_lengths": "fixed"})
        )
        assert drawn == fixed
    assert not load(**GREEDY | {"instance_lengths": "fixed"})[0].has_sharded_data("train")


@pytest.mark.parametrize(
    "kind", [{"instances": "sliding", "context_sentences": 2}, {"instances": "greedy", "instance_tokens": 90}]
)
def test_words_of_current_sentences_are_masked_in_training_alone(kind):
    """Source alone; what is masked, and in which epoch, does not depend on who loads it."""
    task, dataset = load(coword_dropout=0.5, **kind)
    plain, mask, bos = load(**kind)[1], task.src_dict.index("<mask>"), task.src_dict.bos()
    seen = {}
    for epoch in (1, 2):
        for batch in iterator(task, dataset, workers=1, epoch=epoch, disable_iterator_cache=True).next_epoch_itr():
            for number, source, previous, target in zip(*read(batch), strict=True):
                source = [token for token in source if token != task.src_dict.pad()]
                expected = plain[number]["source"].tolist()
                where = [i for i, token in enumerate(source) if token == mask]
                assert [e for e, token in zip(expected, source, strict=True) if token != mask] == [
                    token for token in source if token != mask
                ]
                assert mask not in previous and mask not in target
                tags = {expected[: i + 1].count(bos) for i in where}
                assert (
                    tags <= {expected.count(bos)} if kind["instances"] == "sliding" else len({t % 2 for t in tags}) < 2
                )
                seen.setdefault(number, []).append(tuple(where))
    assert len(seen) == len(dataset) and sum(one != other for one, other in seen.values()) > len(dataset) / 2
    assert not any(load("valid", coword_dropout=0.5, **kind)[1][i]["source"].eq(mask).any() for i in range(3))
