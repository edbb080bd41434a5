"""What is drawn again in every epoch, as fairseq's training asks for it: lengths, unrelated context, masked words."""

from __future__ import annotations

import numpy as np
import pytest

from gtransformer.data.instances import DRAWN
from tests.core.tasks.loaded import LEN48, documents, iterator, load, read
from tests.core.tasks.test_document_batches import DOCFLAT

pytestmark = pytest.mark.slow

GREEDY = {"instances": "greedy", "instance_tokens": 90, "instance_lengths": DRAWN}
KINDS = ["global", "everything", "added"]


def epoch_of(number, processes=1, workers=0, **options):
    """What each process reads in an epoch, loaded as fairseq loads the data of an epoch's own, and the task."""
    shares = []
    for process in range(processes):
        task, _ = load(**options)
        assert task.has_sharded_data("train")
        task.load_dataset("train", epoch=number)
        share = {"num_shards": processes, "shard_id": process}
        batches = iterator(task, task.dataset("train"), workers, epoch=number, disable_iterator_cache=True, **share)
        shares.append([read(batch) for batch in batches.next_epoch_itr(shuffle=True)])
    return shares, task


def test_every_epoch_has_other_lengths_and_a_resumed_one_the_same():
    (((first,), task), ((second,), other)) = (epoch_of(number, **GREEDY) for number in (1, 2))
    spans = [one.dataset("train").spans() for one in (task, other)]
    taken = [
        sorted((place.document, place.current[0] + i) for place in one for i in range(place.current[1]))
        for one in spans
    ]
    assert taken[0] == taken[1] == sorted(documents("train", "en"))
    cuts = [{(place.document, place.current) for place in one} for one in spans]
    assert len(cuts[0] & cuts[1]) < len(cuts[0]) / 2 and {place.current[1] for place in spans[0]} > {1, 2}
    assert epoch_of(2, workers=1, **GREEDY)[0] == [second] and first != second
    assert epoch_of(1, doc_seed=2, **GREEDY)[1].dataset("train").spans() != spans[0]


@pytest.mark.parametrize("order", ["size", "document"])
def test_processes_share_the_instances_of_drawn_lengths(order):
    for number in (1, 2):
        shares, task = epoch_of(number, processes=2, batch_order=order, **GREEDY)
        ids = [instance for share in shares for batch in share for instance in batch[0]]
        assert sorted(ids) == list(range(len(task.dataset("train"))))
        assert len(shares[0]) == len(shares[1]) and all(shares)


@pytest.mark.parametrize("kind", [{}, GREEDY, {"instances": "current", "context_sentences": 1}])
def test_parts_of_corpora(kind):
    """Workers and a resumed epoch have what was drawn, processes share it, another epoch has something else."""
    weighted = {"more_training_data": str(LEN48.parent / "len90" / "bin"), "training_weights": "1.5,0.5", **kind}
    ((first,), _), ((second,), task) = (epoch_of(number, **weighted) for number in (1, 2))
    assert epoch_of(2, workers=2, **weighted)[0] == [second] and epoch_of(1, doc_seed=2, **weighted)[0] != [first]
    texts = [{str(source) for _, sources, *_ in batches for source in sources} for batches in (first, second)]
    assert texts[0] - texts[1] and texts[1] - texts[0]
    shares, _ = epoch_of(2, processes=2, **weighted)
    ids = [number for share in shares for batch in share for number in batch[0]]
    assert sorted(ids) == list(range(len(task.dataset("train")))) and len(shares[0]) == len(shares[1])


def test_validation_and_translation_are_cut_as_ever():
    for chosen in (GREEDY, *({**DOCFLAT, "shuffled_context": kind} for kind in KINDS)):
        fixed = {"instance_lengths": "fixed", "shuffled_context": "nothing"}
        for split in ("valid", "test"):
            found, expected = (load(split, **options)[1] for options in (chosen, chosen | fixed))
            assert found.spans() == expected.spans()
            assert all(found[i]["source"].equal(expected[i]["source"]) for i in range(len(found)))
            assert found.ordered_indices(1).tolist() == expected.ordered_indices(1).tolist()
    for fixed in (GREEDY | {"instance_lengths": "fixed"}, DOCFLAT):
        assert not load(**fixed)[0].has_sharded_data("train")


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
    (first, task), (second, _) = (epoch_of(number, shuffled_context=chosen, **DOCFLAT) for number in (1, 2))
    one, other = beside(first, task), beside(second, task)
    assert one.keys() == other.keys()
    if chosen != "everything":
        assert all(one[number][0] == other[number][0] for number in one), "instances are as they were"
        drawn = [number for number in one if chosen == "global" or number >= len(one) // 2]
        seen = [one[number][1] & other[number][1] for number in drawn if one[number][1] and other[number][1]]
    else:
        seen = [one[number][0] == other[number][0] for number in one]
    assert sum(map(bool, seen)) < len(seen) / 2
    assert epoch_of(2, workers=1, **DOCFLAT, shuffled_context=chosen)[0] == second
    assert epoch_of(2, doc_seed=2, **DOCFLAT, shuffled_context=chosen)[0] != second


@pytest.mark.parametrize("chosen", KINDS)
def test_processes_have_drawn_the_same(chosen):
    """Each sentence of the corpus is the current one, which is the last, of one instance of one of them."""
    shares, task = epoch_of(2, processes=2, **DOCFLAT, shuffled_context=chosen)
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
    shares, task = epoch_of(2, join_documents=joined, **DOCFLAT, shuffled_context="added")
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
        document_index = batch["document_index"].numpy() if joined else np.zeros(len(numbers), dtype=int)
        for one in set(document_index):
            inside = document_index == one
            assert len(set(in_order[inside])) == 1
            documents = set(original[numbers[inside] % half])
            assert len(documents) == 1 or not in_order[inside][0]
            several += [len(documents) > 1] if inside.sum() > 1 and not in_order[inside][0] else []
    assert sum(several) > len(several) / 2
    assert "in_order" not in next(iter(iterator(*load("valid", **DOCFLAT)).next_epoch_itr(shuffle=False)))


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
