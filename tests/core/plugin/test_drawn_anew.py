"""What is drawn again in every epoch, as fairseq's training asks for it: parts of corpora."""

from __future__ import annotations

import pytest

from tests.core.plugin.loaded import LEN48, iterator, load, read

pytestmark = pytest.mark.slow

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
