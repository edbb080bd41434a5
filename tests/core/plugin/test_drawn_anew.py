"""What is drawn again in every epoch, as fairseq's training asks for it: parts of corpora, unrelated context."""

from __future__ import annotations

import pytest

from tests.core.plugin.loaded import LEN48, documents, iterator, load, read
from tests.core.plugin.test_document_batches import DOCFLAT

pytestmark = pytest.mark.slow

GLOBAL = {**DOCFLAT, "shuffled_context": "global"}


def epoch_of(number, processes=1, workers=0, **options):
    """What each process reads in an epoch, loaded as fairseq loads the data of an epoch's own, and the task."""
    shares = []
    for process in range(processes):
        task, _ = load(**options)
        assert task.has_sharded_data("train")
        task.load_dataset("train", epoch=number)
        share = {"num_shards": processes, "shard_id": process}
        batches = iterator(task, task.dataset("train"), workers, epoch=number, disable_iterator_cache=True, **share)
        shares.append([read(batch) for batch in batches.next_epoch_itr(shuffle=True) if batch])
    return shares, task


@pytest.mark.parametrize("kind", [{}, {"instances": "current", "context_sentences": 1}])
def test_parts_of_corpora(kind):
    """Workers and a resumed epoch have what was drawn, processes share it, another epoch has something else."""
    weighted = {"more_training_data": str(LEN48.parent / "len90" / "bin"), "training_weights": "1.5,0.5", **kind}
    ((first,), _), ((second,), task) = (epoch_of(number, **weighted) for number in (1, 2))
    assert epoch_of(2, workers=2, **weighted)[0] == [second] and epoch_of(1, doc_seed=2, **weighted)[0] != [first]
    texts = [{str(source) for _, sources, *_ in batches for source in sources} for batches in (first, second)]
    assert texts[0] - texts[1] and texts[1] - texts[0]
    shares, _ = epoch_of(2, processes=2, **weighted)
    ids = [number for share in shares for batch in share for number in batch[0]]
    assert sorted(ids) == list(range(len(task.dataset("train"))))


def beside(shares, task):
    """By the number of each instance: its source, and the numbers of the others in its batch."""
    found = {}
    for ids, sources, *_ in (batch for share in shares for batch in share):
        for number, source in zip(ids, sources, strict=True):
            words = tuple(token for token in source if token != task.src_dict.pad())
            found[number] = words, frozenset(ids) - {number}
    return found


def test_what_stood_around_an_instance_does_not_come_back():
    """A resumed epoch has what it had, whether workers load it or not; instances are as they were."""
    (first, task), (second, _) = (epoch_of(number, **GLOBAL) for number in (1, 2))
    one, other = beside(first, task), beside(second, task)
    assert one.keys() == other.keys() and all(one[number][0] == other[number][0] for number in one)
    seen = [one[number][1] & other[number][1] for number in one if one[number][1] and other[number][1]]
    assert sum(map(bool, seen)) < len(seen) / 2
    assert epoch_of(2, workers=1, **GLOBAL)[0] == second != epoch_of(2, doc_seed=2, **GLOBAL)[0]


def test_processes_have_drawn_the_same():
    """Each sentence of the corpus is the current one, which is the last, of one instance of one of them."""
    shares, task = epoch_of(2, processes=2, **GLOBAL)
    symbols, current = task.tgt_dict, []
    for *_, inputs, _ in (batch for share in shares for batch in share):
        for tokens in inputs:
            words = [symbols[token] for token in tokens if token != symbols.pad()]
            opens = len(words) - words[::-1].index("<s>")
            current.append(words[opens:])
    assert all(shares) and sorted(current) == sorted(documents("train", "de").values())
