"""Strategies among the task's options: what is loaded for them, and what is refused."""

from argparse import Namespace

import numpy as np
import pytest

from gtransformer.errors import UserError
from gtransformer.search.sequential import SequentialGenerator
from tests.core.plugin.loaded import setup
from tests.support import tiny_model

SLIDING = {"instances": "sliding", "context_sentences": 2}


@pytest.mark.parametrize(
    ("options", "documents", "nothing_dearer_than"),
    [
        ({"strategy": "sliding", "window_tokens": 60}, 3, 60),
        ({"strategy": "sequential", "window_tokens": 60}, 3, 60),
        ({"strategy": "sequential", **SLIDING}, 3, 150),
        ({"strategy": "sequential"}, 14, None),
        ({"strategy": "sequential", "instances": "disjoint", "context_sentences": 2}, 8, None),
    ],
)
def test_documents(options, documents, nothing_dearer_than):
    """Whole documents where the strategy goes through them; in a batch they cost what they take at
    a time.
    """
    task = setup(**options)
    task.load_dataset("test")
    dataset = task.dataset("test")
    assert len(dataset) == documents
    spans = dataset.spans()
    assert sum((place.current or (0, place.sentences))[1] for place in spans) == 22
    if nothing_dearer_than is None:
        assert dataset.costs is None
    else:
        assert (
            dataset.costs.max() <= nothing_dearer_than and (dataset.costs < dataset.src_sizes).all()
        )
        (batch,) = dataset.batch_by_size(np.arange(3), int(dataset.costs.sum()))
        assert len(batch) == 3
    indices = dataset.ordered_indices(1)
    most = (
        100_000 if nothing_dearer_than is None else 1
    )  # of whole documents the windows are checked when they come
    kept = task.filter_indices_by_size(indices, dataset, (most, most))
    assert (kept == indices).all()


def test_the_generator(dictionary):
    """Held to the sentences of the source whatever the mode; of full the generator is what it
    was.
    """
    for mode in ("partial", "full"):
        task = setup(strategy="sliding", window_tokens=99, doc_mode=mode)
        made = task.build_generator([tiny_model(task.tgt_dict, doc_mode=mode)], Namespace(beam=2))
        assert type(made) is SequentialGenerator and not made.generator.free
    assert (
        type(setup().build_generator([tiny_model(task.tgt_dict)], Namespace(beam=2)))
        is not SequentialGenerator
    )


def test_a_window_shorter_than_a_sentence():
    task = setup(strategy="sliding", window_tokens=5)
    with pytest.raises(
        UserError,
        match=r"sentence 1 of document 1 has \d+ source tokens .* --window-tokens 5: give",
    ):
        task.load_dataset("test")
