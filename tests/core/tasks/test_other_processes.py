"""A training that goes on with another number of processes: what is left of the epoch, once."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest
from fairseq.data.iterators import CountingIterator, GroupedIterator

from gtransformer.errors import UserError
from gtransformer.tasks.batches import READ, SEED
from tests.core.tasks.loaded import load, read

pytestmark = pytest.mark.slow

ORDERS = {
    "size": {"instances": "disjoint", "context_sentences": 1},
    "document": {"instances": "sliding", "context_sentences": 2, "context_loss": "off", "batch_order": "document"},
}
CHANGES = [[(2, 2), (4, 1)], [(4, 1), (1, 3), (3, 1)], [(3, 2), (2, 1), (2, 1), (3, 0)], [(1, 3), (2, 0)]]


@pytest.fixture(scope="module", params=ORDERS)
def loaded(request):
    return load(**ORDERS[request.param])


def iterators(loaded, processes, state=None, seed=1):
    """Of all processes, as fairseq's trainer makes and resumes them in epoch 2."""
    task, dataset = loaded
    made = [
        task.get_batch_iterator(
            dataset, max_tokens=30, max_positions=(1000, 1000), seed=seed, num_shards=processes, shard_id=number,
            epoch=2, disable_iterator_cache=True,
        )
        for number in range(processes)
    ]  # fmt: skip
    for one in made if state else ():
        one.load_state_dict(state)
    return made


def ids(batches) -> list[list[int]]:
    return [read(batch)[0] for batch in batches if batch]


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_left_of_an_epoch_comes_once(loaded, change):
    """However often the number changes; and the next epoch is that of an uninterrupted training."""
    dataset, state, seen, begun = loaded[1], None, [], []
    for processes, taken in change:
        made = iterators(loaded, processes, state)
        running = [one.next_epoch_itr(shuffle=True) for one in made]
        begun = [[read(next(one))[0] for _ in range(taken)] for one in running]
        seen += [batch for own in begun for batch in own]
        assert all(one.state_dict() == made[0].state_dict() for one in made)
        state = made[0].state_dict() if taken else state
    left = [list(one) for one in running]
    rest = [ids(batches) for batches in left]
    assert all(rest) and len(set(map(len, left))) == 1
    seen += [batch for own in rest for batch in own]
    assert sorted(one for batch in seen for one in batch) == list(range(len(dataset)))
    following = [ids(one.next_epoch_itr(shuffle=True)) for one in made]
    fresh = iterators(loaded, change[-1][0])
    for one in fresh:
        ids(one.next_epoch_itr(shuffle=True))
    assert following == [ids(one.next_epoch_itr(shuffle=True)) for one in fresh]
    if dataset.documents is not None:  # each process goes through a document in order, in this epoch, too
        for own in (first + then for first, then in zip(begun, rest, strict=True)):
            spans = dataset.documents[np.concatenate(own)]
            for document in np.unique(spans[:, 0]):
                assert (np.diff(spans[spans[:, 0] == document, 1]) > 0).all()


@pytest.mark.parametrize(
    "change",
    [
        [(1, 5, 2), (2, 0, 2)],
        [(1, 3, 2), (2, 0, 2)],
        [(2, 3, 2), (4, 0, 2)],
        [(4, 1, 1), (1, 0, 4)],
        [(1, 1, 1), (1, 0, 2)],
        [(1, 1, 1), (1, 0, 4)],
        [(1, 1, 4), (1, 0, 3)],
    ],
)
def test_updates_of_several_batches(loaded, change):
    """As fairseq goes on: (processes, updates, batches in each of these); the last update of the epoch is made, too."""
    dataset, state, seen = loaded[1], None, []
    for processes, updates, together in change:
        made = iterators(loaded, processes, state)
        running = [GroupedIterator(one.next_epoch_itr(shuffle=True), together) for one in made]
        groups = [list(islice(one, updates or None)) for one in running]
        seen += [number for own in groups for group in own for batch in ids(group) for number in batch]
        assert all(one.end_of_epoch() == (not updates) for one in made)
        state = made[0].state_dict()
    assert sorted(seen) == list(range(len(dataset))) and state["epoch"] == 3 and READ not in state


def test_the_rest_of_a_resumed_epoch_is_skipped_as_fairseq_skips_it():
    """With --skip-remainder-batch: whole groups of what is left, and then the epoch is over."""
    for read_before, total in product((1, 2, 3, 5), (7, 11, 12)):
        batches = CountingIterator(iter(range(read_before, total)), start=read_before, total=total)
        groups = list(GroupedIterator(batches, 4, skip_remainder_batch=True))
        assert groups == [list(range(one, one + 4)) for one in range(read_before, total - 3, 4)]
        assert not batches.has_next()


def test_the_same_number_goes_on_as_ever(loaded):
    """As do checkpoints that do not say how many there were."""
    made = iterators(loaded, 2)
    running = [one.next_epoch_itr(shuffle=True) for one in made]
    for one in running:
        next(one), next(one)
    state = made[0].state_dict()
    assert state[READ] == [[2, 2]]
    rest = [ids(one) for one in running]
    assert all(rest)
    for resumed in (state, {name: value for name, value in state.items() if name != READ}):
        assert [ids(one.next_epoch_itr(shuffle=True)) for one in iterators(loaded, 2, resumed)] == rest
    assert READ not in made[0].state_dict()  # the epoch has ended


def test_another_seed_does_not_go_on_in_the_middle_of_an_epoch(loaded):
    """Some batches would come twice, some never. Checkpoints from before do not say theirs."""
    (made,) = iterators(loaded, 1)
    running = made.next_epoch_itr(shuffle=True)
    next(running)
    state = made.state_dict()
    with pytest.raises(UserError, match="--seed 1"):
        iterators(loaded, 1, state, seed=2)
    iterators(loaded, 1, {name: value for name, value in state.items() if name != SEED}, seed=2)
    list(running)
    iterators(loaded, 1, made.state_dict(), seed=2)  # the next epoch
