"""What changes from epoch to epoch, through fairseq's own iterator: its workers, its shards, its
resumption.
"""

import numpy as np
import pytest
from fairseq.data import LanguagePairDataset, data_utils

from gtransformer.plugin.task import TranslationDocTask
from tests.core.plugin import loaded
from tests.core.plugin.loaded import epochs, read
from tests.support import model_options, task_config

pytestmark = pytest.mark.slow

INSTANCES = 40


@pytest.fixture
def make_task(corpus):
    """A task with its training set: word dropout in epochs 1 and 2."""
    folder = corpus(train=INSTANCES)

    def make(**options):
        options = {"doc_noise_mask": 0.5, "doc_noise_epochs": 3, **options}
        task = TranslationDocTask.setup_task(task_config(data=str(folder), **options))
        task.load_dataset("train")
        return task

    return make


def iterator(task, workers=0, **options):
    options = {
        "max_tokens": 40,
        "max_positions": (10**6, 10**6),
        "ignore_invalid_inputs": True,
        **options,
    }
    return loaded.iterator(task, task.dataset("train"), workers, data_buffer_size=10, **options)


def masked(epoch, mask):
    """Per instance, where its source and its decoder's input are masked (padding is on the left and
    on the right).
    """
    found = {}
    for ids, source, previous, _ in epoch:
        for number, one, other in zip(ids, source, previous, strict=True):
            found[number] = [
                tuple(np.flatnonzero(np.array(one[::-1]) == mask)),
                tuple(np.flatnonzero(np.array(other) == mask))
            ]  # fmt: skip
    return found


def test_word_dropout_reaches_workers_in_every_epoch(make_task, dictionary):
    """fairseq-fixed keeps its data loader and the loader's processes over all epochs."""
    mask = dictionary.index("<mask>")
    expected = epochs(iterator(make_task()), 3)
    found = epochs(iterator(make_task(), workers=2), 3)
    assert found == expected
    first, second, third = (masked(epoch, mask) for epoch in found)
    assert len(first) == INSTANCES and sorted(first) == sorted(second) == sorted(third)
    for side in (0, 1):
        assert (
            sum(first[number][side] != second[number][side] for number in first) > INSTANCES * 0.8
        )
        assert all(third[number][side] == () for number in third)


@pytest.mark.parametrize(("workers", "epoch"), [(0, 1), (1, 2)])
def test_a_resumed_epoch_goes_on_where_it_stopped(make_task, workers, epoch):
    """The same batches and the same masks as without the interruption, in this epoch and in the
    next.
    """
    whole = epochs(iterator(make_task(), workers), epoch + 1)
    interrupted = iterator(make_task(), workers)
    epochs(interrupted, epoch - 1)
    batches = interrupted.next_epoch_itr(shuffle=True)
    begun = [read(next(batches)) for _ in range(3)]
    state = interrupted.state_dict()
    assert (state["epoch"], state["iterations_in_epoch"]) == (epoch, 3)

    resumed = iterator(make_task(), workers, epoch=state["epoch"])
    resumed.load_state_dict(state)
    rest, following = epochs(resumed, 2)
    assert begun + rest == whole[epoch - 1] and following == whole[epoch]


def test_order_is_fairseqs(make_task):
    """Under the seed of the training's first epoch; it stays the same."""
    dataset = make_task(doc_seed=6).dataset("train")
    with data_utils.numpy_seed(7):
        expected = LanguagePairDataset.ordered_indices(dataset)
    dataset.set_epoch(3)
    assert np.array_equal(dataset.ordered_indices(), expected)
    other = make_task(doc_seed=7).dataset("train")
    assert not np.array_equal(other.ordered_indices(), expected)


@pytest.mark.parametrize("anew", ["update_epoch_batch_itr", "disable_iterator_cache"])
def test_batches_that_are_made_anew_are_others_in_every_epoch(make_task, anew):
    """The latter is so for sharded data. An epoch that is resumed has its batches again."""
    task = make_task(doc_seed=1)
    batches = [
        [batch.tolist() for batch in iterator(task, epoch=epoch, **{anew: True}).frozen_batches]
        for epoch in (1, 2, 2)
    ]
    assert batches[0] != batches[1] == batches[2]
    usual = iterator(make_task(doc_seed=1)).frozen_batches
    assert batches[0] == [batch.tolist() for batch in usual]


@pytest.mark.parametrize("limit", [15, None])
def test_nothing_is_left_out(make_task, limit):
    """Neither more than --max-tokens, which fairseq's trainer also gives as a limit on instances,
    nor more positions than a release's checkpoint says, by which fairseq-generate filters.
    """
    task, positions = make_task(), limit or 1_000_000
    task.build_model(model_options(max_source_positions=positions, max_target_positions=positions))
    limit = limit or int(np.median(task.dataset("train").num_tokens_vec(np.arange(INSTANCES))))
    given = iterator(
        task, max_tokens=limit, max_positions=(limit, limit), ignore_invalid_inputs=False
    )
    (epoch,) = epochs(given, 1)
    assert sorted(number for ids, *_ in epoch for number in ids) == list(range(INSTANCES))


def test_only_training_masks_words():
    """fairseq-generate and -validate may read the training set, too; they name their own
    settings.
    """
    task = loaded.setup(doc_noise_mask=1.0)
    for more, masked in (({}, True), ({"task_cfg": task.cfg}, False)):
        task.load_dataset("train", **more)
        assert (task.src_dict.index("<mask>") in task.dataset("train")[0]["source"]) == masked
